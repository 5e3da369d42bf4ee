"""How far a run is: one line that changes on a terminal, a line a task elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

from nbeval.score import Score


class Progress:
    """Of so many attempts, of which some were known before."""

    def __init__(self, stream: TextIO, total: int, known: int = 0, passed: int = 0) -> None:
        self._stream, self._total, self._known = stream, total, known
        self._done, self._passed = known, passed
        self._began = time.monotonic()
        self._terminal = stream.isatty()

    def tell(self, score: Score) -> None:
        """One more is done."""
        self._done += 1
        self._passed += score.passed
        elapsed = time.monotonic() - self._began
        left = elapsed / (self._done - self._known) * (self._total - self._done)
        self._write(
            f"{self._done}/{self._total} {score.task} {'passed' if score.passed else 'failed'}, "
            f"{self._passed} passed so far, {_clock(elapsed)}, about {_clock(left)} left"
        )

    def end(self) -> None:
        """Nothing more comes."""
        if self._terminal and self._done > self._known:
            self._stream.write("\n")

    def _write(self, line: str) -> None:
        self._stream.write(f"\r\x1b[K{line}" if self._terminal else f"{line}\n")
        self._stream.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
