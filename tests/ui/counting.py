"""A person and an agent write in one cell, in a way that shows whether any of it is missing."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tests.ui.lab import Lab
from tests.ui.page import OpenNotebook
from tests.waiting import eventually

CELL = "agent = [0]\nperson = 0"
"""The cell `c0` in which both write."""


class Counting:
    """An agent that appends one number after the other to the list in cell `c0`."""

    def __init__(self, lab: Lab, path: str) -> None:
        self._lab = lab
        self._path = path
        self._next = 1
        self.done = [0]
        """The numbers that the tool reported as written."""
        self.refused: dict[int, str] = {}
        """The numbers that it reported as not written, with its message."""
        self.unknown: dict[int, str] = {}
        """The numbers whose outcome it reported as unknown, or got no answer for."""

    def append(self) -> None:
        number, self._next = self._next, self._next + 1
        change = {"cell_id": "c0", "old_string": "]", "new_string": f", {number}]"}
        try:
            answer = self._call("update_cell", change)
        except OSError as error:  # the server is gone in the middle of the call
            self.unknown[number] = str(error)
            return
        if not answer["is_error"]:
            self.done.append(number)
        elif answer["reason"] in ("not_confirmed", "changed"):  # overtaken by someone's typing
            self.unknown[number] = answer["text"]
        else:
            assert answer["reason"] == "busy", answer
            self.refused[number] = answer["text"]

    def append_at_last(self) -> None:
        """Retry until one is written: a tab that wakes up is busy for a moment."""
        eventually(self.append, lambda _: self.done[-1] == self.last)

    @property
    def last(self) -> int:
        """The number that it tried last."""
        return self._next - 1

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """It appends one after the other, concurrently with the block."""
        ended = threading.Event()

        def work() -> None:
            while not ended.is_set():
                self.append()

        with ThreadPoolExecutor(1) as thread:
            working = thread.submit(work)
            try:
                yield
            finally:
                ended.set()
            working.result()

    def account(self) -> str:
        """Number of answers by kind."""
        told = {"done": len(self.done), "busy": len(self.refused), "unknown": len(self.unknown)}
        return ", ".join(f"{what}: {times}" for what, times in told.items())

    def told_the_truth(self, source: str, typed: str) -> None:
        """The cell has the person's typing, and each number reported to the agent as written."""
        found = re.fullmatch(r"agent = \[([\d, ]+)\]\nperson = 0(.*)", source)
        assert found, source
        assert found[2] == typed
        numbers = [int(number) for number in found[1].split(", ")]
        assert len(set(numbers)) == len(numbers), source
        assert set(self.done) <= set(numbers) <= {*self.done, *self.unknown}, (numbers, vars(self))

    def _call(self, tool: str, values: dict[str, Any]) -> Any:
        body = {"notebook": self._path, "mode": "auto", "input": values}
        return self._lab.call("POST", f"tools/{tool}", body).body


WATCH_KEYS = """
() => document.addEventListener('keydown', ({ target }) => {
  window.agentKeyInCell = target.closest('.cm-content') !== null;
}, true)
"""


class Person:
    """Keeps typing at the end of cell `c0`."""

    def __init__(self, notebook: OpenNotebook) -> None:
        self.notebook = notebook
        self.typed = ""
        notebook.page.evaluate(WATCH_KEYS)
        notebook.edit("c0")

    def type(self, text: str) -> None:
        """Keys that went to JupyterLab's dialog about its lost server were not typed here."""
        for key in text:
            self.notebook.type(key)
            if self.notebook.page.evaluate("() => agentKeyInCell"):
                self.typed += key
