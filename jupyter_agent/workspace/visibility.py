"""What a model may be told: the one way from a workspace to a model's text.

A cell tagged `agent-hidden` is kept back whole: its source, its outputs, its variables, and what
quotes its code. `share` says how much of the others is shown. An administrator, a user and a
notebook (`{"jupyter_agent": {"share": ...}}` in its metadata) may each say so; the strictest wins.

No text for a model has a secret of ours or of the server's environment in it: a `Redactor` takes
them out where a text is made and stored, and a `View` once more from the whole of each request.

What is kept back is text that comes from the notebook. Code that a kernel runs for a model can
still read whatever the user can read; under `all` its outputs are shown.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from jupyter_agent import foreign
from jupyter_agent.analysis.names import names_of
from jupyter_agent.carriers.nbformat_file import DEEPEST
from jupyter_agent.carriers.renames import moved
from jupyter_agent.choices import SHARES, Share
from jupyter_agent.document.cell import Cell, Output
from jupyter_agent.errors import NotPermitted, ToolError
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.variables import variables
from jupyter_agent.text.fence import NO_FENCE, Fence
from jupyter_agent.text.notebook import HIDDEN, ShownCell, hidden, render_cells
from jupyter_agent.text.outputs import join_lines, plain
from jupyter_agent.workspace.redactor import Redactor, map_strings

KEPT_BACK: Mapping[Share, str] = {
    "all": "",
    "no-outputs": "outputs and variables",
    "code-only": "Markdown, outputs, variables and files that are no code",
}
"""What `share` keeps from models, in words."""
_MARKDOWN = "(not shared with you: this notebook shares its code only)"
_OUTPUTS = "(its outputs are not shared with you)"
_FAILED = "(it failed; its outputs are not shared with you)"
_QUOTED = "(not shared with you: it comes from a hidden cell)"
_LEAST = 8
"""Characters of a line or a literal of a hidden cell below which it says nothing by itself."""
_LITERAL = re.compile(rf"(['\"])((?:(?!\1)[^\n]){{{_LEAST},}})\1")
_IMPORT = re.compile(r"(?:import|from)\s")
_FRAME = re.compile(r"(?:Cell In|Input In|In ?)\[(\d+)\]")
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")
"""A character as JSON can spell it; of letters, it is the only other spelling."""
_CELLS = re.compile(r'"cell_type\\*"')
_SOURCES_KEPT = 20
"""Of one hidden cell, the last ones."""
_NOTEBOOKS_KEPT = 1000
"""With hidden cells, the last used ones."""
_KERNELS_KEPT = 1000
_CODE = frozenset(
    {".py", ".r", ".jl", ".sql", ".sh", ".js", ".ts", ".c", ".h", ".cpp", ".java", ".go", ".rs"}
)
"""Endings of files that are code and nothing else."""
_NO_TEXT = ("type", "id", "tool_use_id", "name", "role", "signature", "data", "media_type")
"""Fields of messages that hold no text of a notebook."""
_PLAIN = Redactor()
"""Without secrets."""
_KERNELS_OWN = ("In", "Out")
"""Names under which IPython keeps what was run and shown, besides those with an underscore."""


def strictest(*shares: Share) -> Share:
    """What holds where several say something."""
    return max(shares, key=SHARES.index)


def notebook_share(metadata: Mapping[str, Any]) -> Share:
    """What a notebook says of itself; a word that we do not know counts as the strictest."""
    section = metadata.get("jupyter_agent")
    if not isinstance(section, Mapping) or "share" not in section:
        return "all"
    said = section["share"]
    return said if said in SHARES else SHARES[-1]


class HiddenCells:
    """The sources of hidden cells as they were seen: what they set lives on in the kernel, for
    every notebook that is in it.
    """

    def __init__(self) -> None:
        self._notebooks: OrderedDict[str, dict[str, list[str]]] = OrderedDict()
        self._kernels: OrderedDict[str, set[str]] = OrderedDict()
        """By a kernel's life, the notebooks that are or were in it."""

    def update(self, path: str, cells: Sequence[Cell]) -> Mapping[str, Sequence[str]]:
        """Ids of the notebook's hidden cells, those that are gone too, and the sources that each
        has or had. A cell that is no longer hidden is forgotten.
        """
        known = self._notebooks.pop(path, {})
        for cell in cells:
            if not hidden(cell):
                known.pop(cell.id, None)
            elif cell.source not in (sources := known.setdefault(cell.id, [])):
                sources.append(cell.source)
                del sources[:-_SOURCES_KEPT]
        if known:
            self._notebooks[path] = known
            if len(self._notebooks) > _NOTEBOOKS_KEPT:
                self._notebooks.popitem(last=False)
        return known

    def add_to_kernel(self, life: str, paths: Iterable[str]) -> None:
        """These notebooks are in one kernel (`Kernel.life`)."""
        known = self._kernels.pop(life, set())
        self._kernels[life] = known.union(paths)
        if len(self._kernels) > _KERNELS_KEPT:
            self._kernels.popitem(last=False)

    def sources_of_peers(self, path: str) -> frozenset[str]:
        """The sources that hidden cells of other notebooks in the same kernel have or had."""
        others = {other for paths in self._kernels.values() if path in paths for other in paths}
        return frozenset(
            source
            for other in others - {path}
            for sources in self._notebooks.get(other, {}).values()
            for source in sources
        )

    def all_sources(self) -> frozenset[str]:
        """The sources that the hidden cells of all notebooks have or had."""
        every = (sources for cells in self._notebooks.values() for sources in cells.values())
        return frozenset(source for sources in every for source in sources)

    def rename(self, old: str, new: str) -> None:
        """A file or folder has another path now."""
        for path in list(self._notebooks):
            if (now := moved(path, old, new)) is not None:
                known = self._notebooks.setdefault(now, {})
                for cell_id, sources in self._notebooks.pop(path).items():
                    known.setdefault(cell_id, [])[:0] = sources
        for life, paths in self._kernels.items():
            self._kernels[life] = {moved(path, old, new) or path for path in paths}


@dataclass(frozen=True, kw_only=True)
class View:
    """A notebook as a model may see it."""

    share: Share = "all"
    hidden_ids: frozenset[str] = frozenset()
    hidden_sources: frozenset[str] = frozenset()
    shown_sources: Collection[str] = ()
    """Of the other cells, where some are hidden: what they say too is no secret."""
    hidden_counts: frozenset[int] = frozenset()
    """The numbers of executions that only hidden cells have: tracebacks name cells by them."""
    redactor: Redactor = Redactor()
    fence: Fence = NO_FENCE
    """Tells our lines and data apart where both are in a text."""

    @classmethod
    def of(
        cls,
        share: Share,
        cells: Sequence[Cell],
        known: Mapping[str, Sequence[str]] | None = None,
        peer_sources: frozenset[str] = frozenset(),
        *,
        redactor: Redactor = _PLAIN,
        fence: Fence = NO_FENCE,
    ) -> View:
        """The view of a notebook with these cells; `known` is what `HiddenCells.update` gives,
        `beside` what `HiddenCells.beside` does.
        """
        known = HiddenCells().update("", cells) if known is None else known
        counts = {cell.execution_count for cell in cells if hidden(cell)}
        counts -= {None, *(cell.execution_count for cell in cells if not hidden(cell))}
        return cls(
            share=share,
            hidden_ids=frozenset(known),
            hidden_sources=peer_sources.union(source for kept in known.values() for source in kept),
            shown_sources=(
                [cell.source for cell in cells if not hidden(cell)] if known or peer_sources else ()
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
        """The same cells with only what may be seen of each."""
        return [self.cell(cell) for cell in cells]

    def cell(self, cell: Cell) -> ShownCell:
        """What may be seen of a cell, itself if all of it; `withheld` where that is not its own
        source.
        """
        if hidden(cell) or self._withholds(cell.type):
            source = "" if hidden(cell) else _MARKDOWN
            kept_back = replace(cell, source=source, outputs=(), attachments=None, withheld=True)
            return ShownCell(kept_back)
        outputs = self.outputs(cell.outputs)
        is_all = outputs == list(cell.outputs)
        return ShownCell(cell if is_all else replace(cell, outputs=outputs))

    def outputs(self, outputs: Sequence[Output], of: str | None = None) -> list[Output]:
        """What may be seen of outputs; `of` is the id of their cell, where that may be hidden."""
        if outputs and of in self.hidden_ids:
            return [_notice(_QUOTED)]
        if outputs and not self.outputs_shared:
            failed = any(output["output_type"] == "error" for output in outputs)
            return [_notice(_FAILED if failed else _OUTPUTS)]
        if not self.hidden_sources:
            return list(outputs)
        return [_notice(_QUOTED) if self._reveals(output) else output for output in outputs]

    def shares_all(self, outputs: Sequence[Output], of: str) -> bool:
        """Whether all of these outputs of that cell may be seen."""
        return self.outputs(outputs, of) == list(outputs)

    # -- text

    def quotes(self, text: str) -> bool:
        """Whether code of a hidden cell is in a text."""
        return any(fragment in text for fragment in self._fragments)

    def redact(self, text: str) -> str:
        """A text without the lines that quote a hidden cell."""
        if not self.quotes(text):
            return text
        lines = (_QUOTED if self.quotes(line) else line for line in text.split("\n"))
        return "\n".join(lines)

    def error(self, error: ToolError) -> ToolError:
        """The error without what of a cell's current text may not be seen."""
        if (current := error.facts.get("current")) is None:
            return error
        shown = self._filter(current)
        message = error.message
        if message.endswith(current["source"]):
            message = message.removesuffix(current["source"]) + self.fence.around(shown["source"])
        return error.saying(message, {**error.facts, "current": shown})

    def facts(self, value: Any) -> Any:
        """The same JSON with only what may be seen of each cell and each list of outputs in it."""
        return self.redactor.mask_all(self._filter(value))

    def request(
        self, system: str, messages: Sequence[Mapping[str, Any]]
    ) -> tuple[str, list[dict[str, Any]]]:
        """All that is about to be sent to a model, without what quotes a hidden cell, which may
        have been hidden after it was read, and without secrets, whoever forgot them. What a person
        wrote to the model goes as it was written.
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
        """A text that somebody selected in a notebook with these cells, in the cell `of`.

        Raises NotPermitted where it may not be seen: it could be of an output.
        """
        hidden = of in self.hidden_ids or self.quotes(text)
        shown = (cell for cell in self.cells(cells) if not cell.withheld)
        if hidden or (self.share != "all" and not any(text in cell.source for cell in shown)):
            raise NotPermitted("The selection is not shared with you.")
        return text

    def file(self, path: str, text: str) -> str:
        """The text of a file that is no notebook, or the copy of one under another name.

        Raises NotPermitted, ToolError.
        """
        if _has_cells(text):
            return self._copy_of_notebook(path, text)
        if self.share == "code-only" and PurePosixPath(path).suffix.lower() not in _CODE:
            raise NotPermitted(f"`{path}` is not shared with you: only code is.")
        return self.fence.mask(self.redact(text))

    def document(self, name: str) -> None:
        """Whether a file whose text we do not read, such as a PDF, may go to a model.

        Raises NotPermitted.
        """
        if self.share == "code-only":
            raise NotPermitted(f"`{name}` is not shared with you: only code is.")

    def _copy_of_notebook(self, path: str, text: str) -> str:
        """Its sources, with what it says itself about sharing."""
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
        """What the variables of the notebook's kernel hold, but for those that hidden cells set.

        Raises NotPermitted where variables are not shared.
        """
        if not self.outputs_shared:
            raise NotPermitted("Variables are not shared with you, as outputs are not.")
        if not self.hidden_sources:
            return self.redactor.mask_fragments(plain(await variables(kernel, names)))
        kept = self.hidden_names
        if kept is None or kernel.language != "python":
            raise NotPermitted(
                "Variables are not shared with you: which of them a hidden cell sets cannot be "
                "told."
            )
        secret = [name for name in names or () if name in kept or _is_kernels_own(name)]
        asked = None if names is None else [name for name in names if name not in secret]
        told = [f"{name}: hidden from you" for name in secret]
        if asked != []:
            told.append(self.redact(plain(await variables(kernel, asked, without=sorted(kept)))))
        return self.redactor.mask_fragments("\n".join(told))

    @property
    def hidden_names(self) -> frozenset[str] | None:
        """The Python variables that hidden cells set; None where that cannot be told."""
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
        metadata = value.get("metadata")
        tags = metadata.get("tags") if isinstance(metadata, Mapping) else None
        secret = isinstance(tags, list | tuple) and HIDDEN in tags
        secret = secret or not self.hidden_ids.isdisjoint((value.get("id"), value.get("cell_id")))
        if "outputs" in value:
            facts["outputs"] = [] if secret else self.outputs(value["outputs"])
        if "source" in value and (secret or self._withholds(value.get("type", "code"))):
            facts["source"] = _QUOTED if secret else _MARKDOWN
            facts.pop("attachments", None)
        return facts

    def _withholds(self, cell_type: str) -> bool:
        return self.share == "code-only" and cell_type != "code"

    @cached_property
    def _fragments(self) -> Collection[str]:
        parts = {part for source in self.hidden_sources for part in _parts(source)}
        return [part for part in parts if not any(part in shown for shown in self.shown_sources)]

    def _reveals(self, output: Output) -> bool:
        """Whether an output quotes a hidden cell, or is an error that passed through one."""
        text = "\n".join(_texts(output))
        text = plain(text) if "\x1b" in text else text
        if output["output_type"] == "error":
            passed = {int(count) for count in _FRAME.findall(text)}
            if passed & self.hidden_counts:
                return True
        return self.quotes(text)


def _is_question(message: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    """Whether it is what a person wrote, or came with it: that was redacted before."""
    return bool(message["role"] == "user" and block["type"] == "text")


def _block(block: Mapping[str, Any], clean: Callable[[str], str]) -> Any:
    match block["type"]:
        case "thinking":  # it is signed: it goes as it is, or as another text
            text = clean(block["thinking"])
            return block if text == block["thinking"] else {"type": "text", "text": text}
        case "tool_use":
            return {**block, "input": map_strings(block["input"], clean)}
        case _:
            return map_strings(block, clean, but=_NO_TEXT)


def _notice(text: str) -> Output:
    return {"output_type": "stream", "name": "stdout", "text": text}


def _parts(source: str) -> Iterator[str]:
    """The lines and literals by which a source is known again."""
    for line in source.split("\n"):
        line = line.strip()
        if len(line) >= _LEAST and not _IMPORT.match(line):
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
    """Whether cells of a notebook are in a text, as JSON or as a string in JSON."""
    return bool(_CELLS.search(_ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)))


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
