"""The calls of one step: each gets a result, all in one message, in the order of the calls.

Calls run in order; adjacent calls that only read run concurrently. The questions of a step are put
together (`Round`), after the calls that need no answer: calls that read or edit do not wait for the
answers, a run waits for all answers before it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jupyter_agent.agent.approval import Answer, Approval, Round
from jupyter_agent.agent.attempt import Audit, ToolCall
from jupyter_agent.agent.dispatch import NOBODY_TO_ASK
from jupyter_agent.agent.history import INTERRUPTED, Transcript, error_result
from jupyter_agent.agent.reply import Call
from jupyter_agent.agent.turn import Entry, Turn
from jupyter_agent.errors import ToolError
from jupyter_agent.events import CallFailed, CallInvalid, CallOutput, Notice
from jupyter_agent.legible import ModelText, clip
from jupyter_agent.models.base import Block
from jupyter_agent.tasks import gather_or_cancel
from jupyter_agent.tools.base import ModelResult
from jupyter_agent.workspace.reads import News

CUT_OFF = ModelText("The reply was cut off, so this call was not executed. Make a smaller call.")
_CUT = "\n[... {left} characters cut ...]\n"
LAST_STEP = "Not executed: the limit of this turn is reached."
REFUSED = "Not executed: the model refused to answer."
UNANSWERED = Answer(approved=False, reason="Nobody answered in time.")
_ALONE = (
    "Declined: this needs an answer, and nobody can answer in this turn. Do not try the same in "
    "another way; continue without it, and say what remains to be done."
)


async def run_calls(turn: Turn, answer: Sequence[Entry], calls: Sequence[Call]) -> None:
    """Show the answer with these calls, execute them, and append their results to the history, even
    when stopped.
    """
    step = _Step(turn)
    try:
        await turn.log.show(*answer)
        await step.run(calls)
        await step.append_news(calls)
    finally:
        open_ = [step.failure(call.id, INTERRUPTED) for call in calls if not step.has_result(call)]
        results = turn.transcript.append("user", [step.results[call.id] for call in calls])
        await turn.log.show(*open_, *results)


def refuse_calls(transcript: Transcript, calls: Sequence[Call]) -> list[Entry]:
    """Answer the calls of a cut-off reply with an error: their input may be incomplete."""
    failed = [CallFailed(call_id=call.id, error=CUT_OFF) for call in calls if call.error is None]
    results = [error_result(call.id, CUT_OFF) for call in calls]
    return [*failed, *transcript.append("user", results)]


def drop_calls(calls: Sequence[Call], why: str) -> list[Entry]:
    """Report the calls of a last reply: they are not executed and not part of the history."""
    return [
        CallInvalid(call_id=call.id, tool=call.name, input=call.input, error=why)
        for call in calls
        if call.error is None
    ]


@dataclass(frozen=True, kw_only=True)
class _Pending:
    """A call that has no result yet."""

    call: ToolCall
    approval: Approval | None = None
    """The question that a person approved."""

    @property
    def id(self) -> str:
        assert self.call.id is not None
        return self.call.id

    def comes_after(self, earlier: Sequence[_Pending]) -> bool:
        """Whether it has to wait for these earlier calls, which wait for an answer."""
        return bool(earlier) and (self.call.runs or self.approval is not None)


class _Step:
    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._dispatcher = turn.dispatcher.with_record(self._record)
        self.results: dict[str, Block] = {}

    async def run(self, calls: Sequence[Call]) -> None:
        pending = [item for call in calls if (item := await self._parse(call))]
        while pending:
            pending = await self._ask(*await self._run_in_order(pending))

    def has_result(self, call: Call) -> bool:
        return call.id in self.results

    def failure(self, call_id: str, text: ModelText) -> CallFailed:
        """Set the result of a call that failed or was not executed; returns its event."""
        self.results[call_id] = error_result(call_id, text)
        return CallFailed(call_id=call_id, error=self._turn.work.fence.strip_marks(text))

    async def _parse(self, call: Call) -> _Pending | None:
        if call.error is not None:  # its event was shown when the block ended
            self.results[call.id] = error_result(call.id, self._turn.work.redact(call.error))
            return None
        try:
            parsed = self._dispatcher.parse(call.name, call.input, self._turn.work, call_id=call.id)
        except ToolError as error:
            await self._fail(call.id, error)
            return None
        return _Pending(call=parsed)

    async def append_news(self, calls: Sequence[Call]) -> None:
        """Add to the last result what others have changed since the last step.

        As part of a result it stays in the history, so that the text sent so far never changes; a
        text after the results would look like another question.
        """
        for news in await self._turn.work.news() if calls else ():
            who = await self._turn.authors(news)
            text = self._turn.work.redact(f"{news.text}\n{who}".rstrip())
            last = self.results[calls[-1].id]
            content = [*last["content"], {"type": "text", "text": text}]
            self.results[calls[-1].id] = {**last, "content": content}
            await self._turn.log.show(news_notice(news, "the model"))

    # -- acting

    async def _run_in_order(
        self, pending: Sequence[_Pending], *, act: bool = True
    ) -> tuple[Round, Sequence[_Pending]]:
        """Run in order the calls that neither need an answer nor have to wait for one; returns the
        questions of the others, and all calls that are left. Without `act` it only asks.
        """
        asking = Round(seconds=self._turn.limits.approval_seconds)
        waiting: list[_Pending] = []
        outdated = False
        for group in _side_by_side(pending):
            acts = act and not any(item.comes_after(waiting) for item in group)
            has_asked = bool(asking.asked)
            left = await self._run_group(group, asking, act=acts)
            outdated |= act and has_asked and len(left) < len(group)
            waiting += left
        if outdated:  # a later call changed what a question shows, or used up its time
            return await self._run_in_order(waiting, act=False)
        return asking, waiting

    async def _run_group(
        self, group: Sequence[_Pending], asking: Round, *, act: bool
    ) -> list[_Pending]:
        """Run the calls of a group; returns those that have to wait."""
        if act:
            await self._turn.log.append()  # everything so far is stored before the calls act
        waits = await gather_or_cancel(self._run_or_wait(item, asking, act=act) for item in group)
        return [item for item, waiting in zip(group, waits, strict=True) if waiting]

    async def _run_or_wait(self, item: _Pending, asking: Round, *, act: bool) -> bool:
        """Run the call if it may act; True if it has to wait for its own answer or an earlier one.

        `_record` reports the outcome; only internal errors are raised.
        """
        if item.approval is not None and not act:
            return True

        async def progress(output: Mapping[str, Any]) -> None:
            await self._turn.log.show(CallOutput(call_id=item.id, output=output, preliminary=True))

        turn = self._turn
        approved = item.approval.question if item.approval else None
        try:
            async with self._dispatcher.attempt(item.call, turn.work, turn.policy) as attempt:
                if attempt.ruling.asks and approved is None:
                    asking.add(attempt.ruling, await attempt.question(asking.foreseen))
                    return True
                if not act:
                    return True
                await attempt.run(progress, approved=approved)
        except ToolError as error:
            await self._fail(item.id, error)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise  # otherwise something inside the tool was cancelled
        return False

    async def _record(self, audit: Audit) -> None:
        """Keep the outcome of a call as the model's result, and log it."""
        assert audit.call_id is not None
        if audit.result is not None:
            content = _content(audit.result, self._turn.limits.result_chars)
            self.results[audit.call_id] = {
                "type": "tool_result",
                "tool_use_id": audit.call_id,
                "content": content,
            }
        else:
            self.results[audit.call_id] = error_result(audit.call_id, audit.error)
        await self._turn.log.append(audit)

    async def _fail(self, call_id: str, error: ToolError) -> None:
        """Report an error from before the decision, which is not audited."""
        if call_id not in self.results:
            text = self._turn.work.redact(error.message)
            await self._turn.log.append(self.failure(call_id, text))

    # -- asking

    async def _ask(self, asking: Round, waiting: Sequence[_Pending]) -> list[_Pending]:
        """Ask the questions; returns the calls that are still to be run, in order."""
        asked = [asking.asked[item.id] for item in waiting if item.id in asking.asked]
        answers = await self._put(tuple(approval for _, approval in asked)) if asked else {}
        left: list[_Pending] = []
        denied: set[str] = set()
        for item in waiting:
            if item.id not in asking.asked:
                left.append(item)
                continue
            ruling, approval = asking.asked[item.id]
            answer = answers.get(approval.id, UNANSWERED)
            if not answer.approved:
                denied.add(item.id)
                reason = decline_text(answer) if self._turn.options.is_attended else _ALONE
                if answer is UNANSWERED and ruling.act.loads:
                    reason = f"{reason} {NOBODY_TO_ASK}"
                await self._dispatcher.decline(ruling, self._turn.work, reason)
            elif approval.rests_on & denied:
                denied.add(item.id)  # questions that rest on this call were outdated, too
                left.append(item)  # asked again, about the cell without that edit
            else:
                left.append(replace(item, approval=approval))
        return left

    async def _put(self, questions: tuple[Approval, ...]) -> Mapping[str, Answer]:
        if not self._turn.options.is_attended:
            # Followers see the questions, but the turn does not wait for answers.
            await self._turn.log.show(*(event for each in questions for event in each.events))
            return {}
        await self._turn.log.append(*questions)
        return await self._turn.answers.wait(questions)


def news_notice(news: News, reader: str) -> Notice:
    """The notice that the notebook was changed by others and the reader learns about it."""
    return Notice(
        kind="notebook-changed",
        text=f"{news.notebook} was changed by others; {reader} gets the changes.",
        facts={"notebook": news.notebook, "cell_ids": list(news.cell_ids)},
    )


def _side_by_side(pending: Sequence[_Pending]) -> Sequence[Sequence[_Pending]]:
    """Groups of calls, in order: adjacent calls that only read together, all others alone."""
    groups: list[list[_Pending]] = []
    for item in pending:
        if groups and item.call.reads and groups[-1][-1].call.reads:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def decline_text(answer: Answer) -> str:
    """The result for a model whose call a person declined."""
    why = f" They said: {answer.reason}" if answer.reason else ""
    return f"The user declined this call.{why} Do not try the same in another way; continue or ask."


def _content(result: ModelResult, limit: int) -> list[Block]:
    text = result.text if result.text.strip() else ModelText("(no output)")
    content: list[Block] = [{"type": "text", "text": clip(text, limit, _CUT, head=0.6)}]
    for media_type, data in result.images:
        source = {"type": "base64", "media_type": media_type, "data": data}
        content.append({"type": "image", "source": source})
    return content
