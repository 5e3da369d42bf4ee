"""The tools for models: each is one class in one of these modules, or of a plug."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from inspect import isabstract
from typing import get_args

from jupyter_agent.entry_points import UnusablePlug, describe, find, load_class, usable
from jupyter_agent.tools.base import Action, Effect, Tool, fault_of_words
from jupyter_agent.tools.edit import (
    ClearCells,
    CreateCells,
    CreateNotebook,
    DeleteCell,
    EditCells,
    MoveCell,
)
from jupyter_agent.tools.former import CreateCell, RunCell, UpdateCell
from jupyter_agent.tools.plan import WritePlan
from jupyter_agent.tools.read import (
    GetNotebookState,
    InspectVariables,
    ReadCells,
    ReadFile,
    SearchNotebook,
)
from jupyter_agent.tools.run import (
    InterruptKernel,
    RestartKernel,
    RunCells,
    RunCode,
    WaitForRun,
)
from jupyter_agent.tools.toolbox import Toolbox

OURS: Sequence[type[Tool]] = (
    GetNotebookState,
    ReadCells,
    SearchNotebook,
    CreateCells,
    EditCells,
    DeleteCell,
    MoveCell,
    ClearCells,
    CreateNotebook,
    RunCells,
    RunCode,
    WaitForRun,
    InterruptKernel,
    RestartKernel,
    InspectVariables,
    ReadFile,
    WritePlan,
)
FORMER: Mapping[str, type[Tool]] = {
    "create_cell": CreateCell,
    "update_cell": UpdateCell,
    "run_cell": RunCell,
    "list_files": ReadFile,
}
"""By old names, which are accepted but not offered: conversations, scripts and rules may use
them."""
_NAME = re.compile(r"[A-Za-z0-9_]{1,64}")


def toolbox() -> Toolbox:
    """Our tools and those of plugs, except those that cannot be used; the log names these.

    Call it in a thread, since it may import packages.
    """
    taken = {*FORMER, *(name for tool in OURS for name in tool.all_names())}

    def use(point: EntryPoint) -> type[Tool]:
        tool = _tool(point)
        if again := taken.intersection(tool.all_names()):
            raise UnusablePlug(point, f"has the name of another tool, `{min(again)}`")
        taken.update(tool.all_names())
        return tool

    plugs = usable(find("tools"), use).values()
    former = {name: tool for tool in plugs for name in tool.former_names}
    return Toolbox([*OURS, *plugs], {**former, **FORMER})


def _tool(point: EntryPoint) -> type[Tool]:
    """The tool of a plug. Raises UnusablePlug."""
    tool = load_class(point, Tool)  # type: ignore[type-abstract]  # `_fault` refuses those
    try:
        fault = _fault(tool, point.name)
        json.dumps(tool.spec() if fault is None else {}, allow_nan=False)
    except Exception as error:  # whatever its attributes are, and pydantic makes of its fields
        raise UnusablePlug(point, f"is not a usable tool: {describe(error)}") from error
    if fault is not None:
        raise UnusablePlug(point, fault)
    return tool


def _fault(tool: type[Tool], name: str) -> str | None:
    missing = [each for each in ("name", "effect", "action", "needs") if not hasattr(tool, each)]
    if missing:
        return f"lacks {', '.join(f'`{each}`' for each in missing)}"
    if tool.name != name or not _NAME.fullmatch(name):
        return f"needs the `name` of its entry point, of letters, digits and _; it is {tool.name!r}"
    if tool.effect not in get_args(Effect) or tool.action not in get_args(Action):
        return f"has an unknown effect or action: {tool.effect!r}, {tool.action!r}"
    if (tool.effect == "read") != (tool.action == "read"):
        return f"has effect {tool.effect!r}, which does not fit action {tool.action!r}"
    if not all(len(need) == 2 and {*map(type, need)} == {str} for need in tool.needs):
        return "has `needs` that are not pairs of texts"
    former: object = tool.former_names
    if not (isinstance(former, tuple) and all(isinstance(each, str) for each in former)):
        return "has `former_names` that are not a tuple of texts"
    if (fault := fault_of_words(tool)) is not None:
        return fault
    if isabstract(tool):
        return "does not implement `run`"
    return None if tool.__doc__ else "has no docstring, which is its description for models"
