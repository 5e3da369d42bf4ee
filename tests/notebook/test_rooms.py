"""Where real-time collaboration keeps the documents, nothing is read or written behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.errors import Busy
from jupyter_agent.notebook.carriers import Notebooks, Tabs
from tests.notebook.conftest import code, notebook_json


async def test_a_notebook_in_a_room_is_refused_and_none_is_made(
    contents: Any, tabs: Tabs, root: Path
) -> None:
    (root / "sales.ipynb").write_text(notebook_json([code("b2", "x = 1")]))
    package: str | None = None
    notebooks = Notebooks(contents, tabs, collaboration=lambda: package)
    held = await notebooks.get("sales.ipynb")
    package = "jupyter-collaboration"
    with pytest.raises(Busy, match="jupyter-collaboration"):
        await held.read()
    with pytest.raises(Busy, match="disable_rtc"):
        await held.update("b2", old_string="1", new_string="2")
    with pytest.raises(Busy, match="Nothing was changed"):
        await notebooks.create("new.ipynb")
    assert [path.name for path in root.glob("*.ipynb")] == ["sales.ipynb"]
    assert "x = 1" in (root / "sales.ipynb").read_text()
    await notebooks.close()
