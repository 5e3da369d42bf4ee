"""The assistant for programs with an event loop: the awaitable version of `sync`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from inspect import isawaitable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from jupyter_agent.choices import Mode, Share
from jupyter_agent.client.sync import (
    CellName,
    CellResult,
    SyncAgent,
    SyncNotebook,
    UndoResult,
)
from jupyter_agent.client.turn import ApprovalAnswer, SyncTurn, TurnStatus
from jupyter_agent.document.cell import Cell, CellType, Change
from jupyter_agent.events import ApprovalRequested, Event, Usage
from jupyter_agent.tasks import surely

T = TypeVar("T")
AsyncApprove: TypeAlias = Callable[
    [ApprovalRequested], "ApprovalAnswer | Awaitable[ApprovalAnswer]"
]
_MOST_THREADS = 64
"""Per agent: each waiting call takes one."""


class _Threads:
    """A thread pool in which an agent's requests wait for their answers."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    async def run(self, call: Callable[[], T], give_up: Callable[[], object] | None = None) -> T:
        """Runs `call` in a thread and returns its result. A cancellation calls `give_up`, which
        makes it return soon, and is raised after that.
        """
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_MOST_THREADS, "jupyter-agent")
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._pool, call)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await surely(self._end(running, give_up))
            raise

    async def _end(self, running: asyncio.Future[T], give_up: Callable[[], object] | None) -> None:
        if give_up is not None:
            await asyncio.get_running_loop().run_in_executor(self._pool, give_up)
        await asyncio.wait([running])
        running.exception()  # retrieved, so that asyncio does not log it

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None


class AsyncTurn:
    """A question and its answer: iterate over its events, or `await` its end.

    Either of the two starts it. Leaving the loop, or a cancellation, stops it.
    """

    def __init__(self, turn: SyncTurn, threads: _Threads, approve: AsyncApprove | None) -> None:
        self._turn = turn
        self._threads = threads
        self._approve = approve

    @property
    def id(self) -> str | None:
        """None until the turn has started."""
        return self._turn.id

    @property
    def state(self) -> TurnStatus:
        """`running`, `done`, `stopped` or `failed`."""
        return self._turn.state

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return self._turn.text

    @property
    def changes(self) -> list[Change]:
        """Its changes so far, in all notebooks."""
        return self._turn.changes

    @property
    def denied(self) -> list[str]:
        """Ids of denied calls: by `approve`, or because no one could be asked."""
        return self._turn.denied

    @property
    def limit(self) -> str | None:
        """The limit that the answer hit: `steps`, `tokens`, `cost` or `month`."""
        return self._turn.limit

    @property
    def usage(self) -> Usage:
        """Tokens and cost so far."""
        return self._turn.usage

    async def __aiter__(self) -> AsyncIterator[Event]:
        """The events not read yet, to the end.

        Raises ModelError after the last one if the turn failed, AgentError if it could not be
        started.
        """
        try:
            while (event := await self._next()) is not None:
                yield event
        finally:
            if self._turn.state == "running" and self._turn.begun:
                await surely(self.stop())

    def __await__(self) -> Generator[Any, None, Self]:
        return self._wait().__await__()

    async def stop(self) -> None:
        """Stops the turn and the run that it started. Raises AgentError."""
        await self._threads.run(self._turn.stop)

    async def _wait(self) -> Self:
        async for _ in self:
            pass
        return self

    async def _next(self) -> Event | None:
        if self._approve is not None and self._turn.waits:
            for group in await self._threads.run(self._turn.questions):
                verdicts = [(asked, await _verdict(self._approve, asked)) for asked in group]
                await self._threads.run(partial(self._turn.reply, verdicts))
        return await self._threads.run(self._turn.next, self._turn.halt)


async def _verdict(approve: AsyncApprove, asked: ApprovalRequested) -> ApprovalAnswer:
    verdict = approve(asked)
    return await verdict if isawaitable(verdict) else verdict


class AsyncNotebook:
    """The live notebook, unsaved typing of people included: read, edit and run it as yourself."""

    def __init__(self, notebook: SyncNotebook, threads: _Threads) -> None:
        self._notebook = notebook
        self._threads = threads

    @property
    def path(self) -> Path:
        """The notebook's file."""
        return self._notebook.path

    async def cells(self) -> list[Cell]:
        """As `SyncNotebook.cells`."""
        return await self._threads.run(self._notebook.cells)

    async def cell(self, cell_id: str) -> Cell:
        """As `SyncNotebook.cell`."""
        return await self._threads.run(partial(self._notebook.cell, cell_id))

    async def stale(self) -> dict[str, str]:
        """As `SyncNotebook.stale`."""
        return await self._threads.run(self._notebook.stale)

    async def text(self, *, focus: str | None = None) -> str:
        """As `SyncNotebook.text`."""
        return await self._threads.run(partial(self._notebook.text, focus=focus))

    async def insert(
        self,
        source: str,
        *,
        type: CellType = "code",
        after: CellName | None = None,
        before: CellName | None = None,
        index: int | None = None,
    ) -> Cell:
        """As `SyncNotebook.insert`."""
        insert = partial(self._notebook.insert, source, type=type)
        return await self._threads.run(partial(insert, after=after, before=before, index=index))

    async def edit(
        self,
        cell: CellName,
        source: str | None = None,
        *,
        old_string: str | None = None,
        new_string: str | None = None,
        type: CellType | None = None,
    ) -> Cell:
        """As `SyncNotebook.edit`."""
        edit = partial(self._notebook.edit, cell, source, type=type)
        return await self._threads.run(partial(edit, old_string=old_string, new_string=new_string))

    async def delete(self, cell: CellName) -> None:
        """As `SyncNotebook.delete`."""
        await self._threads.run(partial(self._notebook.delete, cell))

    async def move(
        self,
        cell: CellName,
        *,
        after: CellName | None = None,
        before: CellName | None = None,
        index: int | None = None,
    ) -> Cell:
        """As `SyncNotebook.move`."""
        move = partial(self._notebook.move, cell)
        return await self._threads.run(partial(move, after=after, before=before, index=index))

    async def undo(self) -> UndoResult:
        """As `SyncNotebook.undo`."""
        return await self._threads.run(self._notebook.undo)

    async def run(
        self,
        *cells: CellName,
        keep_going: bool = False,
        timeout: float | None = None,
        keep_kernel: bool = True,
    ) -> list[CellResult]:
        """As `SyncNotebook.run`; a cancellation interrupts the running cell."""
        begin = partial(self._notebook.begin, cells, keep_going, timeout, keep_kernel)
        runs = await self._threads.run(begin)
        return await self._threads.run(partial(self._notebook.ended, runs), runs.interrupt)

    async def interrupt(self) -> None:
        """As `SyncNotebook.interrupt`."""
        await self._threads.run(self._notebook.interrupt)

    async def restart(self) -> None:
        """As `SyncNotebook.restart`."""
        await self._threads.run(self._notebook.restart)

    async def verify(self) -> dict[str, Any]:
        """As `SyncNotebook.verify`."""
        return await self._threads.run(self._notebook.verify)


class Agent:
    """The assistant in one notebook. It works through the running Jupyter server that serves the
    notebook, including unsaved typing, or else starts a server, which stops with the agent.
    """

    def __init__(
        self,
        notebook: str | os.PathLike[str],
        *,
        model: str | None = None,
        mode: Mode = "ask",
        allow: Sequence[str] = (),
        approve: AsyncApprove | None = None,
        max_steps: int | None = None,
        share: Share = "all",
        conversation: str | None = None,
        store: str | os.PathLike[str] | None = None,
    ) -> None:
        """As `SyncAgent`; `approve` may be a coroutine function."""
        self._agent = SyncAgent(
            notebook,
            model=model,
            mode=mode,
            allow=allow,
            max_steps=max_steps,
            share=share,
            conversation=conversation,
            store=store,
        )
        self._approve = approve
        self._threads = _Threads()
        self.notebook = AsyncNotebook(self._agent.notebook, self._threads)

    @property
    def conversation_id(self) -> str:
        """The conversation of its questions."""
        return self._agent.conversation_id

    @property
    def url(self) -> str:
        """The server's URL."""
        return self._agent.url

    async def open(self) -> Self:
        """As `async with` does. Raises NotebookNotFound, and RequestError if no server can be
        used."""
        try:
            await self._threads.run(self._agent.open)
        except BaseException:
            await surely(self.close())
            raise
        return self

    async def close(self) -> None:
        """Stops running turns, and the server if it was started for this agent."""
        await self._threads.run(self._agent.close)
        self._threads.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        await surely(self.close())

    def ask(
        self,
        prompt: str,
        *,
        model: str | None = None,
        mode: Mode | None = None,
        allow: Sequence[str] | None = None,
        max_steps: int | None = None,
    ) -> AsyncTurn:
        """A question in the agent's conversation, sent when the turn is iterated over or awaited;
        missing options default to the agent's. Raises AgentError.
        """
        turn = self._agent.turn(
            prompt,
            model=model,
            mode=mode,
            allow=allow,
            max_steps=max_steps,
            on_approval="hold" if self._approve else "decline",
        )
        return AsyncTurn(turn, self._threads, self._approve)

    async def undo(self, turn: AsyncTurn | str | None = None) -> UndoResult:
        """As `SyncAgent.undo`."""
        return await self._threads.run(partial(self._agent.undo, _id(turn)))

    async def keep(self, turn: AsyncTurn | str | None = None) -> None:
        """As `SyncAgent.keep`."""
        await self._threads.run(partial(self._agent.keep, _id(turn)))

    async def changes(self) -> dict[str, list[Change]]:
        """As `SyncAgent.changes`."""
        return await self._threads.run(self._agent.changes)


def _id(turn: AsyncTurn | str | None) -> str | None:
    return turn.id if isinstance(turn, AsyncTurn) else turn
