"""Calls made to keep the server busy: it still answers others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_markdown_cell, new_notebook

from tests.server.conftest import Call

PATH = "n.ipynb"
LONGEST_S = 3.0
"""Seconds of CPU time, whatever else the machine does; the worst of these took 71."""
CALLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "an edit of many lines that are nearly alike": (
        "update_cell",
        {
            "cell_id": "m",
            "old_string": "\n".join(f"value_{n} = compute({n}, 'abc')" for n in range(400)),
            "new_string": "\n".join(f"value_{n} = computed({n + 1}, 'abd')" for n in range(400)),
        },
    ),
    "a pattern of brackets": ("list_files", {"pattern": "[" * 25_000}),
    "a path of many folders": ("read_file", {"path": "a/" * 100_000}),
    "an id without end": ("read_cells", {"cell_ids": ["c" * 900_000]}),
    "many ids": ("read_cells", {"cell_ids": ["m"] * 200_000}),
    "many ids that are none": ("read_cells", {"cell_ids": [1] * 200_000}),
    "many fields": ("read_cells", {f"field_{n}": 1 for n in range(60_000)}),
    "many fields, few enough": ("read_cells", {f"field_{n}": 1 for n in range(9_000)}),
    "a query without end": ("search_notebook", {"query": "q" * 500_000}),
}


async def longest_absence(done: asyncio.Future[Any]) -> float:
    """The longest time in which this process computed while the event loop was stuck, until `done`:
    in the loop's thread, or in another one that held it up.
    """
    longest, last = 0.0, time.process_time()
    while not done.done():
        await asyncio.wait([done], timeout=0.01)
        longest, last = max(longest, time.process_time() - last), time.process_time()
    return longest


@pytest.mark.sample(5)
@pytest.mark.parametrize("flood", CALLS)
async def test_no_call_holds_up_what_others_ask_for(
    call: Call, jp_root_dir: Path, flood: str
) -> None:
    tool, input = CALLS[flood]
    cells = [new_markdown_cell(str(input.get("old_string", "words")), id="m")]
    nbformat.write(new_notebook(cells=cells), jp_root_dir / PATH)
    await call("GET", "status")
    body = {"notebook": PATH, "mode": "edit", "input": input}
    asked = asyncio.ensure_future(call("POST", "tools", tool, body=body))
    assert await longest_absence(asked) < LONGEST_S
    answer = (await asked).body
    assert answer["is_error"] == (tool not in ("update_cell", "search_notebook"))
    assert len(answer["text"]) < 1_000


@pytest.mark.parametrize("rest", [(), ("runs",), ("recovery",)])
async def test_a_path_that_is_none_is_refused_at_once(call: Call, rest: tuple[str, ...]) -> None:
    await call("GET", "status")
    asked = asyncio.ensure_future(call("GET", "notebooks", "a/" * 25_000, *rest))
    assert await longest_absence(asked) < LONGEST_S
    assert (await asked).status in (400, 404)
