"""A server that we start as a program: one message per line on its standard streams.

Not by the SDK's `stdio_client`: it reads a line of any length into memory, lets a program inherit
other variables than we do, takes only a file for its standard error, and tells neither how a
program ended nor how deep a message is.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from jupyter_agent.legible import legible
from jupyter_agent.plugs.mcp.messages import MOST_OF_A_MESSAGE, TOO_LARGE, McpError, parse_message
from jupyter_agent.plugs.mcp.way import Streams, Way
from jupyter_agent.tasks import surely

_PIECE = 64 * 1024
_MOST_UNWRITTEN = 8
"""Messages that wait until a program reads: that a call was cancelled need not be waited for."""
_MOST_LOGGED = 64 * 1024
"""Bytes of a program's standard error to log; the rest is read and dropped."""
_GRACE_S = 1.0
"""Seconds for a program to exit once its input is closed, and again after SIGTERM."""


class Program(Way):
    """The way to a child process."""

    def __init__(
        self,
        name: str,
        command: tuple[str, ...],
        *,
        environment: Mapping[str, str],
        cwd: str | None,
        mask: Callable[[str], str],
        log: logging.Logger,
    ) -> None:
        super().__init__()
        self._name = name
        self._command = command
        self._environment = environment
        self._cwd = cwd
        self._mask = mask
        self._log = log
        self._process: Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._fault: McpError | None = None
        """Why it can no longer be used."""

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Streams]:
        """Starts the program, and stops it and all its children in the end. Raises McpError if it
        does not start."""
        await self._start()
        received, read = anyio.create_memory_object_stream[SessionMessage](0)
        write, sent = anyio.create_memory_object_stream[SessionMessage](_MOST_UNWRITTEN)
        reading = asyncio.create_task(self._read(received))
        self._tasks = [
            reading,
            asyncio.create_task(self._read_errors()),
            asyncio.create_task(self._write(sent, reading)),
        ]
        with read, write:
            try:
                yield read, write
            finally:
                read.close()  # or what it still says would wait to be read
                write.close()
                await surely(self._close())

    async def _start(self) -> None:
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=dict(self._environment),
                cwd=self._cwd,
                start_new_session=sys.platform != "win32",  # a process group, with its own children
            )
        except NotImplementedError:
            raise McpError(
                "programs cannot be started on this event loop (Windows): use a server with `url`"
            ) from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "invalid characters"
            raise McpError(f"`{self._command[0]}` cannot be started ({why})") from None

    @property
    def fault(self) -> McpError | None:
        return self._fault

    async def _close(self) -> None:
        """Politely, then by force."""
        process, self._fault = self._process, self._fault or McpError("it was stopped")
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        for end in (None, signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
            if end is not None:
                self._signal(process, end)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _GRACE_S)
                break
        self._signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))  # remaining children
        await asyncio.wait(self._tasks, timeout=_GRACE_S)  # they read to the end of the pipes
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    def _signal(self, process: Process, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, number)

    # -- messages

    async def _write(
        self, sent: MemoryObjectReceiveStream[SessionMessage], reading: asyncio.Task[None]
    ) -> None:
        """Writes messages; the sender waits while the program does not read."""
        assert self._process is not None
        assert self._process.stdin is not None
        with sent, suppress(ConnectionError, RuntimeError):
            async for each in sent:
                message = each.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
                if "method" not in message:
                    self._count_answer()
                line = json.dumps(message, separators=(",", ":")).encode()  # ASCII: no line ends
                self._process.stdin.write(line + b"\n")
                await self._process.stdin.drain()
            return
        await asyncio.wait([reading], timeout=_GRACE_S)  # which knows more if it has exited
        self._fault = self._fault or McpError("it no longer reads its input")

    async def _read(self, received: MemoryObjectSendStream[SessionMessage]) -> None:
        """Reads until the program closes its output, or sends something unreadable."""
        assert self._process is not None
        assert self._process.stdout is not None
        held = bytearray()
        fault = None
        try:
            while piece := await self._process.stdout.read(_PIECE):
                *lines, rest = piece.split(b"\n")
                for line in lines:
                    await self._take(bytes(held) + line, received)
                    held.clear()
                held += rest
                if len(held) > MOST_OF_A_MESSAGE:
                    raise McpError(f"it sent a message {TOO_LARGE}")
                await asyncio.sleep(0)  # serve others, however much it writes
        except McpError as error:
            fault = error
        why = fault or McpError(f"it exited{await self._exit_text()}")
        self._fault = self._fault or why
        received.close()  # ends what waits for a reply
        if fault is not None:
            self._signal(self._process, getattr(signal, "SIGKILL", signal.SIGTERM))
            while await self._process.stdout.read(_PIECE):
                pass  # an unread pipe would stay open

    async def _take(self, line: bytes, received: MemoryObjectSendStream[SessionMessage]) -> None:
        if not line.strip():
            return
        if len(line) > MOST_OF_A_MESSAGE:
            raise McpError(f"it sent a message {TOO_LARGE}")
        try:
            message = await parse_message(line)
        except McpError as error:  # the program's own print: not a reason to give up on it
            self._log.debug("MCP server `%s`: %s", self._name, error.message)
            return
        if "method" not in message and type(message.get("id")) is not int:
            self._log.debug("MCP server `%s` sent a reply that no one waits for.", self._name)
        elif self._admits(message):
            with suppress(anyio.BrokenResourceError):  # nobody listens any more
                await received.send(
                    SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False))
                )

    async def _exit_text(self) -> str:
        """How it ended: it may only have closed its output."""
        assert self._process is not None
        with suppress(TimeoutError):
            code = await asyncio.wait_for(self._process.wait(), _GRACE_S)
            return f" (signal {-code})" if code < 0 else f" (exit code {code})"
        return ""

    async def _read_errors(self) -> None:
        """Logs a limited part; reads to the end, or the program would block."""
        assert self._process is not None
        assert self._process.stderr is not None
        logged = 0
        while piece := await self._process.stderr.read(_PIECE):
            if logged < _MOST_LOGGED:
                text = self._mask(legible(piece[: _MOST_LOGGED - logged].decode(errors="replace")))
                for line in filter(str.strip, text.splitlines()):
                    self._log.info("MCP server `%s`: %s", self._name, line)
                if logged + len(piece) >= _MOST_LOGGED:
                    self._log.info("MCP server `%s`: [further lines are dropped]", self._name)
            logged += len(piece)
            await asyncio.sleep(0)
