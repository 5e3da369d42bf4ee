"""The calls of one step: every one gets an answer, all in one message, in the order of the calls.

Calls run in their order; neighbours that only read run side by side. Questions of a step are asked
together (`asking`), after the calls that need no answer: what only reads or edits does not wait for
them, a run waits for every answer before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any
from uuid import uuid4

from jupyter_agent.agent.approval import Answer, Approval
from jupyter_agent.agent.asking import Round
from jupyter_agent.agent.dispatch import Prepared
from jupyter_agent.agent.history import INTERRUPTED, error_result
from jupyter_agent.agent.reply import Call
from jupyter_agent.agent.turn import Turn
from jupyter_agent.document.cell import Change
from jupyter_agent.errors import NotConfirmed, NotPermitted, ToolError
from jupyter_agent.events import (
    CallDenied,
    CallFailed,
    CallInvalid,
    CallOutput,
    CellsChanged,
    Notice,
)
from jupyter_agent.models.base import Block
from jupyter_agent.tools.base import Result
from jupyter_agent.workspace.news import read_news

CUT_OFF = "The reply was cut off, so this call was not executed. Make a smaller call."
LAST_STEP = "Not executed: the limit of this turn is reached."
UNANSWERED = Answer(approved=False, reason="Nobody answered in time.")


async def run_calls(turn: Turn, calls: Sequence[Call]) -> None:
    """Execute the calls of a step and append their results to the history, also when stopped."""
    step = _Step(turn)
    try:
        await step.run(calls)
        await step.tell_news(calls)
    finally:
        for call in calls:
            if call.id not in step.results:
                await step.fail(call.id, INTERRUPTED)
        await turn.transcript.append("user", [step.results[call.id] for call in calls])


async def refuse_calls(turn: Turn, calls: Sequence[Call]) -> None:
    """Answer the calls of a reply that was cut off: what is left of them is not what was meant."""
    for call in calls:
        if call.error is None:
            await turn.emit(CallFailed(call_id=call.id, error=CUT_OFF))
    await turn.transcript.append("user", [error_result(call.id, CUT_OFF) for call in calls])


async def drop_calls(turn: Turn, calls: Sequence[Call]) -> None:
    """Tell that calls of a last reply are not executed; they are no part of the history."""
    for call in calls:
        if call.error is None:
            await turn.emit(
                CallInvalid(call_id=call.id, tool=call.name, input=call.input, error=LAST_STEP)
            )


@dataclass(frozen=True, kw_only=True)
class _Pending:
    """A call that has no result yet."""

    call: Call
    prepared: Prepared
    approval: Approval | None = None
    """What a person approved."""

    @property
    def asks(self) -> bool:
        return self.prepared.decision.verdict == "ask" and self.approval is None

    @property
    def runs(self) -> bool:
        return self.prepared.tool.effect == "run"


class _Step:
    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.results: dict[str, Block] = {}

    async def run(self, calls: Sequence[Call]) -> None:
        pending = [item for call in calls if (item := await self._prepare(call))]
        while pending:
            ready, waiting = _split(pending)
            await self._act(ready)
            pending = [self._reconsidered(item) for item in await self._ask(waiting)]

    def _reconsidered(self, item: _Pending) -> _Pending:
        if not item.asks:
            return item
        prepared = self._turn.dispatcher.reconsidered(item.prepared, self._turn.policy)
        return replace(item, prepared=prepared)

    async def fail(self, call_id: str, text: str) -> None:
        self.results[call_id] = error_result(call_id, text)
        await self._turn.emit(CallFailed(call_id=call_id, error=text))

    async def _deny(self, call_id: str, text: str) -> None:
        self.results[call_id] = error_result(call_id, text)
        await self._turn.emit(CallDenied(call_id=call_id))

    async def _prepare(self, call: Call) -> _Pending | None:
        if call.error is not None:  # told when the block ended
            self.results[call.id] = error_result(call.id, call.error)
            return None
        turn = self._turn
        try:
            prepared = await turn.dispatcher.prepare(
                call.name, call.input, turn.work, turn.policy, call_id=call.id
            )
        except NotPermitted as error:
            await self._deny(call.id, error.message)
        except ToolError as error:
            await self.fail(call.id, error.message)
        else:
            return _Pending(call=call, prepared=prepared)
        return None

    async def tell_news(self, calls: Sequence[Call]) -> None:
        """What changed meanwhile, as a part of the last result.

        There it is part of the history, so that what was sent stays what it was; a text after the
        results would be taken for another question.
        """
        if not calls:
            return
        for news in await read_news(self._turn.work):
            text = self._turn.dispatcher.told(news.text)
            last = self.results[calls[-1].id]
            content = [*last["content"], {"type": "text", "text": text}]
            self.results[calls[-1].id] = {**last, "content": content}
            facts = {"notebook": news.notebook, "cell_ids": list(news.cell_ids)}
            said = f"{news.notebook} changed meanwhile; the model is told."
            await self._turn.emit(Notice(kind="notebook-changed", text=said, facts=facts))

    # -- acting

    async def _act(self, ready: Sequence[_Pending]) -> None:
        for reads, neighbours in groupby(ready, key=lambda item: item.prepared.reads):
            if reads:
                async with asyncio.TaskGroup() as together:
                    for item in neighbours:
                        together.create_task(self._answer(item))
            else:
                for item in neighbours:
                    await self._answer(item)

    async def _answer(self, item: _Pending) -> None:
        """Act and tell the result, whatever it is; only what is a bug of ours is raised."""
        call_id = item.call.id
        try:
            result = await self._result(item)
        except NotPermitted as error:
            await self._deny(call_id, error.message)
        except NotConfirmed as error:
            await _surely(self._journal(call_id, error.changes))
            await self.fail(call_id, error.message)
        except ToolError as error:
            await self.fail(call_id, error.message)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            await self.fail(call_id, INTERRUPTED)  # something within the tool was cancelled
        else:
            content = _content(result, self._turn.limits.result_chars)
            self.results[call_id] = {
                "type": "tool_result",
                "tool_use_id": call_id,
                "content": content,
            }
            await _surely(self._tell(call_id, result))
            if _is_cancelled():
                raise asyncio.CancelledError

    async def _result(self, item: _Pending) -> Result:
        turn = self._turn

        async def progress(output: Mapping[str, Any]) -> None:
            await turn.emit(CallOutput(call_id=item.call.id, output=output, preliminary=True))

        return await turn.dispatcher.run(
            item.prepared,
            turn.work,
            turn.policy,
            progress,
            approved=item.approval.question if item.approval else None,
        )

    async def _tell(self, call_id: str, result: Result) -> None:
        try:
            await self._turn.emit(CallOutput(call_id=call_id, output=result.output()))
        finally:  # where the store fails for a moment, the journal has it with what follows
            await self._journal(call_id, result.changes)

    async def _journal(self, call_id: str, changes: Sequence[Change]) -> None:
        kept = self._turn.dispatcher.kept
        made = [replace(change, call_id=call_id) for change in changes]
        for path in dict.fromkeys(change.notebook for change in made):
            told = tuple(kept(change) for change in made if change.notebook == path)
            await self._turn.emit(CellsChanged(call_id=call_id, notebook=path, changes=told))

    # -- asking

    async def _ask(self, waiting: Sequence[_Pending]) -> list[_Pending]:
        """Put the questions that can be put now; gives what is still to be done, in order."""
        asking = Round()
        questions: dict[str, Approval] = {}
        for item in waiting:
            if item.asks and (approval := await self._question(item, asking)):
                questions[item.call.id] = approval
        answers = await self._turn.ask(list(questions.values())) if questions else {}
        left: list[_Pending] = []
        declined: set[str] = set()
        for item in waiting:
            call_id = item.call.id
            if call_id in self.results:
                continue  # its question could not even be put
            approval = questions.get(call_id)
            answer = answers.get(approval.id, UNANSWERED) if approval else None
            if approval is None or answer is None:
                left.append(item)
            elif not answer.approved:
                declined.add(call_id)
                said = _declined(answer)
                await self._turn.dispatcher.decline(item.prepared, self._turn.work, said)
                await self._deny(call_id, said)
            elif approval.rests_on & declined:
                declined.add(call_id)  # what rests on it in turn was not seen as it will be either
                left.append(item)  # asked again, about the cell as it is without that edit
            else:
                left.append(replace(item, approval=approval))
        return left

    async def _question(self, item: _Pending, asking: Round) -> Approval | None:
        turn = self._turn
        try:
            question = await turn.dispatcher.question(
                item.prepared, turn.work.foreseeing(asking.foreseen)
            )
        except NotPermitted as error:
            await self._deny(item.call.id, error.message)
            return None
        except ToolError as error:
            await self.fail(item.call.id, error.message)
            return None
        if asking.waits(question):
            return None
        return Approval(
            id=f"approval_{uuid4().hex}",
            call_id=item.call.id,
            tool=item.call.name,
            input=item.call.input,
            question=question,
            notebook=item.prepared.act.notebook,
            rests_on=frozenset(asking.rests_on(question)),
            group=asking.add(item.call.id, item.prepared, question),
            binding=item.prepared.binding(question),
            expires=datetime.now(UTC) + timedelta(seconds=turn.limits.approval_seconds),
        )


def _split(pending: Sequence[_Pending]) -> tuple[list[_Pending], list[_Pending]]:
    """Which calls can act now, and which wait for an answer, their own or one before them."""
    ready: list[_Pending] = []
    waiting: list[_Pending] = []
    for item in pending:
        wait = item.asks or (bool(waiting) and (item.runs or item.approval is not None))
        (waiting if wait else ready).append(item)
    return ready, waiting


async def _surely(journaling: Coroutine[Any, Any, None]) -> None:
    """What was changed is in the journal, whatever happens; a cancellation is raised afterwards."""
    task = asyncio.create_task(journaling)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _declined(answer: Answer) -> str:
    said = f" They said: {answer.reason}" if answer.reason else ""
    return f"The user declined this call.{said} Do not try the same in another way; go on or ask."


def _content(result: Result, limit: int) -> list[Block]:
    text = result.text if result.text.strip() else "(no output)"
    content: list[Block] = [{"type": "text", "text": _shortened(text, limit)}]
    for media_type, data in result.images:
        source = {"type": "base64", "media_type": media_type, "data": data}
        content.append({"type": "image", "source": source})
    return content


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head, tail = limit * 6 // 10, limit * 4 // 10
    return f"{text[:head]}\n[... {len(text) - head - tail} characters cut ...]\n{text[-tail:]}"
