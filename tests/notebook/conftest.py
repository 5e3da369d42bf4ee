"""Real contents managers, real documents, and tabs that follow the protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.largefilemanager import (
    AsyncLargeFileManager,
    LargeFileManager,
)
from nbformat import from_dict
from nbformat.sign import MemorySignatureStore
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, writes

from jupyter_agent.carriers.page_saves import PageSaves
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from tests.notebook import rooms


def notebook_json(cells: Sequence[Mapping[str, Any]], **metadata: Any) -> str:
    """A notebook file of format 4.5 as Jupyter writes it."""
    content = new_notebook(cells=list(cells), metadata=metadata)
    return str(writes(from_dict(content))) + "\n"


def code(cell_id: str, source: str, outputs: Sequence[Any] = (), **more: Any) -> Any:
    return new_code_cell(source, id=cell_id, outputs=list(outputs), **more)


def markdown(cell_id: str, source: str, **more: Any) -> Any:
    return new_markdown_cell(source, id=cell_id, **more)


def sign_in_memory(contents: Any) -> None:
    """Make it store the signatures of trusted notebooks in memory: no save waits for a disk, and
    threads may share them.
    """
    contents.notary.store = MemorySignatureStore()


@pytest.fixture(params=[AsyncLargeFileManager, LargeFileManager], ids=["async", "sync"])
def contents(request: pytest.FixtureRequest, jp_environ: None, tmp_path: Path) -> Any:
    root = tmp_path / "root"
    root.mkdir()
    manager = request.param(root_dir=str(root))
    sign_in_memory(manager)
    return manager


@pytest.fixture
def root(contents: Any) -> Path:
    return Path(contents.root_dir)


@pytest.fixture
def tabs() -> Tabs:
    return Tabs()


@pytest.fixture
def notebooks(
    contents: Any, tabs: Tabs, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> Iterator[Notebooks]:
    opened = Notebooks(contents, tabs)
    yield opened
    jp_asyncio_loop.run_until_complete(opened.close())


@pytest.fixture
def write(root: Path) -> Callable[..., Path]:
    """Puts a notebook into the root, as another program would."""

    def write(name: str, cells: Sequence[Mapping[str, Any]], **metadata: Any) -> Path:
        path = root / name
        path.write_text(notebook_json(cells, **metadata), encoding="utf-8")
        return path

    return write


@pytest.fixture
def jp_server_config(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Tests here that need a whole server get one with rooms."""
    return {**rooms.config(tmp_path), **getattr(request, "param", {})}


@pytest.fixture
def room_server(
    jp_serverapp: Any,
    http_server: Any,
    jp_http_port: int,
    jp_base_url: str,
    jp_auth_header: Any,
    jp_asyncio_loop: asyncio.AbstractEventLoop,
) -> Iterator[rooms.RoomServer]:
    """Its rooms are saved in time, as by our extension. Whoever still has a notebook open at the
    end closes it.
    """
    rooms.skip_without_plugs()
    PageSaves(jp_serverapp.contents_manager)
    server = rooms.RoomServer(jp_http_port, jp_base_url, jp_auth_header, jp_serverapp)
    yield server
    for person in server.people:
        jp_asyncio_loop.run_until_complete(person.close())


@pytest.fixture
def unfilled_notebooks(
    room_server: rooms.RoomServer, tabs: Tabs, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> Iterator[Notebooks]:
    opened = Notebooks(room_server.contents, tabs, shared=room_server.sharing.documents)
    yield opened
    jp_asyncio_loop.run_until_complete(opened.close())


@pytest.fixture
def room_notebooks(room_server: rooms.RoomServer, unfilled_notebooks: Notebooks) -> Notebooks:
    """The notebooks of a server with rooms."""
    room_server.fill_rooms(unfilled_notebooks)
    return unfilled_notebooks


Restart = Callable[[], list[tuple[str, str]]]


@pytest.fixture
def restart(room_server: rooms.RoomServer, unfilled_notebooks: Notebooks) -> Restart:
    """Starts like a server restarted with us; returns the recovery copies it stores."""
    return partial(room_server.fill_rooms, unfilled_notebooks)


def cells_of(path: Path) -> list[dict[str, Any]]:
    """The cells of a file, sources joined."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    for cell in cells:
        cell["source"] = "".join(cell.get("source", ""))
    return list(cells)
