"""Live events of a notebook: cells, runs, saves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from jupyter_events import EventLogger

from jupyter_agent.carriers.listener import SCHEMA as CONTENTS
from jupyter_agent.document.cell import Cell
from jupyter_agent.errors import NotebookNotFound, ToolError
from jupyter_agent.server.base import STREAM, operation
from jupyter_agent.server.notebooks import DocumentHandler
from jupyter_agent.server.run_state import describe_run
from jupyter_agent.server.sse import StreamHandler, number_frames
from jupyter_agent.workspace.lease import lease
from jupyter_agent.workspace.workspace import READ

LOOK_S = 0.5
"""Seconds between two looks at the live document, which cost next to nothing."""


class EventsHandler(StreamHandler, DocumentHandler):
    """`GET notebooks/{path}/events`"""

    @operation("read", "contents", query={"seconds": int}, media=(STREAM,))
    async def get(self, path: str) -> None:
        """Streams changed cells, your runs and saves as they happen; the current cells come first.
        Ends with the notebook, or after `seconds`."""
        seconds = self.number("seconds", 0, least=0) or None
        async with lease(self.work, path, READ) as nb:
            await nb.read()
        await self.send_data(number_frames(self._events(path, seconds)))

    async def _events(self, path: str, seconds: int | None) -> AsyncIterator[Mapping[str, Any]]:
        clock = asyncio.get_running_loop().time
        until = None if seconds is None else clock() + seconds
        saved, woken = [0], asyncio.Event()
        here = [path]

        async def hear(logger: EventLogger, schema_id: str, data: dict[str, Any]) -> None:
            if data["action"] == "save" and data["path"].strip("/") == here[0]:
                saved[0] += 1
            woken.set()

        self.event_logger.add_listener(schema_id=CONTENTS, listener=hear)
        try:
            client: _ClientState | None = None
            while until is None or clock() < until:
                woken.clear()
                try:
                    async with lease(self.work, path, READ) as nb:
                        now, here[0] = await nb.look(), nb.path
                except NotebookNotFound:
                    yield {"type": "gone"}
                    return
                except ToolError:  # the page or the file does not respond
                    now = None
                if now is not None and client is None:
                    client = _ClientState(now.cells, self._runs(here[0]))
                    cells = [{"id": cell.id, "version": cell.version} for cell in now.cells]
                    carrier = now.notebook.carrier
                    yield {"type": "notebook", "path": nb.path, "carrier": carrier, "cells": cells}
                elif now is not None and client is not None:
                    for event in client.news(now.cells, self._runs(here[0])):
                        yield event
                if saved[0]:
                    saved[0] = 0
                    yield {"type": "saved", "path": here[0]}
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), LOOK_S)
        finally:
            self.event_logger.remove_listener(schema_id=CONTENTS, listener=hear)

    def _runs(self, path: str) -> dict[str, dict[str, Any]]:
        runs = reversed(self.services.runs.of(self.owner, path))
        return {run.id: describe_run(run, outputs=False) for run in runs}


class _ClientState:
    """The state that a client has received."""

    def __init__(self, cells: Sequence[Cell], runs: Mapping[str, Mapping[str, Any]]) -> None:
        self._cells = {cell.id: cell for cell in cells}
        self._statuses = {run_id: run["status"] for run_id, run in runs.items()}

    def news(
        self, cells: Sequence[Cell], runs: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """The differences since the last call."""
        old, self._cells = self._cells, {cell.id: cell for cell in cells}
        both = [(old[cell.id], cell) for cell in cells if old.get(cell.id, cell) is not cell]
        facts: dict[str, Any] = {
            "added": [_reference(cell) for cell in cells if cell.id not in old],
            "changed": [_reference(now) for then, now in both if _content(then) != _content(now)],
            "outputs": [now.id for then, now in both if _results(then) != _results(now)],
            "deleted": [cell_id for cell_id in old if cell_id not in self._cells],
        }
        stayed = [cell_id for cell_id in old if cell_id in self._cells]
        if stayed != [cell_id for cell_id in self._cells if cell_id in old]:
            facts["order"] = list(self._cells)
        facts = {name: value for name, value in facts.items() if value}
        if facts:
            yield {"type": "cells", **facts}
        for run_id, run in runs.items():
            if self._statuses.get(run_id) != run["status"]:
                self._statuses[run_id] = run["status"]
                yield {"type": "run", **run}


def _reference(cell: Cell) -> dict[str, str]:
    return {"id": cell.id, "version": cell.version}


def _content(cell: Cell) -> tuple[Any, ...]:
    return cell.type, cell.source, cell.metadata


def _results(cell: Cell) -> tuple[Any, ...]:
    return list(cell.outputs), cell.execution_count
