"""Real notebooks: the changes by a one-line edit in each, and the changes left after its undo.

`python -m tests.notebook.real FOLDER [MOST]` works on copies of the notebooks in a folder that are
older than format 4.5 and prints the results as JSON, next to those of Jupyter's own contents API.
"""

from __future__ import annotations

import asyncio
import difflib
import json
import logging
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.steps import Update
from jupyter_agent.document.undo import undo
from tests.notebook.editing import make_edit

from .conftest import sign_in_memory

MARK = " # 1"


def older(folder: Path, most: int) -> Iterator[Path]:
    """The notebooks of formats 4.0 to 4.4 in a folder, with some text."""
    for path in sorted(folder.rglob("*.ipynb")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:  # including those of which a mirror has only a pointer
            continue
        fits = content.get("nbformat") == 4 and content.get("nbformat_minor", 0) < 5
        if fits and any("".join(cell["source"]).strip() for cell in content["cells"]):
            yield path
            most -= 1
        if not most:
            return


def lines_changed(before: str, after: str) -> int:
    """The added lines as git counts them."""
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return sum(line.startswith("+") and not line.startswith("+++") for line in diff)


async def jupyters(contents: Any, name: str, index: int, mark: str = MARK) -> None:
    """The same edit by load and save through the contents API."""
    model = await contents.get(name, type="notebook")
    model["content"]["cells"][index]["source"] += mark
    await contents.save({"type": "notebook", "content": model["content"]}, name)


async def look(contents: Any, root: Path, original: Path) -> tuple[str, str, str]:
    """Its format, the changes by our edit, and the changes left after an undo in another life of
    the server.
    """
    text = original.read_text(encoding="utf-8")
    minor = json.loads(text)["nbformat_minor"]
    for name in ("theirs.ipynb", "ours.ipynb"):
        shutil.copyfile(original, root / name)
    notebooks = Notebooks(contents, Tabs())
    notebook = await notebooks.get("ours.ipynb")
    cell = next(cell for cell in await notebook.read() if cell.source.strip() and not cell.locked)
    edit = await make_edit(
        notebook, Update(cell_id=cell.id, source=cell.source + MARK, base=cell.source)
    )
    await notebooks.close()
    await jupyters(contents, "theirs.ipynb", cell.index)
    ours = lines_changed(text, (root / "ours.ipynb").read_text(encoding="utf-8"))
    theirs = lines_changed(text, (root / "theirs.ipynb").read_text(encoding="utf-8"))
    again = Notebooks(contents, Tabs(), namings=notebooks.namings)
    undone = await undo(await again.get("ours.ipynb"), edit.changes)
    await again.close()
    shutil.copyfile(original, root / "theirs.ipynb")
    await jupyters(contents, "theirs.ipynb", cell.index, "")
    left = (root / "ours.ipynb").read_bytes()
    if left == original.read_bytes():
        told = "the same bytes"
    else:  # of a file without a line end at its end, for one
        jupyter = (root / "theirs.ipynb").read_bytes()
        told = "as a load and save by Jupyter" if left == jupyter else "more"
    changed = "one line" if ours == 1 else "more than Jupyter" if ours > theirs else "as Jupyter"
    return f"4.{minor}", changed, "conflict" if undone.conflicts else told


async def main(folder: Path, most: int) -> None:
    found: dict[str, Counter[str]] = {"format": Counter(), "edit": Counter(), "undo": Counter()}
    with tempfile.TemporaryDirectory() as temporary:
        contents = AsyncLargeFileManager(root_dir=temporary)
        sign_in_memory(contents)
        for path in older(folder, most):
            for count, what in zip(
                found.values(), await look(contents, Path(temporary), path), strict=True
            ):
                count[what] += 1
    print(json.dumps(found))  # noqa: T201


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100))
