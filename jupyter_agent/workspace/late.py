"""What comes after the end of a run: threads go on when their cell has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from jupyter_agent.document.notebook import Notebook
from jupyter_agent.errors import ToolError

SAVE_EVERY = 5.0
"""Seconds between two savings of what comes."""


class Late:
    """Writes late outputs into the cell and saves them; the notebook is opened again for that."""

    def __init__(
        self, notebook: Notebook, cell_id: str, save: Callable[[], Awaitable[None]]
    ) -> None:
        self._notebook = notebook
        self._cell_id = cell_id
        self._save = save
        self._writes: list[Callable[[], None]] = []
        self._more = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def add(self, write: Callable[[], None]) -> None:
        """Something more to write."""
        self._writes.append(write)
        self._more.set()
        if not self._closing and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._work())

    async def close(self) -> None:
        """Save now what came so far; what still comes is dropped."""
        self._closing = True
        self._more.set()
        if self._task is not None:
            await self._task

    async def _work(self) -> None:
        clock = asyncio.get_running_loop().time
        due = clock() + SAVE_EVERY
        while not self._closing and (left := due - clock()) > 0:
            self._more.clear()
            if not await self._write():
                return
            try:
                async with asyncio.timeout(left):
                    await self._more.wait()
            except TimeoutError:
                break
        if await self._write():
            await self._save()

    async def _write(self) -> bool:
        """False where there is no such cell any more."""
        try:
            await self._notebook.cell(self._cell_id)
        except ToolError:
            self._writes.clear()
            return False
        writes, self._writes = self._writes, []
        for write in writes:
            write()
        return True
