"""A server that is a program of ours: a message a line on its standard input and output."""

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
from jupyter_agent.mcp.messages import MOST_OF_A_MESSAGE, McpError, RpcMessage, parsed
from jupyter_agent.tasks import surely

_PIECE = 64 * 1024
_MOST_LOGGED = 64 * 1024
"""Bytes of a program's errors that are logged; the rest is read and dropped."""
_GRACE_S = 1.0
"""Seconds that a program has to end by itself once its input is closed, and again after SIGTERM."""


class StdioTransport:
    """The child process. `hear` gets each message that is no reply to a request."""

    def __init__(
        self,
        name: str,
        command: tuple[str, ...],
        *,
        environment: Mapping[str, str],
        cwd: str | None,
        hear: Callable[[RpcMessage], None],
        mask: Callable[[str], str],
        log: logging.Logger,
    ) -> None:
        self._name = name
        self._command = command
        self._environment = environment
        self._cwd = cwd
        self._hear = hear
        self._mask = mask
        self._log = log
        self._process: Process | None = None
        self._waiting: dict[int, asyncio.Future[RpcMessage]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._fault: McpError | None = None
        """Why it is of no use any more."""
        self._writing = asyncio.Lock()

    async def open(self) -> None:
        """Starts it. Raises McpError where it cannot be started."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=dict(self._environment),
                cwd=self._cwd,
                start_new_session=sys.platform != "win32",  # with all that it starts in turn
            )
        except NotImplementedError:
            raise McpError(
                "programs cannot be started on this event loop (Windows): use a server with `url`"
            ) from None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "odd characters"
            raise McpError(f"`{self._command[0]}` cannot be started ({why})") from None
        self._tasks = [
            asyncio.create_task(self._read()),
            asyncio.create_task(self._read_errors()),
        ]

    @property
    def fault(self) -> McpError | None:
        """Why it cannot be asked any more; None as long as it can."""
        return self._fault

    async def exchange(self, request: RpcMessage, headers: Mapping[str, str]) -> RpcMessage:
        """The reply to a request. Raises McpError where the program ends before."""
        reply: asyncio.Future[RpcMessage] = asyncio.get_running_loop().create_future()
        self._waiting[request["id"]] = reply
        try:
            await self.send(request)
            return await reply
        finally:
            del self._waiting[request["id"]]

    async def send(self, message: RpcMessage, headers: Mapping[str, str] | None = None) -> None:
        """Writes a message. Raises McpError; waits where the program does not read."""
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
                raise self._fault or McpError("it ended") from None

    async def close(self) -> None:
        """Ends the program and all that it started: asked first, then made to."""
        await surely(self._close())

    async def _close(self) -> None:
        process, self._fault = self._process, self._fault or McpError("it was ended")
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            for end in (None, signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
                if end is not None:
                    self._signal(process, end)
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), _GRACE_S)
                    break
            self._signal(process, getattr(signal, "SIGKILL", signal.SIGTERM))  # what it left behind
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_GRACE_S)  # they read to the end
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
        """Until the program closes its output, or sends what nobody can read."""
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
                    raise McpError(f"it sent a message of more than {MOST_OF_A_MESSAGE >> 20} MiB")
                await asyncio.sleep(0)  # others are served, however much it writes
        except McpError as error:
            fault = error
        self._end(fault or McpError(f"it ended{await self._how()}"))
        if fault is not None:
            self._signal(self._process, getattr(signal, "SIGKILL", signal.SIGTERM))
            while await self._process.stdout.read(_PIECE):
                pass  # a pipe that is not read to its end stays open

    async def _take(self, line: bytes) -> None:
        if not line.strip():
            return
        if len(line) > MOST_OF_A_MESSAGE:
            raise McpError(f"it sent a message of more than {MOST_OF_A_MESSAGE >> 20} MiB")
        try:
            message = await parsed(line)
        except McpError as error:  # a print of the program's own: not a reason to give it up
            self._log.debug("MCP server `%s`: %s", self._name, error.message)
            return
        if "method" in message:
            self._hear(message)
            return
        id = message.get("id")
        reply = self._waiting.get(id) if type(id) is int else None
        if reply is None or reply.done():
            self._log.debug("MCP server `%s` answered what nobody waits for.", self._name)
        else:
            reply.set_result(message)

    async def _how(self) -> str:
        """How it ended: it may have closed its output only."""
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
        """Into the log, a bounded part of it; read to the end, or the program would stand still."""
        assert self._process is not None
        assert self._process.stderr is not None
        logged = 0
        while piece := await self._process.stderr.read(_PIECE):
            if logged < _MOST_LOGGED:
                text = self._mask(legible(piece[: _MOST_LOGGED - logged].decode(errors="replace")))
                for line in filter(str.strip, text.splitlines()):
                    self._log.info("MCP server `%s`: %s", self._name, line)
                if logged + len(piece) >= _MOST_LOGGED:
                    self._log.info("MCP server `%s`: [its further lines are dropped]", self._name)
            logged += len(piece)
            await asyncio.sleep(0)
