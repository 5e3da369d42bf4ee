"""Decides what models may see; all texts of a workspace for a model pass through here.

A cell tagged `agent-hidden` is hidden completely: its source, its outputs, its variables, and text
that quotes its code. `share` limits which parts of other cells are shown. An administrator, a user
and a notebook (`{"jupyter_agent": {"share": ...}}` in its metadata) may each set it; the strictest
setting wins.

No text for a model contains our secrets or those of the server's environment: a `Redactor` masks
them when a text is made and stored, and a `View` again in each whole request.

Only texts from the notebook are withheld. Code that a kernel runs for a model can still read
everything that the user can read; with `all` its outputs are shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, get_args

from jupyter_agent import foreign
from jupyter_agent.analysis.names import names_of
from jupyter_agent.carriers.nbformat_file import DEEPEST
from jupyter_agent.choices import SHARES, Share
from jupyter_agent.document.cell import Cell, CellType, Output
from jupyter_agent.errors import NotPermitted, ToolError
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.variables import variables
from jupyter_agent.text.fence import NO_FENCE, Fence
from jupyter_agent.text.notebook import ShownCell, hidden, render_cells
from jupyter_agent.text.outputs import join_lines, plain
from jupyter_agent.workspace.copies import (
    LEAST,
    QUOTED,
    is_tagged,
    without_hidden_cells,
    without_letter_escapes,
)
from jupyter_agent.workspace.hidden_cells import HiddenCells
from jupyter_agent.workspace.redactor import Redactor, map_strings

KEPT_BACK: Mapping[Share, str] = {
    "all": "",
    "no-outputs": "outputs and variables",
    "code-only": "Markdown, outputs, variables and files other than code",
}
"""Share -> the parts withheld from models, in words."""
_MARKDOWN = "(not shared with you: this notebook shares its code only)"
_OUTPUTS = "(its outputs are not shared with you)"
_FAILED = "(it failed; its outputs are not shared with you)"
_LITERAL = re.compile(rf"(['\"])((?:(?!\1)[^\n]){{{LEAST},}})\1")
_IMPORT = re.compile(r"(?:import|from)\s")
_FRAME = re.compile(r"(?:Cell In|Input In|In ?)\[(\d+)\]")
_CELLS = re.compile(r'"cell_type\\*"')
_CODE = frozenset(
    {".py", ".r", ".jl", ".sql", ".sh", ".js", ".ts", ".c", ".h", ".cpp", ".java", ".go", ".rs"}
)
"""Suffixes of files that only contain code."""
_NO_TEXT = ("type", "id", "tool_use_id", "name", "role", "signature", "data", "media_type")
"""Message fields without notebook text."""
_PLAIN = Redactor()
"""A redactor without secrets."""
_KERNELS_OWN = ("In", "Out")
"""IPython's variables for inputs and outputs, besides those with an underscore."""


def strictest(*shares: Share) -> Share:
    """The strictest of several settings."""
    return max(shares, key=SHARES.index)


def notebook_share(metadata: Mapping[str, Any]) -> Share:
    """The share setting of a notebook; an unknown value counts as the strictest."""
    section = metadata.get("jupyter_agent")
    if not isinstance(section, Mapping) or "share" not in section:
        return "all"
    value = section["share"]
    return value if value in SHARES else SHARES[-1]


@dataclass(frozen=True, kw_only=True)
class View:
    """The parts of a notebook that a model may see."""

    share: Share = "all"
    hidden_ids: frozenset[str] = frozenset()
    hidden_sources: frozenset[str] = frozenset()
    shown_sources: Collection[str] = ()
    """Sources of visible cells, if some are hidden: text that they share is not secret."""
    hidden_counts: frozenset[int] = frozenset()
    """Execution counts that only hidden cells have: tracebacks refer to cells by count."""
    redactor: Redactor = Redactor()
    fence: Fence = NO_FENCE
    """Separates our lines from data in mixed texts."""

    @classmethod
    def of(
        cls,
        share: Share,
        cells: Sequence[Cell],
        hidden_by_id: Mapping[str, Sequence[str]] | None = None,
        peer_sources: frozenset[str] = frozenset(),
        *,
        redactor: Redactor = _PLAIN,
        fence: Fence = NO_FENCE,
    ) -> View:
        """The view of a notebook with these cells. `hidden_by_id` is from `HiddenCells.update`,
        `peer_sources` from `HiddenCells.sources_of_peers`.
        """
        hidden_by_id = HiddenCells().update("", cells) if hidden_by_id is None else hidden_by_id
        counts = {cell.execution_count for cell in cells if hidden(cell)}
        counts -= {None, *(cell.execution_count for cell in cells if not hidden(cell))}
        return cls(
            share=share,
            hidden_ids=frozenset(hidden_by_id),
            hidden_sources=peer_sources.union(
                source for sources in hidden_by_id.values() for source in sources
            ),
            shown_sources=(
                [cell.source for cell in cells if not hidden(cell)]
                if hidden_by_id or peer_sources
                else ()
            ),
            hidden_counts=frozenset(count for count in counts if count is not None),
            redactor=redactor,
            fence=fence,
        )

    @property
    def outputs_shared(self) -> bool:
        return self.share == "all"

    # -- cells

    def cells(self, cells: Sequence[Cell]) -> list[ShownCell]:
        """The cells, reduced to their visible parts."""
        return [self.cell(cell) for cell in cells]

    def cell(self, cell: Cell) -> ShownCell:
        """The visible part of a cell, or the cell itself if all is visible. `withheld` is set if
        its source was replaced.
        """
        if hidden(cell) or self._withholds(cell.type):
            source = "" if hidden(cell) else _MARKDOWN
            kept_back = replace(cell, source=source, outputs=(), attachments=None, withheld=True)
            return ShownCell(kept_back)
        outputs = self.outputs(cell.outputs)
        is_all = outputs == list(cell.outputs)
        return ShownCell(cell if is_all else replace(cell, outputs=outputs))

    def outputs(self, outputs: Sequence[Output], of: str | None = None) -> list[Output]:
        """The visible outputs; `of` is the id of their cell, if it may be hidden."""
        if outputs and of in self.hidden_ids:
            return [_notice(QUOTED)]
        if outputs and not self.outputs_shared:
            failed = any(output["output_type"] == "error" for output in outputs)
            return [_notice(_FAILED if failed else _OUTPUTS)]
        if not self.hidden_sources:
            return list(outputs)
        return [_notice(QUOTED) if self._reveals(output) else output for output in outputs]

    def shares_all(self, outputs: Sequence[Output], of: str) -> bool:
        """Whether all of these outputs of a cell are visible."""
        return self.outputs(outputs, of) == list(outputs)

    # -- text

    def quotes(self, text: str) -> bool:
        """Whether a text contains code of a hidden cell."""
        return any(fragment in text for fragment in self._fragments)

    def redact(self, text: str) -> str:
        """A text with lines that quote a hidden cell replaced."""
        if not self.quotes(text):
            return text
        lines = (QUOTED if self.quotes(line) else line for line in text.split("\n"))
        return "\n".join(lines)

    def error(self, error: ToolError) -> ToolError:
        """The error with the cell's current source reduced to the visible part."""
        if (current := error.facts.get("current")) is None:
            return error
        shown = self._filter(current)
        message = error.message
        if message.endswith(current["source"]):
            message = message.removesuffix(current["source"]) + self.fence.around(shown["source"])
        return error.saying(message, {**error.facts, "current": shown})

    def facts(self, value: Any) -> Any:
        """A JSON value with all cells and outputs in it reduced to their visible parts."""
        return self.redactor.mask_all(self._filter(value))

    def request(
        self, system: str, messages: Sequence[Mapping[str, Any]]
    ) -> tuple[str, list[dict[str, Any]]]:
        """A whole request to a model, without quotes of hidden cells, which may have been hidden
        after they were read, and with any remaining secrets masked. A person's own text
        keeps its secrets.
        """
        mask = self.redactor.mask()

        def clean(text: str) -> str:
            return mask(self.redact(text))

        return clean(system), [
            {
                **message,
                "content": [
                    _block(block, self.redact if _is_question(message, block) else clean)
                    for block in message["content"]
                ],
            }
            for message in messages
        ]

    def selection(self, text: str, cells: Sequence[Cell], of: str | None) -> str:
        """A text that someone selected in a notebook with these cells, in the cell `of`.

        Raises NotPermitted if it may be hidden: it could be from an output.
        """
        hidden = of in self.hidden_ids or self.quotes(text)
        shown = (cell for cell in self.cells(cells) if not cell.withheld)
        if hidden or (self.share != "all" and not any(text in cell.source for cell in shown)):
            raise NotPermitted("The selection is not shared with you.")
        return text

    def file(self, path: str, text: str) -> str:
        """The visible text of a file, which may be a copy of a notebook under another name.

        Raises NotPermitted, ToolError.
        """
        if _has_cells(text):
            return self._copy_of_notebook(path, text)
        if self.share == "code-only" and PurePosixPath(path).suffix.lower() not in _CODE:
            raise NotPermitted(f"`{path}` is not shared with you: only code is.")
        return self.fence.mask(self.redact(text))

    def data(self, value: Any) -> Any:
        """The visible parts of what another program returned: a text, or JSON. It may be long, so
        call it in a thread.
        """
        return without_hidden_cells(value, self._fragments)

    def document(self, name: str) -> None:
        """Check that a file whose text we do not read, such as a PDF, may be sent to a model.

        Raises NotPermitted.
        """
        if self.share == "code-only":
            raise NotPermitted(f"`{name}` is not shared with you: only code is.")

    def _copy_of_notebook(self, path: str, text: str) -> str:
        """The sources of a copied notebook, subject also to its own share setting."""
        try:
            content = foreign.parse(text, DEEPEST, constants=True)
            cells = [_cell(index, cell) for index, cell in enumerate(content["cells"])]
            share = strictest(self.share, notebook_share(content["metadata"]))
        except (ValueError, LookupError, TypeError, AttributeError):
            message = f"`{path}` has cells of a notebook and cannot be read as one."
            raise ToolError(message) from None
        view = View.of(share, cells, fence=self.fence.without_mark())
        shown = render_cells(view.cells(cells), fence=view.fence)
        return f"{self.redact(shown)}\n\n(Sources only: name it in `notebook` to see outputs.)"

    # -- variables

    async def variables(self, kernel: Kernel, names: Sequence[str] | None) -> str:
        """A summary of the kernel's variables, without those that hidden cells set.

        Raises NotPermitted if variables are not shared.
        """
        if not self.outputs_shared:
            raise NotPermitted("Variables are not shared with you, as outputs are not.")
        if not self.hidden_sources:
            return self.redactor.mask_fragments(plain(await variables(kernel, names)))
        hidden_names = self.hidden_names
        if hidden_names is None or kernel.language != "python":
            raise NotPermitted(
                "Variables are not shared with you: it is unknown which of them a hidden cell sets."
            )
        secret = [name for name in names or () if name in hidden_names or _is_kernels_own(name)]
        visible = None if names is None else [name for name in names if name not in secret]
        lines = [f"{name}: hidden from you" for name in secret]
        if visible != []:
            lines.append(
                self.redact(plain(await variables(kernel, visible, without=sorted(hidden_names))))
            )
        return self.redactor.mask_fragments("\n".join(lines))

    @property
    def hidden_names(self) -> frozenset[str] | None:
        """The Python variables that hidden cells set; None for cells that may set any name."""
        found = [names_of(source) for source in self.hidden_sources]
        if any(names.anything for names in found):
            return None
        return frozenset().union(
            *(names.defined.union(names.imported, *names.later.values()) for names in found)
        )

    def _filter(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self._filter_mapping(value)
        return list(map(self._filter, value)) if isinstance(value, list | tuple) else value

    def _filter_mapping(self, value: Mapping[str, Any]) -> dict[str, Any]:
        facts = {key: self._filter(item) for key, item in value.items() if key != "outputs"}
        secret = is_tagged(value.get("metadata"))
        ids = [value.get("id"), value.get("cell_id")]
        secret = secret or any(isinstance(each, str) and each in self.hidden_ids for each in ids)
        if "outputs" in value:
            facts["outputs"] = [] if secret else self._filter_outputs(value["outputs"])
        kind = value.get("type", "code")
        is_cell = kind in get_args(CellType)  # and not a field of that name in other data
        if "source" in value and (secret or (is_cell and self._withholds(kind))):
            facts["source"] = QUOTED if secret else _MARKDOWN
            facts.pop("attachments", None)
        return facts

    def _filter_outputs(self, value: Any) -> Any:
        return self.outputs(value) if _are_outputs(value) else self._filter(value)

    def _withholds(self, cell_type: str) -> bool:
        return self.share == "code-only" and cell_type != "code"

    @cached_property
    def _fragments(self) -> Collection[str]:
        parts = {part for source in self.hidden_sources for part in _parts(source)}
        return [part for part in parts if not any(part in shown for shown in self.shown_sources)]

    def _reveals(self, output: Output) -> bool:
        """Whether an output quotes a hidden cell, or is an error with a frame in one."""
        text = "\n".join(_texts(output))
        text = plain(text) if "\x1b" in text else text
        if output["output_type"] == "error":
            passed = {int(count) for count in _FRAME.findall(text)}
            if passed & self.hidden_counts:
                return True
        return self.quotes(text)


def _is_question(message: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    """Whether the block is text of a person or attached to it, which is already redacted."""
    return bool(message["role"] == "user" and block["type"] == "text")


def _block(block: Mapping[str, Any], clean: Callable[[str], str]) -> Any:
    match block["type"]:
        case "thinking":  # signed: either unchanged, or replaced with plain text
            text = clean(block["thinking"])
            return block if text == block["thinking"] else {"type": "text", "text": text}
        case "tool_use":
            return {**block, "input": map_strings(block["input"], clean)}
        case _:
            return map_strings(block, clean, but=_NO_TEXT)


def _are_outputs(value: Any) -> bool:
    """Whether a value is the outputs of a cell, and not something else with that name."""
    return isinstance(value, Sequence) and all(
        isinstance(each, Mapping) and "output_type" in each for each in value
    )


def _notice(text: str) -> Output:
    return {"output_type": "stream", "name": "stdout", "text": text}


def _parts(source: str) -> Iterator[str]:
    """The lines and literals that identify a source."""
    for line in source.split("\n"):
        line = line.strip()
        if len(line) >= LEAST and not _IMPORT.match(line):
            yield line
    yield from (found[2] for found in _LITERAL.finditer(source))


def _texts(output: Output) -> Iterator[str]:
    if output["output_type"] == "stream":
        yield join_lines(output["text"])
    elif output["output_type"] == "error":
        yield from (str(output["ename"]), str(output["evalue"]), *map(str, output["traceback"]))
    else:
        yield from (
            join_lines(data) if isinstance(data, str | list) else str(data)
            for data in output.get("data", {}).values()
        )


def _has_cells(text: str) -> bool:
    """Whether a text contains notebook cells, as JSON or as a string in JSON."""
    return bool(_CELLS.search(without_letter_escapes(text)))


def _is_kernels_own(name: str) -> bool:
    return name.startswith("_") or name in _KERNELS_OWN


def _cell(index: int, cell: Mapping[str, Any]) -> Cell:
    return Cell(
        id=str(cell.get("id", index)),
        index=index,
        type=cell["cell_type"],
        source=join_lines(cell["source"]),
        metadata=cell["metadata"],
    )
