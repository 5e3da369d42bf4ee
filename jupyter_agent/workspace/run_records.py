"""The runs of a server that have not ended, on disk: those that it leaves behind, killed or not,
the next one follows again or reports as lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from jupyter_agent.carriers.leftovers import Leftovers

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
    """The runs of this server that have not ended, and those that earlier ones left."""

    def __init__(self, leftovers: Leftovers) -> None:
        self._leftovers = leftovers
        self._live: dict[str, RunRecord] = {}
        self._written: Mapping[str, RunRecord] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None
        self._closed = False

    def left(self) -> list[RunRecord]:
        """Those of servers of this root that are gone; returned once."""
        return self._leftovers.take("runs", _read)

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
        if now:
            self._leftovers.replace("runs", [asdict(record) for record in now.values()])
        else:
            self._leftovers.clear()


class NoRecords:
    """Where runs end with their server."""

    def left(self) -> list[RunRecord]:
        return []

    def keep(self, record: RunRecord) -> None: ...

    def drop(self, run_id: str) -> None: ...

    async def close(self) -> None: ...


def _read(value: Mapping[str, Any]) -> RunRecord:
    return RunRecord(**{field.name: value[field.name] for field in fields(RunRecord)})
