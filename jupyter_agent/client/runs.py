"""Runs of cells from the client's side."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jupyter_agent.client.server import Server, ServerRefused

_LIVE = ("queued", "running")
_LOOK_SECONDS = 0.2
_PATIENCE_SECONDS = 10.0
"""Timeout for a server to start the requested runs, and for interrupted code to end."""


def name_client(program: str) -> str:
    """A name for the turns of this run of a program: several may run at the same time. `GET usage`
    adds them up by program."""
    return f"{program} {secrets.token_hex(3)}"


def may_continue(run: Mapping[str, Any]) -> bool:
    """Whether later cells may run: this run succeeded, or raised an expected error."""
    return run["status"] == "ok" or run.get("expected_error") is True


def is_live(run: Mapping[str, Any]) -> bool:
    """Whether the run has not ended."""
    return run["status"] in _LIVE


class CellRuns:
    """Runs of cells, one after the other: one call of a turn, requested once."""

    def __init__(
        self,
        server: Server,
        notebook: Path,
        cell_ids: Sequence[str],
        *,
        by: str,
        keep_going: bool = False,
        timeout: float | None = None,
        keep_kernel: bool = True,
    ) -> None:
        """`by`: a unique name for the author of the turn; `timeout`: seconds after which a cell is
        interrupted.
        """
        self._server = server
        self._notebook = notebook
        self._cell_ids = cell_ids
        self._by = by
        self._body: dict[str, Any] = {
            "cells": list(cell_ids),
            "stop_on_error": not keep_going,
            "stream": True,
        }
        if timeout is not None:
            self._body["timeout"] = timeout
        if not keep_kernel:
            self._body["keep_kernel"] = False
        self._ended: set[str] = set()
        """Ids of the runs whose end was yielded."""
        self.turn_id: str | None = None
        """None until the first run has started."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields each run when it starts, and at its end with outputs, once these are saved or the
        save has failed. Raises ServerRefused.
        """
        if not self._cell_ids:
            return
        route = f"{self._server.route(self._notebook, 'run')}?by={quote(self._by)}"
        for _, frame in self._server.stream("POST", route, self._body):
            match frame.pop("type"):
                case "run":
                    self.turn_id = frame.get("turn_id")
                    if is_live(frame):  # else it has ended: its outputs come with `end`
                        yield frame
                case "end":
                    self._ended.add(frame["run_id"])
                    yield self._server.ask("GET", f"runs/{frame['run_id']}")
                case "error":
                    message, status = frame.pop("message"), frame.pop("status")
                    raise ServerRefused(message, status, frame.pop("reason"), frame)

    def interrupt(self) -> list[dict[str, Any]]:
        """Interrupts the running cell and starts no other. Returns the runs whose end was not
        yielded, at their end unless one does not react. Raises ServerRefused.
        """
        turn_id = self.turn_id or self._find_turn()
        if turn_id is None:
            return []
        self._server.ask("POST", f"turns/{turn_id}/stop", {})
        path = quote(self._server.path(self._notebook), safe="")
        runs = self._server.ask("GET", f"runs?notebook={path}")["runs"]
        left = [
            run["run_id"]
            for run in reversed(runs)
            if run.get("turn_id") == turn_id and run["cell_id"] in self._cell_ids
        ]
        return [self._at_its_end(run_id) for run_id in left if run_id not in self._ended]

    def _at_its_end(self, run_id: str) -> dict[str, Any]:
        """Waits for an interrupted run: a second interrupt would disturb how it ends."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            run: dict[str, Any] = self._server.ask("GET", f"runs/{run_id}")
            if not is_live(run) or time.monotonic() > until:
                return run
            time.sleep(_LOOK_SECONDS)

    def _find_turn(self) -> str | None:
        """The id of the turn, which starts before the kernel does; None if nothing was started."""
        path = quote(self._server.path(self._notebook), safe="")
        until = time.monotonic() + _PATIENCE_SECONDS
        while self._cell_ids and time.monotonic() < until:
            turns = self._server.ask("GET", f"turns?notebook={path}&state=running")["turns"]
            for turn in turns:
                if turn["client"] == self._by:
                    return str(turn["id"])
            time.sleep(_LOOK_SECONDS)
        return None
