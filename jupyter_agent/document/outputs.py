"""The outputs of a run so far: merged, cleared, updated and capped, independent of any document."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile
from typing import Any, TypeVar

from jupyter_agent.document.cell import Output
from jupyter_agent.legible import pluralize

T = TypeVar("T")
LIMIT = 2_000_000
"""Characters of stream and error text that a cell may have: no one reads more."""
_DISPLAYS = 25
"""Factor of that limit for displays: figures and animations are the user's results."""
_HEAD = 0.8
"""Share of the limit that the first stream text may fill; the last text is as telling as the first.
"""
_LARGEST = 0.9
"""Share of its limit that one error, or all displays before the last, may fill."""
_MOST_TOGETHER = 50
"""Outputs that go into a document in one transaction."""
_TOGETHER_CHARS = 1_000_000
"""Characters of them, unless one alone has more: pages get a transaction in one message."""
_CONTROL = re.compile("([\n\r\b])")


@dataclass(eq=False)
class OutputEntry:
    """One output; `revision` grows with each change."""

    output: dict[str, Any]
    display_id: str | None = None
    revision: int = 0
    column: int = 0
    """Column of the next character in a stream's last line."""
    size: int = 0
    """Approximate number of characters."""

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
        """Append text to a stream."""
        self.output["text"], self.column = type_onto(self.text, self.column, new)
        self.size = len(self.text)
        self.revision += 1


class OutputList:
    """The outputs of one run in nbformat 4.

    Consecutive text of one stream is one output. Beyond `limit` characters of text, and 25 times as
    many of displays, the start and the end are shown with a note on the part left out.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.rewrites = 0
        """Grows whenever outputs before the last one may have changed."""
        self._pending: list[tuple[str, str]] = []
        self._clear_before_next = False
        self._restart()

    def stream(self, name: str, text: str) -> None:
        """Text on `stdout` or `stderr`."""
        self._pending.append((name, text))

    def display(self, output: Output, display_id: str | None = None) -> None:
        """A `display_data`, `execute_result` or `error`."""
        self._fold_pending()
        self._clear_if_due()
        is_text = output["output_type"] == "error"
        most = self._limit_for(is_text)
        kept, size = cap_output(output, int(_LARGEST * most) if is_text else most)
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
        """Replace the data of all outputs with that display id."""
        self._fold_pending()
        self.rewrites += 1
        for entry in [*self._head, *self._tail]:
            if entry.display_id == display_id:
                # The head has room for what it had, plus the rest of the limit.
                in_head = entry in self._head
                sizes = self._size if in_head else self._tail_size
                sizes[False] -= entry.size
                room = self._limit_for(False) - (sizes[False] if in_head else 0)
                new = {**entry.output, "data": data, "metadata": metadata}
                entry.output, entry.size = cap_output(new, room)
                sizes[False] += entry.size
                entry.revision += 1
        self._trim(False)

    def clear(self, wait: bool) -> None:
        """Remove the outputs so far; with `wait` only when the next one comes."""
        self._fold_pending()
        self._clear_before_next = wait
        if not wait:
            self._restart()

    def forget(self, seen: int, text: str) -> None:
        """The user removed the first `seen` outputs. If a stream has grown beyond `text` since, its
        new part stays.
        """
        self._fold_pending()
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
        """The outputs in order. The end of outputs that are too long is included only with
        `complete`: during the run it would be rewritten again and again.
        """
        self._fold_pending()
        if not self._tail:
            return self._head
        if not complete:
            last_is_error = bool(self._head) and _is_stream(self._head[-1], "stderr")
            self._waiting.output["name"] = "stdout" if last_is_error else "stderr"
            return [*self._head, self._waiting]
        note = [OutputEntry(_text_output(self._note()))] if self._left_out else []
        return _join_streams([*self._head, *note, *self._tail])

    def _restart(self) -> None:
        self.rewrites += 1
        self._head: list[OutputEntry] = []
        self._size = {True: 0, False: 0}
        """Characters of text (True) and of displays (False)."""
        self._tail: deque[OutputEntry] = deque()
        self._tail_size = {True: 0, False: 0}
        self._waiting = OutputEntry(
            _text_output("\n[... more than fits in a cell; its end follows when it is done ...]\n")
        )
        self._lines = 0
        self._left_out = _LeftOut()

    def _limit_for(self, is_text: bool) -> int:
        return self.limit if is_text else _DISPLAYS * self.limit

    def _clear_if_due(self) -> None:
        if self._clear_before_next:
            self._clear_before_next = False
            self._restart()

    def _fold_pending(self) -> None:
        """Process the stream text that is pending."""
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
        """Drop the oldest entries of the end, of text or of displays, until they fit."""
        self.rewrites += 1
        most = self._limit_for(is_text)
        while (excess := self._tail_size[is_text] + self._size[is_text] - most) > 0:
            first = next((each for each in self._tail if each.is_text == is_text), None)
            if first is None:
                return
            if first.is_stream and first.size > excess:
                self._left_out.add_text(first.text[:excess])
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
                self._left_out.add_text(first.text)
            else:
                self._left_out.outputs += 1

    def _note(self) -> str:
        return (
            f"\n[... {self._left_out} left out of {pluralize(self._lines, 'line')} in all;"
            f" a cell keeps {self.limit:,} characters of text,"
            f" and {self._limit_for(False):,} of displays ...]\n"
        )


@dataclass
class _LeftOut:
    characters: int = 0
    lines: int = 0
    outputs: int = 0

    def add_text(self, text: str) -> None:
        self.characters += len(text)
        self.lines += text.count("\n")

    def __bool__(self) -> bool:
        return bool(self.characters or self.outputs)

    def __str__(self) -> str:
        characters = pluralize(self.characters, "character")
        summary = f"{characters} ({pluralize(self.lines, 'line')})"
        return f"{summary} and {pluralize(self.outputs, 'output')}" if self.outputs else summary


def type_onto(text: str, column: int, new: str) -> tuple[str, int]:
    """The text as a terminal shows it after `new`, and the column of the next character.

    `column` counts in the last line of `text`. Carriage returns and backspaces move it; the text
    contains neither.
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
    """Notes go to `stderr`, so that they stand out from the program's output."""
    return {"output_type": "stream", "name": name, "text": text}


def _join_streams(entries: Sequence[OutputEntry]) -> list[OutputEntry]:
    """Join neighbouring outputs of one stream: Lab's view joins them itself, and its indices would
    then differ from the document's.
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


def size_of(output: Output) -> int:
    """Approximate number of characters of the output."""
    match output["output_type"]:
        case "stream":
            return len(output["text"])
        case "error":
            texts = (output.get("ename", ""), output.get("evalue", ""))
            return sum(map(len, (*texts, *output.get("traceback", ()))))
    return sum(map(_length, output.get("data", {}).values()))


def batches(outputs: Sequence[T], size: Callable[[T], int]) -> Iterator[Sequence[T]]:
    """The outputs in groups that go into a document in one transaction each."""
    start = 0
    while start < len(outputs):
        sizes = map(size, outputs[start : start + _MOST_TOGETHER])
        fitting = takewhile(lambda total: total <= _TOGETHER_CHARS, accumulate(sizes))
        end = start + max(1, sum(1 for _ in fitting))
        yield outputs[start:end]
        start = end


def cap_output(output: Output, most: int) -> tuple[dict[str, Any], int]:
    """The output, without its largest representations if it has more than `most` characters, and
    its resulting size in characters.
    """
    output = dict(output)
    if (size := size_of(output)) <= most:
        return output, size
    output = _shrink(output, most)
    return output, size_of(output)


def _shrink(output: dict[str, Any], most: int) -> dict[str, Any]:
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
