"""The only way to the tools, for chat, REST and MCP: check, decide, act, record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from jupyter_agent.agent.acts import act_of
from jupyter_agent.agent.attempt import (
    Attempt,
    Audit,
    Record,
    Ruling,
    ToolCall,
    errors_for_model,
)
from jupyter_agent.agent.permissions import Decision, Policy
from jupyter_agent.errors import NeedsApproval, NotPermitted
from jupyter_agent.tools.base import ModelResult, Progress, Tool
from jupyter_agent.tools.guard import failures_of_plugs
from jupyter_agent.tools.toolbox import Toolbox
from jupyter_agent.workspace.lease import Lease, lease
from jupyter_agent.workspace.paths import Lookup
from jupyter_agent.workspace.workspace import Workspace


class ExternalTools(Protocol):
    """The tools of sources that change while the server runs, such as MCP servers."""

    async def __call__(self, *, ask: bool) -> Sequence[type[Tool]]:
        """The tools that they offer now; without `ask`, those they offered last time."""


async def _record_nothing(audit: Audit) -> None:
    """For callers that keep no audit."""


async def _no_external_tools(*, ask: bool) -> Sequence[type[Tool]]:
    """For servers without such sources."""
    return ()


NO_RETRIES: Mapping[str, int] = {}
_FIRST_PAUSE_S = 0.5
"""Seconds before a call is tried again; doubles with each retry."""
NOBODY_TO_ASK = (
    "Only a person, or the administrator, lets an edit load from elsewhere: in mode `auto` with "
    "`c.JupyterAgent.allow_remote_content = True`."
)
"""Added to a refusal when no one answers."""


class Dispatcher:
    """Turns the name and input of a call into a result, if that is permitted.

    Everything that it returns, raises, records or reports as progress is fit for a model to read.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        record: Record = _record_nothing,
        retries: Mapping[str, int] = NO_RETRIES,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        external_tools: ExternalTools = _no_external_tools,
    ) -> None:
        """`retries`: how often calls that only read are tried again, by name of the tool, `*` for
        all other tools. `external_tools` are those that `with_external_tools` adds.
        """
        self._toolbox = toolbox
        self._external_tools = external_tools
        self._record = record
        self._retries = retries
        self._sleep = sleep

    def with_record(self, record: Record) -> Dispatcher:
        """A copy with another record, which is awaited to its end even if a call is cancelled."""
        return self._copy(self._toolbox, record)

    async def with_external_tools(self, *, ask: bool = True) -> Dispatcher:
        """A copy that also has the tools of other sources, for one turn or one request.

        Asking these takes a moment; without `ask` it has the tools that they offered last.
        """
        tools = await self._external_tools(ask=ask)
        return self._copy(self._toolbox.with_others(tools), self._record) if tools else self

    def _copy(self, toolbox: Toolbox, record: Record) -> Dispatcher:
        return Dispatcher(
            toolbox,
            record=record,
            retries=self._retries,
            sleep=self._sleep,
            external_tools=self._external_tools,
        )

    def without_record(self) -> Dispatcher:
        """A copy that keeps no audit, for calls of the server itself."""
        return self.with_record(_record_nothing)

    def specs(self) -> list[dict[str, Any]]:
        """The tools as models get them in a request."""
        return self._toolbox.specs()

    @property
    def toolbox(self) -> Toolbox:
        """The tools that it can call."""
        return self._toolbox

    def parse(
        self, name: str, input: Mapping[str, Any], work: Workspace, *, call_id: str | None = None
    ) -> ToolCall:
        """The call, checked against its tool's schema. Raises InvalidInput."""
        with errors_for_model(work, input):
            tool = self._toolbox.parse(name, input)
        if name != tool.name:  # a former name, whose input may have had another form
            input = tool.model_dump(by_alias=True, exclude_unset=True)
        return ToolCall(tool=tool, input=input, id=call_id)

    async def call(
        self,
        name: str,
        input: Mapping[str, Any],
        work: Workspace,
        policy: Policy,
        progress: Progress | None = None,
    ) -> ModelResult:
        """One call when no one can be asked. Raises ToolError, including NeedsApproval."""
        call = self.parse(name, input, work)
        async with self.attempt(call, work, policy) as attempt:
            ruling = attempt.ruling
            if not ruling.asks:
                return await attempt.run(progress)
        named = [names[0] for names in ruling.act.powers] or [name]
        how = f"name it in `allow` ({json.dumps(named)}) or choose a freer `mode`."
        if ruling.act.loads:
            how = f"leave that out. {NOBODY_TO_ASK}"
        why = f"{ruling.decision.reason} Nobody can be asked here: {how}"
        await self.decline(ruling, work, why)
        raise NeedsApproval(why)

    @asynccontextmanager
    async def attempt(
        self, call: ToolCall, work: Workspace, policy: Policy, *, tries: int = 0
    ) -> AsyncIterator[Attempt]:
        """The call, decided now, with the lease for it; `tries` counts the failed tries before.

        Raises NotPermitted, or another ToolError if the call could not succeed anyway.
        """
        if tries:
            await self._sleep(_FIRST_PAUSE_S * 2 ** (tries - 1))
        with errors_for_model(work, call.input), failures_of_plugs(call.tool):
            paths = work.lookup()
            again = partial(self.attempt, call, work, policy, tries=tries + 1)
            call = replace(call, tool=await _with_jupyter_paths(call.tool, paths))
            act = await act_of(call.tool, call.tool.action, paths, policy)
        async with AsyncExitStack() as stack:
            try:
                with errors_for_model(work, call.input), failures_of_plugs(call.tool):
                    nb = await stack.enter_async_context(
                        lease(
                            replace(work, call_id=call.id),
                            call.tool.target,
                            *call.tool.call_needs,
                            paths=paths,
                        )
                    )
                    attempt = await Attempt.begin(call, nb, policy, self._record)
                ruling = attempt.ruling
            except NotPermitted as error:
                denied = Decision(verdict="deny", reason=error.message)
                ruling = Ruling(call=call, act=act, decision=denied)
            if ruling.decision.verdict == "deny":
                await self.decline(ruling, work, ruling.decision.reason)
                raise NotPermitted(ruling.decision.reason)
            attempt = await attempt.decide_by_content()
            if call.reads and tries < self._retries.get(call.tool.name, self._retries.get("*", 0)):
                attempt = replace(attempt, again=again)
            yield attempt

    async def read(
        self, name: str, inputs: Sequence[Mapping[str, Any]], nb: Lease, policy: Policy
    ) -> list[ModelResult]:
        """The results of a tool that only reads, for the leased notebook of the turn.

        One result for each input; the inputs name no other notebook. Nothing is audited. Raises
        ToolError; NotPermitted if a model would have to ask first.
        """
        calls = [self.parse(name, input, nb.work) for input in inputs]
        with errors_for_model(nb.work, calls[0].input):
            attempt = await Attempt.begin(calls[0], nb, policy, _record_nothing)
        attempt = await attempt.decide_by_content()
        if attempt.ruling.decision.verdict != "run":
            raise NotPermitted(attempt.ruling.decision.reason)
        return [await attempt.of(call).run() for call in calls]

    async def decline(self, ruling: Ruling, work: Workspace, reason: str) -> None:
        """Record that the call is refused: a person said no, or no one can be asked."""
        await self._record(ruling.audit(work, "refused", work.redact(reason)))


async def _with_jupyter_paths(tool: Tool, paths: Lookup) -> Tool:
    """The same call with each of its paths as Jupyter spells it."""
    found = {field: await paths.of(path) for field, path in tool.paths.items()}
    return tool.model_copy(update={field: each.path for field, each in found.items() if each})
