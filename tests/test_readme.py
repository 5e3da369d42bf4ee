"""The README's and the documents' commands work."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import jupyter_agent
from jupyter_agent.extension import JupyterAgent

from .programs import SCRIPTS, Server, jupyter_server, run

ROOT = Path(__file__).parent.parent


def commands(document: str) -> list[str]:
    """The commands in a document's code blocks."""
    text = (ROOT / document).read_text(encoding="utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", text, re.S)
    return [
        command.replace("\\\n", "") for block in blocks for command in block.strip().split("\n\n")
    ]


README = commands("README.md")
TESTING = 'python -m pip install -e ".[test]" && pytest'
COMMANDS = commands("docs/headless.md")
ASKING = [
    line for command in COMMANDS for line in re.split(r"\n(?=curl)", command) if "curl" in line
]


def test_the_readme_names_its_two_commands() -> None:
    assert 'pip install ".[lab]" && jupyter agent demo' in README
    assert TESTING in README
    assert len(ASKING) == 4


def test_every_other_command_of_a_document_is_run_by_a_test_or_by_ci() -> None:
    demo = 'pip install ".[lab]" && jupyter agent demo'
    are_run = {*COMMANDS, *commands("docs/cli.md"), demo, TESTING}
    pages = ["README.md", "CONTRIBUTING.md"]
    pages += [f"docs/{page.name}" for page in ROOT.glob("docs/*.md")]
    assert {command for page in pages for command in commands(page)} <= are_run


def test_programs_that_tests_start_import_the_files_that_are_tested(tmp_path: Path) -> None:
    code = "import jupyter_agent; print(jupyter_agent.__file__)"
    started = run(tmp_path, SCRIPTS / "python", "-c", code)
    assert Path(started.stdout.strip()) == Path(jupyter_agent.__file__)
    assert Path(jupyter_agent.__file__).is_relative_to(ROOT)


@pytest.mark.full
def test_the_headless_demo_changes_and_runs_a_notebook(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPTS / "jupyter", "agent", "demo", "--headless")
    assert done.returncode == 0, done.stderr
    assert "Scripted tour" in done.stdout
    assert "The notebook has 4 cells." in done.stdout
    assert "The mean of 8 numbers is 3.88" in done.stdout
    assert "coffee.ipynb has 6 cells now." in done.stdout


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """The documents' server in a folder with the example notebook."""
    shutil.copy(ROOT / "jupyter_agent" / "examples" / "coffee.ipynb", tmp_path)
    (command,) = [command for command in COMMANDS if command.startswith("jupyter server")]
    with jupyter_server(tmp_path, command) as running:
        yield running


def test_the_headless_commands_work_as_they_stand(server: Server, tmp_path: Path) -> None:
    asked = [
        run(tmp_path, "bash", "-c", command.replace("8888", str(server.port))) for command in ASKING
    ]
    assert {each.returncode for each in asked} == {0}, asked
    answers = [each.stdout for each in asked]
    turn = json.loads(answers[0])
    assert turn["state"] == "done"
    assert {change["kind"] for change in turn["changes"]} == {"outputs"}
    assert "revenue = {" in answers[1]
    ran = json.loads(answers[2])
    assert ran["status"] == "ok"
    assert "a day" in ran["outputs"][0]["data"]["text/plain"]


def test_the_command_that_tells_who_changed_what(server: Server, tmp_path: Path) -> None:
    body = {"notebook": "coffee.ipynb", "mode": "auto", "model": "demo:tour", "stream": False}
    question = {"role": "user", "content": "```python\nmax(cups)\n```"}
    server.request("POST", "chat", {**body, "messages": [question]})
    (command,) = [command for command in COMMANDS if command.startswith("jupyter agent blame")]
    told = run(tmp_path, *command.split()).stdout
    (line,) = [line for line in told.splitlines() if "demo:tour" in line]
    assert "max(cups)" in line


def test_every_option_is_documented_and_exists() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    named = set(re.findall(r"c\.JupyterAgent\.(\w+)", text))
    assert named == set(JupyterAgent.class_own_traits(config=True))
