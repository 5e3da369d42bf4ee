"""Malformed notebook files, made here and not stored anywhere."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import nbformat


def cell(kind: str = "code", **more: Any) -> dict[str, Any]:
    """A valid cell with the changes in `more`; a value of `...` removes the key."""
    made: dict[str, Any] = {"cell_type": kind, "id": f"{kind}-1", "metadata": {}, "source": "x = 1"}
    if kind == "code":
        made |= {"outputs": [], "execution_count": None}
    made |= more
    return {key: value for key, value in made.items() if value is not ...}


def notebook(*cells: Any, **more: Any) -> dict[str, Any]:
    made = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | more
    return {key: value for key, value in made.items() if value is not ...}


def dump(content: Any) -> bytes:
    return json.dumps(content, indent=1).encode()


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def output(**more: Any) -> dict[str, Any]:
    made = {"output_type": "display_data", "data": {"text/plain": "1"}, "metadata": {}} | more
    return cell(outputs=[{key: value for key, value in made.items() if value is not ...}])


def third_format(**without: Any) -> bytes:
    v3 = nbformat.v3
    cells = [v3.new_code_cell(input="x = 1"), v3.new_text_cell("markdown", source="# T")]
    made = v3.new_notebook(worksheets=[v3.new_worksheet(cells=cells)])
    return dump({key: item for key, item in {**made, **without}.items() if item is not ...})


KINDS = ("stream", "error", "display_data", "execute_result")
TYPES = (
    "text/plain text/html text/markdown text/latex image/png image/svg+xml application/json"
    " application/javascript application/vnd.plotly.v1+json application/vnd.vegalite.v5+json"
).split()
SOUND = dump(notebook(cell(), cell("markdown")))
FOUR = {"nbformat_minor": 2}

REFUSED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "format 3 without metadata": (third_format(metadata=...), "not a valid notebook of format 3"),
    "blank": (b" \n\t\n", "is empty"),
    "cut": (SOUND[: len(SOUND) // 2], "not valid JSON"),
    "doubled": (SOUND + SOUND, "not valid JSON"),
    "trailing comma": (SOUND.replace(b"\n}", b",\n}"), "not valid JSON"),
    "merge conflict": (
        SOUND.replace(b'   "source"', b'<<<<<<< HEAD\n=======\n>>>>>>> theirs\n   "source"', 1),
        "merge conflict markers",
    ),
    "byte order mark": (b"\xef\xbb\xbf" + SOUND, "byte order mark"),
    "UTF-16": (SOUND.decode().encode("utf-16"), "not UTF-8"),
    "Latin-1": (SOUND.replace(b"x = 1", b"x = '\xe9'"), "not UTF-8"),
    "zeros": (b"\0" * 1000, "not valid JSON"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "not UTF-8"),
    "HTML": (b"<!DOCTYPE html><html></html>", "not valid JSON"),
    "a number": (b"4", "not a JSON object"),
    "a list": (b"[]", "not a JSON object"),
    "null": (b"null", "not a JSON object"),
    "a text": (b'"cells"', "not a JSON object"),
    "no format": (dump({"cells": [], "metadata": {}}), "which notebook format"),
    "a format as text": (dump(notebook(nbformat="4")), "which notebook format"),
    "a minor format as text": (dump(notebook(nbformat_minor="5")), "which notebook format"),
    "a minor format of many digits": (
        dump(notebook(nbformat_minor=10**400)),
        "which notebook format",
    ),
    "format 5": (dump(notebook(nbformat=5)), "format 5"),
    "format 0": (dump(notebook(nbformat=0)), "format 0"),
    "format -1": (dump(notebook(nbformat=-1)), "format -1"),
    "half of format 3": (dump({"nbformat": 3, "nbformat_minor": 0, "worksheets": 7}), "format 3"),
    "no cells": (dump(notebook(cells=...)), "no list of cells"),
    "cells by name": (dump(notebook(cells={"a": cell()})), "no list of cells"),
    "metadata as list": (dump(notebook(metadata=[])), "metadata"),
    "a cell as text": (dump(notebook("x = 1")), "cell 1 is not a JSON object"),
    "a cell of no type": (dump(notebook(cell(cell_type=...))), "cell 1 has an unknown type"),
    "a heading cell": (dump(notebook(cell("heading"))), "cell 1 has an unknown type"),
    "source as number": (dump(notebook(cell(source=5))), "cell 1 has no text"),
    "source of numbers": (dump(notebook(cell(source=["x", 5]))), "cell 1 has no text"),
    "no cell metadata": (dump(notebook(cell(metadata=...))), "cell 1 has no metadata"),
    "cell metadata null": (dump(notebook(cell(metadata=None))), "cell 1 has no metadata"),
    "outputs by name": (dump(notebook(cell(outputs={}))), "outputs"),
    "an output as text": (dump(notebook(cell(outputs=["1"]))), "outputs"),
    "an output of no type": (dump(notebook(output(output_type=...))), "outputs"),
    "data as list": (dump(notebook(output(data=[]))), "outputs"),
    "a stream of numbers": (
        dump(notebook(cell(outputs=[{"output_type": "stream", "name": "stdout", "text": 1}]))),
        "outputs",
    ),
    "a traceback of numbers": (
        dump(notebook(output(output_type="error", ename="E", evalue="", traceback=[1]))),
        "outputs",
    ),
    "count as text": (dump(notebook(cell(execution_count="1"))), "execution count"),
    "count without end": (dump(notebook(cell(execution_count=float("inf")))), "execution count"),
    "count of 400 digits": (dump(notebook(cell(execution_count=10**400))), "execution count"),
    "an integer of 5000 digits": (
        SOUND.replace(b'"metadata": {}', b'"metadata": {"n": 1%s}' % (b"0" * 5000), 1),
        "not valid JSON",
    ),
    "attachments as list": (dump(notebook(cell("markdown", attachments=[1]))), "attachments"),
    "half a character": (dump(notebook(cell(source="x = '\ud800'"))), "half a character"),
    "half a character in an output": (
        dump(notebook(output(data={"text/plain": "\udfff"}))),
        "half a character",
    ),
    "nested 300 levels deep": (dump(notebook(cell(metadata={"n": nested(300)}))), "nested deeper"),
    "nested 100,000 levels deep": (b"[" * 100_000 + b"]" * 100_000, "nested deeper"),
}
"""Files that are refused, and a part of the error."""

READ: dict[str, bytes] = {
    "no cells at all": dump(notebook()),
    "format 3": third_format(),
    "numbers of many digits": dump(notebook(cell(metadata={"n": 10**400}), n=10**400)),
    "format 4.0": dump(notebook(cell(id=...), cell(id=...), nbformat_minor=0)),
    "format 4.2, equal cells": dump(notebook(*[cell(id=...)] * 4, **FOUR)),
    "4.4 with some ids": dump(notebook(cell(), cell(id=...), nbformat_minor=4)),
    "format 4.4": dump(notebook(cell(id=...), cell("raw", id=...), nbformat_minor=4)),
    "format 4.9, from the future": dump(notebook(cell(new={"a": 1}), nbformat_minor=9)),
    "format 4 without minor": dump(notebook(cell(id=...), nbformat_minor=...)),
    "4.5 without ids": dump(notebook(cell(id=...), cell("markdown", id=...))),
    "4.5 with one id missing": dump(notebook(cell(), cell("markdown", id=...), cell("raw"))),
    "4.5 with equal ids": dump(notebook(*[cell(source=str(n), id="same") for n in range(4)])),
    "an id as number": dump(notebook(cell(id=7), cell("markdown"))),
    "an empty id": dump(notebook(cell(id=""), cell("markdown"))),
    "no metadata": dump(notebook(cell(), metadata=...)),
    "NaN": dump(notebook(cell(metadata={"n": float("nan"), "i": [float("-inf")]}))),
    "a number of 2 GB": dump(notebook(cell(metadata={"n": 2**31, "m": -(2**63), "o": 2**64 + 1}))),
    "numbers of 400 digits": dump(notebook(cell(metadata={"n": 10**400, "m": [-(10**400)]}))),
    "nested 100 levels deep": dump(notebook(cell(metadata={"n": nested(100)}))),
    "one line": json.dumps(notebook(cell())).encode(),
    "tabs": json.dumps(notebook(cell()), indent="\t").encode(),
    "CRLF": SOUND.replace(b"\n", b"\r\n"),
    "unknown keys": dump(notebook(cell(mine=[1]), extra={"n": None}, signature="x")),
    "an unknown output": dump(notebook(cell(outputs=[{"output_type": "hologram", "n": [1]}]))),
    "kernelspec as text": dump(notebook(cell(), metadata={"kernelspec": "python3"})),
    "language_info as list": dump(notebook(cell(), metadata={"language_info": [1]})),
    "tags as number": dump(notebook(cell(metadata={"tags": 3, "nbgrader": "no"}))),
    "tags of numbers": dump(notebook(cell(metadata={"tags": [3, None]}))),
    "count as fraction": dump(notebook(cell(execution_count=3.0))),
    "control characters": dump(notebook(cell(source="a\x00b\x1b[31m\x7f\u2028"))),
    "an escaped emoji": SOUND.replace(b"x = 1", b"x = '\\ud83d\\ude00'"),
    "no source": dump(notebook(cell(source=...))),
    "output types without a value": dump(notebook(output(data=dict.fromkeys(TYPES)))),
    "an output without metadata": dump(notebook(output(metadata=...))),
    "no outputs, as some tools save": dump(
        notebook(cell(outputs=..., execution_count=...), cell(outputs=..., id="code-2"))
    ),
    "outputs of nothing but their kind": dump(
        notebook(cell(outputs=[{"output_type": kind} for kind in KINDS]))
    ),
    "an error without a traceback": dump(
        notebook(cell(outputs=[{"output_type": "error", "ename": "E", "evalue": "v"}]))
    ),
    "keys twice": SOUND.replace(b'"nbformat": 4,', b'"nbformat": 3, "nbformat": 4,'),
}
"""Files that can be edited as they are, or once they are upgraded in memory."""

ODD_VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 2**63, 10**400, float("nan"), float("inf"), "", "x", "\ud800", "\0",
    [], [None], {}, {"a": None}, [[]], ["x", 1], {"": {"": []}}, "code", "stream", nested(50),
]  # fmt: skip


def mutated(content: Any, random: random.Random) -> bytes:
    """The notebook with some of its values, keys or bytes made odd."""
    content = copy.deepcopy(content)
    for _ in range(random.choice([1, 1, 1, 2])):
        place = content
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = random.choice(keys)
            inner = place[key]
            if isinstance(inner, dict | list) and random.random() < 0.95:
                place = inner
                continue
            if random.random() < 0.2:
                del place[key]
            else:
                place[key] = copy.deepcopy(random.choice(ODD_VALUES))
            break
    raw = bytearray(json.dumps(content, indent=random.choice([None, 1])).encode())
    if random.random() < 0.1:
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(raw))
            raw[at : at + random.randint(0, 3)] = random.randbytes(random.randint(0, 3))
    return bytes(raw)
