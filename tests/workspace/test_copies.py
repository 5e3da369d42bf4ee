"""What is shown of copies and quotes of hidden cells, however another program spells them."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from typing import Any

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_notebook, new_output

from jupyter_agent.workspace.visibility import View

CANARY = "KANARI"
OUTPUT = new_output("stream", name="stdout", text="KANARI in an output")


def book(source: str) -> dict[str, Any]:
    """A notebook with this source in a hidden cell, then a cell that is shown."""
    tags = {"tags": ["agent-hidden"]}
    hidden = new_code_cell(source, id="h1", metadata=tags, outputs=[OUTPUT])
    cells = [hidden, new_code_cell("y = 2", id="v1")]
    written: dict[str, Any] = json.loads(nbformat.writes(new_notebook(cells=cells)))
    return written


def view_of(*sources: str) -> View:
    return View(hidden_sources=frozenset(sources))


def escaped(letters: str) -> Callable[[str], str]:
    """JSON with these letters escaped, as some languages write it."""
    spelled = {ord(letter): f"\\u{ord(letter):04X}" for letter in letters}
    return lambda text: json.dumps(text, ensure_ascii=False).translate(spelled)


SPELLINGS: dict[str, tuple[str, Callable[[str], str]]] = {
    "as it is": ("KANARI = 12345 * 3", str),
    "json": ('KANARI = d["k"] * 12345', json.dumps),
    "json in json": ('KANARI = d["k"] * 12345', lambda text: json.dumps(json.dumps(text))),
    "tab": ("KANARI\t= 12345 * 3", json.dumps),
    "line end": (r"KANARI = 'a\nb' * 12345", json.dumps),
    "go": ("KANARI = df[df.x > 5000]", escaped("<>&")),
    "net": ("KANARI = a + 'b' * 12345", escaped("<>&'+")),
    "accents": ("KANARI = café * 12345", escaped("é")),
    "php": ("KANARI / 12345 / rate", lambda text: json.dumps(text).replace("/", r"\/")),
    "python": ("KANARI = d['k'] + \"z\"", repr),
    "html": ("if KANARI < 12345: pass", html.escape),
    "on one line": ("KANARI = 12345  # two blanks", lambda text: " ".join(text.split())),
    "coloured": ("KANARI = 12345 * 3", lambda text: f"\x1b[31mKAN\x1b[0m{text[3:]}"),
    "invisible": ("KANARI = 12345 * 3", lambda text: text.replace("R", "R\u200b")),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_quote_is_kept_back_and_what_is_beside_it_is_not(name: str) -> None:
    source, spell = SPELLINGS[name]
    shown = view_of(f"import os\n{source}").data(f"y = 2\n{spell(source)}\nz = 3")
    assert CANARY[:3] not in shown
    assert shown.startswith("y = 2\n")
    assert shown.endswith("\nz = 3")


FORMS: dict[str, Callable[[dict[str, Any]], str]] = {
    "file": json.dumps,
    "indented": lambda book: json.dumps(book, indent=1),
    "escaped tag": lambda book: json.dumps(book).replace("agent-hidden", r"agent\u002dhidden"),
    "in a text": lambda book: f"The file:\n{json.dumps(book, indent=1)}",
    "in a notebook": lambda book: json.dumps({"cells": [], "metadata": {}, "checkpoint": book}),
    "in a string": lambda book: json.dumps({"content": json.dumps(book)}),
    "twice in a string": lambda book: json.dumps([json.dumps([json.dumps(book)])]),
    "cells": lambda book: json.dumps(book["cells"]),
    "a cell": lambda book: json.dumps(book["cells"][0]),
    "lines": lambda book: "\n".join(map(json.dumps, book["cells"])),
    "tags of a cell": lambda book: json.dumps([{"tags": ["agent-hidden"], "source": "KANARI"}]),
    "a name twice": lambda book: f'{{"a": {json.dumps(book)}, "a": 1}}',
    "python": repr,
    "yaml": yaml.safe_dump,
    "script": lambda book: '# %% tags=["agent-hidden"]\nKANARI = 12345 * 3\n\n# %%\ny = 2\n',
    "markdown": lambda book: '<!-- #region tags=["agent-hidden"] -->\nKANARI\n<!-- #endregion -->',
}


@pytest.mark.parametrize("form", FORMS)
def test_a_tagged_cell_is_kept_back_though_nobody_has_looked_at_its_notebook(form: str) -> None:
    assert CANARY not in view_of().data(FORMS[form](book("KANARI = 12345 * 3")))


def in_json(value: Any, times: int) -> str:
    for _ in range(times):
        for _ in range(60):
            value = [value]
        value = json.dumps(value)
    return str(value)


@pytest.mark.parametrize(
    "flood",
    [
        "tags" * 300_000,
        "tags " * 300_000,
        "\\" * 1_000_000,
        "[" * 1_000_000,
        "[\n" * 300_000,
        "&amp" * 300_000,
        "{" * 300_000 + '"',
    ],
    ids=lambda flood: flood[:6].strip(),
)
def test_a_server_cannot_make_the_search_slow(flood: str) -> None:
    """Each of these would take minutes if the time grew with the square of the length."""
    view = view_of(*(f"line_{number} = compute({number})" for number in range(200)))
    assert "KANARI" not in view.data(f'{flood}\nKANARI\n"tags": ["agent-hidden"]')


def test_json_in_json_in_json_is_read_or_withheld() -> None:
    assert CANARY not in view_of("KANARI = 12345").data(in_json("KANARI = 12345", 12))


@pytest.mark.parametrize("form", ["file", "in a string", "cells", "lines"])
def test_the_cells_beside_a_hidden_one_are_shown(form: str) -> None:
    assert "y = 2" in view_of().data(FORMS[form](book("KANARI = 12345 * 3")))


@pytest.mark.parametrize(
    "value",
    [
        "Tag a cell with `agent-hidden` to keep its outputs and source back.",
        json.dumps({"columns": ["name", "price"]}, indent=3),
        {
            "rows": [{"id": [1]}, {"id": {"$oid": "5"}}],
            "outputs": 3,
            "tags": ["a"],
            "note": "hidden",
        },
        "{ not JSON",
        '{"a": NaN}\n[1,2',
        '{"a": 1, "a": 2}',
    ],
)
def test_what_has_no_hidden_cell_stays_as_it_is(value: Any) -> None:
    assert view_of("KANARI = 12345 * 3").data(value) == value


def test_of_json_on_one_line_only_the_string_with_a_quote_is_kept_back() -> None:
    answer = json.dumps({"columns": ["name", "password_hash"], "rows": 1200})
    shown = json.loads(view_of("password").data(answer))
    assert (shown["columns"][0], shown["rows"]) == ("name", 1200)
    assert "password" not in json.dumps(shown)
