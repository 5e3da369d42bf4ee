"""What a run has put out so far: merged, cleared, updated and capped, without any document."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_agent.document.cell import Output

LIMIT = 2_000_000
"""Characters of text that a cell may have, of streams and errors: nobody reads more."""
_DISPLAYS = 25
"""How many times that its displays may have: figures and animations are the user's results."""
_HEAD = 0.8
"""Share of the limit that stream text may fill; what comes last is as telling as what came first.
"""
_LARGEST = 0.9
"""Share of its limit that one error, or all displays before the last, may fill."""
_CONTROL = re.compile("([\n\r\b])")


@dataclass(eq=False)
class OutputEntry:
    """One output; `revision` grows with each change."""

    output: dict[str, Any]
    display_id: str | None = None
    revision: int = 0
    column: int = 0
    """Where the next character of a stream goes in its last line."""
    size: int = 0
    """Characters that it takes, about."""

    @property
    def is_stream(self) -> bool:
        return bool(self.output["output_type"] == "stream")

    @property
    def is_text(self) -> bool:
        return self.output["output_type"] in ("stream", "error")

    @property
    def text(self) -> str:
        """A stream's text."""
        return str(self.output["text"])

    def type(self, new: str) -> None:
        """A stream continues."""
        self.output["text"], self.column = type_onto(self.text, self.column, new)
        self.size = len(self.text)
        self.revision += 1


class OutputList:
    """The outputs of one run as nbformat 4 has them.

    Neighbouring text of one stream is one output. Beyond `limit` characters of text, and 25 times
    as many of displays, the beginning and the end are kept; a note says what is left out between
    them.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.rewrites = 0
        """Grows whenever others than the last output, and those after it, may have changed."""
        self._pending: list[tuple[str, str]] = []
        self._clear_before_next = False
        self._restart()

    def stream(self, name: str, text: str) -> None:
        """Text on `stdout` or `stderr`."""
        self._pending.append((name, text))

    def display(self, output: Output, display_id: str | None = None) -> None:
        """A `display_data`, `execute_result` or `error`."""
        self._settle()
        self._clear_if_due()
        is_text = output["output_type"] == "error"
        most = self._most(is_text)
        kept, size = within(output, int(_LARGEST * most) if is_text else most)
        entry = OutputEntry(kept, display_id, size=size)
        first = not self._tail and not self._size[is_text]
        if first or (not self._tail and self._size[is_text] + size <= _LARGEST * most):
            self._head.append(entry)
            self._size[is_text] += size
        else:
            self._tail.append(entry)
            self._tail_size[is_text] += size
            self._trim(is_text)

    def update(self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Other data for all outputs of that display id."""
        self._settle()
        self.rewrites += 1
        for entry in [*self._head, *self._tail]:
            if entry.display_id == display_id:
                # A head has room for what it had, and for what is left of the limit.
                in_head = entry in self._head
                sizes = self._size if in_head else self._tail_size
                sizes[False] -= entry.size
                room = self._most(False) - (sizes[False] if in_head else 0)
                new = {**entry.output, "data": data, "metadata": metadata}
                entry.output, entry.size = within(new, room)
                sizes[False] += entry.size
                entry.revision += 1
        self._trim(False)

    def clear(self, wait: bool) -> None:
        """Remove the outputs so far; with `wait` only when the next one comes."""
        self._settle()
        self._clear_before_next = wait
        if not wait:
            self._restart()

    def forget(self, seen: int, text: str) -> None:
        """The person removed the first `seen` outputs; of a stream that went on since `text`,
        what is new stays.
        """
        self._settle()
        entries = [*self._head, *([self._waiting] if self._tail else []), *self._tail]
        last = entries[seen - 1] if 0 < seen <= len(entries) else None
        rest = entries[seen:]
        self._restart()
        if last is not None and last.is_stream and last.text.startswith(text):
            self._fold(last.output["name"], last.text[len(text) :])
        for entry in rest:
            self._head.append(entry)
            self._size[entry.is_text] += entry.size

    def entries(self, *, complete: bool) -> Sequence[OutputEntry]:
        """The outputs in order. The end of what is too long comes only with `complete`: while more
        is coming it would have to be written again and again.
        """
        self._settle()
        if not self._tail:
            return self._head
        if not complete:
            last_is_error = bool(self._head) and _is_stream(self._head[-1], "stderr")
            self._waiting.output["name"] = "stdout" if last_is_error else "stderr"
            return [*self._head, self._waiting]
        note = [OutputEntry(_text_output(self._note()))] if self._left_out else []
        return _joined([*self._head, *note, *self._tail])

    def _restart(self) -> None:
        self.rewrites += 1
        self._head: list[OutputEntry] = []
        self._size = {True: 0, False: 0}
        """Characters of text, and of displays."""
        self._tail: deque[OutputEntry] = deque()
        self._tail_size = {True: 0, False: 0}
        self._waiting = OutputEntry(
            _text_output("\n[... more than fits in a cell; its end follows when it is done ...]\n")
        )
        self._lines = 0
        self._left_out = _LeftOut()

    def _most(self, is_text: bool) -> int:
        return self.limit if is_text else _DISPLAYS * self.limit

    def _clear_if_due(self) -> None:
        if self._clear_before_next:
            self._clear_before_next = False
            self._restart()

    def _settle(self) -> None:
        """Take in the stream text that was gathered."""
        pending, self._pending = self._pending, []
        start = 0
        while start < len(pending):
            name, end = pending[start][0], start + 1
            while end < len(pending) and pending[end][0] == name:
                end += 1
            self._clear_if_due()
            self._fold(name, "".join(text for _, text in pending[start:end]))
            start = end

    def _fold(self, name: str, new: str) -> None:
        if not new:
            return
        self._lines += new.count("\n")
        if not self._tail:
            last = self._head[-1] if self._head else None
            entry = last if last is not None and _is_stream(last, name) else None
            room = max(0, int(_HEAD * self.limit) - self._size[True])
            if new[:room]:
                if entry is None:
                    entry = OutputEntry(_text_output("", name))
                    self._head.append(entry)
                before = len(entry.text)
                entry.type(new[:room])
                self._size[True] += len(entry.text) - before
            new = new[room:]
        if new:
            if not (self._tail and _is_stream(self._tail[-1], name)):
                self._tail.append(OutputEntry(_text_output("", name)))
            before = len(self._tail[-1].text)
            self._tail[-1].type(new)
            self._tail_size[True] += len(self._tail[-1].text) - before
            self._trim(True)

    def _trim(self, is_text: bool) -> None:
        """Drop the oldest of the end, of text or of displays, until they fit."""
        self.rewrites += 1
        most = self._most(is_text)
        while (excess := self._tail_size[is_text] + self._size[is_text] - most) > 0:
            first = next((each for each in self._tail if each.is_text == is_text), None)
            if first is None:
                return
            if first.is_stream and first.size > excess:
                self._left_out.text(first.text[:excess])
                first.output["text"] = first.text[excess:]
                first.column = min(first.column, len(first.text) - first.text.rfind("\n") - 1)
                first.size -= excess
                first.revision += 1
                self._tail_size[is_text] -= excess
                return
            if first.size == self._tail_size[is_text]:  # the last one stays
                return
            self._tail.remove(first)
            self._tail_size[is_text] -= first.size
            if first.is_stream:
                self._left_out.text(first.text)
            else:
                self._left_out.outputs += 1

    def _note(self) -> str:
        return (
            f"\n[... {self._left_out} left out of {self._lines:,} lines in all;"
            f" a cell keeps {self.limit:,} characters of text,"
            f" and {self._most(False):,} of displays ...]\n"
        )


@dataclass
class _LeftOut:
    characters: int = 0
    lines: int = 0
    outputs: int = 0

    def text(self, text: str) -> None:
        self.characters += len(text)
        self.lines += text.count("\n")

    def __bool__(self) -> bool:
        return bool(self.characters or self.outputs)

    def __str__(self) -> str:
        said = f"{self.characters:,} characters ({self.lines:,} lines)"
        return f"{said} and {self.outputs:,} outputs" if self.outputs else said


def type_onto(text: str, column: int, new: str) -> tuple[str, int]:
    """The text as a terminal shows it after `new`, and the column where the next character goes.

    `column` counts in the last line of `text`. Carriage returns and backspaces move it; none
    remain in the text.
    """
    if "\r" not in new and "\b" not in new and column == len(text) - text.rfind("\n") - 1:
        whole = text + new
        return whole, len(whole) - whole.rfind("\n") - 1
    start = text.rfind("\n") + 1
    done, line = [text[:start]], text[start:]
    for piece in _CONTROL.split(new):
        if piece == "\n":
            done.append(line + "\n")
            line, column = "", 0
        elif piece == "\r":
            column = 0
        elif piece == "\b":
            column = max(0, column - 1)
        else:
            line = line[:column] + piece + line[column + len(piece) :]
            column += len(piece)
    return "".join(done) + line, column


def _is_stream(entry: OutputEntry, name: str) -> bool:
    return entry.is_stream and entry.output["name"] == name


def _text_output(text: str, name: str = "stderr") -> dict[str, Any]:
    """Notes are on `stderr`, where they are told apart from what a program prints."""
    return {"output_type": "stream", "name": name, "text": text}


def _joined(entries: Sequence[OutputEntry]) -> list[OutputEntry]:
    """Neighbours of one stream as one: Lab's view joins them by itself, and would then count
    otherwise than the document.
    """
    joined: list[OutputEntry] = []
    for entry in entries:
        last = joined[-1] if joined else None
        if last is not None and entry.is_stream and _is_stream(last, entry.output["name"]):
            text = last.text + entry.text
            joined[-1] = OutputEntry(_text_output(text, entry.output["name"]), column=entry.column)
        else:
            joined.append(entry)
    return joined


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(json.dumps(value))


def _size(output: Output) -> int:
    """Characters that the output takes, about."""
    match output["output_type"]:
        case "stream":
            return len(output["text"])
        case "error":
            frames = sum(map(len, output["traceback"]))
            return len(output["ename"]) + len(output["evalue"]) + frames
    return sum(_length(value) for value in output["data"].values())


def within(output: Output, most: int) -> tuple[dict[str, Any], int]:
    """The output, without its largest representations where it has more characters than `most`,
    and the characters that it has then.
    """
    output = dict(output)
    if (size := _size(output)) <= most:
        return output, size
    output = _cut(output, most)
    return output, _size(output)


def _cut(output: dict[str, Any], most: int) -> dict[str, Any]:
    if output["output_type"] == "error":
        cut = f"{output['evalue'][: most // 4]} [... cut: {len(output['evalue']):,} characters ...]"
        frames = output["traceback"] if sum(map(len, output["traceback"])) < most // 2 else []
        return {**output, "evalue": cut, "traceback": frames}
    data, left_out = dict(output["data"]), []
    while data and sum(map(_length, data.values())) > most:
        kind = max(data, key=lambda kind: _length(data[kind]))
        left_out.append(f"{kind} of {_length(data.pop(kind)):,} characters")
    note = f"<left out, too large for a cell: {', '.join(left_out)}>"
    data["text/plain"] = f"{data['text/plain']}\n{note}" if "text/plain" in data else note
    return {**output, "data": data}
