"""Runs of cells as a client sees them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jupyter_agent.client.servers import Server

_LIVE = ("queued", "running")
_LOOK_SECONDS = 1.0
"""After which a run is looked at again."""


def may_continue(run: Mapping[str, Any]) -> bool:
    """Whether what comes after this run may run: it went well, or raised an expected error."""
    return run["status"] == "ok" or run.get("expected_error") is True


class CellRun:
    """A run of one cell, asked for once."""

    def __init__(
        self, server: Server, notebook: Path, cell_id: str, timeout: float | None = None
    ) -> None:
        """`timeout`: seconds after which the kernel is interrupted."""
        self._server = server
        self._route = server.route(notebook, "cells", cell_id, "run")
        self._body = {"wait": _LOOK_SECONDS, "save": False}
        if timeout is not None:
            self._body["timeout"] = timeout
        self._once = {"Idempotency-Key": secrets.token_hex(16)}

    def wait(self) -> dict[str, Any]:
        """Runs the cell; the run at its end, perhaps before it is saved. Raises ServerRefused."""
        run = self._ask()
        while run["status"] in _LIVE:
            time.sleep(_LOOK_SECONDS)
            run = self._server.ask("GET", f"runs/{run['run_id']}?save=false")
        return run

    def interrupt(self) -> dict[str, Any]:
        """Interrupts it; the run at its end. Raises ServerRefused."""
        run = self._ask()  # the same run once more
        ended: dict[str, Any] = self._server.ask("POST", f"runs/{run['run_id']}/interrupt", {})
        return ended

    def _ask(self) -> dict[str, Any]:
        run: dict[str, Any] = self._server.ask("POST", self._route, self._body, headers=self._once)
        return run


def saved(server: Server, run: dict[str, Any]) -> dict[str, Any]:
    """A run once its outputs are on disk, or it is known why not. Raises ServerRefused."""
    ended: dict[str, Any] = server.ask("GET", f"runs/{run['run_id']}")
    return ended
