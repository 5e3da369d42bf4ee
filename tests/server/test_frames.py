"""Invalid data over the tab bridge closes its socket with a reason, and breaks nothing else."""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_ydoc import YNotebook
from nbformat.v4 import new_code_cell, new_notebook
from pycrdt import Array, Doc, Map, Text
from tornado.websocket import WebSocketClosedError

from jupyter_agent.assistant import Assistant
from jupyter_agent.carriers.tab_link import PROTOCOL

from ..waiting import until
from .conftest import Answer, Call

DATA = json.loads((Path(__file__).parents[1] / "security" / "frames.json").read_text())
SITUATION = {"dirty": True, "saving": False, "hash": None, "writable": True}


def short(value: str) -> str:
    return value[:40]


class Page:
    """A page under the test's control."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket

    async def says(self, frame: str | bytes) -> None:
        await self.socket.write_message(frame, binary=isinstance(frame, bytes))

    async def hears(self) -> Any:
        return await self.socket.read_message()

    async def is_ended(self) -> tuple[int | None, str | None]:
        """Waits for the end of its socket: the code and the reason."""
        async with asyncio.timeout(60):
            while self.socket.close_code is None and await self.hears() is not None:
                pass
        return self.socket.close_code, self.socket.close_reason

    async def answers(self, update: bytes) -> None:
        """Answers every request; for the document, with this update."""
        while (frame := await self.hears()) is not None:
            asked = {} if isinstance(frame, bytes) else json.loads(frame)
            if asked.get("op") == "attach":
                await self.says(update)
            if "id" in asked:
                await self.says(json.dumps({"re": asked["id"], **SITUATION}))


@pytest.fixture
def opens(
    agent: Assistant, jp_ws_fetch: Any, jp_root_dir: Path
) -> Iterator[Callable[..., Awaitable[Page]]]:
    """A page with the existing `n.ipynb`."""
    pages: list[Page] = []
    notebook = new_notebook(cells=[new_code_cell("1", id="a")])
    nbformat.write(notebook, jp_root_dir / "n.ipynb")

    async def opened(hello: str | None = None) -> Page:
        page = Page(await jp_ws_fetch("api", "agent", "tab"))
        pages.append(page)
        known = {"op": "hello", "protocol": PROTOCOL, "version": YNotebook().version}
        await page.says(hello or json.dumps({**known, "path": "n.ipynb", "client": "page"}))
        if hello is None:
            await until(lambda: list(agent.tabs))
        return page

    yield opened
    for page in pages:
        page.socket.close()


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Any:
    """Asserts that the log has no traceback and no error."""
    yield
    loud = [r for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR]
    assert [record.getMessage() for record in loud] == []


@pytest.mark.sample(4)
@pytest.mark.parametrize("hello", DATA["hellos"], ids=short)
async def test_who_does_not_say_who_they_are_is_hung_up_on(
    opens: Any, quiet: None, hello: str
) -> None:
    page = await opens(hello)
    assert await page.is_ended() == (1002, "hello expected")


@pytest.mark.sample(6)
@pytest.mark.parametrize("text", DATA["texts"], ids=short)
async def test_an_odd_message_ends_the_socket_with_a_reason(
    opens: Any, quiet: None, call: Call, text: str
) -> None:
    page = await opens()
    await page.says(text)
    code, reason = await page.is_ended()
    assert (code, reason) == (1002, "odd_message")
    assert (await call("GET", "notebooks", "n.ipynb")).body["carrier"] == "file"


@pytest.mark.sample(3)
@pytest.mark.parametrize("text", DATA["ignored"], ids=short)
async def test_a_message_that_says_nothing_to_us_is_ignored(
    opens: Any, quiet: None, call: Call, text: str
) -> None:
    page = await opens()
    await page.says(text)
    answer = await reading(call, page, update_of({"cells": []}))
    assert (answer.status, answer.body["carrier"]) == (200, "tab")


async def reading(call: Call, page: Page, update: bytes) -> Answer:
    """The notebook's text, with this update as the page's document."""
    answering = asyncio.ensure_future(page.answers(update))
    try:
        return await call("GET", "notebooks", "n.ipynb")
    finally:
        answering.cancel()
        await asyncio.wait([answering])


@pytest.mark.full
@pytest.mark.parametrize("frame", DATA["binary"], ids=short)
async def test_what_is_no_update_ends_the_socket_with_a_reason(
    opens: Any, quiet: None, call: Call, jp_root_dir: Path, frame: str
) -> None:
    before = (jp_root_dir / "n.ipynb").read_bytes()
    page = await opens()
    answer = await reading(call, page, bytes.fromhex(frame))
    assert answer.status in (200, 409, 422), answer.text
    if answer.status != 200:  # else the text is unknown
        assert await page.is_ended() == (1002, "odd_update")
    assert (jp_root_dir / "n.ipynb").read_bytes() == before


def shared(value: Any) -> Any:
    match value:
        case {"$map": items}:
            return Map({key: shared(item) for key, item in items.items()})
        case {"$array": items}:
            return Array([shared(item) for item in items])
        case {"$text": text}:
            return Text(text)
    return value


def update_of(shape: Any) -> bytes:
    document: Doc[Any] = Doc()
    document["cells"] = Array([shared(cell) for cell in shape["cells"]])
    document["meta"] = Map({key: shared(item) for key, item in shape.get("meta", {}).items()})
    return document.get_update()


@pytest.mark.sample(8)
@pytest.mark.parametrize("shape", DATA["shapes"])
async def test_a_document_that_is_no_notebook_ends_the_socket_with_a_reason(
    opens: Any, quiet: None, call: Call, jp_root_dir: Path, shape: str
) -> None:
    before = (jp_root_dir / "n.ipynb").read_bytes()
    page = await opens()
    answer = await reading(call, page, update_of(DATA["shapes"][shape]))
    assert (answer.status, answer.body["reason"]) == (422, "unreadable_notebook"), answer.text
    assert await page.is_ended() == (1002, "odd_document")
    assert (jp_root_dir / "n.ipynb").read_bytes() == before
    assert (await call("GET", "status")).status == 200


@pytest.mark.parametrize("shape", DATA["harmless"])
async def test_what_is_odd_about_a_document_and_harms_nobody_is_let_through(
    opens: Any, quiet: None, call: Call, shape: str
) -> None:
    page = await opens()
    answer = await reading(call, page, update_of(DATA["harmless"][shape]))
    assert answer.status == 200
    assert len(answer.body["cells"]) == len(DATA["harmless"][shape]["cells"])


@pytest.mark.parametrize("packed", [False, True])
async def test_before_it_is_asked_for_its_document_a_page_sends_little(
    opens: Any, quiet: None, call: Call, jp_ws_fetch: Any, packed: bool
) -> None:
    page = await opens()
    if packed:
        page.socket.protocol._compressor = _Packs(65 << 20)
    with suppress(WebSocketClosedError):  # the server may close it before all was sent
        await page.says(b"x" if packed else bytes(65 << 20))
    assert (await page.is_ended())[0] in (1009, None, 1006)
    assert (await call("GET", "notebooks", "n.ipynb")).body["carrier"] == "file"


@pytest.mark.full
async def test_when_it_is_asked_for_it_a_page_sends_a_large_document(
    opens: Any, quiet: None, call: Call
) -> None:
    page = await opens()
    text = "x" * (65 << 20)
    cell = {"id": "a", "cell_type": "raw", "source": {"$text": text}, "metadata": {"$map": {}}}
    answer = await reading(call, page, update_of({"cells": [{"$map": cell}]}))
    assert answer.status == 200
    assert len(answer.body["cells"][0]["source"]) == len(text)


class _Packs:
    """Compresses this many zeros, whatever it is given."""

    def __init__(self, size: int) -> None:
        packing = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
        packed = packing.compress(bytes(size)) + packing.flush(zlib.Z_SYNC_FLUSH)
        self._packed = packed.removesuffix(b"\x00\x00\xff\xff")

    def compress(self, _: bytes) -> bytes:
        return self._packed
