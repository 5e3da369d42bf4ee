"""D8: a notebook of 10,000 cells with an output of 30 MB. How fast: `tests/bench/large.py`."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from jupyter_agent.notebook.carriers import Notebooks, Tabs, file, stored
from jupyter_agent.notebook.render import render

from .conftest import code, notebook_json


class Threads:
    """Where the work on the whole notebook is done."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.seen: dict[str, set[bool]] = {}
        for place, name in (
            (stored, "parse"),
            (stored, "without_id"),
            (file, "_changed"),
            (file, "_text"),
            (file.FileCarrier, "_marked"),
        ):
            patch.setattr(place, name, self._told(name, getattr(place, name)))

    def _told(self, name: str, work: Any) -> Any:
        def told(*args: Any, **kwargs: Any) -> Any:
            on_loop = threading.current_thread() is threading.main_thread()
            self.seen.setdefault(name, set()).add(on_loop)
            return work(*args, **kwargs)

        return told


async def test_d8_what_takes_long_is_done_in_threads(
    contents: Any, root: Path, write: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("a.ipynb", [code("a", "x = 1"), code("b", "y")])
    threads = Threads(monkeypatch)

    async def recovery(path: str, text: str) -> None: ...

    notebooks = Notebooks(contents, Tabs(), recovery=recovery)
    notebook = await notebooks.get("a.ipynb")
    await notebook.update("a", old_string="1", new_string="2")
    await notebooks.close()
    assert threads.seen == dict.fromkeys(
        ["parse", "without_id", "_changed", "_text", "_marked"], {False}
    )


@pytest.mark.parametrize("contents", [AsyncLargeFileManager], indirect=True)
async def test_d8_ten_thousand_cells_and_an_output_of_30_mb(
    notebooks: Notebooks, root: Path
) -> None:
    data = {"text/plain": "q" * 30_000_000}
    large = {"output_type": "display_data", "data": data, "metadata": {}}
    cells = [code(f"c{number}", f"x{number} = {number}") for number in range(10_000)]
    path = root / "a.ipynb"
    path.write_text(notebook_json([*cells, code("large", "x", [large])]), encoding="utf-8")
    assert path.stat().st_size > 30_000_000
    notebook = await notebooks.get("a.ipynb")
    assert len(await notebook.read()) == 10_001
    await notebook.update("c5000", old_string="= 5000", new_string="= -1")
    new = (await notebook.insert(source="new", after="c0")).cell
    assert new is not None
    stored_cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert [cell["id"] for cell in stored_cells[:3]] == ["c0", new.id, "c1"]
    assert "".join(stored_cells[5001]["source"]) == "x5000 = -1"
    assert "".join(stored_cells[-1]["outputs"][0]["data"]["text/plain"]) == "q" * 30_000_000
    assert len(render(notebook.cells()).text) < 100_000
    nbformat.validate(nbformat.from_dict(json.loads(path.read_text(encoding="utf-8"))))
