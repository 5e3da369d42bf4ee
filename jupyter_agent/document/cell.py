"""Immutable snapshots of cells, and the version that identifies a cell's text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from jupyter_agent.document.line_ends import unify
from jupyter_agent.document.merge import Span

CellType: TypeAlias = Literal["code", "markdown", "raw"]
Output: TypeAlias = Mapping[str, Any]
"""One output as nbformat 4 writes it; the text of a stream is one string."""
CarrierName: TypeAlias = Literal["room", "tab", "file"]
ChangeKind: TypeAlias = Literal["insert", "update", "delete", "move", "outputs"]


_FIRST_MAGIC = re.compile(r"\s*(?:%%|#!)(\w+)")
_MAGICS = frozenset(
    "bash csharp cython fsharp html javascript julia kql latex markdown perl powershell pwsh r "
    "ruby sql svg".split()
)
"""Languages of cells that start with `%%name` (IPython) or `#!name` (Polyglot)."""
_OTHER_MAGICS = {"bigquery": "sql", "js": "javascript", "sh": "bash", "sparksql": "sql"}
"""Magics whose name differs from their language."""
_LANGUAGE_KEYS = (
    ("vscode", "languageId"),
    ("polyglot_notebook", "kernelName"),
    ("dotnet_interactive", "language"),
    ("", "deepnote_cell_type"),
    ("", "kernel"),
)
"""Where editors store a cell's language in its metadata: VS Code, Polyglot, Deepnote, SoS."""
_LANGUAGE = re.compile(r"[\w#+.-]{1,30}")
_NO_LANGUAGE = ("plaintext", "raw", "code")
"""Values that name no language: of a cell before it has a kernel, of Deepnote's usual cells."""


def version_of(cell_type: str, source: str) -> str:
    """The version of a cell's text: 16 hex digits of sha256(type, NUL, source). Line endings do not
    matter.
    """
    text = f"{cell_type}\0{unify(source)}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()[:16]


def metadata_text(metadata: Mapping[str, Any], of: str, key: str) -> str | None:
    """A text from the notebook's `kernelspec` or `language_info`; None if there is no such text."""
    part = metadata.get(of)
    value = part.get(key) if isinstance(part, Mapping) else None
    return value if isinstance(value, str) and value else None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A snapshot of one cell."""

    id: str
    index: int
    type: CellType
    source: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[Output] = ()
    execution_count: int | None = None
    running: bool = False
    writes: int = field(default=0, compare=False)
    """A number that changes each time the execution count is written while the document is open
    here, even if the count stays the same; 0 before the first write.
    """
    attachments: Mapping[str, Any] | None = None
    stored: str | None = field(default=None, repr=False)
    """The source as the document stores it, if its line endings differ from `source`."""
    withheld: bool = False
    """The content is left out of this snapshot because its reader must not see it."""
    derived: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Results that readers computed from this snapshot, each under its own key. Most cells of a
    large notebook are unchanged at the next read.
    """

    @property
    def version(self) -> str:
        return version_of(self.type, self.source)

    @cached_property
    def tags(self) -> Sequence[str]:
        tags = self.metadata.get("tags", ())
        return (
            tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, Sequence) else ()
        )

    @property
    def locked(self) -> bool:
        """Whether edits are forbidden: `editable: false`, nbgrader's `locked` / `grade`, or the
        parameters of a papermill run.
        """
        grading = self.metadata.get("nbgrader")
        graded = isinstance(grading, Mapping) and bool(
            grading.get("locked") or grading.get("grade")
        )
        return self.metadata.get("editable") is False or graded or self.injected

    @property
    def injected(self) -> bool:
        """Whether papermill wrote the cell: the parameters of one run."""
        return "injected-parameters" in self.tags

    @cached_property
    def failed(self) -> bool:
        """Whether the outputs contain an error."""
        return any(output["output_type"] == "error" for output in self.outputs)

    @cached_property
    def language(self) -> str:
        """The language of the code if the cell itself names it, as one lower-case word; empty if
        the cell does not differ from the notebook's language as far as it says.
        """
        found = _FIRST_MAGIC.match(self.source)
        magic = found[1].lower() if found else ""
        if (language := _OTHER_MAGICS.get(magic, magic)) in _MAGICS:
            return language
        for holder, key in _LANGUAGE_KEYS:
            part = self.metadata.get(holder, {}) if holder else self.metadata
            name = part.get(key) if isinstance(part, Mapping) else None
            if isinstance(name, str) and _LANGUAGE.fullmatch(name) and name not in _NO_LANGUAGE:
                return name.lower()
        return ""

    @property
    def may_raise(self) -> bool:
        """Whether an error is expected here, so that the following cells run all the same, as in
        nbclient and JupyterLab.
        """
        return "raises-exception" in self.tags

    @property
    def deletable(self) -> bool:
        return self.metadata.get("deletable") is not False and not self.locked

    def state(self) -> CellState:
        """The state that the journal stores of this cell."""
        return CellState(
            type=self.type,
            source=self.source,
            stored=self.stored,
            metadata=self.metadata,
            index=self.index,
            outputs=self.outputs,
            execution_count=self.execution_count,
            attachments=self.attachments,
        )

    def describe(self) -> dict[str, Any]:
        """The cell as JSON, as the notebook routes answer it (without `stale`): its stored content,
        so not whether the browser trusts it.
        """
        return {
            "id": self.id,
            "index": self.index,
            "type": self.type,
            "source": self.source,
            "version": self.version,
            "execution_count": self.execution_count,
            "outputs": list(self.outputs),
            "metadata": {key: item for key, item in self.metadata.items() if key != "trusted"},
        }


@dataclass(frozen=True, kw_only=True)
class CellState:
    """One side of a change: everything needed to restore the cell."""

    type: CellType
    source: str
    metadata: Mapping[str, Any]
    index: int
    outputs: Sequence[Output]
    execution_count: int | None
    attachments: Mapping[str, Any] | None = None
    stored: str | None = field(default=None, compare=False)
    """As `Cell.stored`; meaningless for another source."""
    above: Sequence[str] = ()
    """Ids of the next cells above, nearest first, if the change removed this one from its place."""
    below: Sequence[str] = ()

    @property
    def text_as_stored(self) -> str:
        """The source with the line endings that the document had."""
        return self.source if self.stored is None else self.stored

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; keys that only some cells or changes have are left out of the
        others.
        """
        value: dict[str, Any] = {
            "type": self.type,
            "source": self.source,
            "metadata": dict(self.metadata),
            "index": self.index,
            "outputs": list(self.outputs),
            "execution_count": self.execution_count,
        }
        if self.attachments:
            value["attachments"] = dict(self.attachments)
        if self.stored is not None and unify(self.stored) == self.source:
            value["stored"] = self.stored
        if self.above or self.below:
            value.update(above=list(self.above), below=list(self.below))
        return value

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CellState:
        source = unify(value["source"])
        early = value["source"] if source != value["source"] else None
        return cls(
            type=value["type"],
            source=source,
            stored=value.get("stored", early),
            metadata=value["metadata"],
            index=value["index"],
            outputs=value["outputs"],
            execution_count=value["execution_count"],
            attachments=value.get("attachments"),
            above=value.get("above", ()),
            below=value.get("below", ()),
        )


@dataclass(frozen=True, kw_only=True)
class Change:
    """The change of one cell by one operation: enough to show a diff and to undo it."""

    notebook: str
    cell_id: str
    kind: ChangeKind
    before: CellState | None
    after: CellState | None
    call_id: str | None = None
    reviewed: bool = False
    undone: bool = False
    conflict: str | None = None
    within: Span | None = field(default=None, compare=False)
    """The only part of the former text that was rewritten. Not in the journal: it serves to find
    the edit while someone types next to it.
    """

    def to_json(self) -> dict[str, Any]:
        """The Change of docs/api.md."""
        return {
            "notebook": self.notebook,
            "cell_id": self.cell_id,
            "call_id": self.call_id,
            "kind": self.kind,
            "before": self.before.to_json() if self.before else None,
            "after": self.after.to_json() if self.after else None,
            "reviewed": self.reviewed,
            "undone": self.undone,
            "conflict": self.conflict,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Change:
        return cls(
            notebook=value["notebook"],
            cell_id=value["cell_id"],
            call_id=value.get("call_id"),
            kind=value["kind"],
            before=CellState.from_json(value["before"]) if value["before"] else None,
            after=CellState.from_json(value["after"]) if value["after"] else None,
            reviewed=value.get("reviewed", False),
            undone=value.get("undone", False),
            conflict=value.get("conflict"),
        )
