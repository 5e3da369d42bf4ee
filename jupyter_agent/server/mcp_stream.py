"""The stream of one MCP request: progress, questions, the answer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tornado.iostream import StreamClosedError

from jupyter_agent.foreign import json_text
from jupyter_agent.mcp_server.messages import (
    RpcMessage,
    notification,
)
from jupyter_agent.mcp_server.sessions import Session
from jupyter_agent.server.base import STREAM, AgentHandler

_BETWEEN_PROGRESS_S = 0.5


class McpStream:
    """The answer to a request as server-sent events, once anything has to be sent before it."""

    def __init__(self, handler: AgentHandler) -> None:
        self._handler = handler
        self._token: Any = None
        self._sent_progress = 0
        self._told_at = 0.0
        self.is_open = False

    @property
    def has_progress_token(self) -> bool:
        return self._token is not None

    def report_progress_as(self, token: str | int) -> None:
        """Sends progress under this token, which the client asked for."""
        self._token = token

    async def send(self, message: RpcMessage) -> None:
        """Sends a message before the answer; it is lost if the client has disconnected."""
        handler = self._handler
        if not self.is_open:
            self.is_open = True
            handler.set_header("Content-Type", STREAM)
            handler.set_header("Cache-Control", "no-cache, no-transform")
            handler.set_header("X-Accel-Buffering", "no")
        await self._write(f"event: message\ndata: {json_text(message)}\n\n")

    def end(self, reply: RpcMessage) -> None:
        """Sends the answer itself, the last message of the stream."""
        with suppress(StreamClosedError):
            self._handler.write(f"event: message\ndata: {json_text(reply)}\n\n")
            self._handler.finish()

    async def progress(self, output: Mapping[str, Any]) -> None:
        """Reports how far a run is, without its outputs: the client's model may not be allowed
        them."""
        now = asyncio.get_running_loop().time()
        if now - self._told_at < _BETWEEN_PROGRESS_S:
            return
        self._told_at = now
        seconds, status = output.get("seconds"), output.get("status", "running")
        took = f", {seconds:.0f} s" if isinstance(seconds, int | float) else ""
        await self._send_progress(f"{status}{took}")

    async def send_heartbeat(self) -> None:
        """Keeps the client and proxies from timing out."""
        if self.has_progress_token:
            await self._send_progress("still running")
        elif self.is_open:
            await self._write(": still here\n\n")

    async def _send_progress(self, text: str) -> None:
        self._sent_progress += 1
        params = {"progressToken": self._token, "progress": self._sent_progress, "message": text}
        await self.send(notification("notifications/progress", params))

    async def _write(self, text: str) -> None:
        with suppress(StreamClosedError):
            self._handler.write(text)
            await self._handler.flush()


class McpQuestions:
    """Our requests to a client, sent on the stream of its own request."""

    def __init__(self, session: Session, stream: McpStream) -> None:
        self._session = session
        self._stream = stream

    async def ask(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Asks the client and returns its result."""
        id = f"ask_{secrets.token_hex(8)}"
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._session.questions[id] = answer
        request = {"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params)}
        try:
            await self._stream.send(request)
            return await answer
        except asyncio.CancelledError:
            over = {"requestId": id, "reason": "It was answered elsewhere, or is not needed."}
            await self._stream.send(notification("notifications/cancelled", over))
            raise
        finally:
            del self._session.questions[id]
