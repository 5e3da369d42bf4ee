"""One call with its lease on a notebook: decide, ask, act, record."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from jupyter_agent.agent.acts import act_of, loads_of, look_into
from jupyter_agent.agent.history import INTERRUPTED
from jupyter_agent.agent.permissions import Act, Decision, Policy, decide
from jupyter_agent.document.cell import Cell, Change
from jupyter_agent.errors import (
    Busy,
    Conflict,
    NeedsApproval,
    NotConfirmed,
    NotPermitted,
    StoreUnavailable,
    ToolError,
)
from jupyter_agent.events import CallDenied, CallFailed, CallOutput, CellsChanged, Event
from jupyter_agent.legible import ModelText
from jupyter_agent.tasks import surely
from jupyter_agent.tools.base import TEXTS, ModelResult, Progress, Question, Tool
from jupyter_agent.tools.guard import check_result, failures_of_plugs
from jupyter_agent.workspace.lease import Lease
from jupyter_agent.workspace.workspace import Workspace

CallOutcome: TypeAlias = Literal["done", "failed", "refused", "stopped"]

_BUG = "Something went wrong inside the assistant; the call may have been done."
_NO_REASON = ModelText("")
_STOPPED = ModelText("The turn was stopped; what it did until then stays.")

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A call that fits its tool's schema."""

    tool: Tool
    input: Mapping[str, Any]
    id: str | None = None

    @property
    def reads(self) -> bool:
        return self.tool.effect == "read"

    @property
    def runs(self) -> bool:
        """Whether it makes a kernel do something."""
        return self.tool.effect == "run" or self.tool.executes


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """The decision about a call."""

    call: ToolCall
    act: Act
    decision: Decision

    @property
    def asks(self) -> bool:
        """Whether a person has to answer first."""
        return self.decision.verdict == "ask"

    def binding(self, question: Question) -> str:
        """A hash of everything that the answer to this question is given for."""
        return question.binding(self.call.tool.name, self.call.input)

    def audit(
        self,
        work: Workspace,
        outcome: CallOutcome,
        why: ModelText = _NO_REASON,
        *,
        result: ModelResult | None = None,
        changes: Sequence[Change] = (),
    ) -> Audit:
        """The audit entry for the call's outcome."""
        return Audit(
            work=work,
            call_id=self.call.id,
            act=self.act,
            input=self.call.input,
            decision=self.decision,
            outcome=outcome,
            why=why,
            result=result,
            changes=result.changes if result else changes,
        )


@dataclass(frozen=True, kw_only=True)
class Audit:
    """A call, the decision about it and its outcome."""

    work: Workspace
    call_id: str | None
    act: Act
    input: Mapping[str, Any]
    decision: Decision
    outcome: CallOutcome
    why: ModelText = _NO_REASON
    """Why it failed or was refused."""
    result: ModelResult | None = None
    """None unless the call succeeded."""
    changes: Sequence[Change] = ()
    """Its changes to cells, even if it failed."""

    @property
    def events(self) -> Iterator[Event]:
        """The events of a call in a turn: its outcome, then its changes, notebook by notebook."""
        assert self.call_id is not None
        yield self._outcome(self.call_id)
        made = [replace(change, call_id=self.call_id) for change in self.changes]
        for path in dict.fromkeys(change.notebook for change in made):
            changes = tuple(
                self.work.services.redactor.change(each) for each in made if each.notebook == path
            )
            yield CellsChanged(call_id=self.call_id, notebook=path, changes=changes)

    def _outcome(self, call_id: str) -> Event:
        fence = self.work.fence
        if self.result is not None:
            output = {**self.result.output(), "text": fence.strip_marks(self.result.text)}
            return CallOutput(call_id=call_id, output=output)
        if self.outcome == "refused":
            return CallDenied(call_id=call_id)
        return CallFailed(call_id=call_id, error=fence.strip_marks(self.error))

    @property
    def error(self) -> ModelText:
        """Why there is no result."""
        return INTERRUPTED if self.outcome == "stopped" else self.why


Record: TypeAlias = Callable[[Audit], Coroutine[Any, Any, None]]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """A call that was decided, while its lease is held: the decision, the question and the call
    all see the same notebook.
    """

    ruling: Ruling
    nb: Lease
    policy: Policy
    record: Record
    again: Callable[[], AbstractAsyncContextManager[Attempt]] | None = None
    """Tries a call that only reads again after a pause: a busy tab or kernel may answer soon."""

    @classmethod
    async def begin(cls, call: ToolCall, nb: Lease, policy: Policy, record: Record) -> Attempt:
        """The call, decided without reading the notebook. Raises NotPermitted."""
        act = await act_of(call.tool, await call.tool.current_action(nb), nb.paths, policy)
        await nb.paths.refuse_outside(call.tool.paths.values())
        ruling = Ruling(call=call, act=act, decision=decide(act, policy))
        return cls(ruling=ruling, nb=nb, policy=policy, record=record)

    def of(self, call: ToolCall) -> Attempt:
        """The same for another call that permission does not distinguish from this one."""
        return replace(self, ruling=replace(self.ruling, call=call))

    async def decide_by_content(self) -> Attempt:
        """The call, decided again by the notebook's content, unless it is already denied.

        If the call changes the notebook, no one else can until it has. Raises ToolError.
        """
        call, act = self.ruling.call, self.ruling.act
        if self.ruling.decision.verdict == "deny":
            return self
        try:
            with failures_of_plugs(call.tool):
                if call.tool.is_exclusive:
                    await self.nb.take()
                full = await look_into(act, call.tool, self.nb, self.policy)
        except ToolError as error:
            raise await self._failure(error) from error
        if full == act:
            return self
        ruling = Ruling(call=call, act=full, decision=decide(full, self.policy))
        return replace(self, ruling=ruling)

    async def question(self, foreseen: Mapping[tuple[str, str], Cell] | None = None) -> Question:
        """The question for a person, with the cells in `foreseen` (see `Workspace`) as they are
        there. Raises ToolError if the call could not succeed.
        """
        try:
            with self.nb.with_pending_cells(foreseen or {}):
                return await self._question()
        except ToolError as error:
            raise await self._failure(error) from error

    async def run(
        self, progress: Progress | None = None, *, approved: Question | None = None
    ) -> ModelResult:
        """Do the call. Raises ToolError; Conflict if it is no longer what a person approved."""
        nb, tool, act = self.nb, self.ruling.call.tool, self.ruling.act
        try:
            if approved is not None:
                await self._compare(approved)
            elif self.ruling.asks:
                raise NeedsApproval(self.ruling.decision.reason)
            with failures_of_plugs(tool):
                await nb.refuse_hidden(tool.acts_on)
                returned = await tool.run(nb, progress and _masking_progress(progress, nb.work))
                result = ModelResult.of(returned, nb.work.services.redactor)
                check_result(tool, result)
            if tool.executes and (kernel := await nb.kernel.find()) is not None:
                self.policy.bind_grants(act, kernel.life)
        except ToolError as error:
            if self.again is None or not isinstance(error, Busy):
                raise await self._failure(error) from error
        except asyncio.CancelledError:
            await self._note("stopped", _STOPPED)
            raise
        except Exception as error:  # a bug: the audit has what the call did before it
            await self._note("failed", nb.work.redact(f"{_BUG} ({type(error).__name__})"))
            raise
        else:
            if not self.ruling.call.reads and act.notebook is not None:
                self.policy.changed_notebooks.add(act.notebook)
            await self._note("done", result=result)
            return result
        async with self.again() as attempt:
            return await attempt.run(progress, approved=approved)

    async def _question(self) -> Question:
        nb, tool = self.nb, self.ruling.call.tool
        with failures_of_plugs(tool):
            await nb.refuse_hidden(tool.acts_on)
            question = replace(await tool.question(nb), loads=await loads_of(tool, nb))
        if not tool.in_one_kernel:
            return question
        spec = question.kernelspec or await nb.kernel.spec()
        return replace(question, kernel=await nb.kernel.life(), kernelspec=spec)

    async def _compare(self, approved: Question) -> None:
        """Raises Conflict unless the call is still what a person saw."""
        current = await self._question()
        if not approved.kernel:
            current = replace(current, kernel="")  # no kernel ran then: a new one was approved
        if not approved.kernelspec:
            current = replace(current, kernelspec="")  # there was no notebook then
        as_approved = self.ruling.binding(approved) == self.ruling.binding(current)
        if not as_approved or not set(current.loads) <= set(approved.loads):
            raise Conflict(
                "What was approved has changed since, so it was not done. "
                "Read the cell again and call again to request approval."
            )
        self.nb.approve(current.cells)

    async def _failure(self, error: ToolError) -> ToolError:
        """Record the error; returns it in a form fit for a model."""
        if "current" in error.facts:
            error = (await self.nb.view()).error(error)
        error = _for_model(error, self.nb.work, self.ruling.call.input)
        outcome: CallOutcome = "refused" if isinstance(error, NotPermitted) else "failed"
        made = error.changes if isinstance(error, NotConfirmed) else ()
        why = self.nb.work.redact(error.message)
        await surely(self._write_audit(outcome, why, changes=made))
        return error

    async def _note(
        self,
        outcome: CallOutcome,
        why: ModelText = _NO_REASON,
        *,
        result: ModelResult | None = None,
    ) -> None:
        """Record the outcome, even if the call is cancelled in the meantime."""
        try:
            await surely(self._write_audit(outcome, why, result=result))
        except StoreUnavailable as error:  # the call is done: the caller must get its outcome
            log.error("`%s` is not in the audit: %s", self.ruling.act.tool, error)

    async def _write_audit(
        self,
        outcome: CallOutcome,
        why: ModelText,
        *,
        result: ModelResult | None = None,
        changes: Sequence[Change] = (),
    ) -> None:
        await self.nb.release()  # others need not wait for the store
        made = [*self.nb.changes, *changes]
        await self.record(
            self.ruling.audit(self.nb.work, outcome, why, result=result, changes=made)
        )


def _for_model(error: ToolError, work: Workspace, input: Mapping[str, Any]) -> ToolError:
    """The error of a call with this input, without secrets and with its names quoted."""
    named = {field: value for field, value in input.items() if field not in TEXTS}
    return work.redact_error(error, named)


@contextmanager
def errors_for_model(work: Workspace, input: Mapping[str, Any]) -> Iterator[None]:
    """Make the ToolErrors raised inside fit for a model: no secrets, names quoted."""
    try:
        yield
    except ToolError as error:
        raise _for_model(error, work, input) from error


def _masking_progress(progress: Progress, work: Workspace) -> Progress:
    async def report(output: Mapping[str, Any]) -> None:
        await progress(work.services.redactor.mask_all(output))

    return report
