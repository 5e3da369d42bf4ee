"""JSON-RPC for MCP: versions, envelopes, errors; and careful parsing of foreign JSON.

There are two eras: since 2026-07-28 each request carries its version and our capabilities, and
`server/discover` describes the server; before that, `initialize` starts a session.

https://modelcontextprotocol.io/specification/2026-07-28
https://modelcontextprotocol.io/specification/2025-11-25
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from jupyter_agent import foreign
from jupyter_agent.legible import clip, legible

STATELESS = "2026-07-28"
SESSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions that start with `initialize`; we ask for the first one."""
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
UNSUPPORTED_VERSION = -32022
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
"""In `_meta` of each stateless request."""
CLIENT_KEY = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY = "io.modelcontextprotocol/serverInfo"
"""In `_meta` of stateless results."""
MOST_OF_A_MESSAGE = 8 * 2**20
"""Bytes of one message: enough for a few pictures."""
_LARGE = 256 * 1024
"""Bytes above which JSON is parsed in a thread."""
_MOST_OF_A_REASON = 500
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")

RpcMessage: TypeAlias = dict[str, Any]


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


def notification(method: str, params: Mapping[str, Any] | None = None) -> RpcMessage:
    """A message without an answer."""
    return {"jsonrpc": "2.0", "method": method, **({"params": dict(params)} if params else {})}


def envelope(version: str, client: Mapping[str, Any]) -> dict[str, Any]:
    """The `_meta` of each stateless request: we have no capabilities besides calls."""
    return {
        VERSION_KEY: version,
        CLIENT_KEY: dict(client),
        CAPABILITIES_KEY: {},
    }


def error_reply(id: Any, code: int, message: str, data: Any = None) -> RpcMessage:
    """The error reply to a request; `id` is None if it could not be read."""
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": id, "error": error}


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
    return whole(value) if _HALF_CHARACTER.search(text) else value


def whole(value: Any) -> Any:
    """The same JSON without lone surrogates, which no file, socket or database takes."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [whole(item) for item in value]
        case dict():
            return {whole(key): whole(item) for key, item in value.items()}
    return value
