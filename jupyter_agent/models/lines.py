"""Reads a service's response with status 200: a stream of events, a single JSON, or a web page.

The SDKs cannot do this: they take a web page or a single JSON for a stream that ended early, do not
report whether a stream reached its `[DONE]`, and make objects of events that are needed as JSON.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from typing import Any

from jupyter_agent import foreign
from jupyter_agent.errors import ModelError
from jupyter_agent.models.faults import unreadable

DONE = "[DONE]"
AWS_STREAM = "application/vnd.amazon.eventstream"
"""The content type of a stream without lines."""
_USAGE_S = 5.0
"""How long a service may take, after the reason why a reply ended, to report its usage and end the
stream."""
_LINE_END = re.compile(rb"\r\n|\n|\r")
_WEB_PAGE = re.compile(r"\s*<")


async def payloads(body: AsyncIterable[bytes], host: str) -> AsyncIterator[Any]:
    """The JSON values of a stream's events, then DONE if it ends with that; or the single JSON.

    Raises ModelError: `not_a_model_service` for a web page, `broken_stream` for invalid JSON.
    """
    data: list[str] = []
    lines = _lines(body)
    has_started = False
    async for line in lines:
        if not has_started and line.strip():
            has_started = True
            if is_web_page(line):
                raise web_page(host)
            if line.lstrip().startswith("{"):
                value = _value("\n".join([line, *[rest async for rest in lines]]))
                yield value
                if value.get("choices"):
                    yield DONE
                return
        if line.startswith("data:"):
            if payload := line[5:].removeprefix(" "):  # in JSON an empty line has no meaning
                data.append(payload)
        elif not line and data:
            text = "\n".join(data).strip()
            data = []
            if text == DONE:
                yield DONE
                return
            if text not in ("", "null"):  # some gateways send it now and then
                yield _value(text)


async def until_complete(
    values: AsyncIterator[Any], completes: Callable[[Any], bool]
) -> AsyncIterator[Any]:
    """The values of a stream. After one that completes the reply only its usage may follow: a
    stream that then breaks off, or is left open, is at its end.
    """
    is_complete = False
    while True:
        try:
            async with asyncio.timeout(_USAGE_S if is_complete else None):
                value = await anext(values, None)
        except Exception:
            if not is_complete:
                raise
            return
        if value is None:
            return
        yield value
        is_complete = completes(value)


async def _lines(body: AsyncIterable[bytes]) -> AsyncIterator[str]:
    """Lines without terminators; an unterminated tail only counts for a bare JSON body."""
    pieces: list[bytes] = []
    first = True
    async for piece in body:
        if first:
            piece, first = piece.removeprefix(codecs.BOM_UTF8), not piece
        if b"\n" not in piece and b"\r" not in piece and not _ends_in_cr(pieces):
            pieces.append(piece)
            continue
        whole = b"".join([*pieces, piece])
        held = b"\r" if whole.endswith(b"\r") else b""  # a "\n" may follow
        *lines, rest = _LINE_END.split(whole.removesuffix(held))
        pieces = [rest + held]
        for line in lines:
            yield _text(line)
    for line in _LINE_END.split(b"".join(pieces)):
        yield _text(line)


def _ends_in_cr(pieces: list[bytes]) -> bool:
    return bool(pieces) and pieces[-1].endswith(b"\r")


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise unreadable(error) from error


def _value(text: str) -> Any:
    try:
        value = foreign.parse(text, 2 * foreign.DEEPEST)
    except ValueError as error:
        raise unreadable(error) from error
    if not isinstance(value, Mapping):
        raise unreadable(TypeError(type(value).__name__))
    return value


def is_web_page(text: str) -> bool:
    """Whether a text looks like the start of HTML."""
    return _WEB_PAGE.match(text) is not None


def web_page(host: str) -> ModelError:
    """The error for a service that answers with HTML instead of a reply."""
    return ModelError(
        f"{host} is not a model service: it sent a web page. It may be a login page of the network "
        "or of a proxy, or `base_url` lacks the end of its path, such as `/v1`.",
        kind="not_a_model_service",
    )
