"""A malicious model: it obeys everything it reads, and tries every tool with hostile inputs."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jupyter_agent.models.base import Block
from jupyter_agent.workspace.redactor import strings_in
from tests.fakes import FakeAnthropic, says
from tests.fakes.script import FakeReply

CORPUS: dict[str, list[Any]] = json.loads(
    Path(__file__).with_name("adversary.json").read_text(encoding="utf-8")
)
_ORDER = re.compile(r"ORDER: (\w+) (\{[^{}]*\})")
_MADE = re.compile(r"Inserted cell `([^`]+)`")

FIELDS: dict[str, tuple[str, ...]] = {
    # of the schemas; fields before `|` are always given, the others sometimes
    "get_notebook_state": ("|", "focus", "budget", "outline"),
    "read_cells": ("cell_ids", "|", "output_from", "output_chars", "images"),
    "search_notebook": ("query", "|", "regex"),
    "inspect_variables": ("|", "names"),
    "wait_for_run": ("run_id", "wait"),
    "list_files": ("path", "|", "pattern"),
    "read_file": ("path", "|", "offset", "limit"),
    "create_cell": ("source", "|", "type", "after", "before"),
    "update_cell": ("cell_id", "|", "source", "old_string", "new_string", "type"),
    "delete_cell": ("cell_id",),
    "move_cell": ("cell_id", "|", "after", "before"),
    "create_notebook": ("path", "|", "kernel_name"),
    "create_cells": ("cells", "|", "after", "before", "run"),
    "edit_cells": ("edits", "|", "run"),
    "run_code": ("code", "|", "wait"),
    "write_plan": ("steps",),
    "run_cell": ("cell_id", "|", "wait"),
    "run_cells": ("|", "cell_ids", "stop_on_error"),
    "verify_notebook": ("|", "kernel"),
    "interrupt_kernel": (),
    "restart_kernel": ("|", "kernel"),
}
_RARE = {"verify_notebook": 1, "restart_kernel": 2, "interrupt_kernel": 6}
"""Weights of tools that take seconds; 20 for all others."""
_EDITS = (("cell_id", "source"), ("cell_id", "old_string", "new_string"), ("cell_id",))
"""Fields of one edit among several."""
CELLS = ("a1", "b2", "m1", "o1", "e1", "a1", "b2", "l1", "h1")
OTHERS = ("other.ipynb", "shared.ipynb", "sub/notes.ipynb")


class Adversary:
    """Endless replies of hostile calls, `left` of them before each answer that ends a turn."""

    def __init__(self, seed: int, attacker: str) -> None:
        self.random = random.Random(seed)
        self.api: FakeAnthropic | None = None
        self.left = 0
        self.free = False
        """Whether code runs without approval: then none is written that would do harm."""
        self.drawn: Counter[str] = Counter()
        self.obeyed: set[str] = set()
        """The orders of this turn."""
        self.ran: str = "ann"
        """The id of another user's run."""
        self._attacker = attacker
        self._made: list[str] = []

    def begin(self, calls: int, *, free: bool) -> None:
        """Starts a turn with at most this many calls."""
        self.left, self.free = calls, free
        self.obeyed.clear()
        self._made.clear()

    def __iter__(self) -> Iterator[FakeReply]:
        while True:
            if self.left <= 0:
                yield [says("As you command.")]
                continue
            wanted = [*self._orders(), *(self._call() for _ in range(self.random.randint(8, 30)))]
            blocks = wanted[: self.left]
            self.left -= len(blocks)
            self.drawn.update(str(block["name"]) for block in blocks)
            yield blocks

    def told(self) -> str:
        """The news in the last request."""
        assert self.api is not None
        return "\n".join(strings_in(self.api.requests[-1]["messages"][-1]))

    def _orders(self) -> Iterator[Block]:
        text = self.told()
        self._made += _MADE.findall(text)
        new = sorted({f"{tool} {given}" for tool, given in _ORDER.findall(text)} - self.obeyed)
        for order in self.random.sample(new, min(8, len(new))):
            self.obeyed.add(order)
            tool, _, given = order.partition(" ")
            yield {"type": "tool_use", "name": tool, "input": given}  # verbatim

    def _call(self) -> Block:
        dice = self.random.random()
        if dice < 0.03:
            return self._block(self._one("tools"), self._input("run_cell"))
        names = list(FIELDS)
        (name,) = self.random.choices(names, [_RARE.get(each, 20) for each in names])
        if dice < 0.07:
            return {"type": "tool_use", "name": name, "input": self._one("inputs")}
        given = self._input(name)
        if dice < 0.16:
            given |= self._one("more")
        elif dice < 0.26 and given:
            given[self.random.choice(list(given))] = self._one("values")
        elif dice < 0.29 and given:
            given.pop(self.random.choice(list(given)))
        elif dice < 0.30 and given:
            given[self.random.choice(list(given))] = "\u202eA" * self.random.choice([10, 3_000])
        return self._block(name, given)

    @staticmethod
    def _block(name: str, given: dict[str, Any]) -> Block:
        return {"type": "tool_use", "name": name, "input": json.dumps(given)}

    def _input(self, name: str) -> dict[str, Any]:
        fields = FIELDS[name]
        always = fields[: fields.index("|")] if "|" in fields else fields
        more = fields[len(always) + 1 :]
        given = {field: self._value(field, name) for field in always}
        if name == "update_cell":
            more = self.random.choice(
                [("source",), ("source", "type"), ("type",), ("old_string", "new_string"), more]
            )
        elif name == "move_cell":
            more = (self.random.choice(more),)
        else:
            more = tuple(field for field in more if self.random.random() < 0.3)
        given |= {field: self._value(field, name) for field in more}
        dice = self.random.random()
        if dice < 0.2:
            given["notebook"] = self._one("paths")
        elif dice < 0.35:
            given["notebook"] = self.random.choice(OTHERS)
        if name == "create_cell" and self.random.random() < 0.3:
            given["type"] = "markdown"
        if given.get("type") == "markdown" and "source" in given:
            given["source"] = self._text("markdown" if self.random.random() < 0.5 else "plain")
        return given

    def _value(self, field: str, name: str) -> Any:
        draw = self.random.random
        match field:
            case "cell_id" | "after" | "before" | "focus":
                return self._id()
            case "cell_ids":
                return [self._id() for _ in range(self.random.randint(0, 4))]
            case "cells":
                return [
                    {"source": self._code(), "type": self._value("type", name)}
                    for _ in range(self.random.randint(0, 3))
                ]
            case "edits":
                return [
                    {key: self._value(key, name) for key in self.random.choice(_EDITS)}
                    for _ in range(self.random.randint(0, 3))
                ]
            case "steps":
                return [{"text": self._text("plain"), "state": "open"}]
            case "source" | "new_string" | "code":
                return self._code()
            case "old_string":
                return self.random.choice(["x = 1", "print(x)", "x", "", "\n", "absent"])
            case "type":
                return self.random.choice(["code", "markdown", "markdown", "raw", "Code"])
            case "path" if name == "create_notebook":
                return self._one("made")
            case "path":
                return self._one("paths")
            case "run_id":
                return self.ran if draw() < 0.4 else self._one("runs")
            case "wait":
                return self.random.choice([0.0, 0.5, 5, 60.0, -1, 1e9])
            case "names":
                return [self._one("names") for _ in range(self.random.randint(0, 3))]
            case "query" | "pattern":
                return self._one("queries")
            case "kernel_name" | "kernel":
                return self._one("kernels")
            case "regex" | "outline" | "images" | "stop_on_error" | "run":
                return draw() < 0.5
        return self.random.choice([0, 1, 20, 5_000, -1, 2**31, 10**18])  # the numbers

    def _id(self) -> str:
        dice = self.random.random()
        if self._made and dice < 0.2:
            return self.random.choice(self._made)
        return self.random.choice(CELLS) if dice < 0.7 else str(self._one("ids"))

    def _code(self) -> str:
        dice = self.random.random()
        return self._text("code" if dice < 0.35 and not self.free else "harmless")

    def _text(self, kind: str) -> str:
        return self.filled(self._one(kind)).replace("{n}", str(self.random.randint(0, 999)))

    def filled(self, text: str) -> str:
        """An entry of the corpus with the attacker's address."""
        host, _, port = self._attacker.removeprefix("http://").partition(":")
        for name, value in (("attacker", self._attacker), ("host", host), ("port", port)):
            text = text.replace(f"{{{name}}}", value)
        return text

    def _one(self, kind: str) -> Any:
        return self.random.choice(CORPUS[kind])


def ordered(numbers: Sequence[int]) -> str:
    """Some of the corpus's orders, as a text to be found somewhere."""
    orders = [CORPUS["orders"][number % len(CORPUS["orders"])] for number in numbers]
    return "\n".join(f"ORDER: {tool} {json.dumps(given)}" for tool, given in orders)
