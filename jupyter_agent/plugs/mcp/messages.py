"""Errors of MCP servers, and careful reading of their messages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from jupyter_agent import foreign
from jupyter_agent.legible import clip, legible

MOST_OF_A_MESSAGE = 8 * 2**20
"""Bytes of one message: enough for a few pictures."""
TOO_LARGE = f"larger than {MOST_OF_A_MESSAGE >> 20} MiB"
NO_REPLY = "its answer has neither a result nor an error"
NO_VERSION = "no MCP version in common"
_LARGE = 256 * 1024
"""Bytes above which JSON is parsed in a thread."""
_MOST_OF_A_REASON = 500
_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]")

ServerMessage: TypeAlias = dict[str, Any]


class McpError(Exception):
    """A server could not do something; `message` says why in a sentence, without secrets."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class McpUnreachable(McpError):
    """The server cannot be reached or refuses access: nothing was done."""


def reason(text: str) -> str:
    """An error message from outside, on one line."""
    return clip(" ".join(legible(text).split()), _MOST_OF_A_REASON, " [...]")


async def parse_message(raw: bytes) -> ServerMessage:
    """One message as the SDK takes it: only the fields of JSON-RPC, of valid types. A reply that is
    neither a result nor an error becomes an error. Raises McpError for anything else.
    """
    load = asyncio.to_thread(_load, raw) if len(raw) > _LARGE else None
    value = await load if load is not None else _load(raw)
    if not isinstance(value, dict):
        raise McpError("it sent an invalid MCP message")
    id, method, params = value.get("id"), value.get("method"), value.get("params")
    message: ServerMessage = {"jsonrpc": "2.0"}
    if "id" in value:
        message["id"] = id
    if "method" in value:
        if not isinstance(method, str) or ("id" in value and type(id) not in (int, str)):
            raise McpError("it sent an invalid MCP message")
        given = {"params": params} if isinstance(params, dict) else {}
        return {**message, "method": method, **given}
    if isinstance(result := value.get("result"), dict) and "error" not in value:
        return {**message, "result": result}
    return {**message, "error": _error(value.get("error"))}


def _error(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        return {"code": 0, "message": NO_REPLY}
    code, text = given.get("code"), given.get("message")
    return {
        "code": code if type(code) is int else 0,
        "message": reason(text if isinstance(text, str) else "no reason given"),
        "data": given.get("data"),
    }


def _load(raw: bytes) -> Any:
    try:
        text = raw.decode()
        value = foreign.parse(text)
    except ValueError as error:
        raise McpError(f"it sent invalid JSON: {error}") from None
    return foreign.printable(value) if _HALF_CHARACTER.search(text) else value
