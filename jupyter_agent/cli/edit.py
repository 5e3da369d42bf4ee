"""`jupyter agent edit`: cells of a live notebook, without a model."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_agent.cli.exits import Exit, of_refusal
from jupyter_agent.cli.offline import add_store
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.run import cell_id
from jupyter_agent.cli.terminal import read_input, standard
from jupyter_agent.client.server import ServerRefused
from jupyter_agent.client.servers import existing, serving
from jupyter_agent.legible import quoted

EXAMPLES = """\
  jupyter agent edit sales.ipynb --cell 4 --old "mean()" --new "median()"
  jupyter agent edit sales.ipynb --insert "## Results" --type markdown --after summary
  echo '[{"cell": "b2", "source": "x = 2"}, {"cell": 3, "delete": true}]' \\
    | jupyter agent edit sales.ipynb -

Edits on standard input are a JSON list; each is one of
  {"cell": ID, "source": TEXT}              {"cell": ID, "old_string": TEXT, "new_string": TEXT}
  {"cell": ID, "type": "markdown"}          {"cell": ID, "delete": true}
  {"cell": ID, "move": {"after": ID}}       {"insert": TEXT, "type": "code", "after": ID}
with a `version`, as in `show --json`, to refuse the edit if the cell changed since. Numbers of
cells are those before the first edit.

exit codes: 0 all made, 1 refused, 2 usage, 3 not allowed
"""
_FIELDS = ("source", "old_string", "new_string", "type")
_PLACE = ("after", "before", "index")
_DONE = {
    "insert": "Inserted",
    "update": "Edited",
    "delete": "Deleted cell",
    "move": "Moved",
}
_BY = "by=jupyter%20agent%20edit&new_turn=true"
"""Each command is a turn of its own, to review and undo."""
_KNOWN = {*_FIELDS, *_PLACE, "cell", "delete", "move", "insert", "version"}


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "edit",
        help="edit cells of a live notebook without a model",
        description="Edits the notebook through the Jupyter server that serves it, merged with "
        "what people are typing, or edits the file if no server runs. Several edits are made all "
        "or none; a refused one shows the cell's current text. `jupyter agent undo` takes them "
        "back.",
        examples=EXAMPLES,
    )
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument(
        "edits", nargs="?", choices=["-"], metavar="-", help="edits as JSON from standard input"
    )
    parser.add_argument("--cell", metavar="CELL", help="id or number")
    parser.add_argument("--source", metavar="TEXT", help="the whole new text")
    parser.add_argument("--old", dest="old_string", metavar="TEXT", help="text, once in the cell")
    parser.add_argument("--new", dest="new_string", metavar="TEXT", help="its replacement")
    parser.add_argument("--type", choices=["code", "markdown", "raw"])
    parser.add_argument("--delete", action="store_true", default=None)
    parser.add_argument("--insert", metavar="TEXT", help="a new cell")
    parser.add_argument("--after", metavar="CELL", help="where the new cell goes")
    parser.add_argument("--before", metavar="CELL")
    parser.add_argument("--json", action="store_true", help="as POST notebooks/NOTEBOOK/edits")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Makes the edits, all or none; 1 if one was refused."""
    console, notebook = standard(), existing(given.notebook)
    edits = _from_input() if given.edits else [_from_flags(given)]
    with serving(notebook, given.store) as server:
        cells = server.ask("GET", f"{server.route(notebook)}?outputs=none")["cells"]
        route = f"{server.route(notebook, 'edits')}?{_BY}"
        try:
            result = server.ask("POST", route, {"edits": [_step(edit, cells) for edit in edits]})
        except ServerRefused as error:
            console.tell(f"Refused: {error}", "warning")
            for line in _current(error.facts):
                console.tell(line)
            return Exit.FAILED if error.status in (409, 412) else of_refusal(error)
    if given.json:
        console.json(result)
        return Exit.DONE
    for edit in result["edits"]:
        console.line(_edit_line(edit))
    if note := result.get("note"):
        console.tell(note)
    console.tell(f"Undo: jupyter agent undo {result['turn_id']}", "faint")
    return Exit.DONE


def _from_input() -> list[dict[str, Any]]:
    """Reads edits from standard input. Raises ServerRefused if it is not a list of edits."""
    text = read_input()
    try:
        edits = json.loads(text)
    except ValueError as error:
        raise _usage_error(f"Standard input is not valid JSON: {error}.") from None
    if edits == []:
        raise _usage_error("The list of edits on standard input is empty.")
    if not isinstance(edits, list) or not all(isinstance(e, dict) for e in edits):
        raise _usage_error(
            "Standard input is not a JSON list of edits; see `jupyter agent edit --help`."
        )
    for edit in edits:
        _check(edit)
    return edits


def _from_flags(given: argparse.Namespace) -> dict[str, Any]:
    """The edit that the options describe. Raises ServerRefused if they describe none."""
    named = {name: getattr(given, name) for name in _KNOWN if hasattr(given, name)}
    edit = {name: value for name, value in named.items() if value is not None}
    _check(edit)
    return edit


def _check(edit: Mapping[str, Any]) -> None:
    unknown = sorted(edit.keys() - _KNOWN)
    if unknown:
        raise _usage_error(f"An edit has no `{unknown[0]}`; see `jupyter agent edit --help`.")
    if ("cell" in edit) == ("insert" in edit):
        raise _usage_error("An edit names the `cell` to change, or the text to `insert`.")
    if ("old_string" in edit) != ("new_string" in edit):
        raise _usage_error("Give both the text in the cell and its replacement.")
    if "cell" in edit and not any(edit.get(name) for name in (*_FIELDS, "delete", "move")):
        if edit.get("source") != "":
            raise _usage_error(
                "Say how to change the cell: source, old and new, type, delete or move."
            )


def _usage_error(message: str) -> ServerRefused:
    return ServerRefused(message, 400, "invalid_input")


def _step(edit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """An edit as the route takes it. Raises ServerRefused for a cell that does not exist."""
    if "insert" in edit:
        kind = {"type": edit["type"]} if "type" in edit else {}
        return {"op": "insert", "source": edit["insert"], **kind, **_place(edit, cells)}
    cell = {"cell_id": cell_id(cells, str(edit["cell"]))}
    if "version" in edit:
        cell["version"] = edit["version"]
    if edit.get("delete"):
        return {"op": "delete", **cell}
    if "move" in edit:
        return {"op": "move", **cell, **_place(edit["move"], cells)}
    return {"op": "update", **cell, **{name: edit[name] for name in _FIELDS if name in edit}}


def _place(edit: Mapping[str, Any], cells: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    given = {name: edit[name] for name in _PLACE if name in edit}
    return {
        name: value if name == "index" else cell_id(cells, str(value))
        for name, value in given.items()
    }


def _edit_line(edit: Mapping[str, Any]) -> str:
    cell = edit["cell"]
    where = f"cell {cell['index'] + 1} ({quoted(cell['id'])})" if cell else quoted(edit["cell_id"])
    return f"{_DONE[edit['op']]} {where}."


def _current(facts: Mapping[str, Any]) -> Iterator[str]:
    """The cell as the refused edit found it, after any edits before it."""
    current, number = facts.get("current"), facts.get("edit", 1)
    if isinstance(current, Mapping):
        cell = f"Cell {quoted(str(current['id']))}"
        if number > 1:
            yield f"{cell} as edit {number} would have found it:"
        else:
            yield f"{cell} is now (version {current['version']}):"
        for line in str(current["source"]).split("\n"):
            yield f"| {line}"
