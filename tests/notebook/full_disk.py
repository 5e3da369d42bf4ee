"""A disk that is full in the middle of a save: a program of its own, since it limits itself.

`python -m tests.notebook.full_disk MANAGER ATOMIC` ends with an AssertionError if something is
lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from jupyter_server.services.contents import largefilemanager
from nbformat.v4 import new_code_cell, new_notebook, writes

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.steps import Update
from jupyter_agent.errors import ToolError
from tests.notebook.editing import make_edit

from .conftest import sign_in_memory


async def main(manager: str, atomic: bool) -> None:
    root = Path(tempfile.mkdtemp())
    path = root / "a.ipynb"
    cells = [new_code_cell("x = 1", id="a"), new_code_cell("y" * 50_000, id="b")]
    path.write_text(writes(new_notebook(cells=cells)), encoding="utf-8")
    before = json.loads(path.read_text(encoding="utf-8"))
    contents = getattr(largefilemanager, manager)(root_dir=str(root), use_atomic_writing=atomic)
    sign_in_memory(contents)
    notebooks = Notebooks(contents, Tabs())
    notebook = await notebooks.get("a.ipynb")

    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write past the limit fails, as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, most))
    with pytest.raises(ToolError, match=f"nothing was changed: .*{os.strerror(27)}"):
        await make_edit(notebook, Update(cell_id="a", source="z" * 100_000, base="x = 1"))
    assert json.loads(path.read_text(encoding="utf-8")) == before
    assert [cell.source for cell in await notebook.read()] == ["x = 1", "y" * 50_000]
    with pytest.raises(ToolError, match=f"nothing was changed: .*{os.strerror(27)}"):
        await notebooks.create("new/b.ipynb", cells=[{"source": "z" * 200_000, "type": "code"}])
    assert not (root / "new").exists()

    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await make_edit(notebook, Update(cell_id="a", source="z" * 100_000, base="x = 1"))
    assert json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"] == ["z" * 100_000]
    assert sorted(os.listdir(root)) == [".ipynb_checkpoints", "a.ipynb"]
    await notebooks.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] == "atomic"))
