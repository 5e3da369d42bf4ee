"""The loop: ask the model, run the tools that it calls, tell it the results, until it answers.

Every way out of it leaves a history that the API accepts: each call has its result, nothing is
blank, and what was only half said is text or gone.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jupyter_agent.agent.calls import drop_calls, refuse_calls, run_calls
from jupyter_agent.agent.compaction import ELIDED, SUMMARISED, compact
from jupyter_agent.agent.limits import Limits, Meter
from jupyter_agent.agent.reply import Call, Reply, receive
from jupyter_agent.agent.turn import Ending, Turn, failed, finished, stopped
from jupyter_agent.errors import ModelError
from jupyter_agent.events import FinishReason, Notice, StepFinished, StepStarted, UsageUpdated
from jupyter_agent.models.base import Block, ModelRequest

__all__ = ["Ending", "Turn", "run_turn"]


async def run_turn(turn: Turn) -> Ending:
    """Run one turn to its end, which is returned and not yet told.

    Cancelling its task stops the turn: the connection to the model is closed, running tools are
    cancelled, the history is finished, and it returns. An exception that is neither ours nor a
    cancellation is a bug and goes through, with the history finished too.
    """
    meter = Meter(turn.limits, turn.facts)
    try:
        while True:
            reply, outcome = await _step(turn, meter)
            if outcome.finish:
                return finished(outcome.finish, reply.stop_reason, meter)
    except ModelError as error:
        return failed(error, meter)
    except asyncio.CancelledError:
        _take_back_cancellation()
        return stopped(meter)
    finally:
        await turn.transcript.finish()


async def _step(turn: Turn, meter: Meter) -> tuple[Reply, Outcome]:
    try:
        reply = await ask_model(turn, meter)
        outcome = classify(reply, meter)
        await turn.transcript.append("assistant", outcome.keep, model=turn.model.id)
        await run_calls(turn, outcome.run)
        await refuse_calls(turn, outcome.refuse)
        await drop_calls(turn, outcome.drop)
        await tell_finish(turn, reply, outcome)
        return reply, outcome
    finally:
        await turn.emit(UsageUpdated(usage=meter.usage, step=meter.step_usage))
        await turn.emit(StepFinished())


def _take_back_cancellation() -> None:
    """The stop is answered by returning, so the task is not cancelled any more."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


log = logging.getLogger(__name__)

_MINUTE = 60.0
_LIMIT_NOTICES = {
    "steps": ("step-limit", "The step limit of this turn is reached; this is the last answer."),
    "tokens": ("budget", "The token budget of this turn is used up; this is the last answer."),
    "cost": ("budget", "The budget of this turn is spent; this is the last answer."),
}


async def ask_model(turn: Turn, meter: Meter) -> Reply:
    """The model's complete reply to the history as it is.

    Raises ModelError when it cannot be had. The text of a reply that was cut off, by a fault or by
    a stop, is kept in the history; that of a reply that is tried again is not.
    """
    meter.start_step()
    await turn.emit(StepStarted())
    attempt = 1
    while True:
        await _tell_limit(turn, meter)
        request = await _roomy_request(turn, meter)
        meter.replies += 1
        reply = Reply(meter.replies, turn.limits)
        try:
            await receive(
                turn.model, request, reply, idle_seconds=turn.limits.idle_seconds, tell=turn.emit
            )
        except ModelError as error:
            meter.spend(reply.usage)
            if error.kind == "context_length" and (notice := await _make_room(turn, meter)):
                await _start_again(turn, reply, error, notice)
            elif (seconds := _patience(error, attempt, turn.limits)) is not None:
                attempt += 1
                await _start_again(turn, reply, error, _retrying(error, attempt, seconds))
                await turn.sleep(seconds)
            elif _asks_too_much(error, turn.limits):
                late = _too_late(error)
                await _give_up(turn, reply, late.message)
                raise late from error
            else:
                await _give_up(turn, reply, error.message)
                raise
        except asyncio.CancelledError:
            meter.spend(reply.usage)
            await _give_up(turn, reply, "Stopped before it was complete.")
            raise
        else:
            meter.spend(reply.usage)
            meter.window.learn(request, reply.usage)
            return reply


async def _tell_limit(turn: Turn, meter: Meter) -> None:
    if limit := meter.reach():
        kind, text = _LIMIT_NOTICES[limit]
        await turn.emit(Notice(kind=kind, text=text))


async def _roomy_request(turn: Turn, meter: Meter) -> ModelRequest:
    """What to ask; room is made first where it would fill the model's window."""
    request = _request(turn, meter)
    while meter.window.is_full(request) and (notice := await _make_room(turn, meter)):
        await turn.emit(notice)
        request = _request(turn, meter)
    return request


def _request(turn: Turn, meter: Meter) -> ModelRequest:
    return ModelRequest(
        system=turn.system,
        tools=turn.dispatcher.specs(),
        messages=turn.transcript.sendable(turn.model.id),
        max_tokens=turn.limits.max_tokens,
        tool_choice="none" if meter.last else "auto",
    )


async def _make_room(turn: Turn, meter: Meter) -> Notice | None:
    """Shorten the history; None where nothing is left to shorten."""
    if turn.transcript.elide():
        return ELIDED
    try:
        compacted = await compact(turn.transcript, turn.model, turn.limits, meter.spend)
    except ModelError as error:  # the request itself shows whether it matters
        log.warning("The conversation could not be summarised: %s", error.message)
        return None
    return SUMMARISED if compacted else None


def _patience(error: ModelError, attempt: int, limits: Limits) -> float | None:
    """Seconds until the next attempt; None where there is to be none."""
    if not error.retryable or _asks_too_much(error, limits):
        return None
    if error.kind == "rate_limit":
        pause = next(iter(limits.rate_pauses[attempt - 1 :]), None)
    elif attempt < limits.attempts:
        pause = random.uniform(0.5, 1.0) * 2.0 ** (attempt - 1)
    else:
        pause = None
    return pause if pause is None or error.retry_after is None else error.retry_after


def _asks_too_much(error: ModelError, limits: Limits) -> bool:
    return error.retry_after is not None and error.retry_after > limits.longest_wait


def _too_late(error: ModelError) -> ModelError:
    """For a wait that is too long for a turn: when it will be over."""
    return ModelError(
        f"{error.message} Ask again after {_end_of(error.retry_after or 0):%Y-%m-%d %H:%M} UTC.",
        kind=error.kind,
        request_id=error.request_id,
    )


def _end_of(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


async def _start_again(turn: Turn, reply: Reply, error: ModelError, notice: Notice) -> None:
    shown = reply.shown
    for event in reply.abandon(error.message):
        await turn.emit(event)
    if shown:
        await turn.emit(StepFinished())
    await turn.emit(notice)
    if shown:
        await turn.emit(StepStarted())


async def _give_up(turn: Turn, reply: Reply, why: str) -> None:
    await turn.transcript.append("assistant", reply.text, model=turn.model.id)
    for event in reply.abandon(why):
        await turn.emit(event)


def _retrying(error: ModelError, attempt: int, seconds: float) -> Notice:
    facts = {"attempt": attempt, "seconds": round(seconds, 1), "reason": error.kind}
    when = f"{seconds:.1f} s"
    if seconds > _MINUTE:
        until = _end_of(seconds)
        facts["until"] = until.isoformat()
        when = f"{seconds / _MINUTE:.0f} min, at {until:%H:%M} UTC"
    return Notice(kind="retrying", text=f"{error.message} Trying again in {when}.", facts=facts)


_PAUSES = 5
"""How often in a turn a service may ask to be called again to go on."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What follows from a reply."""

    keep: Sequence[Block]
    """What of it becomes part of the history."""
    run: Sequence[Call] = ()
    """Calls to execute; the turn goes on with their results."""
    refuse: Sequence[Call] = ()
    """Calls that get an error as result; the turn goes on."""
    drop: Sequence[Call] = ()
    """Calls that are neither executed nor kept."""
    finish: FinishReason | None = None
    """How the turn ends, if it does."""


def classify(reply: Reply, meter: Meter) -> Outcome:
    """What to do with a reply, also noting in `meter` what may happen only so often."""
    cut_off = reply.stop_reason in ("max_tokens", "model_context_window_exceeded")
    if reply.stop_reason == "refusal":
        return Outcome(keep=[], drop=reply.calls, finish="content-filter")
    if meter.last:
        answer = [block for block in reply.content if block["type"] != "tool_use"]
        finish: FinishReason = "length" if cut_off else "stop"
        return Outcome(keep=answer, drop=reply.calls, finish=finish)
    if reply.calls and not cut_off:
        # Some compatible services say `end_turn` with calls, so their presence decides.
        return Outcome(keep=reply.content, run=reply.calls)
    if reply.calls:
        meter.cuts += 1
        meter.forced |= meter.cuts > 1 or reply.stop_reason != "max_tokens"
        return Outcome(keep=reply.content, refuse=reply.calls)
    if cut_off:
        return Outcome(keep=reply.content, finish="length")
    if reply.stop_reason == "pause_turn" and _can_go_on(reply) and meter.pauses < _PAUSES:
        meter.pauses += 1
        return Outcome(keep=reply.content)
    if not reply.content and not meter.empties:
        meter.empties += 1  # it happens after tool results; asking once more is what helps
        return Outcome(keep=[])
    return Outcome(keep=reply.content, finish="stop")


def _can_go_on(reply: Reply) -> bool:
    """Whether the service has work of its own open; sending its text back would be a prefill."""
    return any(block["type"] not in ("text", "thinking") for block in reply.content)


async def tell_finish(turn: Turn, reply: Reply, outcome: Outcome) -> None:
    """Tell what a reader would otherwise wonder about: a refusal, or an end without an answer."""
    if outcome.finish == "content-filter":
        why = reply.details.get("explanation") or "The model gave no reason."
        text = f"The model refused to answer: {why} Rephrase the question or choose another model."
        await turn.emit(Notice(kind="refusal", text=text))
    elif outcome.finish and not reply.text:
        await turn.emit(Notice(kind="no-answer", text="The model ended without an answer."))
