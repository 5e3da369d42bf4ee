"""The state shared by all players of the fuzz: the notebook, its words, and the log."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from tests.history.checker import (
    Cell,
    Did,
    Edit,
    Event,
    tokens,
)
from tests.ui.lab import Lab
from tests.waiting import eventually

MOST_CELLS = 9


def words() -> Iterator[str]:
    """Words without effect if they are typed into a page in command mode."""
    for letters in itertools.product("EGNQTU", repeat=6):
        yield f"W{''.join(letters)}W"


@dataclass
class Log:
    """Everyone's actions in the checker's format, and remarks for debugging."""

    events: list[Event] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    """Operations by player and kind."""
    start: float = field(default_factory=time.time)

    def now(self) -> float:
        """Seconds since the start."""
        return time.time() - self.start

    def note(self, text: str) -> None:
        self.remarks.append(f"{self.now():.2f} {text}")

    def about(self, token: str) -> str:
        """All log entries about a word."""
        return "\n    ".join(line for line in self.lines() if token in line)

    def lines(self) -> list[str]:
        """All entries, in the order in which they ended; loaded files without their content."""
        told = [
            replace(event, file={}, before={}, after=None) if isinstance(event, Did) else event
            for event in self.events
        ]
        lines = [*self.remarks, *(f"{_when(event):.2f} {event}" for event in told)]
        return sorted(lines, key=lambda line: float(line.split()[0]))


class Words:
    """One word after the other, for several threads."""

    def __init__(self) -> None:
        self._words, self._lock = words(), threading.Lock()

    def next(self) -> str:
        with self._lock:
            return next(self._words)


@dataclass
class Where:
    """The state shared by all players."""

    lab: Lab
    path: str
    log: Log
    words: Words
    together: bool
    """The notebook is in a room."""
    pages: int
    agent_may: threading.Event = field(default_factory=threading.Event)
    idle: threading.Event = field(default_factory=threading.Event)
    """The agent makes no calls inside the block."""
    over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def agent_still(self) -> Iterator[None]:
        """Wait for the agent's current call to end; it makes no other."""
        self.agent_may.clear()
        self.idle.wait(30)
        try:
            yield
        finally:
            self.agent_may.set()

    def file(self) -> str:
        """The file, once no one is in the middle of writing it."""
        try:
            return eventually(self._whole_file, bool, timeout=2)
        except AssertionError:
            self.log.note("the file is no notebook")
            return "{}"

    def _whole_file(self) -> str:
        """Empty while someone is writing it."""
        try:
            text = (self.lab.root / self.path).read_text(encoding="utf-8")
            json.loads(text)
        except (OSError, ValueError):
            return ""
        return text

    def filed(self) -> Counter[str]:
        """The words in the cells of the file."""
        return tokens("\0".join(cell.source for cell in self.disk()))

    def disk(self) -> list[Cell]:
        found = json.loads(self.file()).get("cells", [])
        return [
            Cell(cell.get("id", ""), cell["cell_type"], "".join(cell["source"])) for cell in found
        ]

    def server(self) -> tuple[str, list[Cell]]:
        """The carrier and the cells, as the agent sees them; empty if there is no answer."""
        answer = self.lab.call("GET", f"notebooks/{quote(self.path)}")
        if answer.status != 200:
            return str(answer), []
        return answer.body["carrier"], [
            Cell(cell["id"], cell["type"], cell["source"]) for cell in answer.body["cells"]
        ]


def _when(event: Event) -> float:
    return event.end if isinstance(event, (Did, Edit)) else event.at
