"""The one door to the tools, behind chat, REST and MCP: check, decide, act, record."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

from jupyter_agent.agent.magics import leaves_language
from jupyter_agent.agent.permissions import Act, Decision, Policy, decide
from jupyter_agent.document import remote
from jupyter_agent.document.cell import Cell, Change
from jupyter_agent.errors import (
    Busy,
    Conflict,
    NeedsApproval,
    NotConfirmed,
    NotebookNotFound,
    NotPermitted,
    StoreUnavailable,
    ToolError,
)
from jupyter_agent.legible import legible
from jupyter_agent.tasks import surely
from jupyter_agent.tools.base import TEXTS, Action, Progress, Question, Result, Tool, Toolbox
from jupyter_agent.workspace.identity import Lookup
from jupyter_agent.workspace.workspace import Lease, Workspace

CallOutcome: TypeAlias = Literal["done", "failed", "refused", "stopped"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A call that fits its tool's schema, and what is to happen to it."""

    tool: Tool
    input: Mapping[str, Any]
    act: Act
    decision: Decision
    call_id: str | None = None

    @property
    def reads(self) -> bool:
        return self.tool.effect == "read"

    def binding(self, question: Question) -> str:
        """A hash of all that the answer to this question is given for."""
        return question.binding(self.tool.name, self.input)

    def audit(
        self,
        work: Workspace,
        outcome: CallOutcome,
        why: str = "",
        *,
        result: Result | None = None,
        changes: Sequence[Change] = (),
    ) -> Audit:
        """What came of the call."""
        return Audit(
            work=work,
            call_id=self.call_id,
            act=self.act,
            input=self.input,
            decision=self.decision,
            outcome=outcome,
            why=why,
            result=result,
            changes=result.changes if result else changes,
        )


@dataclass(frozen=True, kw_only=True)
class Audit:
    """Who wanted what where, by which decision, and what came of it."""

    work: Workspace
    call_id: str | None
    act: Act
    input: Mapping[str, Any]
    decision: Decision
    outcome: CallOutcome
    why: str = ""
    """Why it failed or was refused."""
    result: Result | None = None
    """What the model gets, where it is done."""
    changes: Sequence[Change] = ()
    """What it did to cells, also where it failed."""


Record: TypeAlias = Callable[[Audit], Coroutine[Any, Any, None]]


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
_LARGE = 50_000
"""Characters beyond which cells are looked through in a thread."""
_BUG = "Something went wrong inside the assistant; the call may have been done."
_STOPPED = "The turn was stopped; what it did until then stays."


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
            named = [names[0] for names in prepared.act.powers] or [name]
            how = f"name it in `allow` ({json.dumps(named)}) or choose a freer `mode`."
            if prepared.act.loads:
                how = f"leave that out. {NOBODY_TO_ASK}"
            why = f"{prepared.decision.reason} Nobody can be asked here: {how}"
            await self._record(prepared.audit(work, "refused", why))
            raise NeedsApproval(why)
        return await self.run(prepared, work, policy, progress)

    async def prepare(
        self,
        name: str,
        input: Mapping[str, Any],
        work: Workspace,
        policy: Policy,
        *,
        call_id: str | None = None,
    ) -> Prepared:
        """The call, checked and decided. Raises InvalidInput or NotPermitted."""
        paths = work.lookup()
        with _telling(work, input):
            tool = self._toolbox.parse(name, input)
            if name != tool.name:  # a former name, whose input may have been another
                input = tool.model_dump(by_alias=True, exclude_unset=True)
            tool = await _located(tool, paths)
            act = await _act(tool, tool.action, paths, policy)
        try:
            with _telling(work, input):
                async with work.lease(tool.target, *tool.needed) as nb:
                    act = replace(act, action=await tool.acts(nb))
                    await paths.refuse_outside(tool.paths.values())
                    decision = decide(act, policy)
                    if decision.verdict != "deny":
                        if tool.takes:
                            with suppress(ToolError):  # a glance will do: it is decided again later
                                await nb.look()
                        act = await _seen(act, tool, nb, policy)
                        decision = decide(act, policy)
        except NotPermitted as error:
            decision = Decision(verdict="deny", reason=error.message)
        prepared = Prepared(tool=tool, input=input, act=act, decision=decision, call_id=call_id)
        if decision.verdict == "deny":
            await self._record(prepared.audit(work, "refused", decision.reason))
            raise NotPermitted(decision.reason)
        return prepared

    async def read(self, name: str, input: Mapping[str, Any], nb: Lease, policy: Policy) -> Result:
        """What a tool that only reads says of the turn's own notebook, which is at hand: `input`
        names no other. Raises ToolError, which is NotPermitted where a model would have to ask.
        """
        with _telling(nb.work, input):
            tool = self._toolbox.parse(name, input)
            act = await _act(tool, tool.action, nb.work.lookup(), policy)
            decision = decide(await _seen(act, tool, nb, policy), policy)
            if decision.verdict != "run":
                raise NotPermitted(decision.reason)
            return _masked(await tool.run(nb), nb.work)

    async def reconsidered(self, prepared: Prepared, work: Workspace, policy: Policy) -> Prepared:
        """The call, decided again: an answer may have allowed more than what it was given for."""
        act = prepared.act
        with suppress(ToolError):  # the call fails for it, too
            async with work.lease(prepared.tool.target, *prepared.tool.needed) as nb:
                act = await _seen(act, prepared.tool, nb, policy)
        return replace(prepared, act=act, decision=decide(act, policy))

    async def question(self, prepared: Prepared, work: Workspace) -> Question:
        """What a person has to see first. Raises ToolError where the call could not succeed."""
        try:
            async with self._leased(prepared, work) as nb:
                return await self._question(prepared, nb)
        except ToolError as error:
            await self._note_failure(prepared, work, error)
            raise

    async def decline(self, prepared: Prepared, work: Workspace, reason: str) -> None:
        """A person said no."""
        await self._record(prepared.audit(work, "refused", work.told(reason)))

    async def run(
        self,
        prepared: Prepared,
        work: Workspace,
        policy: Policy,
        progress: Progress | None = None,
        *,
        approved: Question | None = None,
    ) -> Result:
        """Act. Raises ToolError; Conflict where what a person saw and approved is no longer so."""
        made: list[Change] = []
        attempt = 0
        while True:
            try:
                if attempt:
                    await self._sleep(_FIRST_PAUSE_S * 2 ** (attempt - 1))
                result = await self._run(prepared, work, policy, progress, approved, made)
                result = _masked(result, work)
                break
            except ToolError as error:
                if not self._may_pass(prepared, error, attempt):
                    await self._note_failure(prepared, work, error, made)
                    raise
                attempt += 1
            except asyncio.CancelledError:
                await self._note_surely(prepared.audit(work, "stopped", _STOPPED, changes=made))
                raise
            except Exception as error:  # a bug: what the call did until then is in the audit
                why = f"{_BUG} ({type(error).__name__})"
                await self._note_surely(prepared.audit(work, "failed", why, changes=made))
                raise
        if not prepared.reads and prepared.act.notebook is not None:
            policy.touched.add(prepared.act.notebook)
        await self._note_surely(prepared.audit(work, "done", result=result))
        return result

    async def _run(
        self,
        prepared: Prepared,
        work: Workspace,
        policy: Policy,
        progress: Progress | None,
        approved: Question | None,
        made: list[Change],
    ) -> Result:
        """Acts once; `made` gets what was done to cells, also where that is not the end of it."""
        tool = prepared.tool
        async with self._leased(prepared, work) as nb:
            try:
                await self._refuse_if_other(prepared, nb, policy)
                if prepared.decision.verdict == "ask":
                    await self._approve(prepared, nb, approved)
                await nb.refuse_hidden(tool.acts_on)
                result = await tool.run(nb, progress and _masking(progress, work))
                if tool.executes and (kernel := await nb.kernel()) is not None:
                    policy.started(prepared.act, kernel.life)
                return result
            finally:
                made += nb.changes

    def _may_pass(self, prepared: Prepared, error: ToolError, attempt: int) -> bool:
        """Whether what failed is worth another try: nothing was done, and the tab or the kernel
        may answer soon.
        """
        most = self._retries.get(prepared.tool.name, self._retries.get("*", 0))
        return prepared.reads and isinstance(error, Busy) and attempt < most

    @asynccontextmanager
    async def _leased(self, prepared: Prepared, work: Workspace) -> AsyncIterator[Lease]:
        """The call's notebook; an error leaves of itself what a model may be told."""
        with _telling(work, prepared.input):
            async with work.lease(prepared.tool.target, *prepared.tool.needed) as nb:
                try:
                    yield nb
                except ToolError as error:
                    if "current" not in error.facts:
                        raise
                    raise (await nb.visible()).error(error) from error

    async def _refuse_if_other(self, prepared: Prepared, nb: Lease, policy: Policy) -> None:
        """A link, a rename or another run may have made it another call since it was decided."""
        tool, paths = prepared.tool, nb.work.lookup()
        await paths.refuse_outside(tool.paths.values())
        act = await _act(tool, await tool.acts(nb), paths, policy)
        if tool.takes:
            await nb.take()
        act = await _seen(act, tool, nb, policy)
        if act == prepared.act:
            return
        decision = decide(act, policy)
        if decision.verdict == "deny":
            raise NotPermitted(decision.reason)
        if decision.verdict == "ask" and prepared.decision.verdict == "run":
            raise Conflict("Something else is there by now, so nothing was done. Look again.")

    async def _approve(self, prepared: Prepared, nb: Lease, approved: Question | None) -> None:
        current = await self._question(prepared, nb)
        if approved is not None and not approved.kernel:
            current = replace(current, kernel="")  # no kernel ran then; a fresh one was approved
        if approved is not None and not approved.kernelspec:
            current = replace(current, kernelspec="")  # nor was there a notebook
        as_approved = (
            approved is not None
            and prepared.binding(approved) == prepared.binding(current)
            and set(current.loads) <= set(approved.loads)
        )
        if not as_approved:
            raise Conflict(
                "What was approved has changed since, so it was not done. "
                "Read the cell again and call again to request approval."
            )
        nb.approve(current.cells)

    async def _question(self, prepared: Prepared, nb: Lease) -> Question:
        await nb.refuse_hidden(prepared.tool.acts_on)
        tool = prepared.tool
        question = replace(await tool.question(nb), loads=await _loads(tool, nb))
        if not tool.in_one_kernel:
            return question
        spec = question.kernelspec or await nb.kernelspec()
        return replace(question, kernel=await nb.kernel_life(), kernelspec=spec)

    async def _note_failure(
        self,
        prepared: Prepared,
        work: Workspace,
        error: ToolError,
        made: Sequence[Change] = (),
    ) -> None:
        outcome: CallOutcome = "refused" if isinstance(error, NotPermitted) else "failed"
        changes = [*made, *(error.changes if isinstance(error, NotConfirmed) else ())]
        await surely(self._record(prepared.audit(work, outcome, error.message, changes=changes)))

    async def _note_surely(self, audit: Audit) -> None:
        """Notes what has happened, whoever cancels the call meanwhile."""
        try:
            await surely(self._record(audit))
        except StoreUnavailable as error:  # it has happened: that must be told all the same
            log.error("`%s` is not in the audit: %s", audit.act.tool, error)


@contextmanager
def _telling(work: Workspace, input: Mapping[str, Any]) -> Iterator[None]:
    """Errors leave as a model may be told them."""
    try:
        yield
    except ToolError as error:
        named = {field: value for field, value in input.items() if field not in TEXTS}
        raise work.told_error(error, named) from error


def _masked(result: Result, work: Workspace) -> Result:
    redactor = work.services.redactor
    return replace(result, text=redactor.text(result.text), facts=redactor.masked(result.facts))


def _masking(progress: Progress, work: Workspace) -> Progress:
    async def masked(output: Mapping[str, Any]) -> None:
        await progress(work.services.redactor.masked(output))

    return masked


async def _located(tool: Tool, paths: Lookup) -> Tool:
    """The same call with each of its paths as Jupyter spells it."""
    named = {field: await paths.of(path) for field, path in tool.paths.items()}
    return tool.model_copy(update={field: each.path for field, each in named.items() if each})


async def _act(tool: Tool, action: Action, paths: Lookup, policy: Policy) -> Act:
    """What the call does now, as far as permission depends on it."""
    there = await paths.of(tool.target)
    if there is None:
        return Act(tool=tool.name, action=action, notebook=None, like=tool.like, powers=tool.powers)
    home = await paths.of(None)
    near = policy.touched if home is None else {home.name, *policy.touched}
    return Act(
        tool=tool.name,
        action=action,
        notebook=there.name,
        path=there.path,
        folds_case=there.folds_case,
        elsewhere=there.name not in near,
        writes=tool.effect == "edit",
        like=tool.like,
        powers=tool.powers,
    )


async def _seen(act: Act, tool: Tool, nb: Lease, policy: Policy) -> Act:
    """The act with what permission depends on in the notebook itself."""
    if tool.effect == "edit":
        act = replace(act, loads=await _loads(tool, nb))
    if not any(grant.concerns(act) for grant in policy.grants):
        return act  # only a grant depends on what runs, and where
    if (definition := await tool.defined(nb)) is not None:
        return replace(act, kernel=definition)
    kernel = await nb.kernel() if tool.executes else None
    leaves = False
    with suppress(ToolError):  # the call fails for it, too
        if codes := [cell.source for cell in await tool.runs(nb)]:
            await nb.read()
            asked = partial(leaves_language, language=await nb.language())
            leaves = await asyncio.to_thread(lambda: any(map(asked, codes)))  # of much code
    return replace(
        act,
        kernel=None if not tool.executes else kernel.life if kernel else "",
        leaves_language=leaves,
    )


async def _loads(tool: Tool, nb: Lease) -> tuple[str, ...]:
    """What a page would load from elsewhere, and did not before, once the call has written."""
    try:
        await nb.refuse_hidden(tool.acts_on)
        after = [cell for cell in await tool.leaves(nb) if cell.type != "code"]
    except ToolError:  # the call fails for it, too; or it is decided again when it acts
        return ()
    has_commands = any("\\" in cell.source for cell in after)  # which other cells may define
    if not has_commands and not await _added((), after):
        return ()
    try:
        cells = await nb.read()
    except NotebookNotFound:
        return ()
    except ToolError:
        cells = ()
    before = [nb.work.foreseen.get((nb.path, cell.id), cell) for cell in cells]
    return tuple(map(legible, await _added(before, after)))


async def _added(before: Sequence[Cell], after: Sequence[Cell]) -> tuple[str, ...]:
    """As `remote.added`; in a thread if there is much to look through."""
    if sum(len(cell.source) for cell in (*before, *after)) > _LARGE:
        return await asyncio.to_thread(remote.added, before, after)
    return remote.added(before, after)
