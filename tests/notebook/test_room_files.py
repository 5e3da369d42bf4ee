"""Another program writes the file of a notebook that is in a room, and people type there."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import nbformat
import pytest
from jupyter_ydoc import YNotebook
from tornado.web import HTTPError

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.steps import Delete, Update
from jupyter_agent.document.values import as_json
from jupyter_agent.plugs.rooms import live_room, room_carrier, room_versions
from jupyter_agent.plugs.rooms.room_contents import NotSaved, RoomContents
from tests.notebook.editing import make_edit
from tests.waiting import until

from .conftest import Restart, cells_of, code, markdown, notebook_json
from .rooms import Held, Person, RoomServer
from .test_races import as_git_does, atomically, in_place

RICH = {"output_type": "display_data", "metadata": {}}


def write(file: Path, cells: Sequence[Any], minor: int = 5) -> None:
    """As another program does."""
    content = json.loads(notebook_json(cells)) | {"nbformat_minor": minor}
    if minor == 4:
        for cell in content["cells"]:
            del cell["id"]
    file.write_text(json.dumps(content))


Opened: TypeAlias = Callable[..., Awaitable[tuple[Path, Person]]]


@pytest.fixture
def opened(room_server: RoomServer, restart: Restart) -> Opened:
    """Opens a notebook of these cells in a page: returns its file, and the person who has it
    open.
    """

    async def opened(cells: Sequence[Any], minor: int = 5) -> tuple[Path, Person]:
        restart()
        file = room_server.root / "a.ipynb"
        write(file, cells, minor)
        return file, await Person(room_server, "a.ipynb").open()

    return opened


def printed(*lines: str) -> list[Any]:
    return [nbformat.v4.new_output("stream", text=line) for line in lines]


async def notice(server: RoomServer, person: Person) -> None:
    """The room notices that its file was written and loads it, even during a save, and the page
    gets it.
    """
    await server.live("a.ipynb").settle()
    await person.sync()


@pytest.mark.sample(3)
@pytest.mark.parametrize("saves", ["by itself", "when told to", "never"])
@pytest.mark.parametrize("minor", [5, 4])
async def test_what_was_not_saved_stays_when_another_program_writes_the_file(
    room_server: RoomServer,
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
    minor: int,
    saves: str,
) -> None:
    lines = "x = 1\ny = 2\nz = 3"
    texts = {each: each for each in "axcdefgh"} | {"x": lines}
    file, person = await opened([code(*cell) for cell in texts.items()], minor)
    a, x, c, d, e, f, g, h = person.ids()
    if saves != "by itself":
        person.say(autosave=False)
    person.type(x, " WORD")
    person.tag(c, "mine")
    person.delete_cell(d)
    person.run(e, "here")
    person.type(f, " WORD")
    person.insert_cell(1, "n", "new")
    await person.sync()
    pulled = {each: each for each in "axcdehp"} | {"x": f"# pulled\n{lines}", "c": "c pulled"}
    cells = [code(*cell) for cell in pulled.items()]
    cells[-2].outputs = printed("there")
    write(file, cells, minor)
    before = file.read_bytes()
    await notice(room_server, person)
    p = person.ids()[-1]
    expected = {
        a: "a",
        "n": "new",
        x: f"# pulled\n{lines} WORD",
        c: "c pulled",
        e: "e",
        f: "f WORD",
        h: "h",
        p: "p",
    }
    assert {cell_id: person.source(cell_id) for cell_id in person.ids()} == expected
    assert person.ids() == list(expected)
    assert person.offers() == {}
    if saves == "never":
        assert file.read_bytes() == before
        assert person.dirty
        await person.close()
        await room_server.end("a.ipynb")
        person = await Person(room_server, "a.ipynb").open()
        assert {cell_id: person.source(cell_id) for cell_id in person.ids()} == expected
        assert person.offers() == {}
        return
    if saves == "when told to":
        await room_server.live("a.ipynb").save()
    await until(lambda: "WORD" in file.read_text())
    on_disk = cells_of(file)
    assert [cell["source"] for cell in on_disk] == list(expected.values())
    assert on_disk[3]["metadata"]["tags"] == ["mine"]
    assert [on_disk[at]["outputs"][0]["text"] for at in (4, 6)] == [["here"], ["there"]]


async def test_of_what_both_changed_the_page_keeps_its_own_and_offers_the_file_s(
    room_server: RoomServer, opened: Opened
) -> None:
    file, person = await opened([code("a", "x = 1\ny = 2"), markdown("b", "# b")])
    person.say(autosave=False)
    person.type("a", " WORD")
    person.delete_cell("b")
    await person.sync()
    write(file, [code("a", "x = 1\ny = 22"), markdown("b", "# pulled")])
    await notice(room_server, person)
    assert person.source("a") == "x = 1\ny = 2 WORD"
    assert person.ids() == ["a"]
    assert sorted(
        (offer["cell"]["source"], offer["base"], offer["above"], offer["cause"])
        for offer in person.offers().values()
    ) == [("# pulled", "# b", ["a"], "file"), ("x = 1\ny = 22", "x = 1\ny = 2", [], "file")]
    write(file, [code("a", "x = 1\ny = 222"), markdown("b", "# pulled")])
    await notice(room_server, person)
    offered = sorted(offer["cell"]["source"] for offer in person.offers().values())
    assert offered == ["# pulled", "x = 1\ny = 222"]  # an older one was replaced
    await room_server.live("a.ipynb").save()
    assert [cell["source"] for cell in cells_of(file)] == ["x = 1\ny = 2 WORD"]


async def test_what_is_typed_while_a_room_takes_in_its_file_is_there_and_saved(
    room_server: RoomServer, opened: Opened
) -> None:
    cells = [code(f"c{number}", f"x = {number}") for number in range(1500)]
    file, person = await opened(cells)
    cells[0].source = cells[1].source = "pulled"
    cells[2] = markdown("c2", "retyped")
    write(file, cells)
    taking_in = asyncio.create_task(room_server.room("a.ipynb")._file.maybe_notify())
    letters = 0
    while not taking_in.done():
        person.type("c2", "w")
        person.type("c400", "w")
        letters += 1
        await person.sync()
    await taking_in
    await person.sync()
    assert letters > 2
    assert person.source("c0") == "pulled"
    assert person.source("c400") == "x = 400" + "w" * letters
    (typed,) = (offer["cell"]["source"] for offer in person.offers().values())
    assert person.source("c2").count("w") + typed.count("w") >= letters
    await until(partial(has_texts, file, [person.source("c400")]))


@pytest.mark.parametrize("moment", ["before it is written", "right after that", "unaware of that"])
async def test_what_another_program_writes_while_a_room_is_saved_is_in_the_file_as_well(
    room_server: RoomServer, restart: Restart, moment: str
) -> None:
    restart()
    file = room_server.root / "a.ipynb"
    cells = [code("a", "x = 1"), markdown("b", "# b"), markdown("c", "# c")]
    write(file, cells)
    person = await Person(room_server, "a.ipynb").open()
    inside = room_server.room("a.ipynb")
    pulled: list[Any] = []

    def meanwhile(**_: Any) -> None:
        if pulled:
            write(file, pulled.pop())

    hook = "pre_save_hook" if moment == "before it is written" else "post_save_hook"
    setattr(room_server.contents, hook, meanwhile)
    for number in range(2):  # a room that was never saved, and one that was
        cells[2].source = f"# pulled {number}"
        pulled.append(copy.deepcopy(cells))
        person.type("a", f"{number}")
        await person.sync()
        cells[0].source += f"{number}"
        if moment == "right after that":
            pulled[:] = [cells]  # it has read the saved file
        await inside._save_to_disc()
        texts = [cell.source for cell in cells]
        await until(partial(has_texts, file, texts))
        await person.sync()
        assert [person.source(cell_id) for cell_id in person.ids()] == texts
    offers = [offer["cell"]["source"] for offer in person.offers().values()]
    assert offers == (["x = 10"] if moment == "unaware of that" else [])


def has_texts(file: Path, texts: Sequence[str]) -> bool:
    text = file.read_text()
    return all(f'"{each}"' in text for each in texts)


async def test_a_change_of_the_file_is_taken_in_though_who_noticed_it_gave_up(
    room_server: RoomServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A save that the next keystroke postpones, for example."""
    file, person = await opened([code("a", "x = 1"), markdown("b", "# b")])
    loading, go_on = asyncio.Event(), asyncio.Event()
    get = room_server.contents.get

    async def slow(path: str, content: bool = True, **options: Any) -> Any:
        if content:
            loading.set()
            await go_on.wait()
        return await get(path, content=content, **options)

    monkeypatch.setattr(room_server.contents, "get", slow)
    write(file, [code("a", "pulled"), markdown("b", "# b")])
    saving = asyncio.create_task(room_server.live("a.ipynb").save())
    await loading.wait()
    saving.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await saving
    person.type("b", " WORD")
    await person.sync()
    await until(lambda: "WORD" in file.read_text())
    assert [cell["source"] for cell in cells_of(file)] == ["pulled", "# b WORD"]


ODD: dict[str, Callable[[list[Any], dict[str, Any], int], None]] = {
    "as Jupyter writes it": lambda cells, metadata, _: None,
    "whole floats": lambda cells, metadata, number: cells[1]["outputs"].append(
        {**RICH, "data": {"application/json": [float(number), 0.5]}}
    ),
    "text that becomes code": lambda cells, metadata, number: (
        cells[1].update(cell_type="markdown") if number == 0 else None
    ),
    "no kernel": lambda cells, metadata, _: metadata.clear(),
    "lines of Windows": lambda cells, metadata, _: cells[1].update(source="x\r\ny"),
    "no attachments": lambda cells, metadata, _: cells[2].update(attachments={}),
    "no number of a run": lambda cells, metadata, _: cells[1].pop("execution_count"),
    "outputs of a text": lambda cells, metadata, _: cells[2].update(outputs=[]),
    "no cells at first": lambda cells, metadata, number: cells.clear() if number < 2 else None,
    "other ids": lambda cells, metadata, number: [
        cell.update(id=f"{cell['id']}{number}") for cell in cells
    ],
}
"""Files of programs other than Jupyter, the first time and again."""


@pytest.mark.sample(5)
@pytest.mark.parametrize("oddly", ODD.values(), ids=ODD)
async def test_a_file_that_only_others_write_is_followed_and_never_written(
    room_server: RoomServer, restart: Restart, oddly: Callable[..., None]
) -> None:
    restart()
    file = room_server.root / "a.ipynb"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python"}}

    def write_again(number: int) -> None:
        outputs = printed(f"{number}") if number else []
        cells = [code("a", f"{number}"), code("b", "b", outputs), markdown("c", "c")]
        content = json.loads(notebook_json(cells, **kernel))
        oddly(content["cells"], content["metadata"], number)
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps(content))
        written = time.time() - number % 2 * 60
        os.utime(beside, (written, written))
        beside.rename(file)

    write_again(0)
    person = await Person(room_server, "a.ipynb").open()
    inside = room_server.room("a.ipynb")
    for number in range(1, 4):
        write_again(number)
        await notice(room_server, person)
        cells = json.loads(file.read_text())["cells"]
        ours = (await inside._document.aget())["cells"]
        assert [cell["source"] for cell in ours] == [
            "".join(cell["source"]) for cell in cells
        ] or not cells
        assert [as_json(cell.get("outputs", [])) for cell in ours] == [
            [
                {**output, "text": "".join(output["text"])} if "text" in output else as_json(output)
                for output in cell.get("outputs", [])
            ]
            for cell in cells
        ] or not cells
        assert not person.dirty
        assert not room_server.live("a.ipynb").has_unsaved


async def test_a_file_that_is_written_in_the_same_second_as_the_room_wrote_it_is_noticed(
    room_server: RoomServer, opened: Opened
) -> None:
    """On a disk whose times are whole seconds, as FAT has them."""
    file, person = await opened([code("a", "a"), code("b", "b")])

    def in_that_second() -> None:
        os.utime(file, (1_800_000_000, 1_800_000_000))

    in_that_second()
    await notice(room_server, person)
    person.type("b", " WORD")
    await person.sync()
    await room_server.live("a.ipynb").save()
    in_that_second()
    await notice(room_server, person)
    write(file, [code("a", "A"), code("b", "b WORD")])
    in_that_second()
    await notice(room_server, person)
    assert [person.source("a"), person.source("b")] == ["A", "b WORD"]


@pytest.mark.parametrize("way", ["an older file", "noticed by somebody else meanwhile"])
async def test_no_save_of_a_room_takes_the_place_of_a_file_that_it_has_not_taken_in(
    room_server: RoomServer, opened: Opened, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    file, person = await opened([code("a", "a"), code("b", "b")])
    inside = room_server.room("a.ipynb")
    person.say(autosave=False)
    person.type("b", " WORD")
    await person.sync()
    following: list[asyncio.Task[None]] = []

    def pull() -> None:
        write(file, [code("a", "pulled"), code("b", "b")])

    if way == "an older file":  # from a backup, as `cp -p` has it
        pull()
        os.utime(file, (1, 1))
    else:
        aget = YNotebook.aget

        async def slow(document: YNotebook, *args: Any) -> Any:
            content = await aget(document, *args)
            if not following:
                pull()
                following.append(asyncio.create_task(inside._file.maybe_notify()))
                await until(lambda: inside._file.last_modified != room._modified)
            return content

        room = room_server.live("a.ipynb")
        monkeypatch.setattr(YNotebook, "aget", slow)
    await room_server.live("a.ipynb").save()
    await asyncio.gather(*following)
    await room_server.live("a.ipynb").save()
    await person.sync()
    texts = ["pulled", "b WORD"]
    assert [cell["source"] for cell in cells_of(file)] == texts
    assert [person.source(cell_id) for cell_id in person.ids()] == texts


async def test_a_file_that_cannot_be_read_is_left_until_it_can(
    room_server: RoomServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As git leaves it during a merge."""
    monkeypatch.setattr(live_room, "_PAUSE", 0.1)
    file, person = await opened([code("a", "a"), code("b", "b")])
    broken = f"<<<<<<< HEAD\n{file.read_text()}=======\n>>>>>>> theirs\n"
    file.write_text(broken)
    await notice(room_server, person)
    person.type("b", " WORD")
    await person.sync()
    with pytest.raises(NotSaved, match="cannot be read now. Repair it"):
        await room_server.live("a.ipynb").save()
    assert file.read_text() == broken
    write(file, [code("a", "mended"), code("b", "b")])
    await until(partial(has_texts, file, ["mended", "b WORD"]))


async def test_a_save_that_the_next_key_puts_off_in_its_midst_counts(
    room_server: RoomServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, person = await opened([code("a", "x\ny\nz"), code("b", "b")])
    inside = room_server.room("a.ipynb")
    writing = Held(monkeypatch, inside._file, "_save_content")
    monkeypatch.setattr(inside, "_save_delay", 600)
    person.insert_cell(2, "n", "new")
    await person.sync()  # a save that started now would not have all of it
    monkeypatch.setattr(inside, "_save_delay", 0.01)
    person.type("a", " WORD", at=1)
    await writing.done.wait()
    monkeypatch.setattr(inside, "_save_delay", 600)
    person.type("a", "2", at=6)
    person.delete_cell("n")
    await person.sync()
    writing.go_on.set()
    await until(lambda: not room_server.live("a.ipynb")._at_file.locked())
    write(file, [code("a", "x WORD\ny\nz = 3"), code("b", "b"), code("n", "new")])
    await notice(room_server, person)
    assert person.source("a") == "x WORD2\ny\nz = 3"
    assert person.ids() == ["a", "b"]
    assert person.offers() == {}


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("had_read", "minor"),
    [("before", 5), ("before", 4), ("after", 5), ("after", 4), ("long before", 5)],
)
async def test_a_program_that_had_not_read_what_was_saved_last_takes_nothing_of_it_away(
    room_server: RoomServer,
    opened: Opened,
    monkeypatch: pytest.MonkeyPatch,
    had_read: str,
    minor: int,
) -> None:
    """Whether its writer meant it is ambiguous: the document's version stays."""
    texts = {each: f"{each} = 1" for each in "axdeg"}
    file, person = await opened([code(*cell) for cell in texts.items()], minor)
    read = file.read_text()
    _, x, d, e, _ = person.ids()
    person.type(x, " WORD")
    person.insert_cell(1, "n", "new")
    person.delete_cell(d)
    person.run(e, "here")
    await person.sync()
    await room_server.live("a.ipynb").save()
    if had_read == "after":
        read = file.read_text()
    elif had_read == "long before":
        monkeypatch.setattr(room_versions, "WORK", 0)
    person.type(x, "S")
    await person.sync()
    file.write_text(read.replace("a = 1", "a = 2"))
    await notice(room_server, person)
    shown = [person.source(each) for each in person.ids()]
    offers = [(one["cause"], one["cell"]["source"]) for one in person.offers().values()]
    await until(partial(has_texts, file, shown))
    outputs = {cell["source"]: cell["outputs"] for cell in cells_of(file)}["e = 1"]
    if had_read == "long before":
        assert shown == ["a = 2", "x = 1 WORDS", "d = 1", "e = 1", "g = 1"]
        assert (offers, outputs) == ([("file", "x = 1")], [])
    else:
        assert shown == ["a = 2", "new", "x = 1 WORDS", "e = 1", "g = 1"]
        taken_back = [("file", "d = 1"), ("file", "x = 1")] if had_read == "before" else []
        assert sorted(offers) == taken_back
        assert outputs[0]["text"] == ["here"]


async def test_what_a_formatter_writes_right_after_a_save_is_offered_and_doubles_nothing(
    room_server: RoomServer, opened: Opened
) -> None:
    """It may have read the file before that save, as far as can be known."""
    file, person = await opened([code("a", "import os\n"), code("b", "b")])
    typed = "x = 'a'\nprint( x )\n"
    person.type("a", typed)
    await person.sync()
    await room_server.live("a.ipynb").save()
    formatted = 'import os\n\nx = "a"\nprint(x)\n'
    write(file, [code("a", formatted), code("b", "b")])
    await notice(room_server, person)
    offers = [(one["cause"], one["cell"]["source"]) for one in person.offers().values()]
    assert person.source("a") == f"import os\n{typed}"
    assert offers == [("file", formatted)]
    await until(lambda: cells_of(file)[0]["source"] == f"import os\n{typed}")


async def test_a_script_that_puts_a_file_back_right_after_an_edit_has_its_way(
    room_server: RoomServer, room_notebooks: Notebooks, restart: Restart
) -> None:
    """No one is in the room, to type or to decide."""
    restart()
    file = room_server.root / "a.ipynb"
    for number in range(3):
        write(file, [code("a", "x = 1")])
        notebook = await room_notebooks.get("a.ipynb")
        assert (
            await make_edit(notebook, Update(cell_id="a", old_string="1", new_string="2"))
        ).saved.saved, number
    assert cells_of(file)[0]["source"] == "x = 2"


async def test_a_room_that_is_gone_writes_no_more(
    room_server: RoomServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, person = await opened([code("a", "a"), code("b", "b")])
    person.say(autosave=False)
    person.type("b", " OLD")
    await person.sync()
    room = room_server.live("a.ipynb")
    loading = Held(monkeypatch, room.contents, "load")
    write(file, [code("a", "pulled"), code("b", "b")])
    following = asyncio.create_task(room.doc_room._file.maybe_notify())
    await loading.done.wait()
    await person.close()
    await room_server.evict("a.ipynb")
    loading.go_on.set()
    await asyncio.wait([following])  # its error, if any, does not matter
    back = await Person(room_server, "a.ipynb").open()
    back.type("a", " FRESH")
    await back.sync()
    await room_server.live("a.ipynb").save()
    with pytest.raises(NotSaved, match="no one has it open"):
        await room.save()
    assert not room.has_pending_save
    assert cells_of(file)[0]["source"] == "pulled FRESH"


@pytest.mark.sample(2)
@pytest.mark.parametrize("minor", [5, 4])
@pytest.mark.parametrize("made_again", [True, False])
async def test_what_a_page_that_is_away_types_in_cells_that_the_file_takes_away_is_brought_over(
    room_server: RoomServer, restart: Restart, minor: int, made_again: bool
) -> None:
    restart()
    file = room_server.root / "a.ipynb"
    texts = [f"number = {number}" for number in range(7)]
    write(file, [code(str(at), text, printed("old")) for at, text in enumerate(texts)], minor)
    away = await Person(room_server, "a.ipynb").open()
    away.cut()
    for cell_id in away.ids()[1:]:
        away.type(cell_id, " WORD", len("number"))
    if made_again:
        await room_server.end("a.ipynb")
    cells = [code(str(at), texts[at]) for at in (0, 5, 2, 6)]  # 1 and 4 are deleted
    cells[1]["outputs"] = printed("new")
    cells[2:] = [code(cell["id"], f"# pulled\n{cell['source']}") for cell in cells[2:]]
    write(file, [*cells[:3], markdown("3", texts[3]), cells[3]], minor)
    if not made_again:
        await room_server.room("a.ipynb")._file.maybe_notify()
    other = await Person(room_server, "a.ipynb").open()
    assert len(other.ids()) == 5
    await away.connect()
    words = [text.replace("number", "number WORD") for text in texts]
    if minor == 5:  # else it is another cell
        words[2], words[6] = (f"# pulled\n{words[at]}" for at in (2, 6))

    async with asyncio.timeout(20):
        while not {*words[1:]} <= {*map(other.source, other.ids())}:
            await other.sync()
    for _ in range(2):
        for page in (other, away):
            await page.sync()
        assert away.ids() == other.ids()
        now = [other.source(cell_id) for cell_id in other.ids()]
        assert sum(text.count("WORD") for text in now) == 6
        if minor == 5:
            assert now == [texts[0], *(words[at] for at in (1, 5, 2, 3, 4, 6))]
        for page in (other, away):
            page.cut()
        await room_server.end("a.ipynb")
        for page in (other, away):
            await page.connect()


async def test_what_comes_late_is_brought_over_at_once_and_what_comes_meanwhile_as_well(
    room_server: RoomServer, opened: Opened, tabs: Tabs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ends before that loses it."""
    tabs.timeouts.page = 0.1
    file, page = await opened([code("a", "a"), code("b", "b")])
    page.frozen = True
    write(file, [code("a", "a")])
    await room_server.room("a.ipynb")._file.maybe_notify()
    room = room_server.live("a.ipynb")
    meeting, saving = Held(monkeypatch, room.pages, "sync"), Held(monkeypatch, room, "save")
    page.type("b", " FIRST")
    await until(lambda: "FIRST" in str(room.document.source))  # while pages are waited for
    meeting.go_on.set()
    await saving.done.wait()
    page.type("b", " LAST")
    await until(lambda: room.pages.shadow is not None and room.pages.shadow.pending())
    saving.go_on.set()
    await until(lambda: "FIRST LAST" in str(room.document.source))


async def test_words_that_were_deleted_do_not_return_with_a_cell(
    room_server: RoomServer, opened: Opened
) -> None:
    """The store has all of it in one update, if it was written like that."""
    file, person = await opened([code("a", "a SECRET"), code("b", "b"), code("c", "c")])
    person.cut()
    await room_server.end("a.ipynb")
    write(file, [code("a", "a"), code("c", "c")])
    await person.connect()
    person.cut()
    await room_server.end("a.ipynb")
    other = await Person(room_server, "a.ipynb").open()
    person.type("a", " WORD")
    write(file, [code("c", "c")])
    await notice(room_server, other)
    await person.connect()
    await until(lambda: room_server.live("a.ipynb").document.cell_number == 2)
    await other.sync()
    assert [other.source(cell_id) for cell_id in other.ids()] == ["a WORD", "c"]


async def test_a_file_that_takes_a_cell_away_while_an_edit_is_made_ready_takes_no_words(
    room_server: RoomServer,
    opened: Opened,
    unfilled_notebooks: Notebooks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, away = await opened([code("a", "a"), code("b", "b"), code("c", "c")])
    other = await Person(room_server, "a.ipynb").open()
    notebook = await unfilled_notebooks.get("a.ipynb")
    away.cut()
    away.type("b", " WORD")
    full_update = room_carrier.full_update

    async def meanwhile(document: Any) -> bytes:
        copy = await full_update(document)
        write(file, [code("a", "a"), code("c", "c")])
        await notice(room_server, other)
        return copy

    monkeypatch.setattr(room_carrier, "full_update", meanwhile)
    await make_edit(notebook, Delete(cell_id="c"))
    await away.connect()
    await until(lambda: "b WORD" in str(room_server.live("a.ipynb").document.source))


async def test_cells_that_the_file_moves_take_the_others_not_with_them(
    room_server: RoomServer, restart: Restart
) -> None:
    restart()
    file = room_server.root / "a.ipynb"
    ids = [f"c{number}" for number in range(9)]
    write(file, [code(each, each) for each in ids])
    person = await Person(room_server, "a.ipynb").open()
    before = [person.text(cell_id) for cell_id in ids]
    ids = [*ids[1:4], ids[7], *ids[4:7], ids[8], ids[0]]
    write(file, [code(each, each) for each in ids])
    await notice(room_server, person)
    assert person.ids() == ids
    assert [each for each in sorted(ids) if person.text(each) not in before] == ["c0", "c7"]


async def test_what_the_file_says_of_a_cell_that_is_moved_meanwhile_is_offered(
    room_server: RoomServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, person = await opened([code("a", "a"), code("b", "b")])
    follow = live_room.follow

    async def meanwhile(*args: Any) -> Any:
        following = await follow(*args)
        person.delete_cell("a")
        person.insert_cell(1, "a", "a")
        await person.sync()
        return following

    monkeypatch.setattr(live_room, "follow", meanwhile)
    write(file, [code("a", "pulled"), code("b", "b")])
    await notice(room_server, person)
    assert [person.source(each) for each in person.ids()] == ["b", "a"]
    (offer,) = person.offers().values()
    assert (offer["cell"]["source"], offer["cause"]) == ("pulled", "file")


filled_step_by_step = pytest.mark.parametrize(
    "jp_server_config", [{"YDocExtension": {"document_load_progressively": True}}], indirect=True
)


@filled_step_by_step
async def test_what_is_typed_while_a_room_is_filled_step_by_step_is_saved(
    room_server: RoomServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_typed = asyncio.Event()
    store: Any = room_server.extension.ystore_class
    encode = store.encode_state_as_update

    async def wait(*args: Any) -> None:
        await encode(*args)
        await is_typed.wait()

    monkeypatch.setattr(store, "encode_state_as_update", wait)
    file, person = await opened([code("a", "a"), code("b", "b")])
    await until(lambda: "b" in person.ids())
    person.type("b", " WORD")
    await person.sync()
    assert not room_server.room("a.ipynb")._document_progressively_loaded.done()
    is_typed.set()
    await until(partial(has_texts, file, ["a", "b WORD"]))


@filled_step_by_step
async def test_words_in_a_room_that_is_filled_step_by_step_stay_as_well(
    room_server: RoomServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = RoomContents.get

    async def get_once_filled(contents: RoomContents, **options: bool) -> dict[str, Any]:
        if contents._doc_room.ready:
            await contents._doc_room._document_progressively_loaded
        return await get(contents, **options)

    monkeypatch.setattr(RoomContents, "get", get_once_filled)
    file, person = await opened([code("a", "a"), code("b", "b")])
    before = file.read_bytes()
    room = room_server.live("a.ipynb")
    await room_server.room("a.ipynb")._document_progressively_loaded
    await room.settle()
    await until(lambda: not room.has_pending_save)
    assert file.read_bytes() == before  # no one has changed anything
    await person.sync()
    person.say(autosave=False)
    person.type("b", " WORD")
    await person.sync()
    write(file, [code("a", "pulled"), code("b", "b")])
    await notice(room_server, person)
    assert [person.source(each) for each in person.ids()] == ["pulled", "b WORD"]


@pytest.mark.parametrize("minor", [5, 4])
@pytest.mark.parametrize("made_again", [True, False])
async def test_what_is_typed_while_its_file_changes_stays_where_it_was_typed(
    room_server: RoomServer, restart: Restart, minor: int, made_again: bool
) -> None:
    restart()
    file = room_server.root / "a.ipynb"

    def write_texts(**texts: str) -> None:
        outputs = printed(f"{len(texts)}\n")
        write(file, [code(cell_id, text, outputs) for cell_id, text in texts.items()], minor)

    write_texts(a="twin", b="twin", c="x = wor")
    person = await Person(room_server, "a.ipynb").open()
    before = person.ids()
    person.cut()
    person.type(before[1], "s")
    person.type(before[2], "d")
    if made_again:
        await room_server.end("a.ipynb")
    write_texts(n="new", a="twin", b="twin", c="# pulled\nx = wor # pulled")
    if not made_again:
        await room_server.room("a.ipynb")._file.maybe_notify()
    await person.connect()
    await person.sync()
    assert [person.source(cell_id) for cell_id in person.ids()] == [
        "new",
        "twin",
        "twins",
        "# pulled\nx = word # pulled",
    ]
    assert set(before) < set(person.ids())


async def test_no_two_cells_of_a_file_that_keeps_no_ids_are_taken_for_one(
    room_server: RoomServer, restart: Restart
) -> None:
    """Two people who move a cell at the same time have it twice, with one id."""
    restart()
    file = room_server.root / "a.ipynb"

    def write_texts(*texts: str) -> None:
        write(file, [code(f"c{at}", text) for at, text in enumerate(texts)], 4)

    write_texts("one", "two", "three", "one")
    person = await Person(room_server, "a.ipynb").open()
    for cell, cell_id in zip(person.notebook.ycells, ["x", "y", "z", "x"], strict=True):
        cell["id"] = cell_id
    await person.sync()
    write_texts("one", "two", "three", "one", "pulled")
    await room_server.room("a.ipynb")._file.maybe_notify()
    await person.sync()
    texts = [str(cell["source"]) for cell in person.notebook.ycells]
    assert texts == ["one", "two", "three", "one", "pulled"]
    assert person.ids()[1:3] == ["y", "z"]
    assert len(set(person.ids())) == 5


@pytest.mark.full
@pytest.mark.parametrize(
    ("times", "seed"), [(30, 1), pytest.param(1000, 12, marks=pytest.mark.long)]
)
async def test_of_an_editor_that_writes_the_file_at_any_moment_and_who_types_nothing_is_gone(
    room_server: RoomServer, opened: Opened, times: int, seed: int
) -> None:
    file, person = await opened([code(str(number), "") for number in range(5)])
    room, source = room_server.live("a.ipynb"), random.Random(seed)
    found: Counter[str] = Counter()
    for number in range(times):
        mine, theirs = f"mine {number}.", f"theirs {number}."
        content = json.loads(file.read_text())
        cell = source.choice(content["cells"])
        cell["source"] = [*cell["source"], f"\n{theirs}"]
        person.type(source.choice(person.ids()), f"\n{mine}", source.choice([0, None]))
        writing = asyncio.create_task(
            asyncio.to_thread(write_later, file, json.dumps(content), source)
        )
        if source.random() < 0.7:
            with suppress(NotSaved, HTTPError, OSError):  # while git has deleted it
                await room.save()
        await writing
        await room.save()
        await person.sync()
        texts = [person.source(cell_id) for cell_id in person.ids()]
        assert [cell["source"] for cell in cells_of(file)] == texts
        assert sum(text.count(mine) for text in texts) == 1
        offered = [offer["cell"]["source"] for offer in person.offers().values()]
        assert sum(text.count(theirs) for text in texts) == 1 or theirs in str(offered)
        found["both are in it" if theirs in str(texts) else "theirs is offered"] += 1
        if number % 50 == 49:
            for cell_id in person.ids():
                person.erase(cell_id, person.source(cell_id))
            await person.sync()
            await room.save()
    print(f"seed {seed}: {dict(found)}")  # noqa: T201


def write_later(file: Path, text: str, source: random.Random) -> None:
    time.sleep(source.random() * 0.04)  # the moment is the test
    source.choice([in_place, atomically, as_git_does])(file, text)
