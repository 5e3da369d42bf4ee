"""The same notebook open in each possible way: nowhere, in a tab, in a room. Someone works in it
alongside the agent: a person, or, if it is only a file, a program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import nbformat
from jupyter_server.utils import ensure_async

from jupyter_agent.carriers.listener import ContentsListener
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from tests.waiting import until

from .browser import Tab
from .conftest import cells_of, notebook_json
from .page import Page
from .rooms import Person, RoomServer


class Program:
    """Works in a notebook that is not open anywhere: reads and writes its file, as git does."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def type(self, cell_id: str, text: str, at: int | None = None) -> None:
        content = json.loads(self._file.read_text(encoding="utf-8"))
        for cell in content["cells"]:
            if cell["id"] == cell_id:
                source = "".join(cell["source"])
                at = len(source) if at is None else at
                cell["source"] = source[:at] + text + source[at:]
        self._file.write_text(json.dumps(content, indent=1), encoding="utf-8")

    def tag(self, cell_id: str, tag: str) -> None:
        content = json.loads(self._file.read_text(encoding="utf-8"))
        for cell in content["cells"]:
            if cell["id"] == cell_id:
                cell["metadata"]["tags"] = [tag]
        self._file.write_text(json.dumps(content, indent=1), encoding="utf-8")

    def delete_cell(self, cell_id: str) -> None:
        content = json.loads(self._file.read_text(encoding="utf-8"))
        content["cells"] = [cell for cell in content["cells"] if cell["id"] != cell_id]
        self._file.write_text(json.dumps(content, indent=1), encoding="utf-8")

    def ids(self) -> list[str]:
        return [cell["id"] for cell in cells_of(self._file)]

    def source(self, cell_id: str) -> str:
        (found,) = [cell for cell in cells_of(self._file) if cell["id"] == cell_id]
        return str(found["source"])

    def outputs(self, cell_id: str) -> list[Any]:
        content: Any = nbformat.read(self._file, as_version=4)
        (found,) = [cell for cell in content.cells if cell["id"] == cell_id]
        return list(found["outputs"])


class Desk:
    """One notebook, `a.ipynb`, with someone at it."""

    def __init__(
        self,
        carrier: str,
        *,
        contents: Any,
        root: Path,
        tabs: Tabs,
        notebooks: Notebooks,
        server: RoomServer | None = None,
    ) -> None:
        self.carrier = carrier
        self.contents = contents
        contents.delete_to_trash = False
        self.notebooks = notebooks
        self.file = root / "a.ipynb"
        self.saves = 0
        """Number of saves by anyone."""
        self.somebody: Any = None
        self._tabs = tabs
        self._server = server
        save: Callable[..., Any] = contents.save

        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.saves += 1
            return await ensure_async(save(*args, **kwargs))

        contents.save = counted

    def write(self, cells: Sequence[Mapping[str, Any]], **metadata: Any) -> None:
        """Put the notebook into its folder, as another program would."""
        self.file.write_text(notebook_json(cells, **metadata), encoding="utf-8")

    async def sit_down(self) -> Any:
        """Open the notebook in the way of this desk."""
        if self._server is not None:
            self.somebody = await Person(self._server, "a.ipynb").open()
        elif self.carrier == "tab":
            self.somebody = await Tab(self._tabs, self.contents, "a.ipynb").open()
        else:
            self.somebody = Program(self.file)
        return self.somebody

    async def synced(self) -> Any:
        """The person or program at the desk, once everything done is visible there and here."""
        if isinstance(self.somebody, Person):
            await self.somebody.sync()
        return self.somebody

    async def outputs(self, cell_id: str) -> list[Any]:
        """The outputs visible at the desk, as JSON."""
        seen = await self.synced()
        if isinstance(seen, Program):
            return seen.outputs(cell_id)
        return list(seen.cell(cell_id)["outputs"].to_py())

    def on_disk(self) -> list[tuple[str, str]]:
        return [(cell["id"], cell["source"]) for cell in cells_of(self.file)]

    @property
    def dirty(self) -> bool:
        """Whether something visible there is not in the file."""
        return isinstance(self.somebody, Page) and self.somebody.dirty

    async def rename(self, name: str) -> None:
        """As from Lab's file browser, until its user and the server have learned about it."""
        if self._server is not None:
            await self._server.rename(self.file.name, name)
        elif isinstance(self.somebody, Tab):
            self.file.rename(self.file.with_name(name))
            self.somebody.rename(name)
            await until(lambda: self.somebody.link.path == name)
        else:
            events = self.contents.event_logger
            moves = ContentsListener(self.notebooks, _store_nothing)
            moves.listen(events)
            await ensure_async(self.contents.rename(self.file.name, name))
            await until(lambda: not events._active_listeners)
            moves.stop(events)
            self.somebody = Program(self.file.with_name(name))
        self.file = self.file.with_name(name)

    async def close(self) -> None:
        await self.notebooks.close()
        if isinstance(self.somebody, Person):
            await self.somebody.close()


async def _store_nothing(old: str, new: str) -> None: ...
