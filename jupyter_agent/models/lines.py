"""What a service sends after status 200: a stream of events, one JSON, or a web page.

Read here and not by an SDK, which takes a web page for a stream that ended early, and one JSON too,
and does not tell whether a stream came to its `[DONE]`.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Any

from jupyter_agent import foreign
from jupyter_agent.errors import ModelError
from jupyter_agent.models.faults import unreadable

DONE = "[DONE]"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_WEB_PAGE = re.compile(r"\s*<")


async def payloads(body: AsyncIterable[bytes], host: str) -> AsyncIterator[Any]:
    """The JSON values of a stream's events, and DONE where it says so; or the only JSON.

    Raises ModelError: `not_a_model_service` for a web page, `broken_stream` for what is no JSON.
    """
    data: list[str] = []
    lines = _lines(body)
    begun = False
    async for line in lines:
        if not begun and line.strip():
            begun = True
            if is_web_page(line):
                raise web_page(host)
            if line.lstrip().startswith("{"):
                value = _value("\n".join([line, *[rest async for rest in lines]]))
                yield value
                if value.get("choices"):
                    yield DONE
                return
        if line.startswith("data:"):
            if said := line[5:].removeprefix(" "):  # in JSON an empty line says nothing
                data.append(said)
        elif not line and data:
            text = "\n".join(data).strip()
            data = []
            if text == DONE:
                yield DONE
                return
            if text:
                yield _value(text)


async def _lines(body: AsyncIterable[bytes]) -> AsyncIterator[str]:
    """The lines without their ends; what follows the last end is none, but for one JSON."""
    pieces: list[bytes] = []
    first = True
    async for piece in body:
        if first:
            piece, first = piece.removeprefix(codecs.BOM_UTF8), not piece
        if b"\n" not in piece and b"\r" not in piece and not _ends_in_cr(pieces):
            pieces.append(piece)
            continue
        whole = b"".join([*pieces, piece])
        held = b"\r" if whole.endswith(b"\r") else b""  # the other half of its end may follow
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
    """Whether a text begins as HTML does."""
    return _WEB_PAGE.match(text) is not None


def web_page(host: str) -> ModelError:
    """For a service that answers with HTML where a reply was due."""
    return ModelError(
        f"{host} is not a model service: a web page came. A login page of the network or of a "
        "proxy may stand between, or `base_url` lacks the end of its path, such as `/v1`.",
        kind="not_a_model_service",
    )
