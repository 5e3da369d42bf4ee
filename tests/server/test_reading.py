"""Pictures and embedded files in tool results: blocks of a fitting size, never bytes as text."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import nbformat
from nbformat.v4 import new_output
from PIL import Image

from jupyter_agent.text.images import pixels

from .conftest import PATH, Call


def png(width: int, height: int) -> str:
    file = io.BytesIO()
    Image.new("RGB", (width, height)).save(file, "png")
    return base64.b64encode(file.getvalue()).decode()


def prepare(notebook: Path) -> str:
    """An attached picture and an embedded one in a1, a large figure in b2; the embedded text."""
    content = nbformat.read(notebook, as_version=4)
    text, code, _ = content.cells
    text.source = f"# Sales\n![](attachment:a.png)\n![](data:image/png;base64,{'QUJD' * 500})"
    text.attachments = {"a.png": {"image/png": png(30, 20)}}
    code.outputs = [new_output("display_data", {"image/png": png(3200, 1600)})]
    nbformat.write(content, notebook)
    return str(text.source)


async def read(call: Call, tool: str, **input: Any) -> Any:
    body = {"notebook": PATH, "input": input, "mode": "auto"}
    return (await call("POST", "tools", tool, body=body)).body


async def test_pictures_come_as_blocks_that_models_can_look_at(call: Call, notebook: Path) -> None:
    prepare(notebook)
    told = await read(call, "read_cells", cell_ids=["a1", "b2"], images=True)
    assert "(attached: a.png <image/png 30x20 " in told["text"]
    assert "<image/png 3200x1600 " in told["text"]
    sizes = [pixels(image["media_type"], image["data"]) for image in told["images"]]
    assert sizes == [(30, 20), (1568, 784)]
    assert "images" not in await read(call, "read_cells", cell_ids=["a1", "b2"])


async def test_a_cell_with_an_embedded_file_is_edited_and_never_rewritten_unseen(
    call: Call, notebook: Path
) -> None:
    source = prepare(notebook)
    for tool, input in (("read_cells", {"cell_ids": ["a1"]}), ("get_notebook_state", {})):
        told = await read(call, tool, **input)
        assert "QUJDQUJD" not in told["text"]
        assert "base64,<2 kB left out>" in told["text"]
    refused = await read(call, "update_cell", cell_id="a1", source="# Sales of May")
    assert refused["reason"] == "not_read"
    done = await read(call, "update_cell", cell_id="a1", old_string="Sales", new_string="Sums")
    assert done["is_error"] is False
    now = nbformat.read(notebook, as_version=4).cells[0].source
    assert now == source.replace("Sales", "Sums")


async def test_a_file_with_long_lines_says_what_was_left_out(call: Call, jp_root_dir: Path) -> None:
    (jp_root_dir / "long.txt").write_text("x" * 30_000)
    body = {"input": {"path": "long.txt"}}
    text = (await call("POST", "tools", "read_file", body=body)).body["text"]
    note = "[10,000 more characters in these lines: read them with code in a cell]"
    assert text == f"{'x' * 20_000}\n{note}"


async def test_a_text_file_is_read_in_its_encoding_and_another_file_is_refused(
    call: Call, notebook: Path, jp_root_dir: Path
) -> None:
    for encoding, note in (("utf-8", ""), ("cp1252", "windows-1252"), ("utf-16", "utf-16")):
        (jp_root_dir / "a.txt").write_bytes("größe\n".encode(encoding))
        told = await read(call, "read_file", path="a.txt")
        assert "größe" in told["text"]
        assert told["text"].endswith(f"[read as {note}]") == bool(note)
    (jp_root_dir / "a.txt").write_bytes(b"")
    assert "(empty)" in (await read(call, "read_file", path="a.txt"))["text"]
    (jp_root_dir / "a.txt").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    assert (
        "`a.txt` is not a text file (10 bytes)"
        in (await read(call, "read_file", path="a.txt"))["text"]
    )
