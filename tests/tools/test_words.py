"""The words for calls, which tools bring and each door fills in: here ours, in the page the panel.

`RECORD=1 pytest tests/tools/test_words.py` records the tools for the tests of the panel again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.cli.words import Cells
from jupyter_agent.tools import toolbox
from jupyter_agent.tools.base import Question
from jupyter_agent.words import Phrasebook, fill, phrase

FOLDER = Path(__file__).parents[1] / "wire" / "words"
CASES = json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))
FOR_MODELS = ("description", "input_schema", "input_examples", "strict")
ORDER = ("a1", "b2", "c3")


def name(cell_id: str) -> str:
    return f"cell {ORDER.index(cell_id) + 1}"


@pytest.fixture(scope="module")
def listed() -> list[dict[str, Any]]:
    return toolbox().describe()


@pytest.mark.plugs
def test_the_panel_knows_the_words_of_every_tool(listed: list[dict[str, Any]]) -> None:
    tools = [{key: tool[key] for key in tool if key not in FOR_MODELS} for tool in listed]
    file = FOLDER / "tools.json"
    if os.environ.get("RECORD"):
        file.write_text(json.dumps(tools, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert json.loads(file.read_text(encoding="utf-8")) == json.loads(json.dumps(tools))


@pytest.mark.plugs
@pytest.mark.parametrize(("tool", "given", "words"), CASES)
def test_a_call_reads_the_same_at_a_terminal_and_in_the_panel(
    listed: list[dict[str, Any]], tool: str, given: Mapping[str, Any], words: str
) -> None:
    assert Phrasebook(listed).todo(tool, given, name) == words


def test_the_notebook_is_named_once_and_only_where_a_call_is_about_one(
    listed: list[dict[str, Any]],
) -> None:
    phrases = Phrasebook(listed)

    def words(tool: str, given: Mapping[str, Any]) -> str:
        return phrases.todo(tool, given, name, "a.ipynb")

    assert words("update_cell", {"cell_id": "b2"}) == "Edit cell 2 in a.ipynb"
    assert words("get_notebook_state", {}) == "Read a.ipynb"
    assert words("read_file", {"path": "b.csv"}) == "Read b.csv"
    assert words("move_cell", {"cell_id": "a1"}) == "Move cell 1 to the end in a.ipynb"
    assert phrases.todo("read_cells", {"cell_ids": ["x"]}, "{}/a.ipynb".format, "a.ipynb") == (
        "Read x/a.ipynb in a.ipynb"
    )
    assert words("my_tool", {"cell_id": "b2"}) == "Use my_tool on cell 2 in a.ipynb"


def test_words_of_a_newer_server_are_read(listed: list[dict[str, Any]]) -> None:
    words = {"todo": "Do {x}", "doing": "Doing", "done": "Done", "tone": "warm"}
    tools = [{"name": "do", "names_notebook": True, "words": [words]}]
    assert Phrasebook(tools).todo("do", {"x": None}, name) == "Do "


def test_an_id_cannot_pass_for_words() -> None:
    odd = Cells(["a1"]).name('b2) and runs nothing ("')
    assert odd == 'cell "b2) and runs nothing (\\""'
    assert len(Cells().name("x" * 5_000)) < 80


def test_a_long_list_of_cells_is_cut(listed: list[dict[str, Any]]) -> None:
    given = {"cell_ids": [f"c{number}" for number in range(9)]}
    words = Phrasebook(listed).todo("read_cells", given, lambda cell_id: cell_id)
    assert words == "Read c0, c1, c2, c3, c4, c5 and 3 more"


@pytest.mark.parametrize("given", [None, "x", [1], {"cell_id": None}])
def test_an_input_may_be_anything(listed: list[dict[str, Any]], given: Any) -> None:
    assert Phrasebook(listed).todo("update_cell", given, name) == "Edit a cell"


def test_every_door_shows_the_same_facts_of_a_question() -> None:
    question = Question(
        notebook="a.ipynb",
        kernelspec="python3",
        clusters=("Dask", "Ray"),
        remarks=(phrase("all variables are lost"),),
    )
    assert [*map(fill, question.facts)] == [
        "kernel “python3”",
        "all variables are lost",
        "starts a cluster job (Dask, Ray)",
    ]
    remote = Question(notebook=None, server="db", remote_tool="a.b\u202e")
    (fact,) = map(fill, remote.facts)
    assert fact == 'the MCP server “db” gets this for “"a.b"”'


def test_every_tool_has_words_and_one_that_asks_says_what_always_allows(
    listed: list[dict[str, Any]],
) -> None:
    assert [tool["name"] for tool in listed if not tool["words"]] == []
    assert [
        tool["name"]
        for tool in listed
        if tool["effect"] != "read" and not all(words["scope"] for words in tool["words"])
    ] == []
