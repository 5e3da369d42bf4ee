"""A person's typing while an outside agent edits the same cell over MCP:
`python -m tests.bench.keystrokes [PYTHON]` (about two minutes).

A person types a word with real keys in Chromium, in a cell of two lines; an agent that has read the
cell before edits it, twenty times in each of three ways. Counts the edits reported to the agent as
done, the refused ones, and the words that are intact at the end. With PYTHON, that of an
environment with `jupyter-mcp-server`, the same with that one, by its own tools for the same
purposes.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial

from playwright.sync_api import Browser

from tests.bench.client import carrier_of, served
from tests.bench.outside import JupyterMcpServer, Ours, OutsideAgent
from tests.ui.conftest import launched, new_file
from tests.ui.lab import Lab
from tests.ui.page import OpenNotebook
from tests.waiting import eventually

ROUNDS = 20
KEY_MS = 10
"""Milliseconds between two keys of a fast typist."""
SOURCE = "total = 0\ncount = 1"


class Desk:
    """A person and an agent at one cell."""

    def __init__(self, tab: OpenNotebook, peer: OutsideAgent) -> None:
        self._tab = tab
        self._peer = peer
        self._number = 0

    def run(self) -> Iterator[tuple[str, str]]:
        """Each way, and its figures as a sentence."""
        yield "replaces the cell that was typed in since it was read", self._count(self._stale)
        yield "replaces the cell while the person types", self._count(self._whole)
        yield "changes the other line while the person types", self._count(self._line)

    def _count(self, act: Callable[[str], bool]) -> str:
        done = whole = 0
        for _ in range(ROUNDS):
            self._number += 1
            word = f"word{self._number:03}"
            done += act(word)
            self._tab.page.wait_for_timeout(300)  # for late updates
            whole += word in self._tab.sources()["c0"]
        return f"{done} edits done, {ROUNDS - done} refused, {whole} of {ROUNDS} words whole"

    def _stale(self, word: str) -> bool:
        source = self._read()
        self._tab.edit_line("c0", 1, end=True)
        self._tab.page.keyboard.type(f" # {word}", delay=KEY_MS)
        return self._tried(partial(self._peer.replace, source))

    def _whole(self, word: str) -> bool:
        return self._meanwhile(word, partial(self._peer.replace, self._read()))

    def _line(self, word: str) -> bool:
        old = self._tab.sources()["c0"].splitlines()[0]
        new = self._read().splitlines()[0]
        return self._meanwhile(word, partial(self._peer.change, old, new))

    def _read(self) -> str:
        """The cell as the agent reads it, with another first line."""
        self._peer.read()
        lines = self._tab.sources()["c0"].splitlines()
        return "\n".join([f"total = {self._number}", *lines[1:]])

    def _meanwhile(self, word: str, edit: Callable[[], None]) -> bool:
        """Whether the edit was done, which comes while the word is typed."""
        done: list[bool] = []
        edits = threading.Timer(5 * KEY_MS / 1000, lambda: done.append(self._tried(edit)))
        self._tab.edit_line("c0", 1, end=True)
        edits.start()
        self._tab.page.keyboard.type(f" # {word}", delay=KEY_MS)
        edits.join()
        return done == [True]

    def _tried(self, edit: Callable[[], None]) -> bool:
        try:
            edit()
        except RuntimeError:  # refused, with the current text
            return False
        return True


def peers(stack: ExitStack, browser: Browser, python: str | None) -> Iterator[tuple[str, Desk]]:
    for carrier, rooms in (("tab", False), ("room", True)):
        lab = stack.enter_context(served(rooms=rooms))
        tab = opened(browser, lab)
        eventually(partial(carrier_of, lab, tab.path), carrier.__eq__)
        yield f"ours, {carrier}", Desk(tab, Ours(lab, tab.path))
    if python is not None:
        lab = stack.enter_context(served(python=python, rooms=True))
        tab = opened(browser, lab)
        yield f"{JupyterMcpServer.name}, room", Desk(tab, JupyterMcpServer(lab, tab.path))


def opened(browser: Browser, lab: Lab) -> OpenNotebook:
    path = new_file(lab, "bench", [SOURCE, "1"])
    return OpenNotebook(browser.new_page(), lab, path).open()


def main(python: str | None) -> None:
    with ExitStack() as stack:
        browser = stack.enter_context(launched())
        for name, desk in peers(stack, browser, python):
            for way, figures in desk.run():
                sys.stdout.write(f"{name}: {way}: {figures}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
