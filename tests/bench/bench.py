"""What rows measure with; each part starts when it is first asked for."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cached_property
from types import TracebackType
from typing import Self

from playwright.sync_api import Browser

from tests.bench.client import Client, served
from tests.bench.model import served_model
from tests.ui.conftest import launched
from tests.ui.lab import Lab


class Bench:
    """Servers and a browser for one round of one row; ends them on exit."""

    def __init__(self, peer: str | None) -> None:
        """`peer` is the interpreter of an environment with jupyter-mcp-server."""
        self.peer = peer
        self._stack = ExitStack()

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
    def peer_lab(self) -> Lab:
        """With jupyter-mcp-server, which needs real-time collaboration."""
        assert self.peer is not None
        return self._stack.enter_context(served(python=self.peer, rooms=True))

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
