"""What rows measure with; each part starts when it is first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property

from playwright.sync_api import Browser

from tests.bench.client import Client, served
from tests.bench.model import served_model
from tests.ui.conftest import launched, new_file
from tests.ui.lab import Lab
from tests.ui.page import OpenNotebook


class Bench:
    """Servers and a browser for one round of one row."""

    def __init__(self, stack: ExitStack, peer: str | None) -> None:
        """`stack` ends them; `peer` is the Python of an environment with jupyter-mcp-server."""
        self.peer = peer
        self._stack = stack

    @cached_property
    def lab(self) -> Lab:
        """With the assistant, whose model is that of `tests.bench.model`."""
        return self._stack.enter_context(served(model=self.model))

    @cached_property
    def rooms(self) -> Lab:
        """The same with real-time collaboration."""
        return self._stack.enter_context(served(model=self.model, rooms=True))

    @cached_property
    def bare(self) -> Lab:
        """Without the assistant."""
        return self._stack.enter_context(served(extensions={"jupyter_agent": False}))

    @cached_property
    def model(self) -> dict[str, str]:
        return self._stack.enter_context(served_model())

    @cached_property
    def browser(self) -> Browser:
        return self._stack.enter_context(launched())

    @cached_property
    def client(self) -> Client:
        """Of `lab`."""
        return Client(self.lab)

    def start_peer(self) -> Lab:
        """Another one with jupyter-mcp-server, which needs real-time collaboration."""
        assert self.peer is not None
        return self._stack.enter_context(served(python=self.peer, rooms=True))

    def open(self, lab: Lab, sources: Sequence[str], watch: str) -> OpenNotebook:
        """A new notebook in a page of its own, where the JavaScript `watch` runs with its path."""
        path = new_file(lab, "bench", sources)
        tab = OpenNotebook(self.browser.new_page(), lab, path).open()
        tab.wait_for_kernel()
        tab.page.evaluate(watch, path)
        return tab
