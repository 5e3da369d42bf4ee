"""What those who ask may choose: once for each option, whatever door they come through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from jupyter_agent.agent.limits import Limits
from jupyter_agent.choices import Mode, Share, WhileAway
from jupyter_agent.models.base import Effort
from jupyter_agent.workspace.paths import Identities

OnApproval: TypeAlias = Literal["hold", "end", "decline"]
"""What becomes of a stream while a question waits; `decline`: nobody can answer, so none does."""


class CallOptions(BaseModel):
    """Of calls of tools."""

    model_config = ConfigDict(frozen=True)

    notebook: str | None = None
    """Path of the one that calls are about where they name none."""
    mode: Mode = "ask"
    allow: list[str] = Field(default_factory=list)
    """Tools that need no approval."""
    share: Share = "all"
    """How much of notebooks the model may see; administrator and notebook may say less."""
    while_away: WhileAway = "wait"
    """Edits are refused while a tab with unsaved work is away, or written into the file."""

    async def on_path(self, identities: Identities) -> Self:
        """The same, with the notebook's path as it is now."""
        path = await identities.path(self.notebook) if self.notebook else None
        return self.model_copy(update={"notebook": path})

    def record(self, **as_decided: Any) -> dict[str, Any]:
        """What is stored of it with a turn; `as_decided` stands for what was asked for."""
        chosen = self.model_dump(mode="json", include={*_FOLLOWING})
        return {**chosen, "allow": sorted(self.allow), **as_decided}


class TurnOptions(CallOptions):
    """Of a turn of ours."""

    model: str | None = None
    effort: Effort | None = None
    """How much the model thinks; left to the model by default."""
    fallback_model: str | None = None
    """Who answers where the model fails or refuses; the server's by default, empty: nobody."""
    instructions: str = ""
    """What the user wants of every answer, from their settings."""
    trust_instructions: bool = False
    """Whether `AGENTS.md` and `CLAUDE.md` are followed though the user has not trusted them."""
    on_approval: OnApproval = "hold"
    max_steps: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    token_budget: int | None = Field(default=None, ge=1)
    cost_budget: float | None = Field(default=None, ge=0)

    @classmethod
    def of(cls, body: TurnOptions) -> Self:
        """Those of a request that has more than that."""
        return cls.model_construct(**{name: getattr(body, name) for name in cls.model_fields})

    @property
    def attended(self) -> bool:
        """Whether somebody can answer what the turn asks, by the same client or another one."""
        return self.on_approval != "decline"

    def within(self, limits: Limits, ceiling: Limits) -> Limits:
        """What the turn may use: what is wanted, below the ceiling, else these limits."""
        names = ("max_steps", "max_tokens", "token_budget")
        wanted = {name: value for name in names if (value := getattr(self, name)) is not None}
        costs = [cost for cost in (self.cost_budget, limits.cost_budget) if cost is not None]
        return replace(
            limits,
            cost_budget=min(costs, default=None),
            **{name: min(value, getattr(ceiling, name)) for name, value in wanted.items()},
        )


_FOLLOWING = ("model", "effort", "fallback_model", "notebook", "mode", "share")


def options_after(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a turn that follows takes over of an earlier one's `record`: nothing that was allowed
    in that turn only.
    """
    choices = {name: record.get(name) for name in _FOLLOWING}
    return {**choices, "fallback_model": choices["fallback_model"] or ""}  # nobody, then as now
