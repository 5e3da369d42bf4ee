"""What models are told of the tools: each is explained, and takes what its schema allows."""

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
from jupyter_agent.tools import ALL
from jupyter_agent.tools.base import Toolbox

TOOLBOX = Toolbox(ALL)
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


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
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
    """All parameters below a schema, those of items too, by their path."""
    for name, field in schema.get("properties", {}).items():
        yield f"{path}{name}", field
        yield from fields(field.get("items", {}), f"{path}{name}.")


@pytest.mark.parametrize("tool", ALL, ids=lambda tool: tool.name)
def test_each_tool_and_parameter_is_explained_with_an_example_that_the_tool_takes(
    tool: Any,
) -> None:
    described = tool.spec()["description"]
    told = re.sub(r"Example: .*", "", described)
    assert len(re.findall(r"[^.?!]+[.?!](?= |$)", told)) >= 3, told
    bare = [name for name, field in fields(tool.spec()["input_schema"]) if not field["description"]]
    assert bare == []
    example = re.search(r"Example: (.*)\.$", described)
    if example is not None:
        TOOLBOX.parse(tool.name, json.loads(example[1]))
    else:
        assert tool.name not in ("create_cells", "edit_cells", "write_plan")


def test_all_tools_together_stay_below_14_kB() -> None:
    sent = json.dumps(TOOLBOX.specs(), separators=(",", ":"), ensure_ascii=False)
    assert len(sent.encode()) <= 14_000


@pytest.mark.parametrize(
    ("tool", "given", "told"),
    [
        ("run_cel", {}, "Did you mean `run_cell`?"),
        ("create_cel", {}, "Did you mean `create_cell`?"),
        ("zzz", {}, "Unknown tool `zzz`. Available: create_cell, "),
        ("run_cell", {"cell": "b2"}, "Did you mean `cell_id`?"),
        ("read_cells", {"cell_id": ["b2"]}, "Did you mean `cell_ids`?"),
        ("create_cells", {"cells": [{"source": "x"}], "runs": True}, "Did you mean `run`?"),
        ("run_cell", {"cell_id": "b2", "colour": "red"}, "colour"),
    ],
)
def test_an_unknown_name_is_answered_with_the_one_that_was_meant_if_one_is_near(
    tool: str, given: dict[str, Any], told: str
) -> None:
    with pytest.raises(InvalidInput) as raised:
        TOOLBOX.parse(tool, given)
    assert told in raised.value.message
    assert ("Did you mean" in raised.value.message) == told.startswith("Did you mean")
    assert given or "Available: create_cell, " in raised.value.message
