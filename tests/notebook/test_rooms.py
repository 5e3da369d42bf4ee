"""If real-time collaboration has the documents, we work in its rooms, or not at all.

The guarantees of every carrier are in `test_conformance.py`; this is about rooms only.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import time
from collections.abc import Iterator, Sequence
from hashlib import sha256
from importlib import import_module
from operator import itemgetter
from pathlib import Path
from socket import IPPROTO_TCP, TCP_NODELAY
from typing import Any

import nbformat
import pytest
from jupyter_ydoc import YNotebook
from pycrdt import Map
from tornado.web import HTTPError
from tornado.websocket import WebSocketHandler

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.sharing import Sharing
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.carriers.timeouts import Timeouts
from jupyter_agent.document.carrier import Place
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.steps import Delete, Insert, Move, Update
from jupyter_agent.document.undo import undo
from jupyter_agent.errors import Busy, Locked, NotConfirmed, NotebookNotFound, UnreadableNotebook
from jupyter_agent.packages import brought_by
from jupyter_agent.plugs.rooms import live_room, room_carrier
from tests.notebook.editing import make_edit
from tests.waiting import soon, until

from .browser import Tab
from .conftest import Restart, cells_of, code, markdown, notebook_json
from .rooms import Held, Person, RoomServer

Loop = asyncio.AbstractEventLoop
RICH = {"output_type": "display_data", "data": {"text/html": "<b>1</b>"}, "metadata": {}}


@pytest.fixture
def file(room_server: RoomServer) -> Path:
    """`a.ipynb` with the cells `a` and `b`."""
    path = room_server.root / "a.ipynb"
    path.write_text(notebook_json([code("a", "x = 1\ny = 2"), markdown("b", "# b")]))
    return path


# ---- without the package, with it, and with another one


@pytest.mark.parametrize(
    ("number", "read"),
    [
        (2**64, float(2**64)),
        (-(2**63) - 1, -float(2**63)),
        (10**400, None),
        (float("nan"), None),
        (float("-inf"), None),
    ],
)
async def test_a_file_with_a_number_that_no_document_can_hold_is_read_and_edited(
    room_notebooks: Notebooks, file: Path, number: float, read: float | None
) -> None:
    content = json.loads(file.read_text())
    content["cells"][0]["metadata"] = {"n": [number]}
    file.write_text(json.dumps(content))
    async with asyncio.timeout(30):
        notebook = await room_notebooks.get("a.ipynb")
        assert (await notebook.read())[0].metadata["n"] == [read]
        assert (await make_edit(notebook, Insert(source="z = 3"))).saved.saved
    assert cells_of(file)[0]["metadata"]["n"] == [read]


async def test_what_no_file_can_hold_keeps_no_room_from_being_saved_or_opened(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path
) -> None:
    """As a program may write it, unlike a page: what pages typed would never be saved."""
    notebook = await room_notebooks.get("a.ipynb")
    shared = room_server.room("a.ipynb")._document.ycells[0]
    shared["metadata"]["n"] = float("nan")
    shared["outputs"].append(Map({**RICH, "data": {"application/json": [float("inf")]}}))
    assert (await make_edit(notebook, Insert(source="z = 3"))).saved.saved
    first = json.loads(file.read_text(), parse_constant=pytest.fail)["cells"][0]
    assert first["metadata"]["n"] is None
    assert first["outputs"][0]["data"] == {"application/json": [None]}
    await room_server.stored("a.ipynb")
    await room_server.end("a.ipynb")
    assert [cell.source for cell in await notebook.read()] == ["x = 1\ny = 2", "# b", "z = 3"]
    assert (await make_edit(notebook, Insert(source="last"))).saved.saved


async def test_a_room_that_could_not_be_filled_is_not_used(
    room_notebooks: Notebooks, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its edits would be answered, and be in no document that anyone has."""

    async def fail(document: YNotebook) -> None:
        raise ValueError("no number")

    with monkeypatch.context() as patch:
        patch.setattr(live_room, "outline_of", fail)
        with pytest.raises(UnreadableNotebook, match="could not be shared"):
            await room_notebooks.get("a.ipynb")
    notebook = await room_notebooks.get("a.ipynb")
    assert (await make_edit(notebook, Insert(source="z = 3"))).saved.saved
    assert cells_of(file)[-1]["source"] == "z = 3"


async def test_a_number_beyond_64_bits_that_comes_into_a_room_is_read(
    room_notebooks: Notebooks, file: Path
) -> None:
    content = json.loads(file.read_text())
    for numbers in ([2**64], [2**64, 1]):
        content["cells"][0]["metadata"] = {"n": numbers}
        file.write_text(json.dumps(content))
        notebook = await room_notebooks.get("a.ipynb")
        assert (await notebook.read())[0].metadata["n"] == [float(number) for number in numbers]


async def test_a_name_that_collaboration_reads_as_a_folder_is_refused_with_what_helps(
    room_notebooks: Notebooks, file: Path
) -> None:
    file.rename(file.with_name("a\\b.ipynb"))
    with pytest.raises(UnreadableNotebook, match="Rename the file"):
        await room_notebooks.get("a\\b.ipynb")


async def test_the_first_rooms_of_a_server_that_open_at_once_have_one_store(
    room_server: RoomServer, room_notebooks: Notebooks, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"{number}.ipynb" for number in range(8)]
    for name in names:
        (room_server.root / name).write_text(notebook_json([code("a", "x = 1")]))
    opened = await asyncio.gather(*map(room_notebooks.get, names))
    for name, notebook in zip(names, opened, strict=True):
        await make_edit(notebook, Insert(source="y = 2"))
        await room_server.stored(name)
    assert "SQLite exception" not in caplog.text  # of rooms that made the database, too
    store = Path(room_server.room(names[0]).ystore.db_path)
    assert [each.name for each in store.parent.glob("*ystore*.db")] == [store.name]


async def test_what_a_room_leaves_unwritten_as_its_server_ends_is_written_without_a_wait(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await room_notebooks.get("a.ipynb")
    doc_room = room_server.room("a.ipynb")
    room = live_room.Room.of(doc_room, room_server.collaboration())
    begun = asyncio.Event()

    async def never(update: bytes) -> None:
        begun.set()
        await asyncio.Event().wait()

    write, room.store._write = room.store._write, never
    doc_room._document.ycells[0]["source"].insert(0, "z = 3\n")
    flushing = asyncio.ensure_future(room.store.flush())
    await soon(begun)
    assert not flushing.done()
    room.store._write = write
    doc_room._task_group.cancel_scope.cancel()
    await flushing
    assert "is late" not in caplog.text
    await room_server.stored("a.ipynb")


async def test_under_another_backend_notebooks_are_refused_and_none_is_made(
    contents: Any, tabs: Tabs, root: Path
) -> None:
    (root / "sales.ipynb").write_text(notebook_json([code("b2", "x = 1")]))
    settings: dict[str, Any] = {}
    notebooks = Notebooks(contents, tabs, shared=Sharing(settings).documents)
    held = await notebooks.get("sales.ipynb")
    # As jupyter-server-documents 0.3 has it: the second stands in for jupyter-collaboration.
    settings |= {"yroom_manager": object(), "jupyter_server_ydoc": object()}
    with pytest.raises(Busy, match="jupyter-server-documents"):
        await held.read()
    with pytest.raises(Busy, match="`jupyter server extension disable jupyter_server_docum"):
        await make_edit(held, Update(cell_id="b2", old_string="1", new_string="2"))
    with pytest.raises(Busy, match="Nothing was changed"):
        await notebooks.create("new.ipynb")
    assert [path.name for path in root.glob("*.ipynb")] == ["sales.ipynb"]
    assert "x = 1" in (root / "sales.ipynb").read_text()
    await notebooks.close()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An assistant that needs a package of its own, which needs jupyter-server-documents."""
    needs = {
        "some_assistant": ["Some.Assistant-Rooms>=1; python_version>'3'"],
        "some_assistant_rooms": ["jupyter_server_documents<1,>=0.3", "rich"],
        "other_assistant": ['jupyter-server-documents; extra == "rooms"'],
        "jupyter_server_documents": ["jupyter-collaboration-ui"],
    }
    for name, requirements in needs.items():
        folder = tmp_path / "packages" / f"{name}-1.0.dist-info"
        folder.mkdir(parents=True)
        lines = [f"Requires-Dist: {requirement}" for requirement in requirements]
        metadata = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *lines, ""]
        (folder / "METADATA").write_text("\n".join(metadata))
    monkeypatch.syspath_prepend(tmp_path / "packages")
    brought_by.cache_clear()
    yield
    brought_by.cache_clear()


def test_what_brought_another_backend_is_named(installed: None) -> None:
    with pytest.raises(Busy, match=r"documents, brought by some-assistant,\) is on"):
        Sharing({"yroom_manager": object()}).documents()


async def test_with_another_version_of_the_package_notebooks_are_refused(
    room_server: RoomServer, tabs: Tabs, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebooks = Notebooks(room_server.contents, tabs, shared=room_server.sharing.documents)
    monkeypatch.setattr("jupyter_server_ydoc.__version__", "4.0.0")
    with pytest.raises(Busy, match=r"jupyter-server-ydoc 4\.0\.0.*disable_rtc"):
        await notebooks.get("a.ipynb")
    monkeypatch.undo()
    assert (await notebooks.get("a.ipynb")).carrier == "room"
    await notebooks.close()


LOCAL = "jupyter_server_fileid.manager.LocalFileIdManager"


@pytest.mark.parametrize(
    "jp_server_config", [{"FileIdExtension": {"file_id_manager_class": LOCAL}}], indirect=True
)
@pytest.mark.parametrize("rooms", [True, False])
async def test_a_file_that_its_server_knows_by_its_inode_keeps_that(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path, rooms: bool
) -> None:
    room_server.extension.disable_rtc = not rooms
    inode = file.stat().st_ino
    notebook = await room_notebooks.get("a.ipynb")
    assert notebook.carrier == ("room" if rooms else "file")
    assert len(room_server.rooms) == rooms
    assert (
        await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 3"))
    ).saved.saved
    assert cells_of(file)[0]["source"] == "x = 3\ny = 2"
    assert file.stat().st_ino == inode


async def test_every_name_of_the_package_that_we_use_is_there(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path
) -> None:
    notebook = await room_notebooks.get("a.ipynb")
    extension, inside = room_server.extension, room_server.room("a.ipynb")
    loader = inside._file
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert set(inspect.signature(extension.get_document).parameters) >= {
        "room_id",
        "copy",
        "create",
    }
    assert extension.disable_rtc is False
    assert extension.document_cleanup_delay == 60
    assert isinstance(extension._room_locks[inside.room_id], asyncio.Lock)
    assert extension.file_loaders[loader.file_id] is loader
    assert list(inspect.signature(extension.file_loaders.remove).parameters) == ["file_id"]
    assert extension.ywebsocket_server.rooms[inside.room_id] is inside
    assert "room" in inspect.signature(extension.ywebsocket_server.delete_room).parameters
    assert extension.ystore_class(path="p", log=extension.log).db_path.endswith("ystore.db")
    on_disk = await room_server.contents.get("a.ipynb", content=False, require_hash=True)
    assert inside._document.hash == on_disk["hash"]
    assert isinstance(inside._update_lock, asyncio.Lock)
    assert isinstance(loader._lock, asyncio.Lock)
    assert isinstance(inside._saving_document, asyncio.Task)
    assert inside._save_delay == 1
    assert inside.cleaner is None
    assert inside.ready
    assert all(isinstance(state, dict) for state in inside.awareness.states.values())
    assert loader.number_of_subscriptions == 1
    for method in (inside.initialize, inside._on_outofband_change, loader.maybe_notify):
        assert inspect.iscoroutinefunction(method)
    parameters = list(inspect.signature(type(loader)._save_content).parameters)
    assert parameters == ["self", "model", "done_saving", "path"]
    parameters = list(inspect.signature(type(inside)._maybe_save_document).parameters)
    assert parameters == ["self", "saving_document", "save_now"]
    assert list(loader._subscriptions) == [inside.room_id]
    assert isinstance(inside._document_progressively_loaded, asyncio.Future)
    assert import_module("jupyter_server_ydoc.utils").LogLevel["INFO"]
    assert inside.ydoc_observed.is_set()
    for method in (type(inside).stop, type(inside.ystore).write):
        assert inspect.iscoroutinefunction(method)


def test_names_of_the_package_stand_where_rooms_begin_and_where_they_are() -> None:
    folder = Path(live_room.__file__).parent.parent.parent
    names = re.compile(r"jupyter_server_ydoc\b|\b_room_locks|\._saving_document|\._update_lock")
    users = {file for file in folder.rglob("*.py") if names.search(file.read_text())}
    assert {file.parent.name for file in users if file.name != "sharing.py"} == {"rooms"}


# ---- a room that goes, and comes again


@pytest.mark.full
async def test_after_a_room_was_evicted_nothing_is_doubled_and_no_cell_is_stale(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path
) -> None:
    person = await Person(room_server, "a.ipynb").open()
    notebook = await room_notebooks.get("a.ipynb")
    await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 2"))
    await person.sync()
    person.cut()
    person.type("a", "\n# offline")
    await room_server.evict("a.ipynb")
    edit = await make_edit(notebook, Update(cell_id="a", old_string="x = 2", new_string="x = 3"))
    assert edit.saved.saved
    new = (await make_edit(notebook, Insert(source="new", after="a"))).cell
    assert new is not None
    await person.connect()
    await person.sync()
    assert person.ids() == ["a", new.id, "b"]
    assert person.source("a") == "x = 3\ny = 2\n# offline"
    cells = await notebook.read()
    assert [(cell.id, cell.source) for cell in cells] == [
        (cell_id, person.source(cell_id)) for cell_id in person.ids()
    ]
    await make_edit(notebook, Update(cell_id="a", old_string="x = 3", new_string="x = 4"))
    await person.sync()
    assert person.source("a") == "x = 4\ny = 2\n# offline"
    assert [cell["id"] for cell in cells_of(file)] == person.ids()


@pytest.mark.parametrize("comes_back", [False, True])
async def test_what_a_room_has_not_stored_when_it_is_removed_is_in_the_next_one(
    room_server: RoomServer,
    room_notebooks: Notebooks,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    comes_back: bool,
) -> None:
    """On its own a room cancels its writes, and the first of them leaves the database locked. A
    page that returns at this moment cancels the removal.
    """
    person = await Person(room_server, "a.ipynb").open()
    person.say(autosave=False)
    await person.sync()
    notebook = await room_notebooks.get("a.ipynb")
    await room_server.stored("a.ipynb")
    inside = room_server.room("a.ipynb")
    commit, writing, go_on = inside.ystore._db.commit, asyncio.Event(), asyncio.Event()

    async def commit_late() -> None:
        writing.set()
        await go_on.wait()
        await commit()

    monkeypatch.setattr(inside.ystore._db, "commit", commit_late)
    edit = await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 2"))
    assert not edit.saved.saved
    person.cut()
    await soon(writing)
    removing = asyncio.create_task(room_server.evict("a.ipynb"))
    await until(lambda: inside not in room_server.rooms.values())
    if comes_back:
        removing.cancel()
    go_on.set()
    await asyncio.wait([removing])
    assert inside.room_id not in inside._file._subscriptions
    await make_edit(notebook, Update(cell_id="a", old_string="x = 2", new_string="x = 3"))
    await person.connect()
    await person.sync()
    assert person.source("a") == "x = 3\ny = 2"


@pytest.mark.parametrize("store", ["is slow", "does not answer"])
async def test_no_file_has_what_the_store_of_its_room_has_not(
    room_server: RoomServer,
    room_notebooks: Notebooks,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    store: str,
) -> None:
    """After a kill a page that returns would have it twice: its own letters and the file's. A store
    that does not answer leaves this unknown, so it keeps no edit out of the file.
    """
    person = await Person(room_server, "a.ipynb").open()
    notebook = await room_notebooks.get("a.ipynb")
    if store == "does not answer":
        monkeypatch.setattr(Timeouts, "store", 0.05)
    async with room_server.room("a.ipynb").ystore.lock:
        editing = asyncio.create_task(
            make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 2"))
        )
        if store == "is slow":
            await until(lambda: person.source("a") == "x = 2\ny = 2")
            assert not (await asyncio.wait([editing], timeout=0.5))[0]
            assert cells_of(file)[0]["source"] == "x = 1\ny = 2"
        else:
            await editing
    assert (await editing).saved.saved
    assert cells_of(file)[0]["source"] == "x = 2\ny = 2"


async def test_what_is_done_in_a_room_while_its_server_ends_is_stored_too_and_at_once(
    room_server: RoomServer,
    room_notebooks: Notebooks,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The server has cancelled the tasks by which the room writes, and the cells that it interrupts
    have outputs after that.
    """
    notebook = await room_notebooks.get("a.ipynb")
    await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 2"))
    await room_server.stored("a.ipynb")
    inside = room_server.room("a.ipynb")
    monkeypatch.setattr(Timeouts, "store", 600.0)
    await room_server.extension.ywebsocket_server.stop()
    source = inside._document.ycells[0]["source"]
    source += "\nz = 3"
    async with asyncio.timeout(30):
        await room_server.live("a.ipynb").close()
    stored = YNotebook()
    await inside.ystore.apply_updates(stored.ydoc)
    assert str(stored.ycells[0]["source"]) == "x = 2\ny = 2\nz = 3"


@pytest.mark.full
async def test_after_a_restart_of_the_server_a_page_with_the_old_document_merges(
    room_server: RoomServer, tabs: Tabs, file: Path
) -> None:
    person = await Person(room_server, "a.ipynb").open()
    before = Notebooks(room_server.contents, tabs, shared=room_server.sharing.documents)
    await make_edit(
        await before.get("a.ipynb"), Update(cell_id="a", old_string="x = 1", new_string="x = 2")
    )
    await person.sync()
    person.cut()
    await before.close()
    await room_server.end("a.ipynb")  # a restart preserves the disk: the file and the store
    person.type("a", "\n# unsaved")
    after = Notebooks(room_server.contents, tabs, shared=room_server.sharing.documents)
    notebook = await after.get("a.ipynb")
    await make_edit(notebook, Update(cell_id="b", old_string="# b", new_string="# B"))
    await person.connect()
    await person.sync()
    assert [(cell.id, cell.source) for cell in await notebook.read()] == [
        ("a", "x = 2\ny = 2\n# unsaved"),
        ("b", "# B"),
    ]
    assert person.ids() == ["a", "b"]
    await after.close()


def in_format(minor: int, texts: Sequence[str]) -> str:
    """A notebook with these cells, whose ids the file stores since nbformat 4.5."""
    cells = [code(f"c{number}", text) for number, text in enumerate(texts)]
    content = json.loads(notebook_json(cells)) | {"nbformat_minor": minor}
    if minor < 5:
        for cell in content["cells"]:
            del cell["id"]
    return json.dumps(content)


async def typed_and_killed(room_server: RoomServer, monkeypatch: pytest.MonkeyPatch) -> Person:
    """Someone typed a word, and the server ended before their room was saved."""
    person = await Person(room_server, "a.ipynb").open()
    monkeypatch.setattr(room_server.room("a.ipynb"), "_save_delay", 600)
    person.type("a", " WORD")
    await person.sync()
    person.cut()
    await room_server.end("a.ipynb")
    return person


@pytest.mark.sample(2)
@pytest.mark.parametrize("minor", [5, 4])
@pytest.mark.parametrize("pulled", [False, True])
async def test_what_was_not_saved_stays_in_a_room_that_is_made_again(
    room_server: RoomServer,
    restart: Restart,
    monkeypatch: pytest.MonkeyPatch,
    minor: int,
    pulled: bool,
) -> None:
    copies = restart()
    file = room_server.root / "a.ipynb"
    texts = ["twin", "twin", "old words", "gone", "last"]
    file.write_text(in_format(minor, texts))
    person = await Person(room_server, "a.ipynb").open()
    a, b, c, d, e = person.ids()
    person.say(autosave=False)
    person.type(b, " WORD")
    person.erase(c, "old words")
    person.insert_cell(2, "n", "new")
    person.insert_cell(3, "m", "newer")
    person.delete_cell(d)
    await person.sync()
    person.cut()
    await room_server.end("a.ipynb")
    person.type("n", " AWAY")
    person.type(b, " AWAY")
    if pulled:  # while no server runs
        file.write_text(in_format(minor, [*texts[:4], "last", "pulled"]))
    before = file.read_bytes()
    for kill in range(2):
        await person.connect()
        person.say(autosave=bool(kill))
        await person.sync()
        *ids, p = [*person.ids(), *("" for _ in range(not pulled))]
        assert ids == [a, b, "n", "m", c, e]
        assert [person.source(each) for each in ids] == [
            "twin", "twin WORD AWAY", "new AWAY", "newer", "", "last",
        ]  # fmt: skip
        assert not pulled or person.source(p) == "pulled"
        assert person.offers() == {}
        if not kill:
            assert file.read_bytes() == before
            person.cut()
            await room_server.end("a.ipynb")
    await until(lambda: "AWAY" in file.read_text())
    assert [cell["source"] for cell in cells_of(file)] == [*map(person.source, person.ids())]
    assert copies == []


async def test_of_a_cell_that_was_not_saved_and_that_its_file_changed_both_versions_are_there(
    room_server: RoomServer, file: Path, restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    restart()
    person = await typed_and_killed(room_server, monkeypatch)
    text = person.source("a")
    file.write_text(notebook_json([code("a", "x = 7"), markdown("b", "pulled")]))
    for _ in range(2):  # until someone decides
        await person.connect()
        person.say(autosave=False)
        await person.sync()
        assert [person.source("a"), person.source("b")] == [text, "pulled"]
        (offer,) = person.offers().values()
        assert (offer["cause"], offer["cell"]["source"]) == ("file", "x = 7")
        person.cut()
        await room_server.end("a.ipynb")


@pytest.mark.parametrize("saver", ["we", "the room"])
async def test_what_was_saved_and_taken_back_by_another_program_does_not_return(
    room_server: RoomServer,
    file: Path,
    restart: Restart,
    monkeypatch: pytest.MonkeyPatch,
    saver: str,
) -> None:
    """The store knows what a save wrote, even if a word came during the save."""
    restart()
    before = file.read_bytes()
    person = await Person(room_server, "a.ipynb").open()
    person.say(autosave=False)
    person.type("a", " SAVED")
    await person.sync()
    inside = room_server.room("a.ipynb")
    write = inside._file._save_content

    async def typing(*args: Any) -> Any:
        person.type("b", " TYPED")
        await person.sync()
        return await write(*args)

    monkeypatch.setattr(inside._file, "_save_content", typing)
    await (room_server.live("a.ipynb").save() if saver == "we" else inside._save_to_disc())
    await person.sync()
    assert [cell["source"] for cell in cells_of(file)] == ["x = 1\ny = 2 SAVED", "# b"]
    person.cut()
    await room_server.end("a.ipynb")
    file.write_bytes(before)
    await person.connect()
    await person.sync()
    assert [person.source(each) for each in person.ids()] == ["x = 1\ny = 2", "# b TYPED"]
    assert person.offers() == {}


@pytest.mark.sample(2)
@pytest.mark.parametrize("minor", [5, 4])
@pytest.mark.parametrize("since", ["nothing", "a word", "a deletion"])
async def test_a_save_that_the_store_does_not_know_to_be_done_counts_if_the_file_has_it(
    room_server: RoomServer,
    restart: Restart,
    monkeypatch: pytest.MonkeyPatch,
    minor: int,
    since: str,
) -> None:
    """The server is killed right after it has written the file."""
    restart()
    (room_server.root / "a.ipynb").write_text(in_format(minor, ["one", "two"]))
    person = await Person(room_server, "a.ipynb").open()
    person.say(autosave=False)
    a, _ = person.ids()
    person.type(a, " SAVED")
    person.insert_cell(1, "n", "new")
    await person.sync()
    inside = room_server.room("a.ipynb")
    writing = Held(monkeypatch, inside._file, "_save_content")
    saving = asyncio.create_task(room_server.live("a.ipynb").save())
    await writing.done.wait()
    if since == "a word":
        person.type(a, " LATE")
    elif since == "a deletion":
        person.delete_cell("n")
    await person.sync()
    texts = [person.source(each) for each in person.ids()]
    person.cut()
    inside._file._lock = asyncio.Lock()  # another server has another
    await room_server.end("a.ipynb")
    await person.connect()
    await person.sync()
    assert [person.source(each) for each in person.ids()] == texts
    assert person.offers() == {}
    saving.cancel()


@pytest.mark.parametrize(
    "why", ["of another server", "of another server, and cut off", "out of order"]
)
async def test_what_may_not_have_been_in_a_save_is_not_called_saved(
    room_server: RoomServer,
    file: Path,
    restart: Restart,
    monkeypatch: pytest.MonkeyPatch,
    why: str,
) -> None:
    """Two servers share a store, and one may be killed before the store knows that it has saved; or
    the clock by which a store is read was set back.
    """
    copies = restart()
    person = await Person(room_server, "a.ipynb").open()
    person.say(autosave=False)
    inside = room_server.room("a.ipynb")
    await until(inside.ydoc_observed.is_set)
    if why != "out of order":
        other = YNotebook()
        await inside.ystore.apply_updates(other.ydoc)
        before = other.ydoc.get_state()
        text = other.ycells[1]["source"]
        text += " WORD"
        await inside.ystore.write(other.ydoc.get_update(before))
    person.type("a", " SAVED")
    await person.sync()
    if why == "of another server, and cut off":
        monkeypatch.setattr(live_room, "end_save", lambda *_: None)
    if why == "out of order":
        await room_server.stored("a.ipynb")
        now = time.time
        monkeypatch.setattr("pycrdt.store.sqlite.time.time", lambda: now() - 60)
    await room_server.live("a.ipynb").save()
    if why == "out of order":
        person.type("b", " WORD")
    await person.sync()
    person.cut()
    await room_server.evict("a.ipynb")
    await person.connect()
    await person.sync()
    texts = [person.source("b"), *(one["cell"]["source"] for one in person.offers().values())]
    assert "# b WORD" in texts
    assert not copies or "# b WORD" in copies[0][1]


async def test_a_file_that_changes_twice_beside_what_is_not_saved_is_merged_twice(
    room_server: RoomServer, file: Path, restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    restart()
    person = await typed_and_killed(room_server, monkeypatch)
    text, cells = person.source("a"), cells_of(file)
    for number in range(3):
        file.write_text(notebook_json([code("a", cells[0]["source"]), code("b", f"# {number}")]))
        await person.connect()
        person.say(autosave=False)
        await person.sync()
        assert [person.source(each) for each in person.ids()] == [text, f"# {number}"]
        assert person.offers() == {}
        person.cut()
        await room_server.end("a.ipynb")


@pytest.mark.filterwarnings("ignore:.*id")
@pytest.mark.parametrize("ids", [["c0", "", "c2"], ["c0", "c0", "c2"]])
async def test_a_cell_to_which_each_reading_gives_another_id_is_there_once(
    room_server: RoomServer, restart: Restart, ids: Sequence[str]
) -> None:
    restart()
    content = json.loads(in_format(5, ["one", "two", "three"]))
    for cell, cell_id in zip(content["cells"], ids, strict=True):
        cell["id"] = cell_id
        if not cell_id:
            del cell["id"]
    (room_server.root / "a.ipynb").write_text(json.dumps(content))
    person = await Person(room_server, "a.ipynb").open()
    person.say(autosave=False)
    person.type(person.ids()[1], " WORD")
    await person.sync()
    person.cut()
    await room_server.end("a.ipynb")
    await person.connect()
    await person.sync()
    assert [person.source(each) for each in person.ids()] == ["one", "two WORD", "three"]


async def test_who_enters_a_room_waits_for_no_save(
    room_server: RoomServer, file: Path, restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    restart()
    person = await Person(room_server, "a.ipynb").open()
    inside = room_server.room("a.ipynb")
    writing = Held(monkeypatch, inside._file, "_save_content")
    saving = asyncio.create_task(room_server.live("a.ipynb").save())
    await writing.done.wait()
    other = await Person(room_server, "a.ipynb").open()
    assert other.ids() == person.ids()
    writing.go_on.set()
    await saving


@pytest.mark.parametrize("pulled", ["", "# B", "no source"])
async def test_what_a_store_cannot_tell_from_what_was_saved_is_kept_beside_and_offered(
    room_server: RoomServer,
    file: Path,
    restart: Restart,
    monkeypatch: pytest.MonkeyPatch,
    pulled: str,
) -> None:
    """The server that was killed ran without us."""
    text = cells_of(file)[0]["source"]
    person = await typed_and_killed(room_server, monkeypatch)
    copies = restart()
    if pulled:  # while no server runs
        content = json.loads(notebook_json([code("a", "x = 7"), markdown("b", pulled)]))
        if pulled == "no source":  # as no program of Jupyter's writes it
            del content["cells"][1]["source"]
        file.write_text(json.dumps(content))
    before = file.read_bytes()
    for _ in range(2):  # until someone decides
        await person.connect()
        await person.sync()
        assert file.read_bytes() == before
        assert person.source("a") == cells_of(file)[0]["source"]
        assert [
            (offer["cell"]["id"], offer["base"], offer["cell"]["source"])
            for offer in person.offers().values()
        ] == [("a", text, f"{text} WORD")]  # not the pulled text
        person.cut()
        await room_server.end("a.ipynb")
    ((path, kept),) = copies
    assert path == "a.ipynb"
    assert json.loads(kept)["cells"][0]["source"] == f"{text} WORD"
    await person.connect()
    for key in person.offers():
        person.decide(key)
    await person.sync()
    await person.close()
    await room_server.end("a.ipynb")
    assert (await Person(room_server, "a.ipynb").open()).offers() == {}


async def test_a_cell_that_a_store_cannot_tell_from_saved_ones_is_offered_with_its_place(
    room_server: RoomServer, restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    (room_server.root / "a.ipynb").write_text(in_format(5, ["a", "b", "c"]))
    person = await Person(room_server, "a.ipynb").open()
    monkeypatch.setattr(room_server.room("a.ipynb"), "_save_delay", 600)
    _, b, c = person.ids()
    person.type(b, " WORD")
    person.erase(c, "c")
    person.insert_cell(2, "n", "new")
    person.insert_cell(3, "m", "newer")
    await person.sync()
    await person.close()
    await room_server.end("a.ipynb")
    restart()
    person = await Person(room_server, "a.ipynb").open()
    assert sorted(
        (cell["source"], cell["id"], base, *([] if base else above))
        for cell, base, above in map(itemgetter("cell", "base", "above"), person.offers().values())
    ) == [("b WORD", b, "b"), ("new", "n", None, b), ("newer", "m", None, "n", b)]


@pytest.mark.parametrize("saver", ["we", "the room"])
async def test_a_word_that_comes_while_the_file_is_written_is_not_called_saved(
    room_server: RoomServer,
    file: Path,
    restart: Restart,
    monkeypatch: pytest.MonkeyPatch,
    saver: str,
) -> None:
    restart()
    person = await Person(room_server, "a.ipynb").open()
    person.say(autosave=False)
    person.type("a", " ONE")
    await person.sync()
    inside = room_server.room("a.ipynb")
    write = inside._file._save_content

    async def typing(*args: Any) -> Any:
        saved = await write(*args)
        person.type("a", " TWO")
        await person.sync()
        return saved

    monkeypatch.setattr(inside._file, "_save_content", typing)
    await (room_server.live("a.ipynb").save() if saver == "we" else inside._save_to_disc())
    await person.sync()
    assert cells_of(file)[0]["source"].endswith(" ONE")
    assert person.dirty


async def test_a_store_that_forgets_its_history_doubles_no_cell_and_loses_no_word(
    room_server: RoomServer, file: Path, restart: Restart, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`squash_after_inactivity_of`: a write after a pause replaces all earlier ones."""
    restart()
    kind = "jupyter_server_ydoc.stores.SQLiteYStore"
    monkeypatch.setattr(f"{kind}.squash_after_inactivity_of", 3)
    person = await typed_and_killed(room_server, monkeypatch)
    now, later = time.time, 10
    monkeypatch.setattr("pycrdt.store.sqlite.time.time", lambda: now() + later)
    text = person.source("a")
    for _ in range(2):
        await person.connect()
        person.say(autosave=False)
        await person.sync()
        assert person.ids() == ["a", "b"]
        assert person.source("a") == text
        person.cut()
        await room_server.end("a.ipynb")
    await person.connect()
    await room_server.live("a.ipynb").save()
    await room_server.stored("a.ipynb")  # else it only forgets the time before the save
    later = 3600
    person.say(autosave=False)
    person.type("a", " LATE")
    await person.sync()
    person.cut()
    await room_server.end("a.ipynb")
    await person.connect()
    await person.sync()
    (offer,) = person.offers().values()
    assert [person.source("a"), offer["cell"]["source"]] == [text, f"{text} LATE"]


async def test_what_cannot_be_kept_keeps_nobody_out_of_the_room(
    room_server: RoomServer,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def full(path: str, text: str = "") -> None:
        raise OSError("No space left on device")

    person = await typed_and_killed(room_server, monkeypatch)
    room_server.collaboration().fill_rooms(full, full)
    await person.connect()
    await person.sync()
    assert person.source("a") == cells_of(file)[0]["source"]
    assert [offer["cell"]["source"] for offer in person.offers().values()] == ["x = 1\ny = 2 WORD"]
    assert "Unsaved changes in a.ipynb are not stored in a recovery copy" in caplog.messages


async def test_of_a_room_in_which_all_was_saved_nothing_is_kept_beside(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path, restart: Restart
) -> None:
    copies = restart()
    for number in range(2):
        person = await Person(room_server, "a.ipynb").open()
        person.type("a", f"{number}")
        await person.sync()
        await room_notebooks.save_room("a.ipynb", person.has())
        await person.sync()
        person.cut()
        await room_server.end("a.ipynb")
        file.write_text(notebook_json([code("a", f"x = {number}7"), markdown("b", "# b")]))
    await (await Person(room_server, "a.ipynb").open()).close()
    assert copies == []


async def running(room_server: RoomServer, tabs: Tabs) -> tuple[Notebooks, Notebook]:
    """A server that runs the first cell and has saved an edit since."""
    notebooks = Notebooks(room_server.contents, tabs, shared=room_server.sharing.documents)
    notebook = await notebooks.get("a.ipynb")
    notebook.outputs("a").start()
    assert (
        await make_edit(notebook, Update(cell_id="b", old_string="# b", new_string="# B"))
    ).saved.saved
    return notebooks, notebook


@pytest.mark.full
async def test_what_ran_when_a_server_was_killed_runs_no_more(
    room_server: RoomServer, tabs: Tabs, file: Path
) -> None:
    before, notebook = await running(room_server, tabs)
    assert (await notebook.cell("a")).running
    await before.close()
    await room_server.end("a.ipynb")  # the store of the room has it as running
    after = Notebooks(room_server.contents, tabs, shared=room_server.sharing.documents)
    assert not (await (await after.get("a.ipynb")).cell("a")).running
    await after.close()


async def test_of_what_is_shown_as_running_only_the_runs_of_a_killed_server_are_over(
    room_server: RoomServer, tabs: Tabs, file: Path
) -> None:
    """A page has kept the room's document over the restart; in it the user's own run continues."""
    before, notebook = await running(room_server, tabs)
    again = (await make_edit(notebook, Insert(source="x", after="a"))).cell
    assert again is not None
    over, theirs = (
        notebook.outputs(again.id),
        (await make_edit(notebook, Insert(source="y", after="a"))).cell,
    )
    assert theirs is not None
    over.start()
    over.finish(3)
    person = await Person(room_server, "a.ipynb").open()
    person.cell(theirs.id)["execution_state"] = "running"
    await person.sync()
    after = Notebooks(
        room_server.contents, tabs, shared=room_server.sharing.documents
    )  # another life
    cells = {cell.id: cell for cell in await (await after.get("a.ipynb")).read()}
    assert not cells["a"].running
    assert cells[again.id].execution_count == 3
    assert cells[theirs.id].running
    await person.sync()
    assert person.cell("a")["execution_state"] == "idle"
    await before.close()
    await after.close()


@pytest.mark.parametrize("is_stored", [True, False])
async def test_an_edit_whose_room_goes_before_it_is_confirmed_is_done_if_the_next_one_has_it(
    room_server: RoomServer,
    room_notebooks: Notebooks,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,
) -> None:
    notebook = await room_notebooks.get("a.ipynb")
    confirm = room_carrier.RoomCarrier.confirm

    async def evicted_first(carrier: Any) -> Any:
        monkeypatch.setattr(room_carrier.RoomCarrier, "confirm", confirm)
        await room_server.evict("a.ipynb")
        return await confirm(carrier)

    monkeypatch.setattr(room_carrier.RoomCarrier, "confirm", evicted_first)
    if is_stored:
        edit = await make_edit(
            notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 2")
        )
        assert edit.saved.saved
    else:
        monkeypatch.setattr(Timeouts, "store", 0.05)
        async with room_server.room("a.ipynb").ystore.lock:  # it does not answer
            with pytest.raises(NotConfirmed, match="x = 1"):
                await make_edit(
                    notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 2")
                )
    text = "x = 2\ny = 2" if is_stored else "x = 1\ny = 2"
    assert (await notebook.cell("a")).source == cells_of(file)[0]["source"] == text


# ---- people in the room


async def test_edits_beside_text_that_somebody_is_typing_are_done(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path
) -> None:
    notebook = await room_notebooks.get("a.ipynb")
    person = await Person(room_server, "a.ipynb").open()
    for number in range(20):
        step = Update(cell_id="a", old_string="y = 2", new_string=f"y = 2\nz{number}")
        call = asyncio.create_task(make_edit(notebook, step))
        while not call.done():
            person.type("a", "\nmine")
            person.type("a", "0", at=5)
            await person.sync()
        assert (await call).changes
    await person.sync()
    text = person.source("a")
    assert [f"z{number}" for number in range(20) if f"\nz{number}\n" not in text] == []


async def test_the_cell_that_somebody_types_in_is_not_taken_away(
    room_server: RoomServer,
    room_notebooks: Notebooks,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notebook = await room_notebooks.get("a.ipynb")
    ann = await Person(room_server, "a.ipynb").open()
    bob = await Person(room_server, "a.ipynb").open()
    assert notebook.place is None
    ann.edit_in("a")
    await ann.sync()
    bob.edit_in("b")
    bob.type("b", "!")
    await bob.sync()
    await notebook.read()
    assert notebook.place == Place("b", editing=True)
    with pytest.raises(Busy, match="typing in cell `b`"):
        await make_edit(notebook, Delete(cell_id="b"))
    under_the_cursor = bob.cell("b")["source"]
    await make_edit(notebook, Move(cell_id="b", index=0))
    await bob.sync()
    assert bob.ids() == ["b", "a"]
    under_the_cursor.insert(0, "typed ")
    assert bob.source("b") == "typed # b!"
    monkeypatch.setattr(room_carrier, "LATELY", 0)
    assert notebook.place == Place("b", editing=False)
    await bob.sync()
    await make_edit(notebook, Delete(cell_id="b"))


async def test_keys_that_are_under_way_are_waited_for_and_a_moved_cell_gets_them(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path
) -> None:
    notebook = await room_notebooks.get("a.ipynb")
    person = await Person(room_server, "a.ipynb").open()
    person.type("a", "\n# typed")  # at this moment only: the server does not know of it
    edit = await make_edit(notebook, Update(cell_id="a", old_string="y = 2", new_string="y = 3"))
    assert edit.cell is not None
    assert edit.cell.source == person.source("a") == "x = 1\ny = 3\n# typed"
    moving = asyncio.create_task(make_edit(notebook, Move(cell_id="a", index=1)))
    typed = 0
    while not moving.done():
        person.type("a", "!")
        typed += 1
        await person.sync()
    await moving
    assert typed
    await person.sync()
    assert person.ids() == ["b", "a"]
    assert person.source("a") == "x = 1\ny = 3\n# typed" + "!" * typed
    assert (await notebook.cell("a")).source == person.source("a")


async def test_a_page_that_sleeps_is_not_waited_for(
    room_server: RoomServer,
    room_notebooks: Notebooks,
    file: Path,
    tabs: Tabs,
) -> None:
    tabs.timeouts.page = 0.3
    asleep = await Person(room_server, "a.ipynb").open()
    awake = await Person(room_server, "a.ipynb").open()
    notebook = await room_notebooks.get("a.ipynb")
    asleep.frozen = True
    edit = await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 2"))
    assert edit.saved.saved
    await awake.sync()
    assert awake.source("a") == "x = 2\ny = 2"
    asleep.thaw()
    await asleep.sync()
    assert asleep.source("a") == "x = 2\ny = 2"


# ---- a room is made, kept and left


async def test_a_room_is_kept_while_it_is_used_and_goes_after_the_last_one_left(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path
) -> None:
    room_server.extension.document_cleanup_delay = 0
    notebook = await room_notebooks.get("a.ipynb")
    person = await Person(room_server, "a.ipynb").open()
    inside = room_server.room("a.ipynb")
    await person.close()
    await until(lambda: len(inside.clients) == 1)
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert room_server.room("a.ipynb") is inside
    await room_notebooks.close()
    await until(lambda: room_server.rooms == {})
    assert "a.ipynb" not in str(room_server.extension.file_loaders)
    await until(lambda: inside._file.number_of_subscriptions == 0)
    assert (await notebook.cell("a")).source == "x = 2\ny = 2"


async def test_a_room_that_opens_while_jupyter_stops_does_not_outlive_it(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path
) -> None:
    extension = room_server.extension
    await extension.stop_extension()
    await room_notebooks.get("a.ipynb")
    inside = room_server.room("a.ipynb")
    await room_server.collaboration().close()
    assert inside._file._watcher.done()
    with pytest.raises(RuntimeError, match="not running"):
        await extension.ywebsocket_server.stop()


async def test_a_room_with_a_person_in_it_stays_when_we_leave(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path
) -> None:
    room_server.extension.document_cleanup_delay = 0
    await room_notebooks.get("a.ipynb")
    person = await Person(room_server, "a.ipynb").open()
    await room_notebooks.close()
    person.type("a", " # typed")
    await person.sync()
    assert person.source("a") == str(room_server.room("a.ipynb")._document.ycells[0]["source"])


async def test_a_room_that_could_not_be_made_is_not_left_behind_empty(
    room_server: RoomServer,
    room_notebooks: Notebooks,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load = "jupyter_server_ydoc.loaders.FileLoader.load_content"

    async def fails(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(load, fails)
        with pytest.raises(UnreadableNotebook, match="Input/output error"):
            await room_notebooks.get("a.ipynb")
    assert room_server.rooms == {}
    assert len(await (await room_notebooks.get("a.ipynb")).read()) == 2


async def test_a_room_that_does_not_answer_is_busy_and_nothing_hangs(
    room_server: RoomServer,
    room_notebooks: Notebooks,
    file: Path,
    tabs: Tabs,
) -> None:
    notebook = await room_notebooks.get("a.ipynb")
    tabs.timeouts.room = 0.05
    async with room_server.room("a.ipynb")._update_lock:
        with pytest.raises(Busy, match="does not answer"):
            await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert "x = 1" in file.read_text()
    tabs.timeouts.room = 30.0
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))


# ---- files


@pytest.mark.parametrize(
    "metadata",
    [
        {
            "kernelspec": {"name": "python3", "display_name": "Python 3"},
            "language_info": {"name": "python"},
        },
        {},
        {"kernelspec": {"name": "", "display_name": ""}, "language_info": {"name": "r"}},
    ],
    ids=["of a kernel", "none", "of no kernel"],
)
async def test_an_older_format_stays_and_a_turn_is_undone_to_the_byte(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path, metadata: dict[str, Any]
) -> None:
    old: Any = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(f"x = {number}") for number in range(3)],
        metadata=metadata,
    )
    for cell in old.cells:
        del cell["id"]
    old.nbformat_minor = 4
    nbformat.write(old, file)
    before = file.read_bytes()
    notebook = await room_notebooks.get("a.ipynb")
    first, second, third = [cell.id for cell in await notebook.read()]
    edits = [await make_edit(notebook, Update(cell_id=first, old_string="0", new_string="3"))]
    assert edits[0].saved.saved
    assert edits[0].saved.note == ""
    assert file.read_bytes() == before.replace(b"x = 0", b"x = 3")
    edits += [
        await make_edit(notebook, Move(cell_id=third, index=0)),
        await make_edit(notebook, Delete(cell_id=second)),
    ]
    await undo(notebook, [change for edit in edits for change in edit.changes])
    assert file.read_bytes() == before


async def test_without_automatic_saving_the_edit_is_in_the_room_and_not_called_saved(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path
) -> None:
    before = file.read_bytes()
    person = await Person(room_server, "a.ipynb").open()
    person.say(autosave=False)
    await person.sync()
    notebook = await room_notebooks.get("a.ipynb")
    edit = await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    assert not edit.saved.saved
    assert "automatic saving is off" in edit.saved.note
    await person.sync()
    assert person.source("a") == "x = 2\ny = 2"
    assert person.dirty
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("erased", "typed", "text"),
    [("", "\nz = 3", "x = 1\ny = 2\nz = 3"), ("\ny = 2", "", "x = 1")],
    ids=["typed", "deleted"],
)
async def test_a_page_that_saves_has_all_in_the_file_that_it_shows_or_is_told(
    room_server: RoomServer,
    room_notebooks: Notebooks,
    file: Path,
    tabs: Tabs,
    erased: str,
    typed: str,
    text: str,
) -> None:
    person = await Person(room_server, "a.ipynb").open()
    person.say(autosave=False)
    person.type("b", "!")
    await person.sync()
    before = file.read_bytes()
    person.cut()
    person.type("a", typed) if typed else person.erase("a", erased)
    has = person.has()
    tabs.timeouts.sync = 0.1
    with pytest.raises(Busy, match=r"Not saved: .* in this page only"):
        await room_notebooks.save_room("a.ipynb", has)
    assert file.read_bytes() == before
    tabs.timeouts.sync = 60.0
    saving = asyncio.create_task(room_notebooks.save_room("a.ipynb", has))
    await person.connect()
    assert await saving == sha256(file.read_bytes()).hexdigest()
    assert cells_of(file)[0]["source"] == text
    await person.sync()
    assert not person.dirty
    cells = [code("a", text), markdown("b", "# b!"), code("c", "pulled")]
    file.write_text(notebook_json(cells))  # not noticed yet
    await room_notebooks.save_room("a.ipynb", has)
    assert len(cells_of(file)) == 3


async def test_a_save_that_comes_to_nothing_is_not_called_done(
    room_server: RoomServer,
    room_notebooks: Notebooks,
    file: Path,
    tabs: Tabs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    person = await Person(room_server, "a.ipynb").open()
    person.type("a", " WORD")
    await person.sync()
    ended = asyncio.Event()

    async def slow(*args: object, **kwargs: object) -> None:
        await ended.wait()
        raise HTTPError(507, "No space left on device")

    monkeypatch.setattr(room_server.contents, "save", slow)
    tabs.timeouts.room = 0.2
    asyncio.get_running_loop().call_later(0.5, ended.set)
    with pytest.raises(Busy, match="was not saved"):
        await room_notebooks.save_room("a.ipynb", person.has())
    assert "WORD" not in file.read_text()
    assert person.dirty


async def test_what_no_room_can_save_is_said(
    room_server: RoomServer,
    room_notebooks: Notebooks,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(NotebookNotFound):
        await room_notebooks.save_room("missing.ipynb", {})
    with monkeypatch.context() as patched:
        patched.setattr(room_server.contents, "is_writable", lambda path: False)  # root may all
        with pytest.raises(Locked, match="read-only"):
            await room_notebooks.save_room("a.ipynb", {})
    room_server.extension.disable_rtc = True
    with pytest.raises(Busy, match="not in a shared document"):
        await room_notebooks.save_room("a.ipynb", {})


@pytest.mark.full
async def test_what_was_typed_while_a_page_was_cut_off_is_not_called_saved_before_it_is(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path
) -> None:
    notebook = await room_notebooks.get("a.ipynb")
    person = await Person(room_server, "a.ipynb").open()
    person.cut()
    person.type("a", "\nz = 3")
    assert (
        await make_edit(notebook, Update(cell_id="b", old_string="# b", new_string="# B"))
    ).saved.saved
    await person.connect()
    await notebook.read()
    assert not person.dirty  # what the save wrote there has overridden the page's change
    assert (await notebook.save()).saved
    assert [cell["source"] for cell in cells_of(file)] == ["x = 1\ny = 2\nz = 3", "# B"]


async def test_an_approved_run_keeps_a_trusted_notebook_trusted(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path
) -> None:
    room_server.contents.notary.sign(nbformat.read(file, as_version=4))
    notebook = await room_notebooks.get("a.ipynb")
    outputs = notebook.outputs("a")
    outputs.start()
    outputs.display(RICH)
    outputs.finish(1)
    await notebook.trust("a")
    await notebook.save()
    saved = nbformat.read(file, as_version=4)
    assert saved.cells[0].outputs == [RICH]
    assert "trusted" not in saved.cells[0].metadata
    assert room_server.contents.notary.check_signature(saved)


async def test_a_run_goes_on_while_the_room_takes_in_a_changed_file(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path
) -> None:
    cells = [code(f"c{number}", f"n = {number}") for number in range(40)]
    file.write_text(notebook_json(cells))
    person = await Person(room_server, "a.ipynb").open()
    notebook = await room_notebooks.get("a.ipynb")
    outputs = notebook.outputs("c0")
    outputs.start()
    changed = [code(f"c{number}", f"n = {number}  # pulled") for number in range(40)]
    file.write_text(notebook_json(changed))
    taking_in = asyncio.create_task(room_server.room("a.ipynb")._file.maybe_notify())
    number = 0
    while not taking_in.done():
        number += 1
        outputs.stream("stdout", f"{number} ")
        await person.sync()
    await taking_in
    outputs.finish(1)
    await notebook.save()
    assert number > 2
    assert (await notebook.cell("c0")).outputs[0]["text"].endswith(f"{number} ")
    assert (await notebook.cell("c39")).source == "n = 39  # pulled"
    assert [cell["id"] for cell in cells_of(file)] == [f"c{number}" for number in range(40)]


async def test_a_change_of_the_file_that_the_room_is_just_noticing_is_waited_for(
    room_server: RoomServer,
    room_notebooks: Notebooks,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notebook = await room_notebooks.get("a.ipynb")
    noticing, go_on = asyncio.Event(), asyncio.Event()
    get = room_server.contents.get

    async def slow(path: str, content: bool = True, **options: Any) -> Any:
        if not noticing.is_set():
            noticing.set()
            await go_on.wait()
        return await get(path, content=content, **options)

    monkeypatch.setattr(room_server.contents, "get", slow)
    file.write_text(notebook_json([code("a", "x = 5\ny = 2"), markdown("b", "# b")]))
    watcher = asyncio.create_task(room_server.room("a.ipynb")._file.maybe_notify())
    await noticing.wait()
    edit = asyncio.create_task(
        make_edit(notebook, Update(cell_id="a", old_string="y = 2", new_string="y = 3"))
    )
    assert not (await asyncio.wait([edit], timeout=0.5))[0]
    go_on.set()
    assert (await edit).saved.saved
    await watcher
    assert [cell.source for cell in await notebook.read()] == ["x = 5\ny = 3", "# b"]
    assert [cell["source"] for cell in cells_of(file)] == ["x = 5\ny = 3", "# b"]


# ---- transitions: a room appears, a tab was open before


async def test_a_room_that_appears_during_a_turn_takes_over_from_the_file_with_its_run(
    room_server: RoomServer, tabs: Tabs, file: Path
) -> None:
    shared = None
    notebooks = Notebooks(room_server.contents, tabs, shared=lambda: shared)
    notebook = await notebooks.get("a.ipynb")
    outputs = notebook.outputs("a")
    outputs.start()
    outputs.stream("stdout", "1")
    assert notebook.carrier == "file"
    shared = room_server.sharing.documents()
    person = await Person(room_server, "a.ipynb").open()
    person.type("b", " typed")
    await person.sync()
    outputs.stream("stdout", "2")
    outputs.finish(3)
    assert (await notebook.save()).saved
    assert notebook.carrier == "room"
    await person.sync()
    text = {"output_type": "stream", "name": "stdout", "text": "12"}
    assert person.cell("a")["outputs"].to_py() == [text]
    assert cells_of(file)[1]["source"] == "# b typed"
    await notebooks.close()


async def test_a_room_takes_over_from_a_tab_and_says_what_may_be_missing(
    room_server: RoomServer, tabs: Tabs, file: Path
) -> None:
    shared = None
    notebooks = Notebooks(room_server.contents, tabs, shared=lambda: shared)
    tab = await Tab(tabs, room_server.contents, "a.ipynb").open()
    notebook = await notebooks.get("a.ipynb")
    assert notebook.carrier == "tab"
    tab.cut()
    shared = room_server.sharing.documents()
    edit = await make_edit(notebook, Update(cell_id="a", old_string="x = 1", new_string="x = 2"))
    assert notebook.carrier == "room"
    assert "unsaved work of that tab is not in it" in edit.saved.note
    assert cells_of(file)[0]["source"] == "x = 2\ny = 2"
    await notebooks.close()


async def test_a_notebook_made_where_rooms_are_is_worked_in_as_one(
    room_server: RoomServer, room_notebooks: Notebooks
) -> None:
    notebook = await room_notebooks.create("new.ipynb", cells=[{"source": "1"}])
    assert notebook.carrier == "room"
    person = await Person(room_server, "new.ipynb").open()
    (cell,) = await notebook.read()
    await make_edit(notebook, Update(cell_id=cell.id, source="2", base="1"))
    await person.sync()
    assert person.source(cell.id) == "2"


async def test_pages_are_sent_each_message_of_an_edit_at_once(
    room_server: RoomServer, room_notebooks: Notebooks, file: Path
) -> None:
    notebook = await room_notebooks.get("a.ipynb")
    await Person(room_server, "a.ipynb").open()
    await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    (page,) = [c for c in room_server.room("a.ipynb").clients if isinstance(c, WebSocketHandler)]
    assert page.ws_connection is not None
    socket = page.ws_connection.stream.socket
    assert socket.getsockopt(IPPROTO_TCP, TCP_NODELAY)
