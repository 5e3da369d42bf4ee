"""`docs/api.md` matches the server's answers."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from jupyter_agent.assistant import Assistant
from jupyter_agent.server.chat import ChatBody
from jupyter_agent.server.openapi import METHODS, describe
from jupyter_agent.workspace.run import RunStatus

SHAPES = Path(__file__).parents[1] / "wire" / "schemas" / "schemas.json"
IN_THE_PANEL = (
    "PendingApproval",
    "ApprovalReply",
    "ChatBody",
    "FoundConversation",
    "ConversationAnswer",
    "InstructionFile",
    "ListedRun",
    "ListedTool",
    "ModelsAnswer",
    "NotebookAnswer",
    "PendingAnswer",
    "RequestAnswer",
    "StatusAnswer",
    "UndoneAnswer",
)
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


def test_the_panel_knows_the_shapes_of_answers(agent: Assistant) -> None:
    """`RECORD=1` records them; `node dev/schemas.mjs` makes types of them."""
    schemas = describe((route.template, route.handler) for route in agent.routes)["components"]
    named = {name: schemas["schemas"][name] for name in IN_THE_PANEL}
    while wanted := {*references(named)} - {*named}:
        named |= {name: schemas["schemas"][name] for name in wanted}
    lines = (f"{json.dumps(name)}: {json.dumps(named[name])}" for name in sorted(named))
    shapes = "{\n" + ",\n".join(lines) + "\n}\n"
    if os.environ.get("RECORD"):
        SHAPES.write_text(shapes, encoding="utf-8")
    assert SHAPES.read_text(encoding="utf-8") == shapes


def references(schema: Any) -> Iterator[str]:
    """The names of the schemas that a schema refers to."""
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"].rsplit("/", 1)[-1]
        for part in schema.values():
            yield from references(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from references(part)


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
