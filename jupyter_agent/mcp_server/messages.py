"""JSON-RPC for MCP: versions, envelopes and errors.

There are two eras: since 2026-07-28 each request carries its version and the client's capabilities,
and `server/discover` describes the server; before that, `initialize` starts a session.

https://modelcontextprotocol.io/specification/2026-07-28
https://modelcontextprotocol.io/specification/2025-11-25
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, TypeAlias

STATELESS = "2026-07-28"
SESSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions that start with `initialize`, the newest first."""
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
_PLAIN = re.compile(r"[\x20-\x7e]*")

RpcMessage: TypeAlias = dict[str, Any]


def notification(method: str, params: Mapping[str, Any] | None = None) -> RpcMessage:
    """A message without an answer."""
    return {"jsonrpc": "2.0", "method": method, **({"params": dict(params)} if params else {})}


def error_reply(id: Any, code: int, message: str, data: Any = None) -> RpcMessage:
    """The error reply to a request; `id` is None if it could not be read."""
    error = {"code": code, "message": message, **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": id, "error": error}


def header_value(text: str) -> str:
    """A text as a header value of the newer era: in base64 unless it is plain ASCII."""
    if _PLAIN.fullmatch(text) and text == text.strip() and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def plain_value(value: str) -> str | None:
    """The text of a header value; None for invalid base64."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return None
