"""Runs with misbehaving kernels, processes and people."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import nbformat
import pytest
from jupyter_server.serverapp import ServerApp
from room import Room, printed

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.document.steps import Insert
from jupyter_agent.workspace.run import Run
from jupyter_agent.workspace.run_outputs import CellSink
from tests.gates import FOREVER
from tests.notebook.editing import make_edit
from tests.waiting import until


async def text(run: Run) -> str:
    assert await run.wait(60)
    return "".join(output.get("text", "") for output in run.outputs())


async def saved(room: Room, run: Run, text: str) -> None:
    """Wait until the file contains this."""

    def there() -> bool:
        with suppress(json.JSONDecodeError):  # Jupyter truncates a file before writing
            return text in str(room.on_disk(run.cell_id)["outputs"])
        return False

    await until(there)


async def test_what_comes_after_its_cell_goes_into_that_cell(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.workspace.run_outputs.SAVE_EVERY", 0.2)
    run = await room.run(
        "import asyncio\ngo = asyncio.Event()\n"
        "async def late():\n    await go.wait()\n    print('late')\n    display('too')\n"
        "task = asyncio.create_task(late())\nprint('in time')"
    )
    assert await text(run) == "in time\n"
    other = await room.run("go.set(); await task; print('other')")
    assert await text(other) == "other\n"
    await saved(room, run, "too")
    assert await text(run) == "in time\nlate\n"
    assert room.on_disk(run.cell_id)["execution_count"] == 1


@pytest.mark.full
async def test_what_a_thread_prints_late_is_saved_when_the_server_stops(room: Room) -> None:
    run = await room.run(
        "import threading\nt = threading.Timer(0.3, lambda: print('late')); t.start()\nprint('on')"
    )
    await run.wait()
    await until(lambda: "late" in str(run.outputs()))
    await room.runs.close()
    assert "late\n" in room.on_disk(run.cell_id)["outputs"][0]["text"]


async def test_two_notebooks_on_one_kernel_take_turns(room: Room, jp_serverapp: ServerApp) -> None:
    shutil.copy(room.file, room.file.with_name("b.ipynb"))
    await jp_serverapp.session_manager.create_session(
        path="b.ipynb", name="b.ipynb", type="notebook", kernel_id=room.kernel.id
    )
    other = replace(room, notebook=await room.notebooks.get("b.ipynb"))
    other.file = room.file.with_name("b.ipynb")
    assert await room.kernels.get("b.ipynb") is room.kernel
    first = await room.run(f"print('on', flush=True)\n{room.gate.waits}\nx = ['a']")
    second = await other.run("x.append('b'); print(x)")
    third = await room.run("x.append('c'); print(x)")
    await printed(first, "on")
    blocked = third.describe()
    assert blocked["status"] == "queued"
    assert (blocked["blocked_by"], blocked["busy_cells"]) == (first.id, [first.cell_id])
    assert blocked["queued"] == [second.id]
    room.gate.open()
    assert (await text(second), await text(third)) == ("['a', 'b']\n", "['a', 'b', 'c']\n")
    assert other.on_disk(second.cell_id)["outputs"][0]["text"] == ["['a', 'b']\n"]
    assert [cell.id for cell in await room.notebook.read()] == [first.cell_id, third.cell_id]


@pytest.mark.full
@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("import subprocess\np = subprocess.Popen(['sleep', '60'])\nprint('done')", "done\n"),
        (
            "import os, signal\npid = os.fork()\n"
            "if pid == 0:\n    signal.pause(); os._exit(0)\nprint('parent')",
            "parent\n",
        ),
        (
            "import os\npid = os.fork()\n"
            "if pid == 0:\n    print('child', flush=True); os._exit(0)\n"
            "os.waitpid(pid, 0); print('parent')",
            "child\nparent\n",
        ),
        ("!printf '10%%\\r20%%\\r\\033[1mdone\\033[0m\\n'", "\x1b[1mdone\x1b[0m\n"),
    ],
    ids=["subprocess", "fork", "fork that prints", "progress of a shell"],
)
async def test_children_that_keep_stdout_hold_nothing_up(room: Room, code: str, shown: str) -> None:
    run = await room.run(code)
    assert sorted((await text(run)).split("\n")) == sorted(shown.split("\n"))
    assert run.status == "ok"
    after = "import os, signal\nif 'p' in dir(): p.kill()\nif globals().get('pid'):\n    try: "
    await (await room.run(after + "os.kill(pid, 9)\n    except OSError: pass")).wait(60)


async def test_a_run_that_a_death_ended_is_not_repeated(room: Room) -> None:
    code = "open('effects', 'a').write('once ')\nimport os; os._exit(1)"
    run = await room.run(code)
    behind = await room.run("open('effects', 'a').write('behind ')")
    assert await run.wait(60)
    assert await behind.wait(60)
    assert (run.status, behind.status) == ("died", "died")
    assert behind.note == "The code never started."
    again = await room.run("print(open('effects').read())")
    assert await text(again) == "once \n"


@pytest.mark.full
@pytest.mark.parametrize("how", ["ok", "error", "interrupted", "timeout", "died", "restarted"])
async def test_every_run_ends_in_exactly_one_way(room: Room, how: str) -> None:
    wait = f"print('on', flush=True)\n{FOREVER}"
    dies = f"import os\nprint('on', flush=True)\n{room.gate.waits}\nos._exit(1)"
    code = {"ok": "1", "error": "1 / 0", "died": dies}.get(how, wait)
    options: dict[str, Any] = {"timeout": 0.3} if how == "timeout" else {}
    run = await room.run(code, **options)
    if how in ("interrupted", "restarted", "died"):
        await printed(run, "on")  # a kernel that dies at once may lose its start message
    if how == "interrupted":
        await run.interrupt()
    elif how == "restarted":
        await room.kernel.restart()
    elif how == "died":
        room.gate.open()
    assert await run.wait(60)
    assert run.status == how
    await room.kernel.connect()  # after a death Jupyter starts a new one
    cell = nbformat.from_dict(room.on_disk(run.cell_id))
    assert "execution_state" not in cell
    words_after_end = how == "restarted"  # the traceback of the interrupt may be one
    assert len(run.take_changes()) in ((1, 2) if words_after_end else (1,))


async def test_a_notebook_that_nobody_uses_is_kept_until_its_run_has_ended(
    room: Room, jp_serverapp: ServerApp
) -> None:
    shutil.copy(room.file, room.file.with_name("b.ipynb"))
    forgetful = Notebooks(jp_serverapp.contents_manager, Tabs(), keep=0.05)
    room = replace(room, notebook=await forgetful.get("b.ipynb"))
    room.file = room.file.with_name("b.ipynb")
    run = await room.run(f"{room.gate.waits}\nprint('on')")
    other = await forgetful.get("a.ipynb")
    await until(lambda: [opened["path"] for opened in forgetful.open()] == ["b.ipynb"])
    assert other.path == "a.ipynb"
    room.gate.open()
    assert await run.wait(60)
    assert room.on_disk(run.cell_id)["outputs"][0]["text"] == ["on\n"]
    await forgetful.close()


async def test_a_notebook_is_kept_while_its_code_waits_in_the_kernels_own_queue(
    room: Room, jp_serverapp: ServerApp
) -> None:
    forgetful = Notebooks(jp_serverapp.contents_manager, Tabs(), keep=0.05)
    notebook = await forgetful.get("a.ipynb")
    edit = await make_edit(notebook, Insert(source="1"))
    assert edit.cell is not None
    sent = CellSink(notebook, edit.cell.id, limit=1_000, save=AsyncMock())
    assert await sent.prepare()
    shutil.copy(room.file, room.file.with_name("b.ipynb"))
    await forgetful.get("b.ipynb")
    await until(lambda: [opened["path"] for opened in forgetful.open()] == ["a.ipynb"])
    sent.on_start()
    assert notebook.cached_cell(edit.cell.id).running
    sent.finish(1)
    await until(lambda: not forgetful.open())
    await forgetful.close()


async def test_a_run_that_was_withdrawn_keeps_no_notebook_open(
    room: Room, jp_serverapp: ServerApp
) -> None:
    forgetful = Notebooks(jp_serverapp.contents_manager, Tabs(), keep=0.05)
    room = replace(room, notebook=await forgetful.get("a.ipynb"))
    first = await room.run(room.gate.waits)
    second = await room.run("2")
    await second.interrupt()
    room.gate.open()
    assert await first.wait(60)
    assert await second.wait(60)
    assert second.status == "interrupted"
    await until(lambda: not forgetful.open())
    await forgetful.close()
