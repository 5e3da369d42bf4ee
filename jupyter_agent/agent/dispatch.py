"""The one door to the tools, behind chat, REST and MCP: check, decide, act, record."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from jupyter_agent.agent.acts import act_of
from jupyter_agent.agent.attempt import Attempt, Audit, Record, Ruling, ToolCall, telling
from jupyter_agent.agent.permissions import Decision, Policy
from jupyter_agent.errors import NeedsApproval, NotPermitted
from jupyter_agent.tools.base import Progress, Result, Tool, Toolbox
from jupyter_agent.workspace.lease import Lease, lease
from jupyter_agent.workspace.paths import Lookup
from jupyter_agent.workspace.workspace import Workspace


class Others(Protocol):
    """The tools that other servers offer."""

    async def __call__(self, *, ask: bool) -> Sequence[type[Tool]]:
        """Those of now; of the last time, if the servers are not to be asked."""


async def _unrecorded(audit: Audit) -> None:
    """For callers that keep no audit."""


async def _no_others(*, ask: bool) -> Sequence[type[Tool]]:
    """Where no other servers are configured."""
    return ()


NO_RETRIES: Mapping[str, int] = {}
_FIRST_PAUSE_S = 0.5
"""Before a call is tried again; twice as long each further time."""
NOBODY_TO_ASK = (
    "Only a person, or the administrator, lets an edit load from elsewhere: in mode `auto` with "
    "`c.JupyterAgent.allow_remote_content = True`."
)
"""Where nobody answers."""


class Dispatcher:
    """Turns the name and input of a call into a result, where that is permitted.

    Whatever it returns, raises, records or shows of a run is what a model may be told.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        *,
        record: Record = _unrecorded,
        retries: Mapping[str, int] = NO_RETRIES,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        others: Others = _no_others,
    ) -> None:
        """`retries`: how often calls that only read are tried again, by name of the tool, `*` for
        all others. `others` are tools of other servers, for `with_others`.
        """
        self._toolbox = toolbox
        self._others = others
        self._record = record
        self._retries = retries
        self._sleep = sleep

    def recording(self, record: Record) -> Dispatcher:
        """The same door with another record, which runs to its end also if a call is cancelled."""
        return self._copy(self._toolbox, record)

    async def with_others(self, *, ask: bool = True) -> Dispatcher:
        """The same door, with what other servers offer: for one turn, or one request. They are
        asked, which takes a moment; else it is what they offered last.
        """
        found = await self._others(ask=ask)
        return self._copy(self._toolbox.with_others(found), self._record) if found else self

    def _copy(self, toolbox: Toolbox, record: Record) -> Dispatcher:
        return Dispatcher(
            toolbox,
            record=record,
            retries=self._retries,
            sleep=self._sleep,
            others=self._others,
        )

    def unrecorded(self) -> Dispatcher:
        """The same door for what the server itself looks at."""
        return self.recording(_unrecorded)

    def specs(self) -> list[dict[str, Any]]:
        """What a model is offered."""
        return self._toolbox.specs()

    @property
    def toolbox(self) -> Toolbox:
        """The tools behind this door."""
        return self._toolbox

    def parse(
        self, name: str, input: Mapping[str, Any], work: Workspace, *, call_id: str | None = None
    ) -> ToolCall:
        """The call, checked against its tool's schema. Raises InvalidInput."""
        with telling(work, input):
            tool = self._toolbox.parse(name, input)
        if name != tool.name:  # a former name, whose input may have been another
            input = tool.model_dump(by_alias=True, exclude_unset=True)
        return ToolCall(tool=tool, input=input, id=call_id)

    async def call(
        self,
        name: str,
        input: Mapping[str, Any],
        work: Workspace,
        policy: Policy,
        progress: Progress | None = None,
    ) -> Result:
        """One call where nobody can be asked. Raises ToolError, NeedsApproval among them."""
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
        """The call, decided now, and the lease to do it by, after so many `tries` that were in
        vain. Raises NotPermitted, or ToolError where it cannot be done anyway.
        """
        if tries:
            await self._sleep(_FIRST_PAUSE_S * 2 ** (tries - 1))
        with telling(work, call.input):
            paths = work.lookup()
            again = partial(self.attempt, call, work, policy, tries=tries + 1)
            call = replace(call, tool=await _located(call.tool, paths))
            act = await act_of(call.tool, call.tool.action, paths, policy)
        async with AsyncExitStack() as stack:
            try:
                with telling(work, call.input):
                    nb = await stack.enter_async_context(
                        lease(work, call.tool.target, *call.tool.call_needs, paths=paths)
                    )
                    attempt = await Attempt.begin(call, nb, policy, self._record)
                ruling = attempt.ruling
            except NotPermitted as error:
                denied = Decision(verdict="deny", reason=error.message)
                ruling = Ruling(call=call, act=act, decision=denied)
            if ruling.decision.verdict == "deny":
                await self.decline(ruling, work, ruling.decision.reason)
                raise NotPermitted(ruling.decision.reason)
            attempt = await attempt.settled()
            if call.reads and tries < self._retries.get(call.tool.name, self._retries.get("*", 0)):
                attempt = replace(attempt, again=again)
            yield attempt

    async def read(
        self, name: str, inputs: Sequence[Mapping[str, Any]], nb: Lease, policy: Policy
    ) -> list[Result]:
        """What a tool that only reads says of the turn's own notebook, which is at hand, for each
        of these inputs, which name no other. It is in no audit. Raises ToolError, which is
        NotPermitted where a model would have to ask.
        """
        calls = [self.parse(name, input, nb.work) for input in inputs]
        with telling(nb.work, calls[0].input):
            attempt = await Attempt.begin(calls[0], nb, policy, _unrecorded)
        attempt = await attempt.settled()
        if attempt.ruling.decision.verdict != "run":
            raise NotPermitted(attempt.ruling.decision.reason)
        return [await attempt.of(call).run() for call in calls]

    async def decline(self, ruling: Ruling, work: Workspace, reason: str) -> None:
        """The call is not done: somebody said no, or nobody can be asked."""
        await self._record(ruling.audit(work, "refused", work.redact(reason)))


async def _located(tool: Tool, paths: Lookup) -> Tool:
    """The same call with each of its paths as Jupyter spells it."""
    named = {field: await paths.of(path) for field, path in tool.paths.items()}
    return tool.model_copy(update={field: each.path for field, each in named.items() if each})
