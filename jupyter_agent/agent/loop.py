"""The loop: ask the model, run the tools that it calls, send it the results, until it answers.

Every way out of it leaves a history that the API accepts: each call has its result, nothing is
blank, and of an incomplete reply only the text is kept.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from jupyter_agent.agent.calls import LAST_STEP, REFUSED, drop_calls, refuse_calls, run_calls
from jupyter_agent.agent.compaction import ELIDED, SUMMARISED, compact
from jupyter_agent.agent.history import is_text
from jupyter_agent.agent.limits import Limits, Meter
from jupyter_agent.agent.reply import Call, Reply, receive
from jupyter_agent.agent.text_calls import has_text_call
from jupyter_agent.agent.turn import (
    Ending,
    Entry,
    Fallback,
    Log,
    Turn,
    finish_ending,
    model_failure_ending,
    stop_ending,
)
from jupyter_agent.errors import ModelError
from jupyter_agent.events import (
    Continuable,
    FinishReason,
    Notice,
    StepFinished,
    StepStarted,
    UsageUpdated,
)
from jupyter_agent.legible import as_sentence
from jupyter_agent.models.base import Block, ModelRequest

__all__ = ["Ending", "Turn", "run_turn"]

log = logging.getLogger(__name__)

_LIMIT_NOTICES = {
    "steps": ("step-limit", "The step limit of this turn is reached"),
    "tokens": ("budget", "The token budget of this turn is used up"),
    "cost": ("budget", "The budget of this turn is spent"),
    "month": ("budget", "Your budget for this month is used up"),
}

_CUT_OFF = {
    "max_tokens": "The answer became too long and was cut off. Ask to continue.",
    "model_context_window_exceeded": (
        "The answer was cut off, because the model cannot read more at once. Ask to continue."
    ),
}
"""Notices by stop reason."""
_TEXT_CALL = (
    "The model wrote a call of a tool as text, which does nothing. Enable calls of tools in its "
    "service, or choose another model."
)
_STOPPED = "Stopped before it was complete."
_PAUSES = 5
"""How often in a turn a service may pause and ask to be called again."""


async def run_turn(turn: Turn) -> Ending:
    """Run one turn and log what happens. Returns the ending, which is not logged yet.

    `turn.stop` or cancelling the caller stops the turn: the connection to the model is closed,
    running tools are cancelled, and the history is finished. The history is also finished if an
    error is raised: StoreUnavailable, or a bug.
    """
    meter = Meter(turn.limits, turn.facts)
    loop = asyncio.create_task(_steps(turn, meter))
    turn.stop.set_action(loop.cancel)
    if turn.stop.requested:
        loop.cancel()
    while not loop.done():
        try:
            await asyncio.wait([loop])
        except asyncio.CancelledError:
            turn.stop.request()
            _undo_cancellation()
    await turn.log.show(*turn.transcript.finish())
    if loop.cancelled():
        return stop_ending(meter)
    try:
        return loop.result()
    except ModelError as error:
        return model_failure_ending(error, meter)


async def _steps(turn: Turn, meter: Meter) -> Ending:
    first = turn.model.id
    while True:
        try:
            turn, reply = await ask_model(turn, meter)
            turn = replace(turn, container=reply.container or turn.container)
            outcome = classify(reply, meter)
            answer: list[Entry] = [
                *turn.transcript.append("assistant", outcome.keep, model=turn.model.id),
                *refuse_calls(turn.transcript, outcome.refuse),
                *drop_calls(
                    outcome.drop, REFUSED if outcome.finish == "content-filter" else LAST_STEP
                ),
            ]
            if outcome.finish:
                tools = [tool.name for tool in turn.dispatcher.toolbox.tools]
                answer += [*reply.fail_open_service_calls(), *_explanation(reply, outcome, tools)]
            await run_calls(turn, answer, outcome.run)
        finally:
            other = turn.model.id if turn.model.id != first else ""
            used = UsageUpdated(usage=meter.usage, step=meter.step_usage, model=other)
            await turn.log.show(used, StepFinished())
        if outcome.finish:
            if meter.limit:
                more = Continuable(turn_id=turn.work.turn_id or "", limit=meter.limit)
                await turn.log.show(more)
            return finish_ending(outcome.finish, reply.stop_reason, meter)


def _undo_cancellation() -> None:
    """Let the task run to its end, which is how it answers the cancellation."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


async def ask_model(turn: Turn, meter: Meter) -> tuple[Turn, Reply]:
    """The model's complete reply to the history, and the turn with the model that gave it: the
    fallback if the first model fails or refuses.

    Raises ModelError if no model replies. The text of a reply that a fault or a stop cut off stays
    in the history; that of a reply that is tried again does not.
    """
    meter.start_step()
    await turn.log.show(StepStarted())
    attempt = 1
    while True:
        exhausted = await turn.why_exhausted(turn.model)
        if limit := meter.reach(month_is_over=exhausted is not None):
            kind, reached = _LIMIT_NOTICES[limit]
            spent = exhausted if limit == "month" else meter.usage_text
            text = f"{reached} ({spent}); this is the last answer."
            await turn.log.show(Notice(kind=kind, text=text, facts={"limit": limit}))
        request = await _roomy_request(turn, meter)
        meter.replies += 1
        history = turn.transcript
        reply = Reply(meter.replies, turn.limits, history.open_service_calls, history.call_ids)
        try:
            stream = receive(turn.model, request, reply, idle_seconds=turn.limits.idle_seconds)
            async with aclosing(stream):
                async for events in stream:
                    await turn.log.show(*events)
        except ModelError as error:
            meter.spend(reply.usage)
            too_long = error.kind == "context_length"
            if too_long and (room := await _make_room(turn, meter, reply)):
                await _start_again(turn.log, reply, error.message, *room)
            elif (seconds := pause_before_retry(error, attempt, turn.limits)) is not None:
                attempt += 1
                retrying = retry_notice(error, attempt, seconds)
                await _start_again(turn.log, reply, error.message, retrying)
                await turn.sleep(seconds)
            elif turn.fallback is not None:
                attempt = 1
                turn = await _fall_back(turn, turn.fallback, meter, reply, error)
            elif asks_too_long(error, turn.limits):
                late = with_end_of_wait(error)
                await _give_up(turn, reply, late.message)
                raise late from error
            else:
                await _give_up(turn, reply, error.message)
                raise
        except asyncio.CancelledError:
            meter.spend(reply.usage)
            await _give_up(turn, reply, _STOPPED)
            raise
        else:
            meter.spend(reply.usage)
            meter.window.calibrate(request, reply.usage)
            if reply.stop_reason != "refusal" or turn.fallback is None:
                return turn, reply
            attempt = 1
            turn = await _fall_back(turn, turn.fallback, meter, reply)


async def _fall_back(
    turn: Turn, other: Fallback, meter: Meter, reply: Reply, error: ModelError | None = None
) -> Turn:
    """The turn with the other model, which continues it. The reply does not enter the history.

    Without an error, the model refused to answer.
    """
    names = turn.model.id, other.model.id
    facts = {"model": names[1], "instead_of": names[0], "reason": "refusal"}
    if error is not None:
        facts |= {"reason": error.kind, "error": error.message}
        text = f"{names[0]} cannot answer, so {names[1]} does this time. {error.message}"
    else:
        explained = reply.details.get("explanation") or ""
        text = f"{names[0]} refused to answer, so {names[1]} does this time. {explained}".rstrip()
        if explained:
            facts["explanation"] = explained
    notice = Notice(kind="fallback", text=text, facts=facts)
    await _start_again(turn.log, reply, text, notice, *other.notices)
    meter.change_model(other.facts)
    return replace(turn, model=other.model, facts=other.facts, fallback=None, container=None)


async def _roomy_request(turn: Turn, meter: Meter) -> ModelRequest:
    """The request to send; if it would fill the model's window, the history is shortened first."""
    request = _request(turn, meter)
    while meter.window.is_full(request) and (room := await _make_room(turn, meter)):
        await turn.log.show(*room)
        request = _request(turn, meter)
    if excess := meter.window.excess(request):  # some services silently drop the rest
        await turn.log.show(_window_notice(turn.model.id, *excess))
    return request


def _window_notice(model: str, needed: int, window: int) -> Notice:
    text = (
        f"{model} reads {window:,} tokens at once, and this question with the tools has about "
        f"{needed:,}: the model may not see all of it. Use a larger window (for Ollama, start its "
        "server with OLLAMA_CONTEXT_LENGTH=65536) or another model."
    )
    facts = {"model": model, "needed": needed, "window": window}
    return Notice(kind="window", text=text, facts=facts)


def _request(turn: Turn, meter: Meter) -> ModelRequest:
    return ModelRequest(
        system=turn.system,
        tools=turn.dispatcher.specs(),
        server_tools=turn.server_tools,
        messages=turn.transcript.sendable(turn.model.id),
        max_tokens=turn.limits.max_tokens,
        tool_choice="none" if meter.is_last else "auto",
        effort=turn.options.effort,
        container=turn.container,
    )


async def _make_room(turn: Turn, meter: Meter, reply: Reply | None = None) -> Sequence[Entry]:
    """Shorten the history. Returns the log entries for that; empty if it cannot be shortened.

    `reply` broke off because the history is too long; if the turn is stopped now, its text stays.
    """
    if turn.transcript.elide():
        return (ELIDED,)
    try:
        summary = await compact(turn.transcript, turn.model, turn.limits, meter.spend)
    except ModelError as error:  # only matters if the request itself fails
        log.warning("The conversation could not be summarised: %s", error.message)
        return ()
    except asyncio.CancelledError:
        if reply is not None:
            await _give_up(turn, reply, _STOPPED)
        raise
    return (SUMMARISED, *summary) if summary else ()


async def _start_again(log: Log, reply: Reply, error: str, *why: Entry) -> None:
    if reply.is_shown:
        await log.show(*reply.abandon(error), StepFinished(), *why, StepStarted())
    else:
        await log.show(*reply.abandon(error), *why)


async def _give_up(turn: Turn, reply: Reply, why: str) -> None:
    messages = turn.transcript.append("assistant", reply.text, model=turn.model.id)
    await turn.log.show(*reply.abandon(why), *messages)


@dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """What follows from a reply."""

    keep: Sequence[Block]
    """Its blocks that become part of the history."""
    run: Sequence[Call] = ()
    """Calls to execute; the turn continues with their results."""
    refuse: Sequence[Call] = ()
    """Calls that get an error as result; the turn continues."""
    drop: Sequence[Call] = ()
    """Calls that are neither executed nor added to the history."""
    finish: FinishReason | None = None
    """How the turn ends; None if it continues."""


def classify(reply: Reply, meter: Meter) -> StepOutcome:
    """What to do with a reply. Counts in `meter` what may only happen so often in a turn."""
    cut_off = reply.stop_reason in ("max_tokens", "model_context_window_exceeded")
    if reply.stop_reason == "refusal":
        return StepOutcome(keep=[], drop=reply.calls, finish="content-filter")
    if meter.is_last:
        answer = [block for block in reply.content if block["type"] != "tool_use"]
        finish: FinishReason = "length" if cut_off else "stop"
        return StepOutcome(keep=answer, drop=reply.calls, finish=finish)
    if reply.calls and not cut_off:
        # Some compatible services send `end_turn` with calls, so their presence decides.
        return StepOutcome(keep=reply.content, run=reply.calls)
    if reply.calls:
        meter.cuts += 1
        meter.forced |= meter.cuts > 1 or reply.stop_reason != "max_tokens"
        return StepOutcome(keep=reply.content, refuse=reply.calls)
    if cut_off:
        return StepOutcome(keep=reply.content, finish="length")
    paused = reply.stop_reason == "pause_turn" and not is_text(reply.content)
    if paused and meter.pauses < _PAUSES:
        meter.pauses += 1
        return StepOutcome(keep=reply.content)
    if not reply.content and not meter.empties:
        meter.empties += 1  # it happens after tool results; asking once more helps
        return StepOutcome(keep=[])
    return StepOutcome(keep=reply.content, finish="stop")


def _explanation(reply: Reply, outcome: StepOutcome, tools: Sequence[str]) -> Iterator[Notice]:
    """Explains to the reader a refusal, an answer that is cut off, an end without one, or a call of
    one of the tools that is mere text.
    """
    if outcome.finish == "content-filter":
        reason = reply.details.get("explanation")
        why = f": {as_sentence(str(reason))}" if reason else " and gave no reason."
        text = f"The model refused to answer{why} Rephrase the question or choose another model."
        yield Notice(kind="refusal", text=text, facts={"explanation": reason} if reason else {})
    elif outcome.finish == "length":
        yield Notice(kind="cut-off", text=_CUT_OFF.get(reply.stop_reason, _CUT_OFF["max_tokens"]))
    elif not reply.text:
        yield Notice(kind="no-answer", text="The model ended without an answer.")
    elif not reply.calls and any(has_text_call(block["text"], tools) for block in reply.text):
        yield Notice(kind="text-call", text=_TEXT_CALL)


_MINUTE = 60.0
_LEAST_WAIT = 0.5
"""Seconds; services that ask for less, or for 0, would get all attempts at once."""


def pause_before_retry(error: ModelError, attempt: int, limits: Limits) -> float | None:
    """Seconds until the next attempt; None to give up."""
    if not error.retryable or asks_too_long(error, limits):
        return None
    if error.kind == "rate_limit":
        pause = next(iter(limits.rate_pauses[attempt - 1 :]), None)
    elif attempt < limits.attempts:
        pause = random.uniform(0.5, 1.0) * 2.0 ** (attempt - 1)
    else:
        pause = None
    asked = error.retry_after or 0.0
    return pause if pause is None or asked < _LEAST_WAIT else asked


def asks_too_long(error: ModelError, limits: Limits) -> bool:
    """Whether the service asks for a longer wait than a turn allows."""
    return error.retry_after is not None and error.retry_after > limits.longest_wait


def with_end_of_wait(error: ModelError) -> ModelError:
    """The error for a wait that is too long for a turn, with the time at which it will be over."""
    until = _end_of(error.retry_after or 0)
    return ModelError(
        f"{error.message} Ask again after {until:%Y-%m-%d %H:%M} UTC.",
        kind=error.kind,
        request_id=error.request_id,
        said=error.said,
        until=until,
    )


def _end_of(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def retry_notice(error: ModelError, attempt: int, seconds: float) -> Notice:
    """The notice before a wait; for more than a minute, it also says when the wait ends."""
    facts = {"attempt": attempt, "seconds": round(seconds, 1), "reason": error.kind}
    if error.said:
        facts["said"] = error.said
    when = f"{seconds:.1f} s"
    if seconds > _MINUTE:
        until = _end_of(seconds)
        facts["until"] = until.isoformat()
        when = f"{seconds / _MINUTE:.0f} min, at {until:%H:%M} UTC"
    return Notice(kind="retrying", text=f"{error.message} Trying again in {when}.", facts=facts)
