"""A hidden cell is hidden everywhere: in other notebooks, under other names and spellings."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from jupyter_agent.assistant import Assistant
from jupyter_agent.kernel.kernels import Kernels

from .conftest import Call
from .test_sharing import CANARY, SECRET, write

VARIABLES: dict[str, Any] = {"names": ["password", "rows", "name", "In", "_i1", "mine"]}


@pytest.fixture
def other(
    call: Call, jp_fetch: Any, jp_root_dir: Path, jp_asyncio_loop: asyncio.AbstractEventLoop
) -> Path:
    """A notebook in the kernel of `home.ipynb`, whose hidden cell a person ran without anyone
    having looked at it.
    """
    write(jp_root_dir / "home.ipynb", tags=("agent-hidden",))
    cells = [
        new_code_cell("mine = 1", id="o1"),
        new_code_cell("open_vault()", id="o2"),
        new_code_cell("password = 'seen'", id="o3"),
    ]
    nbformat.write(new_notebook(cells=cells), jp_root_dir / "other.ipynb")

    async def share_a_kernel() -> None:
        ran = await call("POST", "notebooks", "home.ipynb", "cells", "h1", "run")
        assert ran.body["status"] == "ok"
        kernel = (await call("GET", "notebooks", "home.ipynb")).body["kernel"]["id"]
        session = {"path": "other.ipynb", "name": "", "type": "notebook", "kernel": {"id": kernel}}
        await jp_fetch("api", "sessions", method="POST", body=json.dumps(session))

    jp_asyncio_loop.run_until_complete(share_a_kernel())
    return jp_root_dir / "other.ipynb"


async def told(call: Call, tool: str, **input: Any) -> dict[str, Any]:
    """The text that a model reads in `other.ipynb`."""
    body = {"notebook": "other.ipynb", "mode": "auto", "input": input}
    answer = await call("POST", "tools", tool, body=body)
    assert answer.status == 200
    assert CANARY not in answer.text, answer.text
    found: dict[str, Any] = answer.body
    return found


async def test_another_notebook_in_the_same_kernel_tells_nothing_of_a_hidden_cell(
    call: Call, other: Path
) -> None:
    assert not (await told(call, "run_cell", cell_id="o1"))["is_error"]
    await told(call, "run_cell", cell_id="o2")
    named = await told(call, "inspect_variables", **VARIABLES)
    assert "password: hidden from you" in named["text"]
    assert "mine: int 1" in named["text"]
    every = await told(call, "inspect_variables")
    assert "mine: int 1" in every["text"]
    assert "password" not in every["text"]
    await told(call, "read_cells", cell_ids=["o2"])
    await told(call, "get_notebook_state")
    assert "password = 'seen'" in (await told(call, "read_cells", cell_ids=["o3"]))["text"]


@pytest.mark.full
async def test_variables_are_kept_back_where_a_notebook_of_the_kernel_cannot_be_read(
    call: Call, other: Path, jp_fetch: Any
) -> None:
    other.with_name("broken.ipynb").write_text("{")
    kernel = (await call("GET", "notebooks", "other.ipynb")).body["kernel"]["id"]
    session = {"path": "broken.ipynb", "name": "", "type": "notebook", "kernel": {"id": kernel}}
    await jp_fetch("api", "sessions", method="POST", body=json.dumps(session))
    told_nothing = await told(call, "inspect_variables")
    assert (told_nothing["is_error"], told_nothing["reason"]) == (True, "denied")
    assert "`broken.ipynb`" in told_nothing["text"]


@pytest.mark.full
async def test_variables_are_shared_as_little_as_the_strictest_notebook_of_the_kernel_says(
    call: Call, other: Path
) -> None:
    home = other.with_name("home.ipynb")
    content = json.loads(home.read_text())
    content["metadata"]["jupyter_agent"] = {"share": "no-outputs"}
    home.write_text(json.dumps(content))
    kept = await told(call, "inspect_variables", names=["mine"])
    assert (kept["is_error"], kept["reason"]) == (True, "denied")


@pytest.mark.full
async def test_a_hidden_cell_stays_hidden_when_its_notebook_is_renamed(
    call: Call, agent: Assistant, jp_fetch: Any, jp_root_dir: Path
) -> None:
    """Also its earlier versions: their variables are still in the kernel."""
    folder = jp_root_dir / "old"
    folder.mkdir()
    write(folder / "home.ipynb", tags=("agent-hidden",))
    (jp_root_dir / "notes.txt").write_text(f"# %%\n{SECRET}\n")
    await call("POST", "notebooks", "old/home.ipynb", "cells", "h1", "run")
    state = {"notebook": "old/home.ipynb", "input": {}}
    await call("POST", "tools", "get_notebook_state", body=state)
    edit = {"source": "nothing = 0"}
    await call("PATCH", "notebooks", "old/home.ipynb", "cells", "h1", body=edit)
    session = await agent.services.kernels._sessions.get_session(path="old/home.ipynb")
    await jp_fetch("api", "contents", "old", method="PATCH", body='{"path": "new"}')
    moved = json.dumps({"path": "new/home.ipynb"})
    await jp_fetch("api", "sessions", session["id"], method="PATCH", body=moved)
    body = {"notebook": "new/home.ipynb", "input": VARIABLES}
    answer = await call("POST", "tools", "inspect_variables", body=body)
    assert CANARY not in answer.text
    assert "password: hidden from you" in answer.body["text"]
    body = {"notebook": "new/home.ipynb", "input": {"path": "notes.txt"}}
    answer = await call("POST", "tools", "read_file", body=body)
    assert CANARY not in answer.text
    assert "# %%" in answer.body["text"]


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "spelled",
    [
        lambda text: text.replace('"cell_type"', '"cell\\u005ftype"'),
        lambda text: text.replace('"cell_type"', '"\\u0063ell_type"'),
        lambda text: text.replace("cell_type", "".join(f"\\u{ord(c):04X}" for c in "cell_type")),
        lambda text: "\ufeff" + text,
        lambda text: json.dumps({"content": json.loads(text)}),
        lambda text: json.dumps({"content": text}),
        lambda text: text.replace('"cell_type"', '"cell\\u005ftype"') + ",",
    ],
)
@pytest.mark.parametrize("name", ["copy.json", "copy.txt", "copy.ipynb.bak"])
async def test_a_copy_of_a_notebook_hides_its_cells_however_it_is_spelled(
    call: Call, jp_root_dir: Path, name: str, spelled: Any
) -> None:
    write(jp_root_dir / "home.ipynb", tags=("agent-hidden",))
    (jp_root_dir / name).write_text(spelled((jp_root_dir / "home.ipynb").read_text()))
    nbformat.write(new_notebook(cells=[new_code_cell("1", id="o1")]), jp_root_dir / "other.ipynb")
    await told(call, "read_file", path=name)


@pytest.mark.parametrize("name", ["home.py", "home.md", "report.py"])
async def test_an_export_of_a_notebook_shows_nothing_of_its_hidden_cells(
    call: Call, jp_root_dir: Path, name: str
) -> None:
    """Under its own name also if no one has looked at the notebook."""
    write(jp_root_dir / "home.ipynb", tags=("agent-hidden",))
    (jp_root_dir / name).write_text(f"# %%\nx = 1\n\n# %%\n{SECRET}\n")
    nbformat.write(new_notebook(cells=[new_code_cell("1", id="o1")]), jp_root_dir / "other.ipynb")
    if name == "report.py":
        await told(call, "get_notebook_state", notebook="home.ipynb")
    assert "x = 1" in (await told(call, "read_file", path=name))["text"]


@pytest.mark.parametrize("share", [None, "no-outputs"])
@pytest.mark.parametrize("tool", ["interrupt_kernel", "wait_for_run"])
async def test_a_run_in_another_notebook_tells_what_that_notebook_shares(
    call: Call, jp_root_dir: Path, tool: str, share: str | None
) -> None:
    """Also its facts, which the person of the turn's own notebook reads as they are."""
    source = "import time; print('KANA' + 'RI', flush=True); time.sleep(60)"
    tags = {} if share else {"tags": ["agent-hidden"]}
    about = {"jupyter_agent": {"share": share}} if share else {}
    cells = [new_code_cell(source, id="o1", metadata=tags)]
    elsewhere = jp_root_dir / "elsewhere.ipynb"
    nbformat.write(new_notebook(cells=cells, metadata=about), elsewhere)
    nbformat.write(new_notebook(cells=[new_code_cell("1", id="o1")]), jp_root_dir / "other.ipynb")
    path = ("notebooks", "elsewhere.ipynb", "cells", "o1", "run")
    run_id = (await call("POST", *path, body={"wait": 0})).body["run_id"]
    while CANARY not in json.dumps((await call("GET", "runs", run_id)).body):
        pass
    inputs: dict[str, Any] = {
        "interrupt_kernel": {"notebook": "elsewhere.ipynb"},
        "wait_for_run": {"run_id": run_id, "wait": 0},
    }
    body = {"notebook": "other.ipynb", "mode": "auto", "allow": [tool], "input": inputs[tool]}
    answer = await call("POST", "tools", tool, body=body)
    assert not answer.body["is_error"], answer.text
    assert run_id in answer.text
    assert CANARY not in answer.text


@pytest.mark.full
async def test_the_kernels_of_other_notebooks_are_not_asked_for(
    call: Call, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a kernel's own users need to know its other users: each costs a request to a gateway."""
    asked: list[str] = []
    paths = Kernels.paths

    async def counted(self: Kernels, kernel: Any) -> list[str]:
        asked.append(kernel.id)
        return await paths(self, kernel)

    monkeypatch.setattr(Kernels, "paths", counted)
    await told(call, "get_notebook_state")
    await told(call, "read_cells", cell_ids=["o1"])
    assert asked == []
    await told(call, "inspect_variables")
    assert len(asked) == 1
