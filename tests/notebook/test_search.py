"""Search for lines of a notebook, and expressions that would run forever."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pytest

from jupyter_agent.document.cell import Cell, Output
from jupyter_agent.errors import InvalidInput, ToolError
from jupyter_agent.text.search import search


def cell(index: int, source: str, **fields: Any) -> Cell:
    return Cell(id=f"c{index}", index=index, type="code", source=source, **fields)


def stream(text: str) -> Output:
    return {"output_type": "stream", "name": "stdout", "text": text}


async def found(cells: Sequence[Cell], query: str, regex: bool = False) -> list[str]:
    return (await search(cells, query, regex=regex)).split("\n")


@pytest.mark.parametrize("regex", [False, True])
async def test_lines_of_sources_and_outputs_are_found_case_aside(regex: bool) -> None:
    cells = [cell(0, "a\nPrice = 1"), cell(1, "b"), cell(2, "c", outputs=[stream("the price")])]
    assert await found(cells, "price", regex) == [
        "[1 code c0 In[ ]]",
        "2: Price = 1",
        "[3 code c2 In[ ]]",
        "-> 1: the price",
    ]


async def test_a_plain_query_is_taken_as_it_stands() -> None:
    assert (await found([cell(0, "f(x)\nfx")], "f(x)"))[1:] == ["1: f(x)"]
    assert (await found([cell(0, "f(x)\nfx")], "f(x)", regex=True))[1:] == ["2: fx"]


async def test_text_in_any_language_and_half_characters_are_found() -> None:
    cells = [cell(0, "größe = '\U0001f389'\nodd = '\ud800'")]
    assert (await found(cells, "GRÖ.E", regex=True))[1:] == ["1: größe = '\U0001f389'"]
    assert (await found(cells, r"odd.*\ud800", regex=True))[1:] == ["2: odd = '\ud800'"]


@pytest.mark.parametrize("regex", [False, True])
async def test_many_hits_are_cut(regex: bool) -> None:
    told = await found([cell(index, "x\n" * 30) for index in range(20)], "x", regex)
    assert "narrower" in told[-1]
    assert len(told) < 120


@pytest.mark.parametrize("query", ["(", "a**", "(?P<a", "x{99999999999999999999}", "(" * 5000])
async def test_an_expression_that_is_none_is_refused_with_the_reason(query: str) -> None:
    with pytest.raises(InvalidInput, match="is not a regular expression: "):
        await search([cell(0, "a" * 100)], query, regex=True)


@pytest.mark.full
@pytest.mark.parametrize("query", ["(a+)+$", "(a|a)*b", ".*.*.*.*.*x", r"\w+\w+\w+\w+x"])
async def test_an_expression_that_takes_for_ever_is_ended(query: str) -> None:
    with pytest.raises(ToolError, match="took longer than 1 s. Use a simpler one, or plain text"):
        await search([cell(0, "a" * 300 + "!")], query, regex=True)


async def test_where_no_process_can_be_started_plain_text_still_can_be_searched_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ToolError, match="plain text"):
        await search([cell(0, "x")], "x", regex=True)
    assert (await found([cell(0, "x")], "x"))[1:] == ["1: x"]


async def test_a_process_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ToolError, match="could not be matched; use plain text"):
        await search([cell(0, "x" * 1_000_000)], "x", regex=True)


@pytest.mark.parametrize("regex", [False, True])
async def test_nothing_found_says_so(regex: bool) -> None:
    told = "Nothing in the notebook matches 'y'."
    assert await search([cell(0, "x")], "y", regex=regex) == told


async def test_nothing_to_search_for_is_asked_for() -> None:
    with pytest.raises(InvalidInput, match="`query` is empty"):
        await search([], "", regex=True)


async def test_hidden_cells_and_embedded_files_are_not_searched() -> None:
    hidden = {"tags": ["agent-hidden"]}
    secret = cell(0, "password = 1", metadata=hidden, outputs=[stream("secret")])
    embedded = cell(1, f"![](data:image/png;base64,{'A' * 40_000}) and more")
    assert "Nothing" in await search([secret], "secret|password", regex=True)
    assert "AAAA" not in await search([secret, embedded], "and more")
