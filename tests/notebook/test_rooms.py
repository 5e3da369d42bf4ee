"""Where real-time collaboration keeps the documents, we work in its rooms, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.errors import Busy
from jupyter_agent.notebook.carriers import Notebooks, Tabs
from jupyter_agent.notebook.carriers.ydoc import collaboration

from .conftest import code, notebook_json


async def test_d14_under_another_backend_notebooks_are_refused_and_none_is_made(
    contents: Any, tabs: Tabs, root: Path
) -> None:
    (root / "sales.ipynb").write_text(notebook_json([code("b2", "x = 1")]))
    settings: dict[str, Any] = {}
    notebooks = Notebooks(contents, tabs, rooms=lambda: collaboration(settings))
    held = await notebooks.get("sales.ipynb")
    settings["yroom_manager"] = object()
    with pytest.raises(Busy, match="jupyter-server-documents"):
        await held.read()
    with pytest.raises(Busy, match="without that package"):
        await held.update("b2", old_string="1", new_string="2")
    with pytest.raises(Busy, match="Nothing was changed"):
        await notebooks.create("new.ipynb")
    assert [path.name for path in root.glob("*.ipynb")] == ["sales.ipynb"]
    assert "x = 1" in (root / "sales.ipynb").read_text()
    await notebooks.close()
