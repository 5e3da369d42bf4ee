"""People who type in a room without a pause: how much they lose when the server is killed, and that
nothing else suffers from saving in time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tornado.web import HTTPError

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.document.steps import Update
from jupyter_agent.plugs.rooms.room_saving import RoomSaver
from tests.notebook.editing import make_edit
from tests.programs import Server, jupyter_server
from tests.waiting import until

from .conftest import cells_of, code, notebook_json
from .rooms import Person, RoomServer, Site, config, forget_saves, stored_source

PACE = 0.1
"""Seconds between two words."""
COMMAND = "jupyter server --port 8888 --IdentityProvider.token=secret"


def site(server: Server) -> Site:
    return Site(server.port, "/", {"Authorization": f"token {server.token}"})


@pytest.mark.plugs
async def test_a_server_with_a_room_ends_when_it_is_told_to_and_saves_first(
    tmp_path: Path, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> None:
    """A task or a thread that it waits for would keep it running. The latest typing is in the file,
    not only in the room's store.
    """
    (tmp_path / ".config").mkdir()
    settings = tmp_path / ".config" / "jupyter_server_config.json"
    settings.write_text(json.dumps(config(tmp_path)))
    file = tmp_path / "a.ipynb"
    file.write_text(notebook_json([code("a", "")]))
    with jupyter_server(tmp_path, COMMAND) as server:
        person = await Person(site(server), "a.ipynb").open()
        person.type("a", "word")
        await until(lambda: "word" in file.read_text())
        person.type("a", "last")
        await person.sync()
    await person.close()  # whose page does not answer while the server ends
    assert "last" in file.read_text()


@pytest.mark.plugs
@pytest.mark.sample(1)
@pytest.mark.parametrize("store", ["knows", "forgets"])
@pytest.mark.parametrize("seconds", [3.0, 0.0], ids=["on", "off"])
async def test_a_kill_takes_nothing_of_what_is_typed_without_a_pause(
    tmp_path: Path, jp_asyncio_loop: asyncio.AbstractEventLoop, seconds: float, store: str
) -> None:
    """The file lacks three seconds of it at most; without us all of it, however long they type."""
    settings = {**config(tmp_path), "JupyterAgent": {"room_save_seconds": seconds}}
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "jupyter_server_config.json").write_text(json.dumps(settings))
    file = tmp_path / "a.ipynb"
    file.write_text(notebook_json([code("a", "")]))
    typed: dict[str, float] = {}
    with jupyter_server(tmp_path, COMMAND) as server:
        person = await Person(site(server), "a.ipynb").open()
        while len(typed) < 100:
            word = f"w{len(typed):03}"
            person.type("a", f"{word} ")
            typed[word] = time.monotonic()
            await asyncio.sleep(PACE)  # how fast a person types
        await person.sync()
        # The room writes each word to its store a moment later; until then only the page has it.
        await until(lambda: stored_source(tmp_path / "ystore.db", "a").split() == list(typed))
        server.process.send_signal(signal.SIGKILL)
        killed = time.monotonic()
        server.process.wait(60)
        await person.close()
    saved = cells_of(file)[0]["source"].split()
    unsaved = [word for word in typed if word not in saved]
    oldest = killed - typed[unsaved[0]] if unsaved else 0.0
    print(f"{len(unsaved)} of {len(typed)} words are not saved, the oldest {oldest:.1f} s old")  # noqa: T201
    if seconds:
        assert oldest < seconds + 1  # it is on disk a moment after its save began
    else:
        assert unsaved == list(typed)
    if store == "forgets":
        forget_saves(tmp_path / "ystore.db")
    with jupyter_server(tmp_path, COMMAND) as server:
        back = await Person(site(server), "a.ipynb").open()
        texts = [back.source("a"), *(offer["cell"]["source"] for offer in back.offers().values())]
        copies = [
            server.request("GET", f"notebooks/a.ipynb/recovery/{copy['id']}")["cells"][0]["source"]
            for copy in server.request("GET", "notebooks/a.ipynb/recovery")["copies"]
        ]
        notes = "\n".join(server.request("GET", "status")["notes"])
        is_offered = "its pages offer to restore the typing" in notes
        await back.close()
    assert texts[-1].split() == list(typed)
    if store == "forgets" and unsaved:
        assert texts[0].split() == saved
        assert copies == texts[1:]
        assert is_offered
    else:
        assert (texts[1:], copies, is_offered) == ([], [], False)


async def test_who_types_while_it_is_saved_knows_the_file_all_the_same(
    room_server: RoomServer, room_notebooks: Notebooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JupyterLab compares the hash in the document with the file's when the user saves, and asks
    about a "File Changed" if they differ.
    """
    file = room_server.root / "a.ipynb"
    file.write_text(notebook_json([code("a", "x = 1"), code("b", "")]))
    person = await Person(room_server, "a.ipynb").open()
    notebook = await room_notebooks.get("a.ipynb")
    # The room's own save, some time after the last change, would correct it.
    monkeypatch.setattr(room_server.room("a.ipynb"), "_save_delay", 600)
    save = room_server.contents.save

    async def typing(*args: Any, **kwargs: Any) -> Any:
        person.type("b", "word")
        await person.sync()
        return await save(*args, **kwargs)

    monkeypatch.setattr(room_server.contents, "save", typing)
    assert (
        await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
    ).saved.saved
    await person.sync()
    on_disk = await room_server.contents.get("a.ipynb", content=False, require_hash=True)
    assert person.notebook.hash == on_disk["hash"]
    assert person.dirty  # their typing is not in the file yet


Postponed = Callable[[str], Awaitable[Person]]


@pytest.fixture
def postponed(room_server: RoomServer, monkeypatch: pytest.MonkeyPatch) -> Postponed:
    """Opens a notebook in which someone has typed `word`, and the room waits for a pause."""

    async def postponed(name: str) -> Person:
        (room_server.root / name).write_text(notebook_json([code("a", "")]))
        person = await Person(room_server, name).open()
        inside = room_server.room(name)
        monkeypatch.setattr(inside, "_save_delay", 600)
        person.type("a", "word")
        await person.sync()
        monkeypatch.setattr(inside, "_save_delay", 0.1)
        return person

    return postponed


@pytest.fixture
def saver(
    room_server: RoomServer, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> Iterator[Callable[[], None]]:
    """Starts to save changes that are unsaved for a fifth of a second."""
    tasks: list[asyncio.Task[None]] = []
    saver = RoomSaver(room_server.collaboration(), 0.2, logging.getLogger("rooms"))
    yield lambda: tasks.append(jp_asyncio_loop.create_task(saver.run()))
    for task in tasks:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            jp_asyncio_loop.run_until_complete(task)


def saved(room_server: RoomServer, name: str) -> bool:
    text = (room_server.root / name).read_text()
    return bool(text) and cells_of(room_server.root / name)[0]["source"] == "word"


async def test_where_automatic_saving_is_off_nothing_is_saved(
    room_server: RoomServer, postponed: Postponed, saver: Callable[[], None]
) -> None:
    off, on = await postponed("off.ipynb"), await postponed("on.ipynb")
    off.say(autosave=False)
    on.say(autosave=True)
    await off.sync()
    saver()
    await until(lambda: saved(room_server, "on.ipynb"))
    assert not saved(room_server, "off.ipynb")


async def test_what_could_not_be_saved_is_said_and_tried_again(
    room_server: RoomServer,
    postponed: Postponed,
    saver: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await postponed("a.ipynb")
    save = room_server.contents.save

    def full(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(room_server.contents, "save", save)
        raise HTTPError(507, "No space left on device")

    monkeypatch.setattr(room_server.contents, "save", full)
    saver()
    await until(lambda: saved(room_server, "a.ipynb"))
    (said,) = [record.message for record in caplog.records if record.name == "rooms"]
    assert "a.ipynb could not be saved" in said
    assert "No space left" in said
