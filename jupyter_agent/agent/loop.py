"""The loop: ask the model, run the tools that it calls, tell it the results, until it answers.

Every way out of it leaves a history that the API accepts: each call has its result, nothing is
blank, and what was only half said is text or gone.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from jupyter_agent.agent.calls import drop_calls, refuse_calls, run_calls
from jupyter_agent.agent.compaction import ELIDED, SUMMARISED, compact
from jupyter_agent.agent.limits import Limits, Meter
from jupyter_agent.agent.reply import Call, Reply, receive
from jupyter_agent.agent.turn import (
    Ending,
    Entry,
    Fallback,
    Log,
    Turn,
    failed,
    finished,
    stopped,
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
from jupyter_agent.models.base import Block, ModelRequest

__all__ = ["Ending", "Turn", "run_turn"]

log = logging.getLogger(__name__)

_LIMIT_NOTICES = {
    "steps": ("step-limit", "The step limit of this turn is reached"),
    "tokens": ("budget", "The token budget of this turn is used up"),
    "cost": ("budget", "The budget of this turn is spent"),
    "month": ("budget", "Your budget for this month is used up"),
}

_PAUSES = 5
"""How often in a turn a service may ask to be called again to go on."""


async def run_turn(turn: Turn) -> Ending:
    """Goes through one turn, and writes into its log what happens. Gives how it ended, which is not
    in the log yet.

    `turn.stop` stops the turn, and so does a cancellation of the caller: the connection to the
    model is closed, running tools are cancelled, and the history is finished. It is finished too
    where an error is raised: StoreUnavailable, or a bug.
    """
    meter = Meter(turn.limits, turn.facts)
    loop = asyncio.create_task(_steps(turn, meter))
    turn.stop.calls(loop.cancel)
    if turn.stop.requested:
        loop.cancel()
    while not loop.done():
        try:
            await asyncio.wait([loop])
        except asyncio.CancelledError:
            turn.stop.request()
            _take_back_cancellation()
    await turn.log.show(*turn.transcript.finish())
    if loop.cancelled():
        return stopped(meter)
    try:
        return loop.result()
    except ModelError as error:
        return failed(error, meter)


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
                *drop_calls(outcome.drop),
            ]
            if outcome.finish:
                answer += [*reply.lost(), *_explanation(reply, outcome)]
            await run_calls(turn, answer, outcome.run)
        finally:
            other = turn.model.id if turn.model.id != first else ""
            used = UsageUpdated(usage=meter.usage, step=meter.step_usage, model=other)
            await turn.log.show(used, StepFinished())
        if outcome.finish:
            if meter.limit:
                more = Continuable(turn_id=turn.work.turn_id or "", limit=meter.limit)
                await turn.log.show(more)
            return finished(outcome.finish, reply.stop_reason, meter)


def _take_back_cancellation() -> None:
    """The stop is answered by going to the end, so the task is not cancelled any more."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


async def ask_model(turn: Turn, meter: Meter) -> tuple[Turn, Reply]:
    """The model's complete reply to the history as it is, and the turn with the model that gave it:
    its fallback, where the first one cannot be had or refuses.

    Raises ModelError when it cannot be had. The text of a reply that was cut off, by a fault or by
    a stop, is kept in the history; that of a reply that is tried again is not.
    """
    meter.start_step()
    await turn.log.show(StepStarted())
    attempt = 1
    while True:
        exhausted = await turn.exhausted(turn.model)
        if limit := meter.reach(month_is_over=exhausted is not None):
            kind, reached = _LIMIT_NOTICES[limit]
            spent = exhausted if limit == "month" else meter.spent
            text = f"{reached} ({spent}); this is the last answer."
            await turn.log.show(Notice(kind=kind, text=text, facts={"limit": limit}))
        request = await _roomy_request(turn, meter)
        meter.replies += 1
        reply = Reply(meter.replies, turn.limits, turn.transcript.awaited)
        try:
            stream = receive(turn.model, request, reply, idle_seconds=turn.limits.idle_seconds)
            async with aclosing(stream):
                async for events in stream:
                    await turn.log.show(*events)
        except ModelError as error:
            meter.spend(reply.usage)
            if error.kind == "context_length" and (room := await _make_room(turn, meter)):
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
                late = too_long(error)
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
            if reply.stop_reason != "refusal" or turn.fallback is None:
                return turn, reply
            attempt = 1
            turn = await _fall_back(turn, turn.fallback, meter, reply)


async def _fall_back(
    turn: Turn, other: Fallback, meter: Meter, reply: Reply, error: ModelError | None = None
) -> Turn:
    """The turn as the other model continues it; nothing of the reply is part of the history.

    Without an error it was the model that refused.
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
    """What to ask; room is made first where it would fill the model's window."""
    request = _request(turn, meter)
    while meter.window.is_full(request) and (room := await _make_room(turn, meter)):
        await turn.log.show(*room)
        request = _request(turn, meter)
    if excess := meter.window.excess(request):  # some services leave out the rest in silence
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
        tool_choice="none" if meter.last else "auto",
        effort=turn.options.effort,
        container=turn.container,
    )


async def _make_room(turn: Turn, meter: Meter) -> Sequence[Entry]:
    """Shorten the history; gives what the log has to say of it, nothing if none is left."""
    if turn.transcript.elide():
        return (ELIDED,)
    try:
        summary = await compact(turn.transcript, turn.model, turn.limits, meter.spend)
    except ModelError as error:  # the request itself shows whether it matters
        log.warning("The conversation could not be summarised: %s", error.message)
        return ()
    return (SUMMARISED, *summary) if summary else ()


async def _start_again(log: Log, reply: Reply, error: str, *why: Entry) -> None:
    if reply.shown:
        await log.show(*reply.abandon(error), StepFinished(), *why, StepStarted())
    else:
        await log.show(*reply.abandon(error), *why)


async def _give_up(turn: Turn, reply: Reply, why: str) -> None:
    said = turn.transcript.append("assistant", reply.text, model=turn.model.id)
    await turn.log.show(*reply.abandon(why), *said)


@dataclass(frozen=True, kw_only=True)
class StepOutcome:
    """What follows from a reply."""

    keep: Sequence[Block]
    """What of it becomes part of the history."""
    run: Sequence[Call] = ()
    """Calls to execute; the turn continues with their results."""
    refuse: Sequence[Call] = ()
    """Calls that get an error as result; the turn continues."""
    drop: Sequence[Call] = ()
    """Calls that are neither executed nor kept."""
    finish: FinishReason | None = None
    """How the turn ends, if it does."""


def classify(reply: Reply, meter: Meter) -> StepOutcome:
    """What to do with a reply, also noting in `meter` what may happen only so often."""
    cut_off = reply.stop_reason in ("max_tokens", "model_context_window_exceeded")
    if reply.stop_reason == "refusal":
        return StepOutcome(keep=[], drop=reply.calls, finish="content-filter")
    if meter.last:
        answer = [block for block in reply.content if block["type"] != "tool_use"]
        finish: FinishReason = "length" if cut_off else "stop"
        return StepOutcome(keep=answer, drop=reply.calls, finish=finish)
    if reply.calls and not cut_off:
        # Some compatible services say `end_turn` with calls, so their presence decides.
        return StepOutcome(keep=reply.content, run=reply.calls)
    if reply.calls:
        meter.cuts += 1
        meter.forced |= meter.cuts > 1 or reply.stop_reason != "max_tokens"
        return StepOutcome(keep=reply.content, refuse=reply.calls)
    if cut_off:
        return StepOutcome(keep=reply.content, finish="length")
    if reply.stop_reason == "pause_turn" and _can_go_on(reply) and meter.pauses < _PAUSES:
        meter.pauses += 1
        return StepOutcome(keep=reply.content)
    if not reply.content and not meter.empties:
        meter.empties += 1  # it happens after tool results; asking once more is what helps
        return StepOutcome(keep=[])
    return StepOutcome(keep=reply.content, finish="stop")


def _can_go_on(reply: Reply) -> bool:
    """Whether the service has work of its own open; sending its text back would be a prefill."""
    return any(block["type"] not in ("text", "thinking") for block in reply.content)


def _explanation(reply: Reply, outcome: StepOutcome) -> Iterator[Notice]:
    """What a reader would otherwise wonder about: a refusal, or an end without an answer."""
    if outcome.finish == "content-filter":
        said = reply.details.get("explanation")
        why = said or "The model gave no reason."
        text = f"The model refused to answer: {why} Rephrase the question or choose another model."
        yield Notice(kind="refusal", text=text, facts={"explanation": said} if said else {})
    elif not reply.text:
        yield Notice(kind="no-answer", text="The model ended without an answer.")


_MINUTE = 60.0


def pause_before_retry(error: ModelError, attempt: int, limits: Limits) -> float | None:
    """Seconds until the next attempt; None if there should be none."""
    if not error.retryable or asks_too_long(error, limits):
        return None
    if error.kind == "rate_limit":
        pause = next(iter(limits.rate_pauses[attempt - 1 :]), None)
    elif attempt < limits.attempts:
        pause = random.uniform(0.5, 1.0) * 2.0 ** (attempt - 1)
    else:
        pause = None
    return pause if pause is None or error.retry_after is None else error.retry_after


def asks_too_long(error: ModelError, limits: Limits) -> bool:
    """Whether the service wants a longer wait than a turn may have."""
    return error.retry_after is not None and error.retry_after > limits.longest_wait


def too_long(error: ModelError) -> ModelError:
    """For a wait that is too long for a turn: when it will be over."""
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
    """What a person is told before a wait; of a long one also when it ends."""
    facts = {"attempt": attempt, "seconds": round(seconds, 1), "reason": error.kind}
    if error.said:
        facts["said"] = error.said
    when = f"{seconds:.1f} s"
    if seconds > _MINUTE:
        until = _end_of(seconds)
        facts["until"] = until.isoformat()
        when = f"{seconds / _MINUTE:.0f} min, at {until:%H:%M} UTC"
    return Notice(kind="retrying", text=f"{error.message} Trying again in {when}.", facts=facts)
