"""The calls of another harness for each of our tools in tasks of nbeval."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from jupyter_agent.tools import FORMER, toolbox
from nbeval.counterparts import COUNTERPARTS, Failed
from nbeval.peer import not_offered
from nbeval.sides import Side, table
from nbeval.tasks import tasks
from tests.test_nbeval import score

HOME = "task/notebook.ipynb"
CELLS = {"a": "code", "b": "markdown", "c": "code"}


class Recorder:
    """A notebook of three cells that only records calls."""

    def __init__(
        self, later: Sequence[Mapping[str, Any]] = (), answers: Mapping[str, str] | None = None
    ) -> None:
        self.home = HOME
        self.language = "python"
        self.later = later
        self.made: list[Any] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._answers = answers or {}

    def call(self, tool: str, **input: Any) -> str:
        given = {key: value for key, value in input.items() if value is not None}
        self.calls.append((tool, given))
        answer = self._answers.get(tool, "")
        if answer == "refused":
            raise Failed(answer)
        return answer

    def call_and_look(self, wait: float, tool: str, **input: Any) -> str:
        return self.call(tool, **input)

    def think(self) -> None:
        self.calls.append(("think", {}))

    def use(self, notebook: str) -> None:
        if notebook != HOME:
            self.calls.append(("use", {"notebook": notebook}))

    activate = use

    def has_activated(self, notebook: str) -> None:
        pass

    def kinds(self, notebook: str) -> Sequence[str]:
        return list(CELLS.values())

    def position(self, notebook: str, cell_id: str) -> int:
        return list(CELLS).index(cell_id)

    def address(self, notebook: str, cell_id: str) -> Mapping[str, Any]:
        return {"cell_id": cell_id}

    def source(self, notebook: str, cell_id: str) -> str:
        return f"text of {cell_id}"

    def with_outputs(self, notebook: str) -> Sequence[str]:
        return ["c"]


def done(name: str, input: Mapping[str, Any], peer: Recorder | None = None) -> list[Any]:
    peer = peer or Recorder()
    counterpart = COUNTERPARTS[name]
    assert counterpart is not None
    try:
        counterpart(peer, input)
    except Failed:
        pass
    return [
        (tool, {key: given[key] for key in given if key not in ("notebook_name", "timeout")})
        for tool, given in peer.calls
    ]


@pytest.mark.plugs
def test_each_of_our_tools_has_an_entry() -> None:
    assert {*FORMER, *toolbox()} == COUNTERPARTS.keys()


@pytest.mark.parametrize(
    ("name", "input", "calls"),
    [
        (
            "create_cell",
            {"source": "x", "after": "a"},
            [("insert_cell", {"cell_index": 1, "cell_type": "code", "cell_source": "x"})],
        ),
        (
            "create_cells",
            {"cells": [{"source": "# T", "type": "markdown"}, {"source": "x"}], "run": True},
            [
                ("insert_cell", {"cell_index": -1, "cell_type": "markdown", "cell_source": "# T"}),
                ("insert_execute_code_cell", {"cell_index": -1, "cell_source": "x"}),
            ],
        ),
        (
            "update_cell",
            {"cell_id": "a", "type": "markdown"},
            [
                (
                    "insert_cell",
                    {"cell_index": 0, "cell_type": "markdown", "cell_source": "text of a"},
                ),
                ("delete_cell", {"cell_ids_to_delete": ["a"]}),
            ],
        ),
        (
            "edit_cells",
            {
                "edits": [
                    {"cell_id": "c", "source": "y"},
                    {"cell_id": "b", "old_string": "1", "new_string": "2"},
                ],
                "run": True,
            },
            [
                ("overwrite_cell_source", {"cell_id": "c", "cell_source": "y"}),
                ("edit_cell_source", {"cell_id": "b", "old_string": "1", "new_string": "2"}),
                ("execute_cell", {"cell_id": "c"}),
            ],
        ),
        (
            "move_cell",
            {"cell_id": "a"},
            [("move_cell", {"source_cell_id": "a", "target_index": 2})],
        ),
        (
            "move_cell",
            {"cell_id": "a", "before": "c"},
            [("move_cell", {"source_cell_id": "a", "target_index": 1})],
        ),
        (
            "move_cell",
            {"cell_id": "c", "after": "a"},
            [("move_cell", {"source_cell_id": "c", "target_index": 1})],
        ),
        (
            "run_cells",
            {},
            [("execute_cell", {"cell_index": 0}), ("execute_cell", {"cell_index": 2})],
        ),
        (
            "read_file",
            {"path": "task/data/a.txt", "offset": 5, "limit": 10},
            [("execute_code", {"code": "print(''.join(open('data/a.txt').readlines()[5:15]))"})],
        ),
        (
            "read_file",
            {"path": "other.ipynb"},
            [
                ("use", {"notebook": "other.ipynb"}),
                ("read_notebook", {"response_format": "detailed", "limit": 0}),
            ],
        ),
        ("wait_for_run", {"run_id": ""}, []),
    ],
)
def test_a_call_is_what_a_model_would_do_with_the_tools_of_the_peer(
    name: str, input: Mapping[str, Any], calls: list[Any]
) -> None:
    assert done(name, input) == calls


def test_outputs_are_read_only_where_nothing_is_run_later() -> None:
    runs = {"name": "edit_cells", "input": {"edits": [], "run": True}}
    read = ("read_notebook", {"response_format": "detailed", "limit": 0})
    assert done("get_notebook_state", {}, Recorder([runs])) == [read]
    outputs = ("read_cell", {"cell_id": "c"})
    assert done("get_notebook_state", {}) == [read, ("think", {}), outputs]


def test_all_of_a_notebook_is_read_only_where_first_lines_do_not_have_the_text() -> None:
    brief = ("read_notebook", {"response_format": "brief", "limit": 0})
    found = Recorder(answers={"read_notebook": "0\tcode\tN/A\tvat = 0.16"})
    assert done("search_notebook", {"query": "0.16"}, found) == [brief]
    detailed = ("read_notebook", {"response_format": "detailed", "limit": 0})
    assert done("search_notebook", {"query": "0.16"}) == [brief, ("think", {}), detailed]


def test_a_refused_edit_stops_no_other_but_the_run_and_is_not_made_twice() -> None:
    edit = {"cell_id": "c", "source": "y"}
    input = {"edits": [{"cell_id": "a", "old_string": "1", "new_string": "2"}, edit], "run": True}
    peer = Recorder(answers={"edit_cell_source": "refused"})
    assert [tool for tool, _ in done("edit_cells", input, peer)] == [
        "edit_cell_source",
        "overwrite_cell_source",
    ]
    peer.calls.clear()
    again = done("edit_cells", {"edits": [edit], "run": True}, peer)
    assert again == [("execute_cell", {"cell_id": "c"})]


def test_code_that_fails_ends_what_was_to_run_after_it() -> None:
    failing = {"execute_cell": "-" * 75 + "\nNameError: x", "insert_execute_code_cell": "fine"}
    assert len(done("run_cells", {}, Recorder(answers=failing))) == 1
    assert len(done("run_cells", {"stop_on_error": False}, Recorder(answers=failing))) == 2


def test_tasks_about_what_the_peer_does_not_claim_are_named_apart() -> None:
    names = ("read-only", "approved", "parameters", "fix-order")
    why = [bool(not_offered(task, task.transcript("oracle"))) for task in tasks(names)]
    assert why == [True, True, True, False]


def test_both_are_beside_each_other_with_sums_of_what_both_played() -> None:
    ours = Side("ours", 100, [score("a", True), score("b", True), score("c", True)])
    theirs = dataclasses.replace(ours, name="theirs")
    played = [
        score("a", True, lost=0),
        score("b", False, lost=3, why="it is gone", input_tokens=300),
    ]
    theirs = dataclasses.replace(theirs, scores=played, not_offered={"c": "modes"})
    lines = table([ours, theirs]).splitlines()
    assert [line.split()[0] for line in lines[2:6]] == ["task", "a", "b", "2"]
    assert "2 / 1" in lines[5]
    assert "200 / 400" in lines[5]
    assert lines[7:] == [
        "theirs: b: it is gone",
        "theirs: b: 3 keystrokes lost",
        "theirs: c: not offered: modes",
    ]
