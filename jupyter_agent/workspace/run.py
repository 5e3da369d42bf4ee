"""One run of a cell, or of code outside of cells, from the queue to its saved outputs."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, TypeAlias

from jupyter_agent.document.carrier import SaveResult
from jupyter_agent.document.cell import Change, Output
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.errors import KernelUnavailable, ToolError
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.outputs import OutputSink
from jupyter_agent.kernel.reply import ExecutionReply
from jupyter_agent.workspace.run_metadata import metadata_after_run
from jupyter_agent.workspace.run_outputs import CellSink, DetachedSink, Saves
from jupyter_agent.workspace.run_records import RunRecord, RunRecords

RunStatus: TypeAlias = Literal[
    "queued", "running", "ok", "error", "timeout", "interrupted", "died", "restarted", "deleted"
]
_SAVE_EVERY = 5.0
"""Seconds between saves of new outputs while a cell runs."""
_UPDATES_PER_ELAPSED = 20
"""The pause between two progress updates is the time elapsed so far divided by this."""
_IN_NO_CELL_S = 5.0
"""Seconds that unknown code outside of cells may run before it counts as the user's."""
_EXPECTED = "The error was expected: the cell is tagged `raises-exception`."


class RunExecution(Protocol):
    """Queued or running code; `await` it for its reply."""

    @property
    def request_id(self) -> str:
        """The id of the message with the code; empty until it is sent."""

    def __await__(self) -> Generator[Any, None, ExecutionReply]: ...

    async def interrupt(self) -> None: ...

    async def cancel(self) -> None:
        """Stop waiting without an interrupt."""


@dataclass(frozen=True)
class RunOrigin:
    """Who started a run; in a turn, with which call."""

    owner: str
    turn_id: str | None = None
    call_id: str | None = None


class Run:
    """One run of a cell, or of code outside of cells. It continues if no one waits for it."""

    def __init__(
        self,
        notebook: Notebook,
        cell_id: str | None,
        execute: Callable[[Run, OutputSink], RunExecution],
        *,
        origin: RunOrigin,
        records: RunRecords,
        saves: Saves,
        output_limit: int,
        widget_state: bool,
        kernel: Kernel | None = None,
        timeout: float | None = None,
        trust: bool = False,
        ahead: Sequence[Run] = (),
        former_count: int | None = None,
        may_raise: bool = False,
        resumed: RunRecord | None = None,
    ) -> None:
        """`execute` starts the code, or follows it for a run `resumed` from an earlier server;
        `records`, `output_limit` and `widget_state`: see `Runs`.
        """
        self.id = resumed.id if resumed else secrets.token_hex(16)
        self.notebook = notebook
        self.kernel = kernel
        """None only for a run of an earlier server whose kernel is gone or not found yet."""
        self.cell_id = cell_id
        """None for code outside of cells."""
        self.owner, self.turn_id = origin.owner, origin.turn_id
        self.call_id = origin.call_id or self.id
        """The call that started it; its own id without one, for the journal."""
        self._timeout = timeout
        self._former_count = former_count
        self._may_raise = may_raise
        self.ended: datetime | None = None
        self._changes: list[Change] = []
        """Changes of outputs, set at the end and not yet in the journal."""
        self.saved = SaveResult(saved=False)
        self._records = records
        self._saves = saves
        self._widget_state = widget_state
        self._final_save: asyncio.Future[SaveResult] | None = None
        """The save of the final outputs."""
        self._trust = trust
        self._ahead = ahead
        self._reply: ExecutionReply | None = None
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._cell = self._sink(output_limit, resumed)
        self._execution = execute(self, self._cell)
        if resumed is not None:
            records.keep(resumed)
        self._keep_record()
        self._task = asyncio.create_task(self._drive())

    def _sink(self, limit: int, resumed: RunRecord | None) -> CellSink | DetachedSink:
        if self.cell_id is None:
            sink: CellSink | DetachedSink = DetachedSink(limit=limit)
        else:
            sink = CellSink(
                self.notebook,
                self.cell_id,
                limit=limit,
                save=self._save,
                resumes=resumed is not None,
                former_count=self._former_count,
            )
        if resumed is not None and resumed.began:
            sink.began_at = datetime.fromisoformat(resumed.began)
        return sink

    @property
    def notebook_path(self) -> str:
        """The current path of the notebook, which may be renamed during the run."""
        return self.notebook.path

    @property
    def started(self) -> datetime | None:
        """When the kernel started the code; None for a queued run."""
        return self._cell.began_at

    @property
    def status(self) -> RunStatus:
        if self.ended is None or self._reply is None:
            return "queued" if self.started is None else "running"
        return "deleted" if self._cell.gone else self._reply.status

    def may_continue(self, *, after_errors: bool = False) -> bool:
        """Whether later cells may run: it succeeded, or raised an error that its cell is tagged
        for, or any with `after_errors`. Without its kernel they would only fail."""
        if after_errors and self._reply is not None:  # also if its cell is gone
            return self._reply.status not in ("died", "restarted")
        return self.status == "ok" or self.expected_error

    @property
    def expected_error(self) -> bool:
        """Whether it raised an error that its cell is tagged for."""
        return self._may_raise and self._reply is not None and self._reply.raised_error

    @property
    def note(self) -> str:
        """Sentences with anything else that a reader has to know; usually empty."""
        deleted = "The cell was deleted, and its outputs are lost." if self._cell.gone else ""
        taken = (
            "The user has run the cell since: it shows their run."
            if self._cell.rerun_by_user
            else ""
        )
        expected = _EXPECTED if self.expected_error else ""
        reply_note = self._reply.note if self._reply else ""
        notes = (reply_note, expected, deleted, taken, self.saved.note)
        return " ".join(note for note in notes if note)

    @property
    def execution_count(self) -> int | None:
        """The execution count; None until the end, and for code outside of cells."""
        return self._reply.execution_count if self._reply and self.cell_id is not None else None

    @property
    def seconds(self) -> float:
        """Elapsed or total run time of the code."""
        if self.started is None:
            return 0.0
        return ((self.ended or datetime.now(UTC)) - self.started).total_seconds()

    def outputs(self) -> list[Output]:
        """The outputs so far."""
        return self._cell.outputs()

    def on_output(self, follower: Callable[[], None]) -> Callable[[], None]:
        """Call `follower` on new outputs, at most four times a second.

        Returns a function that unsubscribes it.
        """
        self._cell.followers.append(follower)
        return lambda: self._cell.followers.remove(follower)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the run has ended in any way."""
        self._task.add_done_callback(lambda _: callback())

    async def updates(self, seconds: float) -> AsyncGenerator[None, None]:
        """Yields on new outputs until the run ends or the time is up; at once if there are outputs
        already.

        Updates get rarer with time, because each of them is stored.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        new: asyncio.Future[None] = loop.create_future()

        def note() -> None:
            if not new.done():
                new.set_result(None)

        unsubscribe = self.on_output(note)
        if self.outputs():
            note()
        try:
            while not self._over.done() and (left := began + seconds - loop.time()) > 0:
                await _wait_any(new, self._over, seconds=left)
                if new.done() and not self._over.done():
                    new = loop.create_future()
                    yield
                    elapsed = loop.time() - began
                    await _wait_any(self._over, seconds=elapsed / _UPDATES_PER_ELAPSED)
            if self._over.done():
                await self.wait(saved=False)
        finally:
            unsubscribe()

    def take_changes(self) -> list[Change]:
        """The changes of the run for the journal: each once, after its end; else empty."""
        changes, self._changes = [*self._changes, *self._cell.take_late_changes()], []
        return changes

    def return_changes(self, changes: Sequence[Change]) -> None:
        """Changes that could not be stored: `take_changes` gives them again."""
        self._changes = [*changes, *self._changes]

    @property
    def pending(self) -> bool:
        """Whether it has ended, but its outputs are not saved yet."""
        return self._final_save is not None and not self._final_save.done()

    async def wait(self, seconds: float | None = None, *, saved: bool = True) -> bool:
        """Wait at most so many seconds for the end; True if it has ended.

        With `saved` also wait for the save of its outputs, which then starts at once.
        """
        clock = asyncio.get_running_loop().time
        began = clock()
        done, _ = await asyncio.wait([self._task], timeout=seconds)
        if not done:
            return False
        self._task.result()
        if saved and self._final_save is not None:
            if self.pending:
                self._saves.start_now()
            left = None if seconds is None else max(0.0, began + seconds - clock())
            await _wait_for_save(self._final_save, seconds=left)
        return True

    async def wait_started(self, seconds: float, patience: float) -> bool:
        """Wait at most so many seconds for the kernel to start the code, or for the run's end.

        False after `patience` seconds if the kernel is busy with another run or a cell of the user;
        short requests of other extensions are waited for. Extensions that inspect variables run
        code as a person does, but outside of cells and not for long.
        """
        until = asyncio.get_running_loop().time() + seconds
        while (left := until - asyncio.get_running_loop().time()) > 0:
            await _wait_any(self._cell.began, self._over, seconds=min(left, patience))
            if self._over.done() or self.started is not None:
                return True
            blocked = self.queue_status()
            in_no_cell = blocked.get("blocked_by") == "user" and not blocked["busy_cells"]
            if in_no_cell and blocked["busy_seconds"] < _IN_NO_CELL_S:
                continue
            if blocked.get("blocked_by", "extension") != "extension":
                return False
        return False

    def queue_status(self) -> dict[str, Any]:
        """What a queued run waits for; empty if the kernel is not busy.

        `blocked_by` is a run's id, `user` or `extension`; `busy_seconds` how long that has been
        running; `busy_cells` its cells; `queued` the ids of the runs before this one.
        """
        ahead = [run for run in self._ahead if run.ended is None]
        busy = None if self.kernel is None else self.kernel.busy_seconds
        if self.status != "queued" or not (ahead or busy is not None):
            return {}
        runs = [run for run in ahead if run.status == "running"]
        if runs:
            blocked_by, busy = runs[0].id, runs[0].seconds
            cells = [runs[0].cell_id] if runs[0].cell_id is not None else []
        else:
            ours = {run.cell_id for run in ahead}
            cells = [cell.id for cell in self.notebook.cached_cells() if cell.running]
            cells = [cell_id for cell_id in cells if cell_id not in ours]
            blocked_by = ahead[-1].id if ahead and busy is None else "user"
            if blocked_by == "user" and self.kernel is not None and self.kernel.busy_silently:
                blocked_by, cells = "extension", []
        return {
            "blocked_by": blocked_by,
            "busy_seconds": round(busy or 0.0, 1),
            "busy_cells": cells,
            "queued": [run.id for run in ahead if run.status == "queued"],
        }

    async def interrupt(self) -> None:
        """Interrupt only this run; if it is queued, it never starts."""
        await self._execution.interrupt()

    async def abandon(self) -> None:
        """Stop following the run when the server ends; outputs so far are saved."""
        if self.ended is None:
            await self._execution.cancel()
            await self.wait(saved=False)
        await self._cell.close()

    def describe(self, *, outputs: bool = True) -> dict[str, Any]:
        """The run as in docs/api.md, with the queue status if it is queued."""
        value: dict[str, Any] = {
            "run_id": self.id,
            "notebook": self.notebook_path,
            "cell_id": self.cell_id,
            "status": self.status,
            "execution_count": self.execution_count,
            **({"outputs": self.outputs()} if outputs else {}),
            "seconds": round(self.seconds, 3),
        }
        if self.cell_id is not None:
            value["saved"] = "pending" if self.pending else self.saved.saved
        if self.expected_error:
            value["expected_error"] = True
        if self.note:
            value["note"] = self.note
        return {**value, **self.queue_status()}

    async def _drive(self) -> None:
        attending = asyncio.create_task(self._attend())
        reply = ExecutionReply(status="error", note="It ended with an internal error.")
        try:
            reply = await self._execution
        except KernelUnavailable as error:
            reply = ExecutionReply(status="died", note=error.message)
        except ToolError as error:  # the notebook could not be read when it was to start
            reply = ExecutionReply(status="error", note=f"{error.message} The code never started.")
        except asyncio.CancelledError:  # only `abandon` does that
            reply = ExecutionReply(
                status="interrupted", note="The server stopped before the code ended."
            )
        finally:
            if self._cell.began.done():
                await self._cell.settle()
            self._close_cell(reply)
            self._over.set_result(None)
            await attending
            self._reply, self.ended = reply, datetime.now(UTC)
            self._records.drop(self.id)

    def _close_cell(self, reply: ExecutionReply) -> None:
        if not self._cell.began.done():
            self._cell.dismiss()
            return
        if reply.status == "died":
            died = {"ename": "KernelDied", "evalue": reply.note, "traceback": []}
            self._cell.display({"output_type": "error", **died})
        self._changes = self._cell.finish(reply.execution_count)
        if self.kernel is not None and self.cell_id is not None:
            items = metadata_after_run(self.notebook, self.kernel, widget_state=self._widget_state)
            self.notebook.write_metadata(items)

    async def _attend(self) -> None:
        """Work during the run: trust the cell once the old outputs are gone, and save outputs."""
        await _wait_any(self._cell.began, self._over)
        self._keep_record()
        if self._trust and self.started is not None and self.cell_id is not None:
            with suppress(ToolError):  # then outputs are merely shown without their scripts
                await self.notebook.trust(self.cell_id)
        while not self._over.done():
            await _wait_any(self._over, seconds=_SAVE_EVERY)
            self._keep_record()  # its code may have been sent again
            if self._cell.unsaved and not self._over.done():
                await self._save()
        if self._cell.unsaved:
            self._final_save = self._save_soon()

    def resolve_widgets(self, outputs: Sequence[Output]) -> list[Output]:
        """These outputs with the current state of their widgets (Widgets.resolve_widgets)."""
        return [*self.kernel.widgets.resolve_widgets(outputs)] if self.kernel else [*outputs]

    def attach(self, kernel: Kernel) -> None:
        """Set the kernel that still runs the code after a restart of the server."""
        self.kernel = kernel
        self._keep_record()

    def _keep_record(self) -> None:
        """Record the run for the next server, in case this one ends before the run does."""
        if self.kernel is None or self.cell_id is None or self._over.done():
            return
        self._records.keep(
            RunRecord(
                id=self.id,
                owner=self.owner,
                turn_id=self.turn_id,
                notebook=self.notebook_path,
                cell_id=self.cell_id,
                kernel_id=self.kernel.id,
                connection_file=self.kernel.connection_file,
                request_id=self._execution.request_id,
                began=self.started.isoformat() if self.started else "",
                timeout=self._timeout,
                former_count=self._former_count,
            )
        )

    async def _save(self) -> None:
        coming = self._save_soon()
        self._saves.start_now()
        await _wait_for_save(coming)

    def _save_soon(self) -> asyncio.Future[SaveResult]:
        self._cell.unsaved = False
        coming = self._saves.schedule()
        coming.add_done_callback(self._note_saved)
        return coming

    def _note_saved(self, save: asyncio.Future[SaveResult]) -> None:
        error = None if save.cancelled() else save.exception()
        if isinstance(error, ToolError):
            self.saved = SaveResult(saved=False, note=error.message)
            self._cell.unsaved = True
        elif not save.cancelled():
            self.saved = save.result()


async def _wait_any(*futures: asyncio.Future[None], seconds: float | None = None) -> None:
    """Return when one of the futures is done or the time is up."""
    await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)


async def _wait_for_save(save: asyncio.Future[SaveResult], *, seconds: float | None = None) -> None:
    """Return when the save has ended or the time is up. Raises only unexpected errors."""
    await asyncio.wait([save], timeout=seconds)
    if save.done() and not isinstance(save.exception(), ToolError):
        save.result()
