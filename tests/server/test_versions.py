"""The oldest and newest packages that `pyproject.toml` allows, each in an environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from ..programs import jupyter_server

REPOSITORY = Path(__file__).parents[2]
COMMAND = "jupyter server --port 8888 --IdentityProvider.token=secret"
EXAMPLE = "work.ipynb"


def installed(folder: Path, resolution: str, extras: str) -> Path:
    """The programs of an environment with us and that resolution of our pins."""
    uv = shutil.which("uv")
    assert uv is not None, "this test makes environments with uv: pip install uv"
    environment = folder / "environment"

    def run(*arguments: str) -> None:
        subprocess.run([uv, *arguments], check=True, cwd=folder, env=os.environ)

    run("venv", "-q", "--python", sys.executable, str(environment))
    python = str(environment / "bin" / "python")
    package = f"{REPOSITORY}{extras}"
    run("pip", "install", "-q", "--python", python, f"--resolution={resolution}", package)
    run("pip", "install", "-q", "--python", python, "ipykernel")
    return environment / "bin"


def versions(programs: Path) -> dict[str, str]:
    listed = subprocess.run(
        [
            shutil.which("uv") or "uv",
            "pip",
            "list",
            "--format=json",
            "--python",
            programs / "python",
        ],
        check=True,
        capture_output=True,
    )
    return {each["name"]: each["version"] for each in json.loads(listed.stdout)}


@pytest.mark.long
@pytest.mark.parametrize(
    ("resolution", "extras"), [("lowest-direct", ""), ("highest", ""), ("highest", "[lab]")]
)
def test_it_works_with_the_oldest_and_the_newest_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resolution: str, extras: str
) -> None:
    programs = installed(tmp_path, resolution, extras)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    print(resolution, versions(programs)["jupyter-server"])  # noqa: T201 - for the record
    demo = subprocess.run(
        [programs / "jupyter-agent", "demo", "--headless"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
    )
    assert demo.returncode == 0, demo.stderr
    assert "coffee.ipynb has 6 cells now." in demo.stdout
    served = tmp_path / "served"
    served.mkdir()
    nbformat.write(new_notebook(cells=[new_code_cell("print(6 * 7)", id="a")]), served / EXAMPLE)
    with jupyter_server(
        served, COMMAND.replace("jupyter server", f"{programs}/jupyter-server")
    ) as server:
        assert server.request("GET", "status")["carriers"] == ["tab", "file"]
        ran = server.request("POST", f"notebooks/{EXAMPLE}/cells/a/run", {})
        assert (ran["status"], ran["outputs"][0]["text"]) == ("ok", "42\n")
        change = {"old_string": "7", "new_string": "8"}
        assert server.request("PATCH", f"notebooks/{EXAMPLE}/cells/a", change)["source"] == (
            "print(6 * 8)"
        )
        question = {"id": "talk", "notebook": EXAMPLE, "mode": "auto", "stream": False}
        message = {"role": "user", "content": "run all"}
        asked = server.request(
            "POST", "chat", {**question, "model": "demo:tour", "messages": [message]}
        )
        assert asked["state"] == "done"
        undone = server.request("POST", f"turns/{asked['turn_id']}/undo", {})
        assert undone["conflicts"] == []
    assert "print(6 * 8)" in (served / EXAMPLE).read_text()
