"""What jupyter-mcp-server does for what our tools are called for: one entry for each of them.

By intent: what has no tool of the same kind there is done with the best that it has, as a model
would that knows its tools well. None: it has nothing for that, and the task goes on without it.
"""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

Input: TypeAlias = Mapping[str, Any]

_WAIT_S = 60
"""As long as our tools wait where they are not told."""
MANY_CELLS = 100
"""A notebook with more is read by its first lines, as `read_notebook` advises."""


class Failed(Exception):
    """A call that the peer refused, in its words."""


class Peer(Protocol):
    """The peer as a model works with it in one task. Only `call` is counted: what the others tell,
    a model is taken to know."""

    @property
    def home(self) -> str:
        """Path of the notebook that the question is about."""

    @property
    def language(self) -> str:
        """Of its kernel."""

    @property
    def later(self) -> Sequence[Mapping[str, Any]]:
        """The calls of the script after this one, of our tools."""

    def call(self, tool: str, **input: Any) -> str:
        """What it answers. Raises Failed."""

    def call_and_look(self, wait: float, tool: str, **input: Any) -> str:
        """The same; after `wait` seconds the script goes on, and so does what the person does."""

    def think(self) -> None:
        """The next call depends on what the last one answered: it takes a reply of its own."""

    def use(self, notebook: str) -> None:
        """It can be read and edited by its name, which is its path."""

    def activate(self, notebook: str) -> None:
        """It is the one in which code runs."""

    def has_activated(self, notebook: str) -> None:
        """As a tool did on its way."""

    @property
    def made(self) -> list[Any]:
        """Edits that were made, to which this module adds."""

    def kinds(self, notebook: str) -> Sequence[str]:
        """`code`, `markdown` or `raw` for each cell that it has now."""

    def position(self, notebook: str, cell_id: str) -> int:
        """Where the cell is now, or was in the beginning if it is gone; else below the last."""

    def address(self, notebook: str, cell_id: str) -> Mapping[str, Any]:
        """`cell_id`, or `cell_index` where the notebook has no ids."""

    def source(self, notebook: str, cell_id: str) -> str:
        """The cell's text now. Raises Failed."""

    def with_outputs(self, notebook: str) -> Sequence[str]:
        """Cells that had outputs in the beginning."""


Counterpart: TypeAlias = Callable[[Peer, Input], None]


def _notebook(peer: Peer, input: Input) -> str:
    return input.get("notebook") or peer.home


def _get_notebook_state(peer: Peer, input: Input) -> None:
    notebook = _notebook(peer, input)
    peer.use(notebook)
    brief = bool(input.get("outline")) or len(peer.kinds(notebook)) > MANY_CELLS
    _read_notebook(peer, notebook, "brief" if brief else "detailed")
    # It has no outputs. A model that runs cells sees theirs then; one that runs nothing has to read
    # those that are there.
    if notebook == peer.home and not brief and not any(map(runs, peer.later)):
        shown = peer.with_outputs(notebook)
        if shown:
            peer.think()
        for cell_id in shown:
            peer.call("read_cell", notebook_name=notebook, **peer.address(notebook, cell_id))


def _read_notebook(peer: Peer, notebook: str, how: str) -> str:
    return peer.call("read_notebook", notebook_name=notebook, response_format=how, limit=0)


def _read_cells(peer: Peer, input: Input) -> None:
    notebook = _notebook(peer, input)
    peer.use(notebook)
    for cell_id in input["cell_ids"]:
        peer.call("read_cell", notebook_name=notebook, **peer.address(notebook, cell_id))


def _search_notebook(peer: Peer, input: Input) -> None:
    """All first lines, and all of the notebook where the text is in none of them."""
    notebook = _notebook(peer, input)
    peer.use(notebook)
    query = input["query"] if input.get("regex") else re.escape(input["query"])
    if not re.search(query, _read_notebook(peer, notebook, "brief")):
        peer.think()
        _read_notebook(peer, notebook, "detailed")


def _create_cell(peer: Peer, input: Input) -> None:
    _create_cells(peer, {**input, "cells": [input]})


def _create_cells(peer: Peer, input: Input) -> None:
    notebook = _notebook(peer, input)
    run = bool(input.get("run"))
    (peer.activate if run else peer.use)(notebook)
    at = _gap(peer, notebook, input)
    for cell in input["cells"]:
        kind = cell.get("type", "code")
        if run and kind == "code" and cell["source"].strip():
            told = peer.call("insert_execute_code_cell", cell_index=at, cell_source=cell["source"])
            run = not raised(told)
        else:
            peer.call(
                "insert_cell",
                cell_index=at,
                cell_type=kind,
                cell_source=cell["source"],
                notebook_name=notebook,
            )
        at += at >= 0


def _gap(peer: Peer, notebook: str, input: Input) -> int:
    """The index that a new cell gets; -1 for the end."""
    if (above := input.get("after")) is not None:
        return peer.position(notebook, above) + 1
    if (below := input.get("before")) is not None:
        return peer.position(notebook, below)
    return -1


def _update_cell(peer: Peer, input: Input) -> None:
    _edit_cells(peer, {**input, "edits": [input]})


def _edit(peer: Peer, notebook: str, edit: Input) -> None:
    if edit.get("source") is not None or edit.get("old_string") is not None:
        _edit_text(peer, notebook, edit)
    kind, cell_id = edit.get("type"), edit["cell_id"]
    if kind is None:
        return
    at = peer.position(notebook, cell_id)
    if kind != peer.kinds(notebook)[at]:  # no tool does that: a new cell in place of the old one
        peer.call(
            "insert_cell",
            cell_index=at,
            cell_type=kind,
            cell_source=peer.source(notebook, cell_id),
            notebook_name=notebook,
        )
        _delete_cell(peer, {"notebook": notebook, **edit})


def _edit_text(peer: Peer, notebook: str, edit: Input) -> None:
    if (notebook, edit) in peer.made:
        return  # a script makes it again where ours was refused
    where = {**peer.address(notebook, edit["cell_id"]), "notebook_name": notebook}
    if edit.get("source") is not None:
        peer.call("overwrite_cell_source", cell_source=edit["source"], **where)
    else:
        change = {"old_string": edit["old_string"], "new_string": edit.get("new_string") or ""}
        peer.call("edit_cell_source", **change, **where)
    peer.made.append((notebook, edit))


def _edit_cells(peer: Peer, input: Input) -> None:
    """All edits in one reply: one that is refused does not stop the others, but nothing is run."""
    notebook = _notebook(peer, input)
    run = bool(input.get("run"))
    (peer.activate if run else peer.use)(notebook)
    refused: Failed | None = None
    for edit in input["edits"]:
        try:
            _edit(peer, notebook, edit)
        except Failed as error:
            refused = error
    if refused is not None:
        raise refused
    if run:
        kinds = peer.kinds(notebook)
        edited = {peer.position(notebook, id): id for id in (e["cell_id"] for e in input["edits"])}
        code = [edited[at] for at in sorted(edited) if kinds[at : at + 1] == ["code"]]
        _run(peer, [peer.address(notebook, cell_id) for cell_id in code])


def _delete_cell(peer: Peer, input: Input) -> None:
    notebook = _notebook(peer, input)
    peer.use(notebook)
    match peer.address(notebook, input["cell_id"]):
        case {"cell_id": cell_id}:
            peer.call("delete_cell", cell_ids_to_delete=[cell_id], notebook_name=notebook)
        case {"cell_index": at}:
            peer.call("delete_cell", cell_indices=[at], notebook_name=notebook)


def _move_cell(peer: Peer, input: Input) -> None:
    notebook = _notebook(peer, input)
    peer.use(notebook)
    at = peer.position(notebook, input["cell_id"])
    to = _gap(peer, notebook, input)
    if to < 0:
        to = len(peer.kinds(notebook))
    address = peer.address(notebook, input["cell_id"])
    peer.call(
        "move_cell",
        source_cell_id=address.get("cell_id"),
        source_index=address.get("cell_index"),
        target_index=to - (at < to),  # counted without the cell
        notebook_name=notebook,
    )


def _create_notebook(peer: Peer, input: Input) -> None:
    path = input["path"]
    peer.call("use_notebook", notebook_name=path, notebook_path=path, mode="create")
    peer.has_activated(path)


def _run_cell(peer: Peer, input: Input) -> None:
    notebook = _notebook(peer, input)
    peer.activate(notebook)
    address, wait = peer.address(notebook, input["cell_id"]), input.get("wait", _WAIT_S)
    if [call["name"] for call in peer.later[:1]] == ["wait_for_run"]:
        # One call that waits as long as ours do together.
        longer = wait + peer.later[0]["input"].get("wait", _WAIT_S)
        peer.call_and_look(wait, "execute_cell", timeout=math.ceil(longer), **address)
    else:
        peer.call("execute_cell", timeout=max(1, math.ceil(wait)), **address)


def _run_cells(peer: Peer, input: Input) -> None:
    notebook = _notebook(peer, input)
    peer.activate(notebook)
    cells: list[Mapping[str, Any]]
    if input.get("cell_ids"):
        cells = [peer.address(notebook, cell_id) for cell_id in input["cell_ids"]]
    else:
        kinds = peer.kinds(notebook)
        cells = [{"cell_index": at} for at, kind in enumerate(kinds) if kind == "code"]
    _run(peer, cells, stop_on_error=input.get("stop_on_error", True))


def _run(peer: Peer, cells: Sequence[Mapping[str, Any]], *, stop_on_error: bool = True) -> None:
    for cell in cells:
        if raised(peer.call("execute_cell", timeout=_WAIT_S, **cell)) and stop_on_error:
            return


def _run_code(peer: Peer, input: Input) -> None:
    peer.activate(_notebook(peer, input))
    peer.call(
        "execute_code", code=input["code"], timeout=max(1, math.ceil(input.get("wait", _WAIT_S)))
    )


def _wait_for_run(peer: Peer, input: Input) -> None:
    """`execute_cell` has waited."""


def _restart_kernel(peer: Peer, input: Input) -> None:
    notebook = _notebook(peer, input)
    peer.use(notebook)
    peer.call("restart_notebook", notebook_name=notebook)


def _inspect_variables(peer: Peer, input: Input) -> None:
    peer.activate(_notebook(peer, input))
    peer.call("execute_code", code=showing(input.get("names")))


def _list_files(peer: Peer, input: Input) -> None:
    peer.call("list_files", path=input.get("path", ""), pattern=input.get("pattern") or "", limit=0)


def _read_file(peer: Peer, input: Input) -> None:
    """A file with code: it has no tool for it."""
    path = input.get("path", "")
    if not posixpath.splitext(path)[1]:  # as far as a name tells, a folder
        _list_files(peer, input)
        return
    if path.endswith(".ipynb"):
        peer.use(path)
        _read_notebook(peer, path, "detailed")
        return
    peer.activate(peer.home)
    peer.call("execute_code", code=reading(input, peer.home, peer.language))


def showing(names: Sequence[str] | None) -> str:
    """Code that shows variables, all by default."""
    return "\n".join(f"print({n!r}, repr({n})[:500])" for n in names or ()) or "%whos"


def reading(input: Input, home: str, language: str) -> str:
    """Code that prints the lines of a file that `read_file` is asked for."""
    first, count = input.get("offset", 0), input.get("limit", 200)
    local = posixpath.relpath(input["path"], posixpath.dirname(home) or ".")
    if language == "python":
        return f"print(''.join(open({local!r}).readlines()[{first}:{first + count}]))"
    return f"sed -n '{first + 1},{first + count}p' '{local}'"


COUNTERPARTS: Mapping[str, Counterpart | None] = {
    "get_notebook_state": _get_notebook_state,
    "read_cells": _read_cells,
    "search_notebook": _search_notebook,
    "create_cell": _create_cell,
    "create_cells": _create_cells,
    "update_cell": _update_cell,
    "edit_cells": _edit_cells,
    "delete_cell": _delete_cell,
    "move_cell": _move_cell,
    "clear_outputs": None,
    "create_notebook": _create_notebook,
    "run_cell": _run_cell,
    "run_cells": _run_cells,
    "run_code": _run_code,
    "wait_for_run": _wait_for_run,
    # It can not interrupt: a kernel that is caught in a loop has to begin anew.
    "interrupt_kernel": _restart_kernel,
    "restart_kernel": _restart_kernel,
    # To run the notebook itself from the top would change the person's outputs and variables.
    "verify_notebook": None,
    "inspect_variables": _inspect_variables,
    "list_files": _list_files,
    "read_file": _read_file,
    "write_plan": None,
}
EDITS = frozenset(("update_cell", "edit_cells"))
READS = frozenset(("get_notebook_state", "read_cells", "search_notebook"))


def runs(call: Mapping[str, Any]) -> bool:
    """Whether a call of our tools runs code that shows something."""
    return call["name"] in ("run_cell", "run_cells", "run_code") or bool(call["input"].get("run"))


def raised(text: str) -> bool:
    """Whether code ended with an error, by the traceback that is shown for it."""
    return bool(re.search(r"(?m)^-{20,}$|^ *Cell In\[\d+\], line|^Traceback \(most", text))
