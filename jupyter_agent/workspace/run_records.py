"""The runs of a server that have not ended, on disk: those that it leaves behind, killed or not,
the next one follows again or reports as lost.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

_SOON_S = 0.05
"""Seconds after which a run that still goes on is written down: the many short ones never are."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What is needed to find a run again."""

    id: str
    owner: str
    turn_id: str | None
    notebook: str
    cell_id: str
    kernel_id: str
    connection_file: str
    """Of a kernel that another program started; else empty."""
    request_id: str
    """The message that has the code; empty while the run is queued."""
    began: str
    """ISO 8601; empty while the run is queued."""
    timeout: float | None
    former_count: int | None
    """The number that the cell had from an earlier run."""


class RunRecords:
    """One file for each server; nothing is kept where it cannot be read or written."""

    def __init__(
        self, folder: Path, server: str, root: str | None, alive: Callable[[str], bool]
    ) -> None:
        """`server` names this server among those with the same folder, of which `alive` tells
        whether one runs; paths are below `root`, None where they are of no plain files.
        """
        self._folder = folder
        self._file = folder / f"{server}.json"
        self._root = root
        self._alive = alive
        self._live: dict[str, RunRecord] = {}
        self._written: Mapping[str, RunRecord] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._closed = False

    def left(self) -> list[RunRecord]:
        """What servers of this root left behind that are gone; told once."""
        found: list[RunRecord] = []
        for file in self._folder.glob("*.json"):
            if file == self._file or self._alive(file.stem):
                continue
            with suppress(OSError, ValueError, LookupError, TypeError):
                known = json.loads(file.read_text(encoding="utf-8"))
                if known["root"] == self._root:
                    found += [_read(each) for each in known["runs"]]
                    file.unlink()
        return found

    def keep(self, record: RunRecord) -> None:
        """This run has not ended."""
        self._live[record.id] = record
        self._write_soon()

    def drop(self, run_id: str) -> None:
        """It has. What ends only because the server does is kept."""
        if not self._closed and self._live.pop(run_id, None) is not None:
            self._write_soon()

    async def close(self) -> None:
        """Write now what is to be kept."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self._write()

    def _write_soon(self) -> None:
        if self._timer is None and not self._closed:
            self._timer = asyncio.get_running_loop().call_later(_SOON_S, self._begin)

    def _begin(self) -> None:
        if self._writing is not None and not self._writing.done():
            self._timer = asyncio.get_running_loop().call_later(_SOON_S, self._begin)
            return
        self._timer = None
        self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        now = dict(self._live)
        if now != self._written:
            self._written = now
            await asyncio.to_thread(self._replace, now)

    def _replace(self, now: Mapping[str, RunRecord]) -> None:
        with suppress(OSError):
            if not now:
                self._file.unlink(missing_ok=True)
                return
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            new = self._file.with_suffix(".new")
            runs = [asdict(record) for record in now.values()]
            new.write_text(json.dumps({"root": self._root, "runs": runs}), encoding="utf-8")
            os.replace(new, self._file)


class NoRecords:
    """Where runs end with their server."""

    def left(self) -> list[RunRecord]:
        return []

    def keep(self, record: RunRecord) -> None: ...

    def drop(self, run_id: str) -> None: ...

    async def close(self) -> None: ...


def _read(value: Mapping[str, Any]) -> RunRecord:
    return RunRecord(**{field.name: value[field.name] for field in fields(RunRecord)})
