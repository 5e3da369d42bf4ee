"""Files that Jupyter hides do not exist for routes and tools."""

from __future__ import annotations

import json
import posixpath
from pathlib import Path
from typing import Any

import pytest

from .conftest import Answer, Call

DATA = json.loads((Path(__file__).parents[1] / "security" / "hidden.json").read_text())
EMPTY = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
CODE = {"id": "a", "cell_type": "code", "metadata": {}, "source": "1"}
CODE |= {"outputs": [], "execution_count": None}

ROUTES: list[tuple[str, tuple[str, ...], Any]] = [
    ("GET", (), None),
    ("POST", (), {}),
    ("POST", (), {"kernel_name": "python3", "cells": [{"source": "1"}]}),
    ("POST", ("cells",), {"source": "2"}),
    ("GET", ("cells", "a"), None),
    ("PATCH", ("cells", "a"), {"source": "2"}),
    ("DELETE", ("cells", "a"), None),
    ("POST", ("cells", "a", "move"), {"index": 0}),
    ("POST", ("cells", "a", "run"), {}),
    ("POST", ("run",), {}),
    ("POST", ("verify",), {}),
    ("POST", ("kernel",), {"action": "start"}),
    ("POST", ("kernel",), {"action": "interrupt"}),
    ("POST", ("kernel",), {"action": "restart"}),
    ("POST", ("kernel",), {"action": "shutdown"}),
    ("GET", ("blame",), None),
    ("GET", ("changes",), None),
    ("GET", ("recovery",), None),
    ("GET", ("recovery", "1"), None),
    ("PUT", (), {}),
    ("DELETE", (), None),
]
TOOLS: list[tuple[str, dict[str, Any]]] = [
    ("get_notebook_state", {"notebook": "PATH"}),
    ("read_cells", {"notebook": "PATH", "cell_ids": ["a"]}),
    ("search_notebook", {"notebook": "PATH", "query": "1"}),
    ("create_cell", {"notebook": "PATH", "source": "1"}),
    ("update_cell", {"notebook": "PATH", "cell_id": "a", "source": "2"}),
    ("delete_cell", {"notebook": "PATH", "cell_id": "a"}),
    ("move_cell", {"notebook": "PATH", "cell_id": "a", "after": "a"}),
    ("run_cell", {"notebook": "PATH", "cell_id": "a"}),
    ("run_cells", {"notebook": "PATH"}),
    ("verify_notebook", {"notebook": "PATH"}),
    ("interrupt_kernel", {"notebook": "PATH"}),
    ("restart_kernel", {"notebook": "PATH"}),
    ("inspect_variables", {"notebook": "PATH"}),
    ("read_file", {"path": "PATH"}),
    ("list_files", {"path": "PATH"}),
    ("create_notebook", {"path": "PATH"}),
]


@pytest.fixture
def pair(jp_root_dir: Path, request: pytest.FixtureRequest) -> tuple[str, str]:
    """An existing hidden path, and one that does not exist."""
    content = json.dumps({**EMPTY, "cells": [CODE]})
    for path in (*DATA["made"], "../beside.ipynb"):
        file = jp_root_dir / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    there, gone = request.param
    return there, gone


def said(answer: Answer, path: str) -> tuple[int, str]:
    """The answer without the requested path, as spelled or normalised."""
    text = json.dumps(answer.body)
    for spelled in (path, path.strip("/"), posixpath.normpath(path).strip("/")):
        text = text.replace(spelled, "PATH")
    return answer.status, text


pairs = pytest.mark.parametrize("pair", DATA["pairs"], indirect=True, ids=lambda p: p[0])


@pytest.mark.sample(5)
@pairs
async def test_no_route_tells_that_something_hidden_is_there(
    call: Call, pair: tuple[str, str], jp_root_dir: Path
) -> None:
    different = []
    for method, rest, body in ROUTES:
        answers = [
            said(await call(method, "notebooks", path, *rest, body=body), path) for path in pair
        ]
        if answers[0] != answers[1]:
            different.append((method, rest, *answers))
    assert different == []
    assert not (jp_root_dir / pair[1]).exists()


@pytest.mark.sample(5)
@pairs
async def test_no_tool_tells_that_something_hidden_is_there(
    call: Call, pair: tuple[str, str]
) -> None:
    different = []
    for tool, given in TOOLS:
        answers = []
        for path in pair:
            input = {key: path if value == "PATH" else value for key, value in given.items()}
            body = {"mode": "auto", "allow": [tool], "input": input}
            answers.append(said(await call("POST", "tools", tool, body=body), path))
        if answers[0] != answers[1]:
            different.append((tool, *answers))
    assert different == []
