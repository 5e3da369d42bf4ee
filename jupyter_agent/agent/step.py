"""One step: ask the model, and ask again where the service failed and that can help."""

from __future__ import annotations

import asyncio
import logging
import random
from datetime import UTC, datetime, timedelta

from jupyter_agent.agent.base import Turn
from jupyter_agent.agent.compaction import ELIDED, SUMMARISED, compact
from jupyter_agent.agent.limits import Limits, Meter
from jupyter_agent.agent.receive import receive
from jupyter_agent.agent.reply import Reply
from jupyter_agent.errors import ModelError
from jupyter_agent.events import Notice, StepFinished, StepStarted
from jupyter_agent.models.base import ModelRequest

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
