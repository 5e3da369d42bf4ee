"""Files, variables and selections as a model may see them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from jupyter_agent.document.cell import Cell
from jupyter_agent.errors import NotPermitted, ToolError
from jupyter_agent.kernel.variables import variables
from jupyter_agent.text.notebook import render_cells
from jupyter_agent.text.outputs import joined, plain
from jupyter_agent.workspace.visibility import View, shared_by, strictest
from jupyter_agent.workspace.workspace import Workspace

_CODE = frozenset(
    {".py", ".r", ".jl", ".sql", ".sh", ".js", ".ts", ".c", ".h", ".cpp", ".java", ".go", ".rs"}
)
"""Endings of files that are code and nothing else."""
_KERNELS_OWN = ("In", "Out")
"""Names under which IPython keeps what was run and shown, besides those with an underscore."""


async def file_text(work: Workspace, path: str, notebook: str | None = None) -> str:
    """The text of a file, that of a notebook as its cells. Raises ToolError.

    `notebook` says what may be seen, where the file says nothing itself.
    """
    if path.lower().endswith(".ipynb"):
        opened = await work.notebook(path)
        cells = await opened.read()
        return render_cells(work.view(opened, cells).cells(cells))
    text = await work.services.files.read(path)
    view = await work.view_at(notebook)
    if '"cell_type"' in text:
        return _copy_of_notebook(path, text, view)
    if view.share == "code-only" and PurePosixPath(path).suffix.lower() not in _CODE:
        raise NotPermitted(f"`{path}` is not shared with you: only code is.")
    return view.redacted(text)


async def variables_text(work: Workspace, path: str | None, names: Sequence[str] | None) -> str:
    """What the variables of a notebook's kernel hold, but for those that hidden cells set.

    Raises KernelUnavailable, NotPermitted where variables are not shared.
    """
    kernel = await work.running_kernel(path)
    view = await work.view_at(path)
    if not view.outputs_shared:
        raise NotPermitted("Variables are not shared with you, as outputs are not.")
    if not view.hidden_sources:
        return plain(await variables(kernel, names))
    kept = view.hidden_names
    if kept is None or kernel.language != "python":
        raise NotPermitted(
            "Variables are not shared with you: which of them a hidden cell sets cannot be told."
        )
    secret = [name for name in names or () if name in kept or _is_kernels_own(name)]
    asked = None if names is None else [name for name in names if name not in secret]
    told = [f"{name}: hidden from you" for name in secret]
    if asked != []:
        told.append(view.redacted(plain(await variables(kernel, asked, without=sorted(kept)))))
    return "\n".join(told)


async def selection_text(
    work: Workspace, path: str | None, cell_id: str | None, selected: str
) -> str:
    """What somebody selected in a notebook. Raises NotPermitted where that may not be seen."""
    view = await work.view_at(path)
    hidden = cell_id in view.hidden_ids or view.quotes(selected)
    if hidden or (view.share != "all" and not await _is_shared(work, path, view, selected)):
        raise NotPermitted("The selection is not shared with you.")
    return selected


async def _is_shared(work: Workspace, path: str | None, view: View, selected: str) -> bool:
    """Whether a text is in a source that may be seen, and so is no output."""
    cells = view.cells(await (await work.notebook(path)).read())
    return any(selected in cell.source for cell in cells if not cell.withheld)


def _is_kernels_own(name: str) -> bool:
    return name.startswith("_") or name in _KERNELS_OWN


def _copy_of_notebook(path: str, text: str, view: View) -> str:
    """The sources of a notebook that lies about under another name."""
    try:
        content = json.loads(text)
        cells = [_cell(index, cell) for index, cell in enumerate(content["cells"])]
        share = strictest(view.share, shared_by(content["metadata"]))
    except (ValueError, LookupError, TypeError, AttributeError):
        raise ToolError(f"`{path}` has cells of a notebook and cannot be read as one.") from None
    shown = render_cells(View.of(share, cells).cells(cells))
    return f"{view.redacted(shown)}\n\n(Sources only: name it in `notebook` to see outputs.)"


def _cell(index: int, cell: Mapping[str, Any]) -> Cell:
    return Cell(
        id=str(cell.get("id", index)),
        index=index,
        type=cell["cell_type"],
        source=joined(cell["source"]),
        metadata=cell["metadata"],
    )
