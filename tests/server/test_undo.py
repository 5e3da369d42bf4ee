"""A turn over two notebooks, undone in one call over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from pycrdt import UndoManager

from jupyter_agent.assistant import Assistant
from jupyter_agent.conversations.live import LiveTurn
from jupyter_agent.conversations.log import LogEntry
from jupyter_agent.conversations.store import ConversationStore
from jupyter_agent.conversations.undo import undo_turn
from jupyter_agent.errors import StoreUnavailable
from jupyter_agent.workspace.workspace import Workspace
from tests.fakes import Scripted, calls, says
from tests.fakes.script import FakeReply
from tests.gates import Gate
from tests.waiting import soon, until

from ..notebook.browser import Tab
from ..programs import jupyter_server
from .conftest import PATH, Call, ask, live

EXAMPLE = Path(__file__).parent.parent.parent / "jupyter_agent" / "examples" / "coffee.ipynb"
HOME, OTHER = "home.ipynb", "other/second.ipynb"
KERNELS = "What ran in a kernel is not undone: variables and files keep what the turn did to them."


@pytest.fixture
def files(jp_root_dir: Path) -> list[Path]:
    """Two notebooks with cells a to f: outputs, tags, attachments and another program's key."""
    picture = new_output("display_data", {"text/html": "<b>1</b>"}, metadata={"width": 2})
    paths = []
    for name in (HOME, OTHER):
        cells = [
            new_markdown_cell(
                "![](attachment:p)", id="a", attachments={"p": {"image/png": "aGk="}}
            ),
            new_code_cell(
                "x = 1\n\ny = 2\n\nz = 3", id="b", metadata={"tags": ["t"], "mine": {"k": 1}}
            ),
            new_code_cell("print('old', x)", id="c", outputs=[picture], execution_count=7),
            new_code_cell("w = x + y\nw", id="d"),
            new_markdown_cell("# End", id="e"),
            new_code_cell("'f'", id="f", outputs=[picture], execution_count=9),
        ]
        path = jp_root_dir / name
        path.parent.mkdir(exist_ok=True)
        kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernelspec}), path)
        paths.append(path)
    return paths


def work() -> list[FakeReply]:
    """Edits, insertions, deletions, moves and runs in both notebooks."""
    there: dict[str, Any] = {"notebook": OTHER}
    both = ({}, there)
    read = [calls("read_cells", cell_ids=list("abcdef"), **where) for where in both]
    edits = [
        call
        for where in both
        for call in (
            calls("update_cell", cell_id="b", source="x = 10\n\ny = 2\n\nz = 3", **where),
            calls("update_cell", cell_id="c", old_string="'old'", new_string="'new'", **where),
            calls("create_cell", source="print('made')", after="b", **where),
            calls("delete_cell", cell_id="a", **where),
            calls("delete_cell", cell_id="e", **where),
            calls("move_cell", cell_id="f", before="b", **where),
            calls("move_cell", cell_id="d", after="f", **where),
            calls("update_cell", cell_id="f", type="markdown", **where),
        )
    ]
    runs = [calls("run_cell", cell_id=cell_id, **where) for where in both for cell_id in "bc"]
    again = [
        calls("update_cell", cell_id="b", old_string="x = 10", new_string="x = 100", **where)
        for where in both
    ]
    return [read, edits, runs, again, [says("Done.")]]


async def do(call: Call, replies: list[FakeReply]) -> str:
    """The id of the turn."""
    replies += work()
    body = ask("change both", notebook=HOME, stream=False)
    done = (await call("POST", "chat", body=body)).body
    assert done["state"] == "done"
    kinds = [change["kind"] for change in done["changes"]]
    assert [kinds.count(kind) for kind in ("update", "insert", "delete", "move", "outputs")] == [
        8,
        2,
        4,
        4,
        4,
    ]
    assert {change["notebook"] for change in done["changes"]} == {HOME, OTHER}
    return str(done["turn_id"])


def cells(path: Path) -> list[Any]:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return list(notebook.cells)


@pytest.mark.full
async def test_a_turn_over_two_notebooks_is_undone_in_one_call(
    call: Call, replies: list[FakeReply], files: list[Path]
) -> None:
    before = [cells(path) for path in files]
    turn_id = await do(call, replies)
    assert [cells(path) for path in files] != before
    undone = (await call("POST", "turns", turn_id, "undo")).body
    assert undone["conflicts"] == []
    number = len(undone["undone"])
    assert undone["message"] == f"{number} changes undone. Cells are as before. {KERNELS}"
    assert [cells(path) for path in files] == before
    changes = (await call("GET", "turns", turn_id, "changes")).body
    assert all(change["undone"] for change in changes)
    again = (await call("POST", "turns", turn_id, "undo")).body
    assert (again["undone"], again["conflicts"]) == ([], [])
    assert again["message"] == f"Nothing to undo: the changes are undone already. {KERNELS}"
    assert [cells(path) for path in files] == before


async def test_two_undos_at_once_undo_each_change_once(
    call: Call, replies: list[FakeReply], files: list[Path]
) -> None:
    before = [cells(path) for path in files]
    turn_id = await do(call, replies)
    undos = await asyncio.gather(*(call("POST", "turns", turn_id, "undo") for _ in range(3)))
    changes = (await call("GET", "turns", turn_id, "changes")).body
    assert all(change["undone"] and change["conflict"] is None for change in changes)
    assert sum(len(undo.body["undone"]) for undo in undos) == len(changes)
    for undo in undos:
        assert undo.body["conflicts"] == []
        nothing = "Nothing to undo: the changes are undone already. "
        assert undo.body["message"].startswith(nothing) is not bool(undo.body["undone"])
    audit = (await call("GET", "turns", turn_id)).body["audit"]
    undone = [(each["notebook"], each["cell_id"]) for each in audit if each["tool"] == "undo"]
    assert len(undone) == len(set(undone))
    assert [cells(path) for path in files] == before


async def test_an_undo_that_is_given_up_says_of_each_notebook_what_is_true(
    agent: Assistant, call: Call, replies: list[FakeReply], files: list[Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The client disconnects while the result of the first notebook is stored."""
    turn_id = await do(call, replies)
    after = cells(files[1])
    store, storing, stored = agent.runner.stores.conversations, asyncio.Event(), asyncio.Event()
    append = store.append

    async def slow(turn_id: str, entries: Sequence[LogEntry], *, after: int = 0) -> None:
        storing.set()
        await stored.wait()
        await append(turn_id, entries, after=after)

    async def anything(action: str, resource: str) -> bool:
        return True

    turn = await store.turn(turn_id)
    assert turn is not None
    work = Workspace(services=agent.services, user="local", authorize=anything)
    with monkeypatch.context() as patched:
        patched.setattr(store, "append", slow)
        undoing = asyncio.create_task(undo_turn(agent.runner.stores, turn, work, agent.toolbox))
        await soon(storing)
        undoing.cancel()
        await asyncio.sleep(0)
        stored.set()
        with pytest.raises(asyncio.CancelledError):
            await undoing
    changes = (await call("GET", "turns", turn_id, "changes")).body
    assert {each["notebook"] for each in changes if each["undone"]} == {HOME}
    assert cells(files[1]) == after
    audit = (await call("GET", "turns", turn_id)).body["audit"]
    assert {each["notebook"] for each in audit if each["tool"] == "undo"} == {HOME}
    undone = (await call("POST", "turns", turn_id, "undo")).body
    assert ({each["notebook"] for each in undone["undone"]}, undone["conflicts"]) == ({OTHER}, [])


@pytest.mark.full
async def test_what_people_did_since_stays_in_both_notebooks(
    call: Call, replies: list[FakeReply], files: list[Path]
) -> None:
    before = [cells(path) for path in files]
    turn_id = await do(call, replies)
    for name in (HOME, OTHER):
        route = ("notebooks", name, "cells")
        edit = {"old_string": "z = 3", "new_string": "z = 3  # mine"}
        assert (await call("PATCH", *route, "b", body=edit)).status == 200
        edit = {"old_string": "'new', x", "new_string": "'newest', x"}
        assert (await call("PATCH", *route, "c", body=edit)).status == 200
        mine = {"source": "mine = 1", "after": "b"}
        assert (await call("POST", *route, body=mine)).status == 201
    undone = (await call("POST", "turns", turn_id, "undo")).body
    assert [(each["notebook"], each["cell_id"], each["why"]) for each in undone["conflicts"]] == [
        (name, "c", "These lines were edited since.") for name in (HOME, OTHER)
    ]
    assert {each["reason"] for each in undone["conflicts"]} == {"changed"}
    assert undone["message"] == (
        f"{len(undone['undone'])} changes undone. home.ipynb, cell c stays: These lines were "
        f"edited since. other/second.ipynb, cell c stays: These lines were edited since. {KERNELS}"
    )
    assert undone["conflicts"][0]["current"]["source"] == "print('newest', x)"
    for path, was in zip(files, before, strict=True):
        now = cells(path)
        assert [cell.source for cell in now if cell.source == "mine = 1"] == ["mine = 1"]
        theirs = [cell for cell in now if cell.source != "mine = 1"]
        assert [cell.id for cell in theirs] == list("abcdef")
        assert theirs[1].source == "x = 1\n\ny = 2\n\nz = 3  # mine"
        assert theirs[2].source == "print('newest', x)"
        assert [cell for cell in theirs if cell.id in "adef"] == [
            cell for cell in was if cell.id in "adef"
        ]


@pytest.mark.full
async def test_some_cells_of_a_turn_are_undone_and_others_accepted(
    call: Call, replies: list[FakeReply], files: list[Path]
) -> None:
    before = [cells(path) for path in files]
    turn_id = await do(call, replies)
    chosen = {"cells": [{"notebook": OTHER, "cell_id": cell_id} for cell_id in "abe"]}
    undone = (await call("POST", "turns", turn_id, "undo", body=chosen)).body
    assert {change["cell_id"] for change in undone["undone"]} == set("abe")
    home, other = (cells(path) for path in files)
    assert [cell.id for cell in home][:2] == ["f", "d"]
    assert [cell for cell in other if cell.id in "abe"] == [
        cell for cell in before[1] if cell.id in "abe"
    ]
    kept = {"cells": [{"notebook": HOME, "cell_id": "b"}]}
    assert (await call("POST", "turns", turn_id, "accept", body=kept)).body == {"reviewed": 3}
    changes = (await call("GET", "turns", turn_id, "changes")).body
    assert {change["cell_id"] for change in changes if change["reviewed"]} == {"b"}
    rest = (await call("POST", "turns", turn_id, "undo")).body
    assert rest["conflicts"] == []
    assert [cells(path) for path in files] == before


@pytest.mark.full
async def test_a_notebook_that_is_gone_is_a_conflict_and_the_other_is_taken_back(
    call: Call, replies: list[FakeReply], files: list[Path]
) -> None:
    before = cells(files[0])
    turn_id = await do(call, replies)
    files[1].unlink()
    undone = (await call("POST", "turns", turn_id, "undo")).body
    assert {each["notebook"] for each in undone["conflicts"]} == {OTHER}
    why = undone["conflicts"][0]["why"]
    assert why == (
        f"There is no notebook at `{OTHER}`. If it was moved, move it back and undo again; copies "
        f"from before each turn are kept (`GET api/agent/notebooks/{OTHER}/recovery`)."
    )
    cell_ids = ", ".join(each["cell_id"] for each in undone["conflicts"])
    assert f"undone. other/second.ipynb, cells {cell_ids} stay: {why} What" in undone["message"]
    shutil.copy(files[0], files[1])
    chosen = {"cells": [{"notebook": HOME, "cell_id": "none"}]}
    none = (await call("POST", "turns", turn_id, "undo", body=chosen)).body
    assert none["message"].startswith("Nothing to undo: the turn did not change these cells. ")
    assert cells(files[0]) == before


@pytest.mark.full
async def test_an_undo_in_a_read_only_notebook_says_what_helps(
    call: Call, replies: list[FakeReply], files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    turn_id = await do(call, replies)
    with monkeypatch.context() as patch:  # the tests may run as root, which may write anything
        patch.setattr(os, "access", lambda target, mode, **_: mode != os.W_OK)
        kept = (await call("POST", "turns", turn_id, "undo")).body
    assert kept["undone"] == []
    for each in kept["conflicts"]:
        assert each["why"].startswith(f"`{each['notebook']}` is read-only")
        assert each["why"].endswith(". Undo again once it can be written.")
    again = (await call("POST", "turns", turn_id, "undo")).body
    assert again["conflicts"] == []


def forget_ids(path: Path) -> None:
    """As Jupyter wrote it before format 4.5; each cell is there twice."""
    content = json.loads(path.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        del cell["id"]
    content["cells"] += content["cells"]
    path.write_text(json.dumps({**content, "nbformat_minor": 4}), encoding="utf-8")


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param(True, id="with ids"),
        pytest.param(False, id="without ids, cells alike", marks=pytest.mark.full),
    ],
)
def test_a_whole_turn_is_undone_after_the_server_was_killed(tmp_path: Path, ids: bool) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    if not ids:
        forget_ids(tmp_path / "coffee.ipynb")
    before = cells(tmp_path / "coffee.ipynb")
    question = {
        "id": "talk",
        "notebook": "coffee.ipynb",
        "model": "demo:tour",
        "mode": "auto",
        "messages": [{"role": "user", "content": "Show me what you can do."}],
        "stream": False,
    }
    with jupyter_server(tmp_path) as first:
        done = first.request("POST", "chat", question)
        assert {change["kind"] for change in done["changes"]} >= {"insert", "update", "outputs"}
        first.process.kill()
        first.process.wait(60)
    assert cells(tmp_path / "coffee.ipynb") != before
    with jupyter_server(tmp_path) as second:
        undone = second.request("POST", f"turns/{done['turn_id']}/undo", {})
        assert undone["conflicts"] == []
    assert json.dumps(cells(tmp_path / "coffee.ipynb")) == json.dumps(before)


async def test_the_undo_of_a_turn_with_calls_that_a_crash_cut_off_says_that_they_may_stay(
    agent: Assistant, call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    edit = calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2")
    replies += [[calls("get_notebook_state"), edit], [says("Done.")]]
    turn_id = (await call("POST", "chat", body=ask("do it", stream=False))).body["turn_id"]
    await agent.runner.stores.conversations.database.execute(
        "UPDATE calls SET state = 'unknown' WHERE turn_id = ?", turn_id
    )
    undone = (await call("POST", "turns", turn_id, "undo")).body
    cut_off = (
        "The server ended in the middle of `update_cell`: whether that took effect is unknown, and "
        "it is not undone."
    )
    assert undone["message"] == f"1 change undone. {cut_off}"
    again = (await call("POST", "turns", turn_id, "undo")).body
    assert again["message"] == f"0 changes undone. {cut_off}"


RUN = calls("run_code", code="1")
ADD = calls("create_cells", cells=[{"source": "y = x"}], run=True)


def is_second_call_written(turn: LiveTurn) -> bool:
    kinds = [event.type for event in turn.events]
    return kinds[-1:] == ["tool-input-delta"] and kinds.count("tool-input-start") == 2


def unfinished(call: Any) -> Scripted:
    return Scripted(blocks=[call], stop_after=3, then="wait", gate=asyncio.Event())


@pytest.mark.parametrize(
    ("then", "mode"),
    [
        ([unfinished(RUN)], "auto"),
        ([unfinished(ADD)], "auto"),
        ([[RUN], [says("Not run, then.")]], "edit"),
        ([[{**RUN, "input": "[1"}], [says("Not run, then.")]], "auto"),
    ],
    ids=["a run that is stopped as it is written", "cells", "declined", "not JSON"],
)
async def test_the_undo_of_a_turn_whose_call_never_ran_says_nothing_of_a_kernel(
    agent: Assistant,
    call: Call,
    replies: list[FakeReply],
    notebook: Path,
    then: list[FakeReply],
    mode: str,
) -> None:
    replies += [
        [calls("update_cell", cell_id="b2", old_string="x = 1", new_string="x = 2")],
        *then,
    ]
    body = ask("do it", stream=False, mode=mode, on_approval="decline")
    asking = asyncio.ensure_future(call("POST", "chat", body=body))
    if len(then) == 1:
        await live(agent, is_second_call_written)
        await call("POST", "chat", "talk", "stop")
    turn_id = (await asking).body["turn_id"]
    undone = (await call("POST", "turns", turn_id, "undo")).body
    assert undone["message"] == "1 change undone. Cells are as before."


async def test_an_edit_that_somebody_changed_at_the_same_moment_is_in_the_journal_and_undone(
    call: Call, agent: Assistant, notebook: Path, replies: list[FakeReply]
) -> None:
    tab = await Tab(agent.tabs, agent.server.contents_manager, PATH).open()
    replies += [
        [calls("update_cell", cell_id="b2", old_string="x = 1", new_string="w = 0\nx = 1\ny = 2")],
        [says("Somebody was quicker.")],
    ]
    tab.as_the_edit_arrives(lambda: tab.erase("b2", "\ny = 2"))
    turn = (await call("POST", "chat", body=ask("add two", stream=False))).body
    assert tab.source("b2") == "w = 0\nx = 1"
    (part,) = [part for part in turn["message"]["parts"] if "errorText" in part]
    assert "is not in it now" in part["errorText"]
    (change,) = turn["changes"]
    assert change["after"]["source"] == "w = 0\nx = 1\ny = 2"
    undone = (await call("POST", "turns", turn["turn_id"], "undo")).body
    assert undone["conflicts"] == []
    assert tab.source("b2") == "x = 1"


async def test_an_undo_says_in_words_for_people_that_someone_began_to_type_meanwhile(
    call: Call, agent: Assistant, notebook: Path, replies: list[FakeReply]
) -> None:
    tab = await Tab(agent.tabs, agent.server.contents_manager, PATH).open()
    cells = [{"source": "one = 1"}, {"source": "two = 2"}]
    replies += [[calls("create_cells", cells=cells, after="c3")], [says("Done.")]]
    turn = (await call("POST", "chat", body=ask("add two", stream=False))).body
    one, two = tab.ids()[-2:]

    def begin_to_type() -> None:
        tab.edit_in(two)
        tab.type(two, "  # mine")

    tab.as_the_edit_arrives(begin_to_type)  # the cell `one` is deleted by then
    undone = (await call("POST", "turns", turn["turn_id"], "undo")).body
    assert undone["undone"] == []
    another = "Someone began to type in another cell at the same moment. Undo again."
    typing = "The user was typing in the cell."
    kept = {each["cell_id"]: (each["reason"], each["why"]) for each in undone["conflicts"]}
    assert kept == {one: ("unreachable", another), two: ("typing", typing)}
    assert f"cell {two} stays: {typing}" in undone["message"]
    assert tab.ids()[-2:] == [one, two]
    assert tab.source(two) == "two = 2  # mine"


async def test_the_undo_of_a_turn_that_made_a_notebook_says_that_the_file_is_left(
    call: Call, replies: list[FakeReply], notebook: Path, jp_root_dir: Path
) -> None:
    replies += [
        [calls("create_notebook", path="new.ipynb")],
        [calls("create_cell", source="x = 1", notebook="new.ipynb")],
        [says("Done.")],
    ]
    turn = (await call("POST", "chat", body={**ask("Make one."), "stream": False})).body
    undone = (await call("POST", "turns", turn["turn_id"], "undo")).body
    assert len(undone["undone"]) == 1
    assert "The turn created `new.ipynb`: the file stays, without cells." in undone["message"]
    assert json.loads((jp_root_dir / "new.ipynb").read_text(encoding="utf-8"))["cells"] == []
    (jp_root_dir / "new.ipynb").unlink()
    again = (await call("POST", "turns", turn["turn_id"], "undo")).body
    assert "new.ipynb" not in again["message"]


async def test_what_a_thread_printed_after_its_cell_had_ended_is_taken_back_too(
    agent: Assistant, call: Call, replies: list[FakeReply], notebook: Path, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    late = f"import threading\ndef late():\n    {gate.waits}\n    print('late')\n"
    source = {"source": late + "threading.Thread(target=late).start()\nprint('first')"}
    await call("PATCH", "notebooks", PATH, "cells", "b2", body=source)
    before = [(cell.source, cell.get("outputs")) for cell in cells(notebook)]
    replies += [[calls("run_cell", cell_id="b2")], [says("Done.")]]
    done = (await call("POST", "chat", body=ask("Run it.", stream=False))).body
    gate.open()
    document = await agent.services.notebooks.get(PATH)
    await until(lambda: "late" in str(document.cached_cell("b2").outputs))
    undone = (await call("POST", "turns", done["turn_id"], "undo")).body
    assert undone["conflicts"] == [], undone
    assert "Cells are as before" in undone["message"]
    assert [(cell.source, cell.get("outputs")) for cell in cells(notebook)] == before


async def test_each_takes_back_their_own_steps_only(
    agent: Assistant, call: Call, replies: list[FakeReply], notebook: Path, jp_serverapp: Any
) -> None:
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 1\n\ny = 2"})
    tab = await Tab(agent.tabs, jp_serverapp.contents_manager, PATH).open()
    # Like JupyterLab's: it undoes changes without an origin, the person's own.
    own = UndoManager(scopes=[tab.notebook.ycells], capture_timeout_millis=0)
    tab.type("b2", "  # mine", 5)
    replies += [
        [calls("read_cells", cell_ids=["b2"])],
        [calls("update_cell", cell_id="b2", source="x = 1  # mine\n\ny = 20")],
        [says("Done.")],
    ]
    done = (await call("POST", "chat", body=ask("y", stream=False))).body
    tab.type("b2", "\nz = 3")
    assert tab.source("b2") == "x = 1  # mine\n\ny = 20\nz = 3"
    own.undo()
    assert tab.source("b2") == "x = 1  # mine\n\ny = 20"
    undone = (await call("POST", "turns", done["turn_id"], "undo")).body
    assert undone["conflicts"] == []
    assert tab.source("b2") == "x = 1  # mine\n\ny = 2"
    own.undo()
    assert tab.source("b2") == "x = 1\n\ny = 2"


async def test_an_undo_that_cannot_be_stored_is_made_again(
    call: Call, replies: list[FakeReply], files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [cells(path) for path in files]
    turn_id = await do(call, replies)

    async def full(*given: Any, after: int = 0) -> None:
        raise StoreUnavailable("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(ConversationStore, "append", full)
        assert (await call("POST", "turns", turn_id, "undo")).status == 503
    undone = (await call("POST", "turns", turn_id, "undo")).body
    assert undone["conflicts"] == []
    assert [cells(path) for path in files] == before
