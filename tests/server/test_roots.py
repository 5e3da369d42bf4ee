"""Two servers of one person with different root folders and a shared store."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.cli.demo import ALONE

from ..programs import SCRIPTS, Server, environment, jupyter_server

pytestmark = pytest.mark.full

EXAMPLE = Path(__file__).parents[2] / "jupyter_agent" / "examples" / "coffee.ipynb"
NOTEBOOK = "coffee.ipynb"


def command(store: Path) -> str:
    return (
        f"jupyter server --port 8888 --JupyterAgent.store_dir={store} {ALONE}"
        " --IdentityProvider.token=secret"
    )


def changed(server: Server) -> dict[str, Any]:
    """A turn that inserts a cell."""
    question = {"role": "user", "content": "```python\nmax(cups)\n```"}
    body = {
        "id": "talk",
        "notebook": NOTEBOOK,
        "mode": "auto",
        "model": "demo:tour",
        "stream": False,
        "messages": [question],
    }
    turn: dict[str, Any] = server.request("POST", "chat", body)
    assert {change["kind"] for change in turn["changes"]} == {"insert", "outputs"}
    return turn


def test_what_belongs_to_another_root_is_neither_shown_as_here_nor_touched(tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    for root in roots:
        root.mkdir()
        shutil.copy(EXAMPLE, root)
    with (
        jupyter_server(roots[0], command(tmp_path / "store")) as one,
        jupyter_server(roots[1], command(tmp_path / "store")) as two,
    ):
        turn = changed(one)
        for server, here in ((one, True), (two, False)):
            listed = server.request("GET", f"conversations?notebook={NOTEBOOK}")
            assert bool(listed["conversations"]) == here
            assert bool(server.request("GET", f"notebooks/{NOTEBOOK}/changes")) == here
            copies = server.request("GET", f"notebooks/{NOTEBOOK}/recovery")["copies"]
            assert bool(copies) == here
            blamed = server.request("GET", f"notebooks/{NOTEBOOK}/blame")["cells"]
            assert any(cell["turn_id"] for cell in blamed) == here
        before = (roots[1] / NOTEBOOK).read_bytes()
        refused = two.request("POST", f"turns/{turn['turn_id']}/undo", {})
        assert refused["undone"] == []
        assert {
            str(roots[0].resolve()) in conflict["why"] for conflict in refused["conflicts"]
        } == {True}
        assert (roots[1] / NOTEBOOK).read_bytes() == before
        undone = one.request("POST", f"turns/{turn['turn_id']}/undo", {})
        assert undone["undone"]
        assert undone["conflicts"] == []
    cells = json.loads((roots[0] / NOTEBOOK).read_text(encoding="utf-8"))["cells"]
    assert "max(cups)" not in {"".join(cell["source"]) for cell in cells}


def test_a_rename_moves_only_what_belongs_to_its_root(tmp_path: Path) -> None:
    roots = [tmp_path / "one", tmp_path / "two"]
    for root in roots:
        root.mkdir()
        shutil.copy(EXAMPLE, root)
    with (
        jupyter_server(roots[0], command(tmp_path / "store")) as one,
        jupyter_server(roots[1], command(tmp_path / "store")) as two,
    ):
        changed(one)
        done = subprocess.run(
            ["curl", "-sf", "-X", "PATCH", f"http://localhost:{two.port}/api/contents/{NOTEBOOK}"]
            + ["-H", f"Authorization: token {two.token}", "-d", '{"path": "tea.ipynb"}'],
            check=False,
        )
        assert done.returncode == 0
        assert one.request("GET", f"notebooks/{NOTEBOOK}/changes")
        assert not two.request("GET", "notebooks/tea.ipynb/changes")


def test_the_command_for_a_notebook_finds_its_turns_in_any_root(tmp_path: Path) -> None:
    root = tmp_path / "one"
    root.mkdir()
    shutil.copy(EXAMPLE, root)
    with jupyter_server(root, command(tmp_path / "store")) as server:
        changed(server)
    copies = [root, tmp_path, tmp_path / "two", root / "below"]
    for folder in copies[1:]:
        folder.mkdir(exist_ok=True)
        shutil.copy(root / NOTEBOOK, folder)
    for folder in copies:
        for command_, sign in (("blame", "demo:tour"), ("log", "create_cells")):
            printed = subprocess.run(
                [SCRIPTS / "jupyter", "agent", command_, NOTEBOOK, "--store", tmp_path / "store"],
                cwd=folder,
                env=environment(root),
                capture_output=True,
                text=True,
            ).stdout
            assert (sign in printed) == (folder == root), (command_, folder)
