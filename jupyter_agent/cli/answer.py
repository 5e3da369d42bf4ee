"""A turn as text: the model's words, each call as a line, diffs, and a summary at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from jupyter_agent.cli.exits import Exit
from jupyter_agent.cli.terminal import Console, Working
from jupyter_agent.cli.words import Cells, describe_change
from jupyter_agent.legible import pluralize
from jupyter_agent.text.outputs import images
from jupyter_agent.words import Phrasebook

_SHOWN_LINES = 24
"""Of a call's result."""
_QUIET = ("approval", "answered")
"""Notices that are shown in other ways."""


class AnswerPrinter:
    """Prints the chunks of one turn as they arrive, and records how it ended."""

    def __init__(
        self,
        console: Console,
        working: Working,
        cells: Cells,
        phrases: Phrasebook,
        outputs_of: Callable[[Mapping[str, Any]], Sequence[Any]] = itemgetter("outputs"),
    ) -> None:
        """`outputs_of` returns the outputs of a run; events do not carry large ones."""
        self._console = console
        self._working = working
        self._cells = cells
        self._phrases = phrases
        self._outputs_of = outputs_of
        self._calls: dict[str, tuple[str, Any]] = {}
        """Tool and input by call id."""
        self._headed: set[str] = set()
        self._over: set[str] = set()
        """Calls that have a result."""
        self._changed: set[tuple[str, str]] = set()
        """Notebook and id of the cells that it edited."""
        self._ran: set[tuple[str, str]] = set()
        """Those whose outputs it replaced."""
        self._finish: Mapping[str, Any] = {}
        self._model = "the model"
        self._notebook: str | None = None
        """The notebook that `cells` belongs to."""
        self._denied = False
        self.failures = 0
        """How many calls failed."""
        self.turn_id: str | None = None
        self.exit: Exit | None = None
        """How the turn ended; None while it runs."""

    def show(self, chunk: Mapping[str, Any]) -> None:
        """Prints one more chunk of the stream."""
        self._working.on("")
        self._write(chunk)
        if self.exit is None:
            self._working.on(self._doing(chunk))

    @property
    def exit_code(self) -> Exit:
        """The exit code; FAILED if the stream broke off."""
        return Exit.FAILED if self.exit is None else self.exit

    def describe_call(self, call_id: str, tool: str, given: Any) -> str:
        """A call in words."""
        return self._phrases.todo(tool, given, self._cells.name)

    def summary(self) -> Iterator[str]:
        """What the turn did and used, and how to undo it."""
        usage = self._finish.get("usage") or {}
        tokens = sum(value for key, value in usage.items() if key.endswith("_tokens"))
        facts = [
            {
                Exit.DONE: "Done",
                Exit.LIMIT: "Ended by a limit",
                Exit.REFUSED: "Done, but some calls were denied",
                Exit.MODEL: "Failed",
                Exit.STOPPED: "Stopped",
            }.get(self.exit_code, "Cut off"),
            f"{pluralize(len(self._changed), 'cell')} changed",
            f"other outputs in {pluralize(len(self._ran), 'cell')}" if self._ran else "",
            pluralize(tokens, "token") if tokens else "",
            f"cost {usage['cost']:.4f}" if usage.get("cost") else "",
        ]
        yield ", ".join(filter(None, facts)) + "."
        if (self._changed or self._ran) and self.turn_id:
            yield f"Take it back: jupyter agent undo {self.turn_id}"

    def _write(self, chunk: Mapping[str, Any]) -> None:
        console = self._console
        match chunk["type"]:
            case "start":
                started = chunk["messageMetadata"]
                self.turn_id, self._model = started["turnId"], started["model"]
                self._notebook = started["notebook"]
            case "text-delta":
                console.write(chunk["delta"])
            case "text-end":
                console.end_line()
            case "reasoning-delta":
                console.write(chunk["delta"], "faint")
            case "reasoning-end":
                console.end_line()
            case "tool-input-available":
                self._calls[chunk["toolCallId"]] = (chunk["toolName"], chunk["input"])
            case "tool-input-error":
                self._calls[chunk["toolCallId"]] = (chunk["toolName"], chunk["input"])
                self._show_failure(chunk)
            case "tool-output-available" if not chunk.get("preliminary"):
                self._show_result(chunk)
            case "tool-output-error":
                self._show_failure(chunk)
            case "tool-output-denied":
                self._denied = True
                self._over.add(chunk["toolCallId"])
                self._head(chunk["toolCallId"], " - denied")
            case "data-changes":
                self._changes(chunk["data"])
            case "data-notice" if chunk["data"]["kind"] not in _QUIET:
                console.line(chunk["data"]["text"], "warning")
            case "finish" if not chunk["messageMetadata"].get("state"):
                self._take_finish(chunk)
            case "error":
                console.line(chunk["errorText"], "warning")
                self.exit = Exit.MODEL
            case "abort":
                self.exit = Exit.STOPPED

    def _doing(self, chunk: Mapping[str, Any]) -> str:
        """What the turn is doing after this chunk."""
        open_calls = [call_id for call_id in self._calls if call_id not in self._over]
        if open_calls:
            return f"{self._phrase(open_calls[0])}..."
        if chunk["type"] in ("text-delta", "reasoning-delta"):
            return ""  # the text is on an unfinished line
        return f"Waiting for {self._model}"

    def _take_finish(self, chunk: Mapping[str, Any]) -> None:
        self._finish = chunk["messageMetadata"]
        limited = self._finish.get("stepLimitReached") or self._finish.get("budgetReached")
        if chunk["finishReason"] == "content-filter":
            self.exit = Exit.MODEL
        elif limited or chunk["finishReason"] == "length":
            self.exit = Exit.LIMIT
        else:
            self.exit = Exit.REFUSED if self._denied else Exit.DONE

    def _phrase(self, call_id: str) -> str:
        tool, given = self._calls.get(call_id, ("a tool", {}))
        return self.describe_call(call_id, tool, given)

    def _head(self, call_id: str, note: str = "") -> None:
        """Prints the line of a call, once."""
        if call_id not in self._headed:
            self._headed.add(call_id)
            self._console.line(f"* {self._phrase(call_id)}{note}", "strong")

    def _show_result(self, chunk: Mapping[str, Any]) -> None:
        call_id, output = chunk["toolCallId"], chunk["output"]
        self._over.add(call_id)
        self._head(call_id)
        if not isinstance(output, Mapping):
            return
        tool, _ = self._calls.get(call_id, ("", {}))
        runs = list(_runs_of(output))
        if runs or "not_run" in output or self._phrases.shows_result(tool):
            self._write_indented(str(output.get("text", "")))
        if self._console.shows_pictures:
            for run in runs:
                self._console.pictures(images(self._outputs_of(run)))

    def _show_failure(self, chunk: Mapping[str, Any]) -> None:
        self.failures += 1
        self._over.add(chunk["toolCallId"])
        self._head(chunk["toolCallId"], " - failed")
        self._write_indented(chunk["errorText"])

    def _changes(self, data: Mapping[str, Any]) -> None:
        self._head(data["toolCallId"])
        if data["notebook"] == self._notebook:
            self._cells.follow(data["changes"])
        for change in data["changes"]:
            cell = (data["notebook"], change["cell_id"])
            if change["kind"] == "outputs":  # shown with the call's result
                self._ran.add(cell)
                continue
            self._changed.add(cell)
            for text, style in describe_change(change, self._cells.name):
                self._console.line(f"    {text}", style)

    def _write_indented(self, text: str) -> None:
        lines = text.strip("\n").splitlines()
        for line in lines[:_SHOWN_LINES]:
            self._console.line(f"    {line}", "faint")
        if len(lines) > _SHOWN_LINES:
            self._console.line(f"    ... {len(lines) - _SHOWN_LINES:,} more lines", "faint")


def _runs_of(output: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The runs of a call: itself, or one for each cell."""
    cells = output.get("cells")
    for each in (output, *(cells if isinstance(cells, list) else ())):
        if isinstance(each, Mapping) and "run_id" in each and "outputs" in each:
            yield each
