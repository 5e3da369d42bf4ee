"""Messages to and from MCP servers: requests, errors, and careful parsing of foreign JSON."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from jupyter_agent import foreign
from jupyter_agent.legible import clip, legible
from jupyter_agent.mcp_server.messages import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    VERSION_KEY,
    RpcMessage,
)

MOST_OF_A_MESSAGE = 8 * 2**20
"""Bytes of one message: enough for a few pictures."""
_LARGE = 256 * 1024
"""Bytes above which JSON is parsed in a thread."""
_MOST_OF_A_REASON = 500
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")


class McpError(Exception):
    """A server could not do something; `message` says why in a sentence, without secrets."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ErrorReply(McpError):
    """The server answered with a JSON-RPC error."""

    def __init__(self, message: str, code: int, data: Any) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class McpUnreachable(McpError):
    """The server cannot be reached or refuses access: nothing was done."""


class SessionEnded(McpError):
    """The server no longer knows our session: nothing was done, and a new one may be started."""


def request(id: int, method: str, params: Mapping[str, Any]) -> RpcMessage:
    """A request as JSON."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": dict(params)}


def envelope(version: str, client: Mapping[str, Any]) -> dict[str, Any]:
    """The `_meta` of each stateless request: we have no capabilities besides calls."""
    return {
        VERSION_KEY: version,
        CLIENT_KEY: dict(client),
        CAPABILITIES_KEY: {},
    }


def result_of(reply: RpcMessage) -> Mapping[str, Any]:
    """The result in a reply. Raises ErrorReply, or McpError for an invalid reply."""
    error = reply.get("error")
    if isinstance(error, Mapping):
        code, text = error.get("code"), error.get("message")
        why = reason(text if isinstance(text, str) else "no reason given")
        raise ErrorReply(why, code if isinstance(code, int) else 0, error.get("data"))
    result = reply.get("result")
    if not isinstance(result, Mapping):
        raise McpError("its answer has neither a result nor an error")
    return result


def reason(text: str) -> str:
    """An error message from outside, on one line."""
    return clip(" ".join(legible(text).split()), _MOST_OF_A_REASON, " [...]")


async def parse_message(raw: bytes) -> RpcMessage:
    """Parses one message. Raises McpError if it is invalid, or a list, which no used version
    allows."""
    load = asyncio.to_thread(_load, raw) if len(raw) > _LARGE else None
    value = await load if load is not None else _load(raw)
    if not isinstance(value, dict):
        raise McpError("it sent an invalid MCP message")
    return value


def _load(raw: bytes) -> Any:
    try:
        text = raw.decode()
        value = foreign.parse(text)
    except ValueError as error:
        raise McpError(f"it sent invalid JSON: {error}") from None
    return foreign.printable(value) if _HALF_CHARACTER.search(text) else value
