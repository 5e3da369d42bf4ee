"""Runs of cells of real notebooks in real kernels."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from contextlib import aclosing
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp
from nbclient import NotebookClient
from room import Room, printed

from jupyter_agent.document.steps import Delete, Insert
from jupyter_agent.document.undo import undo
from jupyter_agent.errors import Busy, InvalidInput
from jupyter_agent.workspace.run import RunOrigin
from tests.gates import FOREVER
from tests.notebook.editing import make_edit
from tests.waiting import until


async def test_a_run_leaves_its_outputs_and_count_in_the_file(room: Room) -> None:
    run = await room.run("print('hello')\n6 * 7")
    assert await run.wait(60)
    assert (run.status, run.execution_count, run.saved.saved) == ("ok", 1, True)
    cell = room.on_disk(run.cell_id)
    assert cell["execution_count"] == 1
    assert cell["outputs"][0]["text"] == ["hello\n"]
    assert cell["outputs"][1]["data"]["text/plain"] == ["42"]
    described = run.describe()
    assert described["outputs"] == run.outputs()
    assert (described["run_id"], described["status"]) == (run.id, "ok")


async def test_a_run_that_ends_while_a_slow_tab_trusts_it_is_saved(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slowly(cell_id: str) -> None:
        await until(lambda: room.notebook.cached_cell(cell_id).execution_count is not None)

    monkeypatch.setattr(room.notebook, "trust", slowly)
    run = await room.run("1 + 1", trust=True)
    assert await run.wait(60)
    assert room.on_disk(run.cell_id)["execution_count"] == 1


@pytest.fixture
def written(jp_serverapp: ServerApp) -> list[str]:
    """The paths saved by the contents manager, one per save."""
    paths: list[str] = []

    def note(model: Any, **_: Any) -> None:
        paths.append(model["path"])

    jp_serverapp.contents_manager.register_post_save_hook(note)
    return paths


async def test_runs_that_end_within_a_second_share_a_save(
    room: Room, written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.workspace.run_outputs.SAVE_DELAY", 60.0)
    runs = [await room.run(f"print({number})") for number in range(5)]
    written.clear()
    for run in runs:
        assert await run.wait(60, saved=False)
        assert run.describe()["saved"] == "pending"
    assert written == []
    assert await runs[0].wait()
    assert written == ["a.ipynb"]
    for number, run in enumerate(runs):
        assert run.describe()["saved"] is True
        assert room.on_disk(run.cell_id)["outputs"][0]["text"] == [f"{number}\n"]


async def test_a_run_that_nobody_waits_for_is_saved_soon(
    room: Room, written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.workspace.run_outputs.SAVE_DELAY", 0.01)
    run = await room.run("print('left')")
    written.clear()
    await until(lambda: written)
    assert room.on_disk(run.cell_id)["outputs"][0]["text"] == ["left\n"]


async def test_a_run_that_ends_while_another_save_is_under_way_is_in_the_next_one(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, goes_on = asyncio.Event(), asyncio.Event()
    save = room.notebook.save

    async def slowly() -> Any:
        saved = await save()
        under_way.set()
        await goes_on.wait()
        return saved

    monkeypatch.setattr(room.notebook, "save", slowly)
    first = await room.run("print(1)")
    first_saved = asyncio.create_task(first.wait())
    await under_way.wait()
    second = await room.run("print(2)")
    assert await second.wait(60, saved=False)
    second_saved = asyncio.create_task(second.wait())
    goes_on.set()
    assert await first_saved
    assert await second_saved
    assert second.describe()["saved"] is True
    assert room.on_disk(second.cell_id)["outputs"][0]["text"] == ["2\n"]


async def test_at_the_end_of_the_server_runs_that_have_just_ended_are_saved(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.workspace.run_outputs.SAVE_DELAY", 60.0)
    run = await room.run("print('last')")
    assert await run.wait(60, saved=False)
    await room.runs.close()
    assert room.on_disk(run.cell_id)["outputs"][0]["text"] == ["last\n"]


async def test_what_a_run_changed_can_be_told_and_is_told_once(room: Room) -> None:
    run = await room.run("1")
    await run.wait()
    (change,) = run.take_changes()
    assert (change.kind, change.cell_id) == ("outputs", run.cell_id)
    assert change.before is not None
    assert change.after is not None
    assert (change.before.outputs, change.after.execution_count) == ([], 1)
    assert run.take_changes() == []


async def test_who_follows_a_run_late_hears_at_once_of_what_it_has_put_out(room: Room) -> None:
    run = await room.run(f"print('on', flush=True)\n{room.gate.waits}")
    await until(run.outputs)
    async with aclosing(run.updates(60)) as news:
        await anext(news)
    assert not run.ended
    room.gate.open()
    assert await run.wait(60)


@pytest.mark.full
async def test_past_the_wait_the_run_goes_on(room: Room) -> None:
    run = await room.run(f"print('on', flush=True)\n{room.gate.waits}\nprint('off')")
    assert not await run.wait(0.01)
    await printed(run, "on")
    assert run.status == "running"
    room.gate.open()
    assert await run.wait(60)
    assert run.outputs()[0]["text"] == "on\noff\n"


@pytest.mark.full
async def test_outputs_of_a_long_run_are_saved_while_it_runs(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.workspace.run._SAVE_EVERY", 0.1)
    run = await room.run(f"print('on', flush=True)\n{FOREVER}")
    await until(lambda: run.saved.saved)
    assert run.status == "running"
    await run.interrupt()
    await run.wait(60)
    assert run.status == "interrupted"


@pytest.mark.full
async def test_stopping_a_turn_interrupts_its_own_runs_only(room: Room) -> None:
    theirs = await room.run(f"print('on', flush=True)\n{room.gate.waits}", turn_id="t1")
    ours = await room.run("1", turn_id="t2")
    await printed(theirs, "on")
    await room.runs.interrupt_turn("t2")
    room.gate.open()
    await theirs.wait(60)
    await ours.wait(60)
    assert (theirs.status, ours.status) == ("ok", "interrupted")
    assert ours.started is None
    started = await room.run(f"print('on', flush=True)\n{FOREVER}", turn_id="t3")
    await printed(started, "on")
    await room.runs.interrupt_turn("t3")
    assert started.ended, "so its outputs can be taken back at once"


async def test_a_dead_kernel_is_an_error_in_the_cell_and_earlier_outputs_stay(
    room: Room,
) -> None:
    run = await room.run(
        f"import os\nprint('last words', flush=True)\n{room.gate.waits}\nos._exit(1)"
    )
    await printed(run, "last words")
    room.gate.open()
    assert await run.wait(60)
    assert run.status == "died"
    outputs = room.on_disk(run.cell_id)["outputs"]
    assert [output["output_type"] for output in outputs] == ["stream", "error"]
    assert outputs[1]["ename"] == "KernelDied"
    await room.kernel.connect()  # Jupyter starts a new one


@pytest.mark.full
async def test_a_cell_deleted_while_it_runs_loses_its_outputs_to_nobody(room: Room) -> None:
    run = await room.run(f"print('on', flush=True)\n{room.gate.waits}\nprint('off')")
    other = await make_edit(room.notebook, Insert(source="untouched"))
    await printed(run, "on")
    await make_edit(room.notebook, Delete(cell_id=run.cell_id))
    room.gate.open()
    assert await run.wait(60)
    assert run.status == "deleted"
    assert run.take_changes() == []
    assert other.cell is not None
    assert (await room.notebook.cell(other.cell.id)).outputs == []


@pytest.mark.full
async def test_a_cell_deleted_while_it_waits_never_runs(room: Room) -> None:
    first = await room.run(f"print('on', flush=True)\n{room.gate.waits}")
    second = await room.run("x = 'ran'")
    await printed(first, "on")
    await make_edit(room.notebook, Delete(cell_id=second.cell_id))
    room.gate.open()
    assert await second.wait(60)
    assert second.status == "deleted"
    third = await room.run("x")
    await third.wait(60)
    assert third.outputs()[0]["ename"] == "NameError"


@pytest.mark.full
async def test_a_running_cell_is_not_run_a_second_time(room: Room) -> None:
    run = await room.run(f"print('on', flush=True)\n{FOREVER}")
    await printed(run, "on")
    cell = await room.notebook.cell(run.cell_id)
    with pytest.raises(Busy, match=run.id):
        room.runs.start(room.notebook, room.kernel, cell, RunOrigin("ada"))
    await run.interrupt()
    await run.wait(60)


@pytest.mark.full
async def test_only_code_runs(room: Room) -> None:
    edit = await make_edit(room.notebook, Insert(source="# Title", type="markdown"))
    assert edit.cell is not None
    with pytest.raises(InvalidInput, match="markdown"):
        room.runs.start(room.notebook, room.kernel, edit.cell, RunOrigin("ada"))


async def test_a_run_is_known_to_its_owner_only(room: Room) -> None:
    run = await room.run("1")
    await run.wait()
    assert room.runs.get(run.id, "ada") is run
    assert room.runs.get(run.id, "eve") is None
    assert room.runs.get("none", "ada") is None


async def test_at_the_end_of_the_server_what_came_so_far_is_kept(room: Room) -> None:
    run = await room.run(f"print('on', flush=True)\n{FOREVER}")
    await printed(run, "on")
    await room.runs.close()
    assert run.status == "interrupted"
    assert room.on_disk(run.cell_id)["outputs"][0]["text"] == ["on\n"]


async def test_progress_and_displays_show_as_a_terminal_and_a_page_would(room: Room) -> None:
    run = await room.run(
        "import sys\nfrom IPython.display import clear_output\n"
        "for i in range(3):\n    sys.stdout.write(f'\\r{i} done'); sys.stdout.flush()\n"
        "print()\nclear_output(wait=True)\nh = display('a', display_id=True)\nh.update('b')"
    )
    assert await run.wait(60)
    (output,) = run.outputs()
    assert output["data"]["text/plain"] == "'b'"


async def test_a_run_that_updates_the_display_of_another_cell_changes_both_and_undoes_both(
    room: Room,
) -> None:
    first = await room.run("h = display('one', display_id='d')")
    assert await first.wait(60)
    first.take_changes()
    before = (await room.notebook.cell(str(first.cell_id))).outputs
    run = await room.run(
        "from IPython.display import update_display as u\nu('two', display_id='d')"
    )
    assert await run.wait(60)
    changes = run.take_changes()
    assert {change.cell_id for change in changes} == {run.cell_id, first.cell_id}
    assert "two" in str((await room.notebook.cell(str(first.cell_id))).outputs)
    undone = await undo(room.notebook, changes)
    assert undone.conflicts == []
    assert (await room.notebook.cell(str(first.cell_id))).outputs == before


def metadata_of(room: Room) -> dict[str, Any]:
    metadata = json.loads(room.file.read_text())["metadata"]
    assert isinstance(metadata, dict)
    return metadata


STATE = "application/vnd.jupyter.widget-state+json"


async def test_a_run_names_the_language_where_the_notebook_does_not(room: Room) -> None:
    await make_edit(room.notebook, Insert(source="1"))
    assert "language_info" not in metadata_of(room)  # an edit alone does not
    run = await room.run("1 + 1")
    assert await run.wait(60)
    info = metadata_of(room)["language_info"]
    assert (info["name"], info["file_extension"]) == ("python", ".py")
    assert info["codemirror_mode"] == {"name": "ipython", "version": 3}
    nbformat.validate(nbformat.read(room.file, as_version=4))


async def test_what_the_notebook_says_of_its_language_stays(room: Room) -> None:
    content = json.loads(room.file.read_text())
    content["metadata"] = {"language_info": {"name": "mine"}, "other": {"kept": [1.0]}}
    room.file.write_text(json.dumps(content))
    run = await room.run("1 + 1")
    assert await run.wait(60)
    assert metadata_of(room) == content["metadata"]


async def test_widgets_stay_out_of_a_notebook_whose_person_did_not_ask(room: Room) -> None:
    run = await room.run("import ipywidgets\nipywidgets.IntSlider(value=3)")
    assert await run.wait(60)
    assert metadata_of(room).keys() == {"language_info"}


async def test_where_a_notebook_has_the_state_of_widgets_it_is_kept_up_to_date(
    room: Room,
) -> None:
    content = json.loads(room.file.read_text())
    old = {"model_name": "IntSliderModel", "model_module": "m", "state": {}}
    content["metadata"] = {
        "widgets": {STATE: {"version_major": 2, "version_minor": 0, "state": {"gone": old}}}
    }
    room.file.write_text(json.dumps(content))
    shown = await room.run(
        "import ipywidgets as w\nslider, other, picture = w.IntSlider(), w.IntText(), "
        "w.Image(value=b'\\x00\\xff')\nlink = w.jslink((slider, 'value'), (other, 'value'))\n"
        "nobody = w.Text('not shown')\nw.HBox([slider, other, picture])"
    )
    assert await shown.wait(60)
    changed = await room.run("slider.value = 42; picture.value = b'new'")
    assert await changed.wait(60)
    state = metadata_of(room)["widgets"][STATE]
    assert (state["version_major"], state["version_minor"]) == (2, 0)
    models = {model["model_name"]: model for model in state["state"].values()}
    assert {"HBoxModel", "IntSliderModel", "IntTextModel", "ImageModel", "LinkModel"} < {*models}
    assert not {"TextModel"} & {*models}
    assert "gone" not in state["state"]  # no cell shows it
    assert models["IntSliderModel"]["state"]["value"] == 42
    (buffer,) = models["ImageModel"]["buffers"]
    assert base64.b64decode(buffer["data"]) == b"new"
    assert (buffer["path"], buffer["encoding"]) == (["value"], "base64")
    (view,) = (output["data"] for output in room.on_disk(shown.cell_id)["outputs"])
    assert view["application/vnd.jupyter.widget-view+json"]["model_id"] in state["state"]


@pytest.mark.full
async def test_the_stored_state_of_widgets_is_that_of_nbclient(room: Room, tmp_path: Path) -> None:
    code = "import ipywidgets as w\nw.HBox([w.IntSlider(3), w.Image(value=b'x')])"
    theirs = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    resources = {"metadata": {"path": str(tmp_path)}}
    await NotebookClient(theirs, resources=resources).async_execute()
    room.runs.widget_state = True
    run = await room.run(code)
    assert await run.wait(60)
    stored = [theirs.metadata, metadata_of(room)]
    shown = [_without_ids(metadata["widgets"][STATE]["state"]) for metadata in stored]
    assert shown[0] == shown[1]
    assert {*theirs.metadata["language_info"]} == {*metadata_of(room)["language_info"]}


def _without_ids(models: Any) -> list[str]:
    texts = (json.dumps(each, sort_keys=True) for each in models.values())
    return sorted(re.sub(r"IPY_MODEL_\w+", "ID", text) for text in texts)
