"""One step: ask the model, and ask again where the service failed and that can help."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing

from jupyter_agent.agent.base import Turn
from jupyter_agent.agent.budget import Limits, Meter
from jupyter_agent.agent.stream import Reply
from jupyter_agent.errors import ModelError
from jupyter_agent.events import Notice, StepFinished, StepStarted
from jupyter_agent.models.base import ModelEvent, ModelRequest

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
        if limit := meter.reach():
            kind, text = _LIMIT_NOTICES[limit]
            await turn.emit(Notice(kind=kind, text=text))
        meter.replies += 1
        reply = Reply(meter.replies, turn.limits)
        try:
            await _receive(turn, reply, last=meter.last)
        except ModelError as error:
            meter.spend(reply.usage)
            if error.kind == "context_length" and turn.transcript.elide():
                await _start_again(turn, reply, error, _compacted())
            elif (seconds := _patience(error, attempt, turn.limits)) is not None:
                attempt += 1
                await _start_again(turn, reply, error, _retrying(error, attempt, seconds))
                await turn.sleep(seconds)
            else:
                await _give_up(turn, reply, error.message)
                raise
        except asyncio.CancelledError:
            meter.spend(reply.usage)
            await _give_up(turn, reply, "Stopped before it was complete.")
            raise
        else:
            meter.spend(reply.usage)
            return reply


async def _receive(turn: Turn, reply: Reply, *, last: bool) -> None:
    request = ModelRequest(
        system=turn.system,
        context=turn.context,
        tools=turn.dispatcher.specs(),
        messages=turn.transcript.sendable(turn.model.id),
        max_tokens=turn.limits.max_tokens,
        tool_choice="none" if last else "auto",
    )
    async with aclosing(_events(turn, request)) as events:
        async for event in events:
            for told in reply.feed(event):
                await turn.emit(told)
            if reply.complete:
                return
    raise ModelError(
        "The connection to the model ended in the middle of its reply.",
        kind="broken_stream",
        retryable=True,
    )


async def _events(turn: Turn, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
    """The model's events; a silence that is too long counts as a broken connection."""
    async with aclosing(turn.model.stream(request)) as stream:
        while True:
            try:
                async with asyncio.timeout(turn.limits.idle_seconds):
                    event = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise ModelError(
                    f"The model was silent for {turn.limits.idle_seconds:g} s.",
                    kind="stalled",
                    retryable=True,
                ) from None
            yield event


def _patience(error: ModelError, attempt: int, limits: Limits) -> float | None:
    """Seconds until the next attempt; None where there is to be none."""
    if not error.retryable or attempt >= limits.attempts:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= limits.longest_wait else None
    return random.uniform(0.5, 1.0) * 2.0 ** (attempt - 1)


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
    return Notice(
        kind="retrying",
        text=f"{error.message} Trying again in {seconds:.1f} s.",
        facts={"attempt": attempt, "seconds": round(seconds, 1), "reason": error.kind},
    )


def _compacted() -> Notice:
    return Notice(
        kind="compacted",
        text="The conversation was too long for the model; older tool results were shortened.",
    )
