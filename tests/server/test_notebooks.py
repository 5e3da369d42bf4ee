"""Notebooks over REST: edits with ETags, runs with ids; people's files are preserved."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jupyter_agent.assistant import Assistant

from ..fakes import calls, says
from ..fakes.script import FakeReply
from ..gates import FOREVER
from .conftest import PATH, Call, ask

SAMPLES = Path(__file__).parent.parent / "notebook" / "samples"


async def test_a_notebook_as_json_and_as_text(call: Call, notebook: Path) -> None:
    whole = (await call("GET", "notebooks", PATH)).body
    assert whole["path"] == PATH
    assert whole["carrier"] == "file"
    assert whole["kernel"] is None
    assert [cell["id"] for cell in whole["cells"]] == ["a1", "b2", "c3"]
    assert set(whole["cells"][1]) >= {
        "id",
        "index",
        "type",
        "source",
        "version",
        "execution_count",
        "outputs",
        "stale",
    }
    bare = (await call("GET", "notebooks", PATH, params={"outputs": "none"})).body
    assert "outputs" not in bare["cells"][1]
    text = await call("GET", "notebooks", PATH, params={"format": "text"})
    assert text.headers["Content-Type"].startswith("text/plain")
    assert "print('x is', x)" in text.text


async def test_each_answer_is_json_whatever_numbers_a_notebook_has(
    call: Call, replies: list[FakeReply], notebook: Path
) -> None:
    """Only Python reads `NaN`."""
    edit = calls("edit_cells", edits=[{"cell_id": "b2", "source": "x = 3"}])
    replies += [[edit], [says("Done.")]]
    content = json.loads(notebook.read_text())
    content["cells"][1]["metadata"] = {"score": float("nan"), "best": [float("inf")]}
    notebook.write_text(json.dumps(content))
    by = {"params": {"by": "script"}}
    edited = await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 2"}, **by)
    listed = await call("GET", "notebooks", PATH, "changes")
    whole = await call("GET", "notebooks", PATH)
    undone = await call("POST", "turns", edited.body["turn_id"], "undo")
    streamed = await call("POST", "chat", body=ask("Three.", notebook=PATH, mode="edit"))
    assert "data-changes" in streamed.text
    for answer in (edited, listed, whole, undone, streamed):
        assert "NaN" not in answer.text
        assert "Infinity" not in answer.text
    assert edited.body["metadata"] == {"score": None, "best": [None]}
    assert undone.body["conflicts"] == []
    assert "NaN" in notebook.read_text()


async def test_a_notebook_is_made_in_a_folder_that_is_not_there_yet(
    call: Call, jp_root_dir: Path
) -> None:
    made = await call("POST", "notebooks", "new/folder/x.ipynb", body={})
    assert (made.status, made.body["path"]) == (201, "new/folder/x.ipynb")
    body = {"mode": "auto", "input": {"path": "other/folder/x.ipynb"}}
    assert not (await call("POST", "tools", "create_notebook", body=body)).body["is_error"]
    assert (jp_root_dir / "other" / "folder" / "x.ipynb").is_file()


@pytest.fixture
def saves(agent: Assistant) -> list[str]:
    """The paths that the contents manager saved, one per save."""
    paths: list[str] = []

    def note(model: Any, **_: Any) -> None:
        paths.append(model["path"])

    agent.server.contents_manager.register_post_save_hook(note)
    return paths


@pytest.mark.full
async def test_an_answer_says_whether_its_outputs_are_on_disk(
    call: Call, notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.workspace.run_outputs.SAVE_DELAY", 60.0)
    cell = ("notebooks", PATH, "cells", "c3", "run")
    await call("POST", "notebooks", PATH, "cells", "b2", "run")
    early = (await call("POST", *cell, body={"save": False})).body
    assert (early["status"], early["saved"]) == ("ok", "pending")
    assert early["outputs"][0]["text"] == "x is 1\n"
    assert nbformat.read(notebook, as_version=4).cells[2].outputs == []
    again = await call("GET", "runs", early["run_id"], params={"save": "false"})
    assert again.body["saved"] == "pending"
    assert (await call("GET", "runs", early["run_id"])).body["saved"] is True
    assert nbformat.read(notebook, as_version=4).cells[2].outputs[0].text == "x is 1\n"
    asked = (await call("POST", *cell)).body
    assert asked["saved"] is True
    assert nbformat.read(notebook, as_version=4).cells[2].execution_count == 3


@pytest.mark.full
@pytest.mark.parametrize("by", ["route", "tool"])
async def test_many_cells_are_saved_once(
    call: Call, notebook: Path, saves: list[str], by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.workspace.run_outputs.SAVE_DELAY", 60.0)
    for _ in range(10):
        await call("POST", "notebooks", PATH, "cells", body={"source": "1 + 1"})
    saves.clear()
    if by == "route":
        answer = await call("POST", "notebooks", PATH, "run")
    else:
        answer = await call(
            "POST", "tools", "run_cells", body={"notebook": PATH, "input": {}, "mode": "auto"}
        )
    assert [run["saved"] for run in answer.body["cells"]] == [True] * 12
    assert saves == [PATH]
    on_disk = nbformat.read(notebook, as_version=4).cells
    assert [cell.execution_count for cell in on_disk[1:]] == list(range(1, 13))


async def test_if_match_refuses_what_was_written_for_another_text(
    call: Call, notebook: Path, jp_auth_header: dict[str, str]
) -> None:
    first = await call("GET", "notebooks", PATH, "cells", "b2")
    etag = first.headers["ETag"]
    assert etag == f'"{first.body["version"]}"'
    headers = {**jp_auth_header, "If-Match": etag}
    cell = ("notebooks", PATH, "cells", "b2")
    done = await call("PATCH", *cell, body={"source": "x = 2"}, headers=headers)
    assert done.status == 200
    assert done.body["saved"] is True
    assert done.headers["ETag"] != etag
    late = await call("PATCH", *cell, body={"source": "x = 3"}, headers=headers)
    assert late.status == 412
    assert late.body["reason"] == "changed"
    assert late.body["current"]["source"] == "x = 2"
    late = await call("DELETE", *cell, headers=headers)
    assert late.status == 412
    anything = {**jp_auth_header, "If-Match": "*"}
    assert (await call("PATCH", *cell, body={"source": "x = 4"}, headers=anything)).status == 200
    for form in ('"{}"', "{}", 'W/"{}"', '"{}-gzip"'):  # the last ones as proxies compress answers
        version = (await call("GET", *cell)).body["version"]
        same = {**jp_auth_header, "If-Match": form.format(version)}
        assert (await call("PATCH", *cell, body={"source": form}, headers=same)).status == 200
        assert (await call("PATCH", *cell, body={"source": "x = 4"}, headers=same)).status == 412
    await call("PATCH", *cell, body={"source": "x = 4"})
    assert nbformat.read(notebook, as_version=4).cells[1].source == "x = 4"


async def test_cells_are_inserted_moved_retyped_and_deleted(call: Call, notebook: Path) -> None:
    made = await call("POST", "notebooks", PATH, "cells", body={"source": "y", "after": "a1"})
    assert made.status == 201
    assert made.body["index"] == 1
    assert made.headers["ETag"] == f'"{made.body["version"]}"'
    cell = ("notebooks", PATH, "cells", made.body["id"])
    assert (await call("POST", *cell, "move", body={"index": 0})).body["index"] == 0
    assert (await call("PATCH", *cell, body={"type": "markdown"})).body["type"] == "markdown"
    assert (await call("DELETE", *cell)).status == 204
    assert (await call("GET", *cell)).status == 404
    twice = {"old_string": "x", "new_string": "y"}
    answer = await call("PATCH", "notebooks", PATH, "cells", "c3", body=twice)
    assert answer.status == 409
    assert answer.body["current"]["source"] == "print('x is', x)"


@pytest.mark.full
async def test_a_run_that_outlasts_wait_is_a_handle(call: Call, notebook: Path) -> None:
    code = f"print('on', flush=True)\n{FOREVER}"
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": code})
    cell = ("notebooks", PATH, "cells", "b2")
    started = await call("POST", *cell, "run", body={"wait": 0})
    assert started.status == 202
    assert started.body["status"] in ("queued", "running")
    run_id = started.body["run_id"]
    shown: list[str] = []
    while shown != ["on\n"]:  # a kernel may send a line in two pieces
        seen = await call("GET", "runs", run_id)
        shown = [output["text"] for output in seen.body["outputs"]]
        assert shown in ([], ["on"], ["on\n"])
    await call("POST", "runs", run_id, "interrupt")
    ended = await call("GET", "runs", run_id)
    assert ended.body["status"] == "interrupted"
    assert ended.body["outputs"][-1]["ename"] == "KeyboardInterrupt"


@pytest.mark.full
async def test_errors_are_errors_and_stop_what_follows(call: Call, notebook: Path) -> None:
    await call("PATCH", "notebooks", PATH, "cells", "b2", body={"source": "x = 1 / 0"})
    answer = await call("POST", "notebooks", PATH, "run")
    (result,) = answer.body["cells"]
    assert result["status"] == "error"
    assert result["outputs"][0]["output_type"] == "error"
    assert result["outputs"][0]["ename"] == "ZeroDivisionError"
    both = await call("POST", "notebooks", PATH, "run", body={"stop_on_error": False})
    assert [result["status"] for result in both.body["cells"]] == ["error", "error"]


@pytest.mark.full
async def test_the_kernel_is_the_notebooks_own_session(
    call: Call, notebook: Path, jp_serverapp: Any
) -> None:
    started = await call("POST", "notebooks", PATH, "kernel", body={"action": "start"})
    (session,) = await jp_serverapp.session_manager.list_sessions()
    assert session["path"] == PATH
    assert session["kernel"]["id"] == started.body["id"]
    await call("POST", "notebooks", PATH, "cells", "b2", "run")
    restarted = await call("POST", "notebooks", PATH, "kernel", body={"action": "restart"})
    assert restarted.body["id"] == started.body["id"]
    lost = await call("POST", "notebooks", PATH, "cells", "c3", "run")
    assert lost.body["outputs"][0]["ename"] == "NameError"
    await call("POST", "notebooks", PATH, "kernel", body={"action": "shutdown"})
    assert await jp_serverapp.session_manager.list_sessions() == []


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


@pytest.mark.parametrize(
    ("path", "status", "why"),
    [
        ("a" * 300 + ".ipynb", 404, "File name too long"),
        ("file.txt/a.ipynb", 404, "Not a directory"),
        ("loop/a.ipynb", 422, "Too many levels of symbolic links"),
    ],
)
async def test_a_path_that_the_disk_refuses_is_the_requests_mistake(
    call: Call, jp_root_dir: Path, path: str, status: int, why: str
) -> None:
    (jp_root_dir / "file.txt").write_text("no folder")
    (jp_root_dir / "loop").symlink_to("loop")
    answer = await call("POST", "notebooks", *path.split("/"), body={})
    assert answer.status == 400
    assert "Choose another path." in answer.body["message"]
    assert sorted(each.name for each in jp_root_dir.iterdir()) == ["file.txt", "loop"]
    read = await call("GET", "notebooks", *path.split("/"))
    assert read.status == status
    assert why in read.body["message"]


@pytest.mark.full
@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.glob("*.ipynb")))
async def test_a_one_line_edit_of_a_real_notebook_is_a_one_line_diff(
    call: Call, jp_root_dir: Path, jp_serverapp: Any, name: str
) -> None:
    shutil.copy(SAMPLES / name, jp_root_dir / name)
    contents = jp_serverapp.contents_manager
    await contents.trust_notebook(name)
    git(jp_root_dir, "init", "-q")
    git(jp_root_dir, "add", name)
    git(jp_root_dir, "commit", "-qm", "as it was")
    cells = (await call("GET", "notebooks", name)).body["cells"]
    first, second, *_ = [cell for cell in cells if cell["type"] == "markdown"]

    async def edit(cell: Any) -> tuple[int, int]:
        line = cell["source"].splitlines()[0]
        body = {"source": cell["source"].replace(line, f"{line}!", 1)}
        edited = await call("PATCH", "notebooks", name, "cells", cell["id"], body=body)
        assert edited.body["saved"] is True
        added, removed, _ = git(jp_root_dir, "diff", "--numstat").split(maxsplit=2)
        git(jp_root_dir, "commit", "-qam", "edited")
        return int(added), int(removed)

    # Before nbformat 4.5 cells had no ids: the file does not get any either.
    assert json.loads((SAMPLES / name).read_text(encoding="utf-8"))["nbformat_minor"] < 5
    assert await edit(first) == (1, 1)
    assert await edit(second) == (1, 1)
    model = await contents.get(name)
    code = [cell for cell in model["content"]["cells"] if cell["cell_type"] == "code"]
    assert all(cell["metadata"]["trusted"] for cell in code), "it was trusted before"


async def test_requests_by_token_are_one_owner(call: Call, agent: Assistant) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "model": "demo:tour", "stream": False}
    done = (await call("POST", "chat", body=body)).body
    # Each request without cookies is another user for Jupyter; the conversation is there for all.
    listed = (await call("GET", "conversations")).body["conversations"]
    assert [conversation["id"] for conversation in listed] == [done["conversation_id"]]
    assert (await call("GET", "turns", done["turn_id"])).status == 200


@pytest.mark.full
async def test_a_cell_that_ran_twice_is_stale_also_where_nobody_looked_between(
    call: Call, notebook: Path
) -> None:
    content = nbformat.read(notebook, as_version=4)
    content.cells[2].source = "x += 1\nx"
    nbformat.write(content, notebook)
    for cell_id in ("b2", "c3", "c3"):
        run = await call("POST", "notebooks", PATH, "cells", cell_id, "run", body={"wait": 60})
        assert run.body["status"] == "ok"
    cells = (await call("GET", "notebooks", PATH)).body["cells"]
    assert [cell["stale"] for cell in cells] == [False, False, True]
    assert cells[2]["stale_why"] == "It changes `x`, which it uses, and ran more than once."


@pytest.mark.full
async def test_what_became_stale_is_told_with_its_reason(call: Call, notebook: Path) -> None:
    for cell_id in ("b2", "c3"):
        await call("POST", "notebooks", PATH, "cells", cell_id, "run")

    async def tool(name: str, **input: Any) -> Any:
        body = {"notebook": PATH, "mode": "auto", "input": input}
        return (await call("POST", "tools", name, body=body)).body

    edited = await tool("update_cell", cell_id="b2", old_string="x = 1", new_string="x = eval('2')")
    assert edited["text"] == "Edited cell `b2` (+1 -1).\nNow stale: `c3`."
    assert edited["stale"] == ["b2", "c3"]
    whole = (await call("GET", "notebooks", PATH, params={"outputs": "none"})).body
    assert [cell["stale"] for cell in whole["cells"]] == [False, True, True]
    assert whole["cells"][1]["stale_why"] == "It was edited and has not run since."
    assert "[3 code c3 In[2] stale]" in (await tool("get_notebook_state"))["text"]
    assert (await tool("run_cell", cell_id="b2"))["stale"] == []
    cell = (await call("GET", "notebooks", PATH, "cells", "c3")).body
    assert cell["stale_why"] == "It uses `x`, which cell `b2` set again later."
    assert (await tool("run_cell", cell_id="c3"))["stale"] == []
    again = await tool("run_cell", cell_id="b2")
    assert again["text"].endswith("Now stale: `c3`.")
    text = await call("GET", "notebooks", PATH, params={"format": "text"})
    assert "c3 In[4] stale]" in text.text


@pytest.mark.parametrize("hook", ["pre_save_hook", "post_save_hook"])
@pytest.mark.parametrize("match", [False, True])
@pytest.mark.parametrize("theirs", ["other text", None], ids=["rewritten", "deleted"])
async def test_an_edit_that_another_program_overtakes_is_a_conflict(
    call: Call, notebook: Path, jp_serverapp: Any, theirs: str | None, match: bool, hook: str
) -> None:
    """It writes the file between our look and our save, or right after it: 409, never 504, since
    nothing is unknown; its version stays.
    """
    content = json.loads(notebook.read_text(encoding="utf-8"))
    (cell,) = [cell for cell in content["cells"] if cell["id"] == "b2"]
    if theirs is None:
        content["cells"].remove(cell)
    else:
        cell["source"] = theirs
    texts = [json.dumps(content)]

    def write(**_: Any) -> None:
        if texts:
            notebook.write_text(texts.pop(), encoding="utf-8")

    version = (await call("GET", "notebooks", PATH, "cells", "b2")).body["version"]
    setattr(jp_serverapp.contents_manager, hook, write)
    answer = await call(
        "PATCH",
        "notebooks",
        PATH,
        "cells",
        "b2",
        body={"source": "x = 2"},
        headers={"If-Match": version if match else "*"},
    )
    before = hook == "pre_save_hook"  # with If-Match nothing was done, as that header demands
    assert (answer.status, answer.body["reason"]) == (412 if before and match else 409, "changed")
    assert json.loads(notebook.read_text(encoding="utf-8")) == content
