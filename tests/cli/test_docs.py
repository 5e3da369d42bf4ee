"""The command line page: its commands work verbatim, and its exit codes are ours."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from jupyter_agent.cli.commands import COMMANDS
from jupyter_agent.cli.exits import Exit, of_refusal
from jupyter_agent.client.server import ServerRefused

from ..programs import jupyter_server, run
from ..test_readme import ROOT, commands

PAGE = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")


def test_every_command_in_its_order(tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    shutil.copy(ROOT / "jupyter_agent" / "examples" / "coffee.ipynb", folder)
    named = {"TURN": "", "CONVERSATION": ""}
    with jupyter_server(folder):
        for command in commands("docs/cli.md"):
            for name, value in named.items():
                command = re.sub(rf"\b{name}\b", value, command)
            done = run(folder, "bash", "-c", command)
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            if "--json" in command and "ask" in command:
                turn = json.loads(done.stdout)
                named = {"TURN": turn["turn_id"], "CONVERSATION": turn["conversation_id"]}
    cells = json.loads((folder / "coffee.ipynb").read_text())["cells"]
    texts = ["".join(cell["source"]) for cell in cells]
    assert (texts[0], texts[-1]) == ("# Coffee", "# Notes")
    assert "day: cups * price" in texts[2]


def test_the_table_of_exit_codes_is_complete() -> None:
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.M)}
    assert listed == {int(code) for code in Exit}


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        (400, "invalid_input", Exit.USAGE),
        (400, "kernel_not_installed", Exit.USAGE),
        (400, "unknown_model", Exit.MODEL),
        (400, "authentication", Exit.MODEL),
        (400, "tool_error", Exit.FAILED),
        (403, "denied", Exit.REFUSED),
        (404, "not_found", Exit.USAGE),
        (409, "changed", Exit.FAILED),
        (422, "unreadable_notebook", Exit.USAGE),
        (429, "monthly_budget", Exit.LIMIT),
        (503, "kernel_unavailable", Exit.FAILED),
    ],
)
def test_an_error_of_the_server_has_the_exit_code_of_its_kind(
    status: int, reason: str, code: Exit
) -> None:
    assert of_refusal(ServerRefused("", status, reason)) == code


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name: str) -> None:
    pages = PAGE + (ROOT / "docs" / "headless.md").read_text() + (ROOT / "README.md").read_text()
    assert f"jupyter agent {name}" in pages
