"""`docs/api.md` matches the server's answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.server.chat import ChatBody
from jupyter_agent.server.openapi import METHODS
from jupyter_agent.workspace.runs import RunStatus

TEXT = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))]
    for line in TEXT.splitlines()
    if line.startswith("| `")
]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.plugs
def test_every_route_is_documented_and_there(agent: Assistant) -> None:
    documented = {name for row in ROWS for name in named(row[0]) if re.match(r"[A-Z]+ ", name)}
    there = {
        f"{method.upper()} {route.template}"
        for route in agent.routes
        for method in METHODS
        if hasattr(vars(route.handler).get(method), "operation")
        or (method == "get" and route.template == "tab")
    }
    assert documented == there


def test_every_field_of_a_question_is_documented() -> None:
    section = TEXT.split("`POST chat` starts a turn")[1].split("### The stream")[0]
    documented = {name for line in section.splitlines() for name in named(line.split(" | ")[0])}
    assert set(ChatBody.model_fields) - {"undo"} <= documented  # documented with `trigger`


@pytest.mark.plugs
def test_every_tool_is_documented_with_its_input_and_effect(agent: Assistant) -> None:
    documented = {}
    for row in ROWS:
        if len(row) == 3 and row[2] in ("read", "edit", "run"):
            for tool in named(row[0]):
                documented[tool] = (set(named(row[1])), row[2])
    assert documented == {
        tool["name"]: (set(tool["input_schema"]["properties"]) - {"notebook"}, tool["effect"])
        for tool in agent.toolbox.describe()
    }


def test_every_status_of_a_run_is_documented() -> None:
    line = next(line for line in TEXT.splitlines() if line.startswith("RUN: "))
    assert set(named(line.split("status ")[1])) == set(get_args(RunStatus))
