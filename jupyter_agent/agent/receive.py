"""A model's reply, received to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from jupyter_agent.agent.reply import Reply
from jupyter_agent.errors import ModelError
from jupyter_agent.events import Event
from jupyter_agent.models.base import Model, ModelEvent, ModelRequest


async def receive(
    model: Model,
    request: ModelRequest,
    reply: Reply,
    *,
    idle_seconds: float,
    tell: Callable[[Event], Awaitable[None]] | None = None,
) -> None:
    """Ask, and fill `reply`, telling its events. Raises ModelError where it does not end well.

    A silence of more than `idle_seconds` counts as a broken connection.
    """
    async with aclosing(_events(model, request, idle_seconds)) as events:
        async for event in events:
            for told in reply.feed(event):
                if tell is not None:
                    await tell(told)
            if reply.complete:
                return
    raise ModelError(
        "The connection to the model ended in the middle of its reply.",
        kind="broken_stream",
        retryable=True,
    )


async def _events(
    model: Model, request: ModelRequest, idle_seconds: float
) -> AsyncGenerator[ModelEvent, None]:
    async with aclosing(model.stream(request)) as stream:
        while True:
            try:
                async with asyncio.timeout(idle_seconds):
                    event = await anext(stream)
            except StopAsyncIteration:
                return
            except TimeoutError:
                raise ModelError(
                    f"The model was silent for {idle_seconds:g} s.", kind="stalled", retryable=True
                ) from None
            yield event
