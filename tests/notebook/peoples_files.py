"""Notebooks as people have them, generated from a seed: formats 3 to 4.5, by seven editors, with
the parts that each of them leaves out or adds.
"""

from __future__ import annotations

import base64
import json
import random
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import nbformat

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(40)).decode()

EDITORS: Mapping[str, Mapping[str, Any]] = {
    "JupyterLab": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "py"}},
    "VS Code": {"language_info": {"name": "python"}, "vscode": {"interpreter": {"hash": "ab"}}},
    "Colab": {"colab": {"provenance": [], "toc_visible": True}, "accelerator": "GPU"},
    "Databricks": {"application/vnd.databricks.v1+notebook": {"notebookName": "n", "widgets": {}}},
    "Deepnote": {"deepnote": {"is_reactive": False}, "deepnote_notebook_id": "1a"},
    "SoS": {"sos": {"kernels": [["SoS", "sos", "", "", "sos"]], "version": "0.24"}},
    "Polyglot": {"polyglot_notebook": {"kernelInfo": {"items": [{"name": "csharp"}]}}},
}

CELLS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "JupyterLab": [{}, {"tags": ["a"]}, {"execution": {"iopub.status.idle": "2026-01-01"}}],
    "VS Code": [{"vscode": {"languageId": "sql"}}, {"notebookRunGroups": {"groupValue": "1"}}],
    "Colab": [{"id": "aB3_x-9", "colab": {"height": 34}}, {"outputId": "0f"}, {"cellView": "form"}],
    "Databricks": [{"application/vnd.databricks.v1+cell": {"inputWidgets": {}, "title": ""}}],
    "Deepnote": [{"cell_id": "00001-ab", "deepnote_cell_type": "sql"}, {"deepnote_app_block": 1}],
    "SoS": [{"kernel": "R"}, {"kernel": "SoS", "tags": ["report_cell"]}],
    "Polyglot": [{"dotnet_interactive": {"language": "fsharp"}}],
}

SOURCES = [
    "x = 1",
    "",
    "%%sql\nselect 1",
    "a\r\nb\r\n",
    "rate\xa0= 5",
    "α = '😀'\n",
    "# T\n\n![p](attachment:p.png)",
    "\t\n ",
    "line\x0bfeed\u2028\x85",
    "for i in range(3):\n    print(i)\n" * 40,
]


def made(seed: int) -> bytes:
    """One of them, as its editor writes it."""
    chance = random.Random(seed)
    editor = chance.choice(list(EDITORS))
    minor = chance.choice([None, 0, 1, 2, 3, 4, 4, 5, 5, 5])
    if minor is None:
        return _third_format(chance)
    cells = [_cell(chance, editor, minor, number) for number in range(chance.randint(0, 6))]
    content: dict[str, Any] = {
        "cells": cells,
        "metadata": dict(EDITORS[editor]),
        "nbformat": 4,
        "nbformat_minor": minor,
    }
    spaced = chance.choice([1, 1, 2, None, "\t"])
    text = json.dumps(content, indent=spaced, ensure_ascii=chance.random() < 0.3)
    return f"{text}{chance.choice(['', chr(10)])}".encode()


def _cell(chance: random.Random, editor: str, minor: int, number: int) -> dict[str, Any]:
    kind = chance.choice(["code", "code", "code", "markdown", "raw"])
    source = chance.choice(SOURCES)
    cell: dict[str, Any] = {
        "cell_type": kind,
        "metadata": dict(chance.choice(CELLS[editor])),
        "source": source if chance.random() < 0.3 else source.splitlines(keepends=True),
    }
    if minor == 5 and chance.random() < 0.9:
        cell["id"] = f"cell-{number}"
    if kind != "code" and "attachment" in source:
        cell["attachments"] = {"p.png": {"image/png": PIXEL}}
    if kind == "code":
        cell |= {"execution_count": chance.choice([None, number + 1]), "outputs": []}
        cell["outputs"] = [_output(chance) for _ in range(chance.choice([0, 0, 1, 3]))]
        for key in ("outputs", "execution_count"):
            if chance.random() < 0.1:
                cell.pop(key)
    return cell


def _output(chance: random.Random) -> dict[str, Any]:
    text = chance.choice(["", "1\n2\n", ["1\n", "2"], "x" * 200_000])
    return chance.choice(
        [
            {"output_type": "stream", "name": chance.choice(["stdout", "stderr"]), "text": text},
            {"output_type": "display_data", "data": {"image/png": PIXEL}, "metadata": {}},
            {"output_type": "display_data", "data": {}, "metadata": {"needs": "nothing"}},
            {
                "output_type": "execute_result",
                "data": {"text/plain": text, "application/json": {"a": [1, None]}},
                "metadata": {},
                "execution_count": 3,
            },
            {"output_type": "error", "ename": "E", "evalue": "", "traceback": []},
            {"output_type": "error", "ename": "E", "evalue": "v"},
        ]
    )


def _third_format(chance: random.Random) -> bytes:
    v3 = nbformat.v3
    cells = [
        chance.choice(
            [
                v3.new_code_cell(input="x = 1", prompt_number=1),
                v3.new_code_cell(input="", outputs=[v3.new_output("stream", output_text="1")]),
                v3.new_text_cell("markdown", source="text"),
                v3.new_text_cell("raw", source="raw"),
                v3.new_heading_cell("T", level=2),
            ]
        )
        for _ in range(chance.randint(0, 5))
    ]
    book = v3.new_notebook(worksheets=[v3.new_worksheet(cells=cells)])
    return json.dumps(book, indent=1).encode()


def differences(now: bytes, then: bytes) -> list[Any]:
    """The differences in a file, ignoring ids given to cells without one, and the language that a
    kernel records.
    """
    mine, theirs = _as_nbformat_has_it(now), _as_nbformat_has_it(then)
    cells = list(zip(mine.pop("cells"), theirs.pop("cells"), strict=True))
    for cell, was in cells:
        if "id" in cell:
            was.setdefault("id", cell["id"])
    for content in (mine, theirs):
        content["metadata"].pop("language_info", None)
    return [pair for pair in (*cells, (mine, theirs)) if pair[0] != pair[1]]


def _as_nbformat_has_it(raw: bytes) -> dict[str, Any]:
    """Without ids given to cells that have no id, and without required parts of nbformat 4 that
    were added.
    """
    was = json.loads(raw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        content = json.loads(json.dumps(nbformat.reads(raw.decode(), as_version=4)))
    for note in ("orig_nbformat", "orig_nbformat_minor"):  # it writes none of its notes
        content["metadata"].pop(note, None)
    for number, cell in enumerate(content["cells"]):
        if was["nbformat"] < 4 or "id" not in was["cells"][number]:
            cell.pop("id", None)
        if cell["cell_type"] == "code":
            cell.setdefault("execution_count", None)
            for output in cell.setdefault("outputs", []):
                if output["output_type"] == "error":
                    output.setdefault("traceback", [])
    return content
