"""The tools' descriptions for models: complete, and consistent with what the tools accept."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import jsonschema
import pytest

from jupyter_agent.errors import InvalidInput
from jupyter_agent.tools import toolbox

TOOLBOX = toolbox()
ODD = [
    "", "b2", 7, -1, 2**70, 0.5, True, [], ["b2"], [7], [["b2"]], {}, {"b2": 1}, "\x00", "\ud800",
]  # fmt: skip


def fitting(schema: dict[str, Any], rng: random.Random) -> Any:
    if "enum" in schema:
        return rng.choice(schema["enum"])
    match schema["type"]:
        case "string":
            return rng.choice(["b2", "x = 1\n", "größer", ""])
        case "integer":
            return rng.randrange(1, 10_000)
        case "number":
            return rng.choice([0.5, 3, 60])
        case "boolean":
            return rng.random() < 0.5
        case "array":
            return [fitting(schema["items"], rng) for _ in range(rng.randrange(3))]
        case "object":
            names = [
                name
                for name in schema["properties"]
                if name in schema["required"] or rng.random() < 0.5
            ]
            return {name: fitting(schema["properties"][name], rng) for name in names}
    raise AssertionError(schema)


def any_input(schema: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    chosen = {}
    for name, of_field in schema["properties"].items():
        kind = rng.choice(["fits", "fits", "fits", "odd", "none"])
        if kind == "fits":
            chosen[name] = fitting(of_field, rng)
        elif kind == "odd":
            chosen[name] = rng.choice(ODD)
    if rng.random() < 0.1:
        chosen[rng.choice(["cell", "mode", "allow", "__class__"])] = rng.choice(ODD)
    return chosen


@pytest.mark.parametrize("tool", TOOLBOX.tools, ids=lambda tool: tool.name)
def test_what_the_schema_forbids_is_refused_and_nothing_else(tool: Any) -> None:
    rng = random.Random(tool.name)
    schema = tool.spec()["input_schema"]
    strict = jsonschema.Draft202012Validator({**schema, "additionalProperties": False})
    verdicts = set()
    for _ in range(300):
        given = any_input(schema, rng)
        fits = strict.is_valid(given)
        with nullcontext() if fits else pytest.raises(InvalidInput, match=tool.name):
            TOOLBOX.parse(tool.name, given)
        verdicts.add(fits)
    assert verdicts == {True, False}


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All parameters of a schema, including those of items, by path."""
    for name, field in schema.get("properties", {}).items():
        yield f"{path}{name}", field
        yield from fields(field.get("items", {}), f"{path}{name}.")


EXPLAINED_BY_NAME = set(
    "notebook cell_id cell_ids cells edits source type tags add_tags remove_tags new_string "
    "replace_all query regex code run_id stop_on_error images names text state".split()
)
"""`notebook` is in the system prompt; the others are read with the tool's description."""


@pytest.mark.parametrize("tool", TOOLBOX.tools, ids=lambda tool: tool.name)
def test_each_tool_and_parameter_is_explained_with_examples_that_the_tool_takes(tool: Any) -> None:
    spec = tool.spec()
    sentences = re.findall(r"[^.?!]+[.?!](?= |$)", spec["description"])
    assert len(sentences) >= 3, sentences
    bare = {path for path, field in fields(spec["input_schema"]) if "description" not in field}
    assert {path.rpartition(".")[2] for path in bare} <= EXPLAINED_BY_NAME
    for example in spec.get("input_examples", ()):
        TOOLBOX.parse(tool.name, example)
    assert ("input_examples" in spec) == (tool.name == "edit_cells")


@pytest.mark.plugs
def test_eighteen_tools_are_offered_in_9_300_bytes() -> None:
    assert len(TOOLBOX.specs()) == 18
    sent = json.dumps(TOOLBOX.specs(), separators=(",", ":"), ensure_ascii=False)
    assert len(sent.encode()) <= 9_300


@pytest.mark.parametrize(
    ("former", "given", "tool", "now"),
    [
        (
            "create_cell",
            {"source": "1", "type": "raw", "after": "b2", "notebook": "n.ipynb"},
            "create_cells",
            {"cells": [{"source": "1", "type": "raw"}], "after": "b2", "notebook": "n.ipynb"},
        ),
        (
            "update_cell",
            {"cell_id": "b2", "old_string": "1", "new_string": "2"},
            "edit_cells",
            {"edits": [{"cell_id": "b2", "old_string": "1", "new_string": "2"}]},
        ),
        (
            "run_cell",
            {"cell_id": "b2", "wait": 3.0},
            "run_cells",
            {"cell_ids": ["b2"], "wait": 3.0},
        ),
        ("list_files", {"path": "data"}, "read_file", {"path": "data"}),
    ],
)
def test_a_former_name_is_accepted_as_the_tool_that_took_its_place(
    former: str, given: dict[str, Any], tool: str, now: dict[str, Any]
) -> None:
    call = TOOLBOX.parse(former, given)
    assert (call.name, call.model_dump(by_alias=True, exclude_unset=True)) == (tool, now)
    with pytest.raises(InvalidInput, match="colour"):
        TOOLBOX.parse(former, {**given, "colour": "red"})


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("run_cels", {}, "Did you mean `run_cells`?"),
        ("execute_cell", {}, "Did you mean `run_cells`?"),
        ("execute_code", {}, "Did you mean `run_code`?"),
        ("NotebookEdit", {}, "Did you mean `edit_cells`?"),
        ("insert_cell", {}, "Did you mean `create_cells`?"),
        ("read_notebook", {}, "Did you mean `get_notebook_state`?"),
        ("delete_cel", {}, "Unknown tool `delete_cel`. Available: clear_outputs, "),
        ("zzz", {}, "Unknown tool `zzz`. Available: clear_outputs, "),
        ("run_cells", {"cell_id": ["b2"]}, " (did you mean `cell_ids`?)."),
        ("read_cells", {"cell_id": ["b2"]}, " (did you mean `cell_ids`?)."),
        ("create_cells", {"cells": [{"source": "x"}], "runs": True}, " (did you mean `run`?)."),
        ("run_cells", {"cell_ids": ["b2"], "colour": "red"}, "colour"),
    ],
)
def test_an_unknown_name_is_answered_with_the_one_that_was_meant_if_one_is_near(
    tool: str, given: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        TOOLBOX.parse(tool, given)
    assert told in raised.value.message
    assert ("id you mean" in raised.value.message) == ("id you mean" in told)
    assert given or "Available: clear_outputs, " in raised.value.message
