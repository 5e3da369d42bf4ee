"""The one door to the tools, behind chat, REST and MCP: check, decide, act."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from jupyter_agent.agent.permissions import Act, Decision, Policy, decide
from jupyter_agent.errors import NeedsApproval, NotPermitted
from jupyter_agent.tools.base import Progress, Question, Result, Tool, Toolbox
from jupyter_agent.workspace.workspace import Workspace


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A call that fits its tool's schema, and what is to happen to it."""

    tool: Tool
    input: Mapping[str, Any]
    act: Act
    decision: Decision

    @property
    def reads(self) -> bool:
        return self.tool.effect == "read"


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Who did what where, and by which decision."""

    user: str
    act: Act
    input: Mapping[str, Any]
    decision: Decision


Record: TypeAlias = Callable[[Audit], Awaitable[None]]


async def _unrecorded(audit: Audit) -> None:
    """For callers that keep no audit."""


class Dispatcher:
    """Turns the name and input of a call into a result, where that is permitted."""

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        mask: Callable[[str], str] = str,
        record: Record = _unrecorded,
    ) -> None:
        self._toolbox = toolbox
        self._mask = mask
        self._record = record

    def specs(self) -> list[dict[str, Any]]:
        """What a model is offered."""
        return self._toolbox.specs()

    async def call(
        self,
        name: str,
        input: Mapping[str, Any],
        work: Workspace,
        policy: Policy,
        progress: Progress | None = None,
    ) -> Result:
        """One call where nobody can be asked. Raises ToolError, NeedsApproval among them."""
        prepared = await self.prepare(name, input, work, policy)
        if prepared.decision.verdict == "ask":
            raise NeedsApproval(
                f"`{name}` needs a person's approval and nobody can be asked here. "
                f'Name it in `allow` (["{name}"]) or choose a freer `mode`.'
            )
        return await self.run(prepared, work, progress)

    async def prepare(
        self, name: str, input: Mapping[str, Any], work: Workspace, policy: Policy
    ) -> Prepared:
        """The call, checked and decided. Raises InvalidInput or NotPermitted."""
        tool = self._toolbox.parse(name, input)
        for action, resource in tool.needs:
            if not await work.authorize(action, resource):
                raise NotPermitted(
                    f"`{work.user}` may not {action} {resource} on this server, which `{name}` needs."
                )
        path = tool.notebook or work.home
        act = Act(
            tool=name,
            action=tool.action,
            notebook=path,
            elsewhere=path is not None and path != work.home and not work.touched(path),
        )
        decision = decide(act, policy)
        await self._record(Audit(user=work.user, act=act, input=input, decision=decision))
        if decision.verdict == "deny":
            raise NotPermitted(decision.reason)
        return Prepared(tool=tool, input=input, act=act, decision=decision)

    async def question(self, prepared: Prepared, work: Workspace) -> tuple[Question, str]:
        """What a person has to see now, and its binding."""
        question = await prepared.tool.question(work)
        return question, question.binding(prepared.tool.name, prepared.input)

    async def run(
        self, prepared: Prepared, work: Workspace, progress: Progress | None = None
    ) -> Result:
        """Act. Raises ToolError."""
        return await prepared.tool.run(work, progress)
