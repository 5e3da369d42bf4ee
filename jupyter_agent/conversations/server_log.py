"""What the server's log says about a turn: its steps, with times and usage, and its end."""

from __future__ import annotations

import logging
import time
from collections.abc import (
    Callable,
    Iterable,
)

from jupyter_agent.agent.turn import Ending, Entry, Log
from jupyter_agent.events import (
    CallInvalid,
    CallReady,
    StepStarted,
    Usage,
    UsageUpdated,
)


class ServerLog:
    """Forwards a turn's log, and logs usage and times to the server's log, never any content."""

    def __init__(
        self,
        turn: Log,
        log: logging.Logger,
        turn_id: str,
        max_steps: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._turn = turn
        self._log = log
        self._turn_id = turn_id
        self._max_steps = max_steps
        self._clock = clock
        self._began = clock()
        self._step_began: float | None = None
        self._steps = 0
        self._calls: dict[str, str] = {}
        """Tools of the step's calls, by id."""

    async def append(self, *entries: Entry) -> None:
        """See `Log.append`."""
        self._note(entries)
        await self._turn.append(*entries)

    async def show(self, *entries: Entry) -> None:
        """See `Log.show`."""
        self._note(entries)
        await self._turn.show(*entries)

    def _note(self, entries: Iterable[Entry]) -> None:
        for entry in entries:  # the usage is the last event of a step
            match entry:
                case StepStarted() if self._step_began is None:
                    self._step_began = self._clock()
                case CallReady() | CallInvalid():
                    self._calls[entry.call_id] = entry.tool
                case UsageUpdated():
                    self._end_step(entry.step)

    def end(self, ending: Ending) -> None:
        """Log the end of the turn."""
        self._log.info(
            "Turn %s is %s after %d steps: %s; %s, %.1f s",
            self._turn_id,
            ending.state,
            ending.steps,
            ending.log_reason,
            _amount(ending.usage),
            self._clock() - self._began,
        )

    def _end_step(self, usage: Usage) -> None:
        self._steps += 1
        now = self._clock()
        began = now if self._step_began is None else self._step_began
        tools = f" ({', '.join(self._calls.values())})" if self._calls else ""
        self._log.info(
            "Turn %s step %d of %d: %d calls%s, %s, %.1f s",
            self._turn_id,
            self._steps,
            self._max_steps,
            len(self._calls),
            tools,
            _amount(usage),
            now - began,
        )
        self._step_began, self._calls = None, {}


def _amount(usage: Usage) -> str:
    read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    cost = "" if usage.cost is None else f", cost {usage.cost:.4f}"
    cached = f"{usage.cache_read_tokens} cached" if usage.cache_read_tokens else "none cached"
    return f"{read} tokens in ({cached}), {usage.output_tokens} out{cost}"
