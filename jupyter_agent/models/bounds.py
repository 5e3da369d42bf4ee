"""Limits the size of every service's response before anything parses it.

Imports httpx, so it is imported with the SDKs, off the event loop.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator

import httpx2

from jupyter_agent.errors import ModelError
from jupyter_agent.models.faults import unreadable
from jupyter_agent.models.lines import AWS_STREAM

MOST_OF_A_REPLY = 64 * 2**20
"""Decompressed bytes: far more than the events of the longest reply that a turn accepts."""
MOST_OF_A_LINE = 8 * 2**20
"""Decompressed bytes of one event."""
ENCODINGS = "gzip, deflate"
"""The encodings to request, since we decompress responses ourselves."""
_PIECE = 16 * 1024
"""Bytes that are parsed before other tasks may run."""
_ANY_HEADER = zlib.MAX_WBITS | 32


async def bound(response: httpx2.Response) -> None:
    """Limit the body of a response that was not read yet; a hook for httpx clients.

    Reading it raises ModelError: `too_large`, or `broken_stream` for an encoding that was not
    requested.
    """
    encodings = response.headers.pop("content-encoding", "identity").lower()
    has_lines = not response.headers.get("content-type", "").startswith(AWS_STREAM)
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response.stream, encodings.strip(), has_lines)


class _Bounded(httpx2.AsyncByteStream):
    """A body that is decompressed and counted piece by piece."""

    def __init__(self, body: httpx2.AsyncByteStream, encoding: str, has_lines: bool) -> None:
        self._body = body
        self._packed = aiter(body)
        self._encoding = encoding
        self._has_lines = has_lines

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = line = 0
        unpack = _Unpacker(self._encoding)
        async for packed in self._packed:
            for piece in unpack(packed):
                total += len(piece)
                first, last = _ends(piece)
                longest = line + max(first, 0)
                line = line + len(piece) if last < 0 else len(piece) - last - 1
                if total > MOST_OF_A_REPLY:
                    raise _too_large("the reply", MOST_OF_A_REPLY)
                if self._has_lines and max(line, longest) > MOST_OF_A_LINE:
                    raise _too_large("an event of it", MOST_OF_A_LINE)
                yield piece
                await asyncio.sleep(0)  # let other tasks run, however much comes at once

    async def read_rest(self) -> None:
        """Read to the end of the response, after which its connection can serve another request.
        Nobody can read the body further.
        """
        async for _ in self._packed:
            await asyncio.sleep(0)

    async def aclose(self) -> None:
        await self._body.aclose()


class _Unpacker:
    """Decompresses bytes into pieces."""

    def __init__(self, encoding: str) -> None:
        if encoding not in ("gzip", "x-gzip", "deflate", "identity", ""):
            raise unreadable(ValueError(encoding))
        self._unpacker = None if encoding in ("identity", "") else zlib.decompressobj(_ANY_HEADER)
        self._raw_deflate = encoding == "deflate"

    def __call__(self, packed: bytes) -> Iterator[bytes]:
        if self._unpacker is None:
            yield from (packed[at : at + _PIECE] for at in range(0, len(packed), _PIECE))
            return
        rest = packed
        while rest:
            try:
                piece = self._unpacker.decompress(rest, _PIECE)
            except zlib.error as error:
                if not self._raw_deflate:
                    raise unreadable(error) from error
                self._unpacker, self._raw_deflate = zlib.decompressobj(-zlib.MAX_WBITS), False
                continue
            self._raw_deflate = False
            rest = self._unpacker.unconsumed_tail
            if piece:
                yield piece


def _ends(piece: bytes) -> tuple[int, int]:
    """The positions of the first and the last line end in a piece; -1 without one."""
    first = [at for at in (piece.find(b"\n"), piece.find(b"\r")) if at >= 0]
    return min(first, default=-1), max(piece.rfind(b"\n"), piece.rfind(b"\r"))


def _too_large(what: str, most: int) -> ModelError:
    return ModelError(
        f"The model's reply was given up: {what} has more than {most >> 20} MiB. Ask for less at "
        "a time.",
        kind="too_large",
    )
