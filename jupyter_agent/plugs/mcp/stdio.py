"""A server that we start as a program: one message per line on its standard streams."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from contextlib import suppress

from jupyter_agent.legible import legible
from jupyter_agent.mcp_server.messages import RpcMessage
from jupyter_agent.plugs.mcp.messages import MOST_OF_A_MESSAGE, McpError, parse_message
from jupyter_agent.tasks import surely

_PIECE = 64 * 1024
_MOST_LOGGED = 64 * 1024
"""Bytes of a program's standard error to log; the rest is read and dropped."""
_GRACE_S = 1.0
"""Seconds for a program to exit once its input is closed, and again after SIGTERM."""


class StdioTransport:
    """The transport to a child process. `on_message` gets each message that is not a reply."""

    def __init__(
        self,
        name: str,
        command: tuple[str, ...],
        *,
        environment: Mapping[str, str],
        cwd: str | None,
        on_message: Callable[[RpcMessage], None],
        mask: Callable[[str], str],
        log: logging.Logger,
    ) -> None:
        self._name = name
        self._command = command
        self._environment = environment
        self._cwd = cwd
        self._on_message = on_message
        self._mask = mask
        self._log = log
        self._process: Process | None = None
        self._waiting: dict[int, asyncio.Future[RpcMessage]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._fault: McpError | None = None
        """Why it can no longer be used."""
        self._writing = asyncio.Lock()

    async def open(self) -> None:
        """Starts the program. Raises McpError if that fails."""
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
        self._tasks = [
            asyncio.create_task(self._read()),
            asyncio.create_task(self._read_errors()),
        ]

    @property
    def fault(self) -> McpError | None:
        """Why the program cannot be used any more; None while it can."""
        return self._fault

    async def exchange(self, request: RpcMessage, headers: Mapping[str, str]) -> RpcMessage:
        """The reply to a request. Raises McpError if the program exits first."""
        reply: asyncio.Future[RpcMessage] = asyncio.get_running_loop().create_future()
        self._waiting[request["id"]] = reply
        try:
            await self.send(request)
            return await reply
        finally:
            del self._waiting[request["id"]]

    async def send(self, message: RpcMessage, headers: Mapping[str, str] | None = None) -> None:
        """Writes a message; waits while the program does not read. Raises McpError."""
        if self._fault is not None:
            raise self._fault
        assert self._process is not None
        assert self._process.stdin is not None
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"  # ASCII: no line ends
        async with self._writing:
            try:
                self._process.stdin.write(line)
                await self._process.stdin.drain()
            except (ConnectionError, RuntimeError):
                raise self._fault or McpError("it exited") from None

    async def close(self) -> None:
        """Stops the program and all its children: politely, then by force."""
        await surely(self._close())

    async def _close(self) -> None:
        process, self._fault = self._process, self._fault or McpError("it was stopped")
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            for end in (None, signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
                if end is not None:
                    self._signal(process, end)
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), _GRACE_S)
                    break
            self._signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))  # remaining children
        if self._tasks:
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

    # -- reading

    async def _read(self) -> None:
        """Reads until the program closes its output, or sends something unreadable."""
        assert self._process is not None
        assert self._process.stdout is not None
        held = bytearray()
        fault = None
        try:
            while piece := await self._process.stdout.read(_PIECE):
                *lines, rest = piece.split(b"\n")
                for line in lines:
                    await self._take(bytes(held) + line)
                    held.clear()
                held += rest
                if len(held) > MOST_OF_A_MESSAGE:
                    raise McpError(f"it sent a message larger than {MOST_OF_A_MESSAGE >> 20} MiB")
                await asyncio.sleep(0)  # serve others, however much it writes
        except McpError as error:
            fault = error
        self._end(fault or McpError(f"it exited{await self._exit_text()}"))
        if fault is not None:
            self._signal(self._process, getattr(signal, "SIGKILL", signal.SIGTERM))
            while await self._process.stdout.read(_PIECE):
                pass  # an unread pipe would stay open

    async def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        if len(line) > MOST_OF_A_MESSAGE:
            raise McpError(f"it sent a message larger than {MOST_OF_A_MESSAGE >> 20} MiB")
        try:
            message = await parse_message(line)
        except McpError as error:  # the program's own print: not a reason to give up on it
            self._log.debug("MCP server `%s`: %s", self._name, error.message)
            unreadable = self._waiting.get(_id_of(line) or 0)  # ids start with 1
            if unreadable is not None and not unreadable.done():
                unreadable.set_exception(error)
            return
        if "method" in message:
            self._on_message(message)
            return
        id = message.get("id")
        reply = self._waiting.get(id) if type(id) is int else None
        if reply is None or reply.done():
            self._log.debug("MCP server `%s` sent a reply that no one waits for.", self._name)
        else:
            reply.set_result(message)

    async def _exit_text(self) -> str:
        """How it ended: it may only have closed its output."""
        assert self._process is not None
        with suppress(TimeoutError):
            code = await asyncio.wait_for(self._process.wait(), _GRACE_S)
            return f" (signal {-code})" if code < 0 else f" (exit code {code})"
        return ""

    def _end(self, fault: McpError) -> None:
        self._fault = self._fault or fault
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(self._fault)

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


def _id_of(line: bytes) -> int | None:
    """The id in a reply that is not valid, such as one with `NaN` or nested too deep."""
    try:
        message = json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    id = message.get("id") if isinstance(message, dict) and "method" not in message else None
    return id if type(id) is int else None
