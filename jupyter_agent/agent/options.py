"""The options of calls and turns, defined once for chat, REST and MCP."""

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
"""What happens to the stream while a question waits; `decline`: no one can answer, so questions
are declined."""


class CallOptions(BaseModel):
    """Options of tool calls."""

    model_config = ConfigDict(frozen=True)

    notebook: str | None = None
    """Path of the notebook for calls that name no notebook."""
    mode: Mode = "ask"
    allow: list[str] = Field(default_factory=list)
    """Tools that need no approval."""
    share: Share = "all"
    """How much of a notebook the model may see; the administrator and the notebook may limit it
    further."""
    while_away: WhileAway = "wait"
    """While a tab with unsaved work is away, edits are refused (`wait`) or written to the file."""

    async def on_path(self, identities: Identities) -> Self:
        """A copy with the notebook's current path."""
        path = await identities.path(self.notebook) if self.notebook else None
        return self.model_copy(update={"notebook": path})

    def record(self, **as_decided: Any) -> dict[str, Any]:
        """The options to store with a turn; `as_decided` replaces requested values."""
        chosen = self.model_dump(mode="json", include={*_FOLLOWING})
        return {**chosen, "allow": sorted(self.allow), **as_decided}


class TurnOptions(CallOptions):
    """Options of a turn."""

    model: str | None = None
    effort: Effort | None = None
    """How much the model thinks; left to the model by default."""
    fallback_model: str | None = None
    """The model that answers if the first one fails or refuses; the server's by default, empty for
    no fallback."""
    instructions: str = ""
    """The user's own instructions for every answer, from their settings."""
    trust_instructions: bool = False
    """Whether `AGENTS.md` and `CLAUDE.md` are followed even if the user has not trusted them."""
    on_approval: OnApproval = "hold"
    max_steps: int | None = Field(default=None, ge=1)
    max_tokens: int | None = Field(default=None, ge=1)
    token_budget: int | None = Field(default=None, ge=1)
    cost_budget: float | None = Field(default=None, ge=0)

    @classmethod
    def of(cls, body: TurnOptions) -> Self:
        """The turn options of a request that has further fields."""
        return cls.model_construct(**{name: getattr(body, name) for name in cls.model_fields})

    @property
    def is_attended(self) -> bool:
        """Whether someone can answer the turn's questions, in the same client or another one."""
        return self.on_approval != "decline"

    def apply_to(self, limits: Limits, ceiling: Limits) -> Limits:
        """The turn's limits: the requested ones up to the ceiling, `limits` for all others."""
        names = ("max_steps", "max_tokens", "token_budget")
        requested = {name: value for name in names if (value := getattr(self, name)) is not None}
        costs = [cost for cost in (self.cost_budget, limits.cost_budget) if cost is not None]
        return replace(
            limits,
            cost_budget=min(costs, default=None),
            **{name: min(value, getattr(ceiling, name)) for name, value in requested.items()},
        )


_FOLLOWING = ("model", "effort", "fallback_model", "notebook", "mode", "share")


def options_after(record: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a following turn takes over from an earlier turn's `record`, without the
    permissions of that turn.
    """
    choices = {name: record.get(name) for name in _FOLLOWING}
    return {**choices, "fallback_model": choices["fallback_model"] or ""}  # "": still no fallback
