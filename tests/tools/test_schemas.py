"""Each tool takes exactly the inputs that its schema, as models are told it, allows."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import jsonschema
import pytest

from jupyter_agent.errors import InvalidInput
from jupyter_agent.tools import ALL
from jupyter_agent.tools.base import Toolbox

TOOLBOX = Toolbox(ALL)
ODD = [
    "",
    "b2",
    7,
    -1,
    2**70,
    0.5,
    True,
    [],
    ["b2"],
    [7],
    [["b2"]],
    {},
    {"b2": 1},
    "\x00",
    "\ud800",
]


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
