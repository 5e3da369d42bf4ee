"""Runs one piece of code in a kernel: waits for its turn, its outputs and its reply."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any, Literal

from jupyter_agent.errors import KernelUnavailable
from jupyter_agent.kernel import notes
from jupyter_agent.kernel.channels import ConnectionEnd, Inbox, Received
from jupyter_agent.kernel.client import Connection
from jupyter_agent.kernel.outputs import (
    OutputSink,
    asks_to_exit,
    count_of,
    deliver,
    error_of,
    mapping,
    payload_of,
)
from jupyter_agent.kernel.reply import (
    INTERRUPT_ERRORS,
    ExecutionReply,
    ExecutionStatus,
    KernelProcess,
)
from jupyter_agent.kernel.waiting import LOOK_S, connect_when_free

log = logging.getLogger(__name__)

_SILENCE_S = 2.0
"""Seconds without a message after the reply until we probe whether `idle` was lost."""
_LOST_S = 10.0
"""Seconds without a message after which a reply or `idle` counts as lost."""
_INTERRUPT_GRACE_S = 5.0
"""Seconds that a kernel has to react to an interrupt after a timeout."""
_CONNECT_AGAIN_S = 60.0
"""Seconds in which we reconnect after a connection broke, while the code continues."""
_AGAIN_S = 0.5
"""Seconds between two attempts to reconnect."""
_MOST_SENT = 5
"""How often code is sent that the kernel drops each time."""


class Execution:
    """Code in a kernel's queue; `await` it for its reply. Cancelling the waiter does not cancel it.

    Raises KernelUnavailable if no kernel could be reached.
    """

    def __init__(
        self,
        kernel: KernelProcess,
        sink: OutputSink,
        request: Mapping[str, Any],
        *,
        metadata: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        sent: str | None = None,
    ) -> None:
        """`metadata` marks code outside of cells. `sent` is the id of a request that an earlier
        server sent, which is only followed.
        """
        self._kernel = kernel
        self._sink = sink
        self._request = request
        self._metadata = metadata
        self._timeout = timeout
        self._generation = kernel.generation
        self._stopping: Literal["timeout", "interrupted"] | None = None
        self._accepted = False
        self._interrupted_by: Literal["us", "someone"] | None = None
        """Who interrupted the code last."""
        self._failed_before = False
        """Whether it had raised an error of its own by then."""
        self._interrupted_ahead = False
        """Whether someone interrupted the code before it in the kernel."""
        self._withdrawn = asyncio.Event()
        self._reply: Mapping[str, Any] | None = None
        self._idle = False
        self._shown = False
        """Whether the sink knows that the code has started."""
        self._error: Mapping[str, Any] | None = None
        self._probe: asyncio.Event | None = None
        self._count: int | None = None
        self._lost_outputs = False
        self._sent = sent
        self._broken_once = sent is not None
        self._why = notes.BREAK if sent is None else notes.RESTART
        self.began: float | None = None
        """When the kernel started the code (`time.monotonic`); None before that."""
        self._task = asyncio.create_task(self._run())

    def __await__(self) -> Generator[Any, None, ExecutionReply]:
        return asyncio.shield(self._task).__await__()

    @property
    def request_id(self) -> str:
        """The id of the message with the code; empty until it is sent."""
        return self._sent or ""

    @property
    def is_done(self) -> bool:
        return self._task.done()

    @property
    def _is_replaced(self) -> bool:
        """Whether another process has followed the kernel's, or it was shut down."""
        return self._kernel.generation != self._generation

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` when it ends in any way."""
        self._task.add_done_callback(lambda _: callback())

    async def interrupt(self) -> None:
        """Interrupt only this code; if it still waits, it never starts."""
        if self.is_done or self._reply is not None:
            return
        self._stopping = self._stopping or "interrupted"
        self._withdraw()
        if self._accepted:
            await self._send_interrupt()

    def _withdraw(self) -> None:
        self._withdrawn.set()
        asyncio.get_running_loop().call_soon(self._end_wait)  # its task has begun by then

    def _end_wait(self) -> None:
        if self._sent is None:
            self._task.cancel()

    async def cancel(self) -> None:
        """Stop waiting without an interrupt, when the server ends."""
        self._task.cancel()
        await asyncio.wait([self._task])

    def on_interrupt(self) -> None:
        """The kernel was interrupted, and not by `interrupt` of this code or its timeout."""
        if self.is_done or self._reply is not None:
            return
        waits = self.began is None
        if waits and self._kernel.state != "starting":
            self._interrupted_ahead = bool(self._sent)
        elif self._interrupted_by is None:
            self._note_interrupt("someone")
            if waits:  # nothing runs that could be meant instead
                self._withdraw()

    def _note_interrupt(self, by: Literal["us", "someone"]) -> None:
        if self._interrupted_by is None:
            self._failed_before = self._error is not None
        self._interrupted_by = by

    async def _send_interrupt(self) -> None:
        self._note_interrupt("us")
        await self._kernel.interrupt_process()

    async def _run(self) -> ExecutionReply:
        try:
            return await self._run_in_turn()
        except asyncio.CancelledError:
            if self._sent is not None or not self._withdrawn.is_set():
                raise
            return self._never_started()

    def _never_started(self) -> ExecutionReply:
        note = f"{self._interrupter()} {notes.NEVER_STARTED}".strip()
        return ExecutionReply(status="interrupted", note=note)

    async def _run_in_turn(self) -> ExecutionReply:
        async with self._kernel.queue:
            if self._sent is not None:
                return await self._resume(self._sent)
            for _ in range(_MOST_SENT):
                reply = await self._send()
                if reply.note != notes.DROPPED:  # as code of someone else before it failed
                    break
                if self._withdrawn.is_set():
                    return self._never_started()
            return reply

    async def _send(self) -> ExecutionReply:
        """Send the code once the kernel is free, and follow it to its end."""
        self._reply = self._probe = self.began = self._sent = None
        self._idle = False
        connection: Connection | None = None
        while not self._is_replaced and (connection is None or _broke(connection)):
            connection = await connect_when_free(self._kernel)  # nothing was sent yet
            if self._metadata:
                await connection.keep_results()
        if connection is None or connection.ended.done() or self._is_replaced:
            return ExecutionReply(status=self._kernel.how_it_ended(), note=notes.NEVER_STARTED)
        if self._withdrawn.is_set() or not (self._shown or await self._sink.prepare()):
            return self._never_started()
        await connection.sync_widgets()
        with connection.request("execute_request", self._request, self._metadata) as inbox:
            self._sent = inbox.request_id
            return await self._follow_to_end(connection, inbox)

    async def _resume(self, request_id: str) -> ExecutionReply:
        """Follow code that an earlier server sent to the kernel."""
        connection = await self._kernel.connect(busy=True)
        if not await self._sink.prepare():
            return ExecutionReply(status="interrupted", note="The cell is gone.")
        self._begin()
        with connection.following(Inbox(request_id)) as inbox:
            return await self._follow_to_end(connection, inbox)

    async def _follow_to_end(self, connection: Connection, inbox: Inbox) -> ExecutionReply:
        """Follow the request of this inbox to its end, across connections."""
        with ExitStack() as stack:
            while await self._follow(connection, inbox) == "broke":
                again = await self._reconnect()
                if again is None:
                    break
                connection = again
                stack.enter_context(connection.following(inbox))
        if not self._request.get("silent"):
            connection.on_late_message(inbox.request_id, self._take_late)
        reply = self._with_losses(self._conclude(connection), connection)
        if inbox.lost_some and reply.note != notes.DROPPED:
            self._show("stream", {"name": "stderr", "text": f"[{notes.LOST_MESSAGES}]\n"})
            reply = reply.with_note(notes.LOST_MESSAGES)
        return reply

    async def _reconnect(self) -> Connection | None:
        """A new connection to the same process, where the code continues; None without success."""
        self._broken_once, self._probe = True, None
        with suppress(TimeoutError):
            async with asyncio.timeout(_CONNECT_AGAIN_S):
                while not self._is_replaced:
                    try:
                        return await self._kernel.connect(busy=True)
                    except KernelUnavailable:
                        await asyncio.sleep(_AGAIN_S)
        return None

    async def _follow(self, connection: Connection, inbox: Inbox) -> Literal["whole", "broke"]:
        """Take messages until the reply and `idle` have arrived, or nothing more can come.

        Reply and outputs arrive on two channels, in any order.
        """
        heard = time.monotonic()
        give_up: float | None = None
        while self._reply is None or not self._idle:
            message = await inbox.next(LOOK_S)
            now = time.monotonic()
            if message is not None:
                heard = now
                self._take(message)
            elif _broke(connection) and self._reply is None:
                return "broke"
            elif connection.ended.done() or self._nothing_follows(connection, now - heard):
                return "whole"
            else:
                await self._kernel.check()
            if self._reply is not None:
                continue
            waits = self._withdrawn.is_set() and self._interrupted_by != "us"
            if waits and self._accepts_interrupt(now):
                await self._send_interrupt()
            if self._overdue(now):
                self._stopping = "timeout"
                give_up = now + _INTERRUPT_GRACE_S
                with suppress(KernelUnavailable):  # the reply says that it does not react
                    await self._send_interrupt()
            if give_up is not None and now > give_up:
                return "whole"
        return "whole"

    def _nothing_follows(self, connection: Connection, silence: float) -> bool:
        """Whether the reply or `idle` will not arrive any more. Large outputs take seconds to
        arrive: after the reply we send a probe, whose own status arrives behind all of them.
        """
        if self._broken_once and connection.busy_since is None:  # the reply went elsewhere
            self._probe = self._probe or connection.probe()
            return self._idle or self._probe.is_set()
        if self._reply is None and not self._idle:
            return False
        if self._reply is None and self._interrupted_by:
            return silence > _SILENCE_S
        if self._reply is not None and self._probe is None and silence > _SILENCE_S:
            self._probe = connection.probe()
        return silence > _LOST_S or (self._probe is not None and self._probe.is_set())

    def _accepts_interrupt(self, now: float) -> bool:
        """Whether an interrupt would reach the code: ipykernel ignores one that comes before it has
        accepted the code. Silent code does not show when that is, so we wait a moment.
        """
        return self._accepted or (self.began is not None and now - self.began > LOOK_S)

    def _overdue(self, now: float) -> bool:
        ran = now - (self.began or now)
        return self._timeout is not None and self._stopping != "timeout" and ran > self._timeout

    def _take(self, message: Received) -> None:
        kind, content = message.kind, message.content
        if message.channel == "shell" and kind == "execute_reply":
            self._reply = content
            self._count = count_of(content) or self._count
            for each in payload_of(content):
                if each.get("source") == "page":  # `len?`; JupyterLab also shows it as an output
                    self._show("display_data", each)
            return
        if self.began is None and message.channel == "iopub" and kind != "update_display_data":
            self._begin()  # by any first message about it; updates may be for other cells
        self._accepted = self._accepted or (self.began is not None and kind != "status")
        if kind == "status":
            self._idle = content["execution_state"] == "idle"
        elif kind == "execute_input":
            self._count = count_of(content)
        else:
            if kind == "error":
                self._error = error_of(content)
            self._show(kind, content)

    def _show(self, kind: str, content: Mapping[str, Any]) -> None:
        try:
            deliver(kind, content, self._sink)
        except Exception:  # a bug in a sink, or an invalid message: the code itself continues
            log.exception("An output of a kernel cannot be shown.")
            self._lost_outputs = True

    def _take_late(self, message: Received) -> None:
        if message.channel == "iopub" and self.began is not None:
            self._show(message.kind, message.content)

    def _begin(self) -> None:
        self.began = time.monotonic()
        if not self._shown:
            self._shown = True
            self._sink.on_start()

    def _conclude(self, connection: Connection) -> ExecutionReply:
        reply = self._reply
        end = connection.ended.result() if connection.ended.done() else None
        if reply is None and end is not None:
            return self._reply_for_end(self._kernel.how_it_ended() if self._is_replaced else end)
        if reply is None and self._idle:
            return self._idle_without_reply()
        if reply is None and self._broken_once and connection.busy_since is None:
            return ExecutionReply(
                status="error",
                execution_count=self._count,
                error=self._error,
                note=notes.ENDED_UNHEARD.format(why=self._why),
            )
        if reply is None:
            seconds = f"{_INTERRUPT_GRACE_S:g} s"
            note = f"The kernel did not react to the interrupt within {seconds}: it is still busy."
            return ExecutionReply(status="timeout", execution_count=self._count, note=note)
        reply_status = reply.get("status")
        if reply_status == "ok":
            return self._success(reply)
        # Kernels such as bash's send `abort` instead of an error. Code that is interrupted may end
        # with any error: one that awaits is cancelled, a program that it started fails.
        was_interrupted = self._interrupted_by is not None and not self._failed_before
        maybe = self._interrupted_by is None and reply.get("ename") in INTERRUPT_ERRORS
        stopped = was_interrupted or maybe or reply_status == "abort"
        if stopped and self._is_replaced:
            # A restart interrupts the code first, so that it can end in order.
            return self._reply_for_end(self._kernel.how_it_ended())
        if reply_status == "abort":
            return ExecutionReply(
                status=self._stopping or "interrupted",
                execution_count=self._count,
                note=self._interrupter(),
            )
        if reply_status == "aborted" and self._interrupted_ahead:
            return ExecutionReply(status="interrupted", note=notes.INTERRUPTED_AHEAD)
        if reply_status == "aborted":
            return ExecutionReply(status="error", note=notes.DROPPED)
        if reply_status != "error":
            count = self._count
            return ExecutionReply(status="error", execution_count=count, note=notes.UNSAID)
        error = error_of(reply)
        return ExecutionReply(
            status=(self._stopping or "interrupted") if stopped else "error",
            execution_count=self._count,
            error=error,
            note=notes.MAYBE_BY_SOMEONE if maybe else self._interrupter() if stopped else "",
            maybe_interrupted=maybe,
        )

    def _interrupter(self) -> str:
        """The note on who interrupted the code; empty if we did, or nobody."""
        return notes.BY_SOMEONE if self._interrupted_by == "someone" else ""

    def _success(self, reply: Mapping[str, Any]) -> ExecutionReply:
        exits = asks_to_exit(reply)
        sentences = [notes.EXITED] if exits else []
        if any(each.get("source") == "set_next_input" for each in payload_of(reply)):
            sentences.append(notes.PROPOSED)
        if exits:
            self._kernel.leave()
        if self._interrupted_by is not None:
            sentences += [self._interrupter(), notes.ENDED_ALL_THE_SAME]
        return ExecutionReply(
            status=(self._stopping or "interrupted") if self._interrupted_by else "ok",
            execution_count=self._count,
            note=" ".join(filter(None, sentences)),
            user_expressions=mapping(reply.get("user_expressions")),
        )

    def _idle_without_reply(self) -> ExecutionReply:
        status: ExecutionStatus
        if self._interrupted_by and not self._failed_before:
            status = self._stopping or "interrupted"
            note = f"{self._interrupter()} {'' if self._error else notes.UNANSWERED}".strip()
        elif self._error:
            status, note = "error", notes.LOST_REPLY
        elif self._broken_once:  # the reply went over the connection that broke
            status, note = "ok", notes.LOST_REPLY
        else:
            status, note = "error", notes.NO_REPLY
        return ExecutionReply(
            status=status, execution_count=self._count, error=self._error, note=note
        )

    def _with_losses(self, reply: ExecutionReply, connection: Connection) -> ExecutionReply:
        """The reply with a note if outputs did not reach the cell."""
        if self._lost_outputs:
            status: ExecutionStatus = "error" if reply.status == "ok" else reply.status
            return replace(reply.with_note(notes.LOST_OUTPUTS), status=status)
        final_notes = (notes.BROKE, notes.ENDED_UNHEARD.format(why=self._why))
        unheard = self._broken_once and reply.note not in final_notes
        if unheard or (self._reply is not None and not self._idle and _broke(connection)):
            return reply.with_note(notes.MISSING_OUTPUTS.format(why=self._why))
        return reply

    def _reply_for_end(self, how: ConnectionEnd) -> ExecutionReply:
        if how == "broke":
            return ExecutionReply(status="error", execution_count=self._count, note=notes.BROKE)
        if how == "died" and self.began is None:  # faster than its first message
            self._begin()
        cause = self._kernel.why_it_ended()
        note = f"The kernel died{f': {cause}' if cause else ''}."
        if how == "restarted":
            note = "The kernel was restarted or shut down."
        return ExecutionReply(status=how, execution_count=self._count, note=note)


def _broke(connection: Connection) -> bool:
    return connection.ended.done() and connection.ended.result() == "broke"
