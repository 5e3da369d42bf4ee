"""The tools for MCP clients: our own, and three for the client's own turn."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_agent.agent.permissions import hints
from jupyter_agent.tools.base import Tool
from jupyter_agent.tools.toolbox import Toolbox
from jupyter_agent.words import Phrasebook

BEGIN_TURN, END_TURN, UNDO_TURN = "begin_turn", "end_turn", "undo_turn"
FIRST = (
    "get_notebook_state",
    "read_cells",
    "edit_cells",
    "create_cells",
    "run_cells",
    "wait_for_run",
)
"""Clients that load tools on demand load these at once."""
_LEFT_OUT = {"write_plan"}  # clients have and show their own
_ALWAYS_LOAD = {"anthropic/alwaysLoad": True}
_NOTEBOOK = "Path below Jupyter's root"
_DESCRIPTIONS = {
    "get_notebook_state": (
        "The live notebook, unsaved typing included. A line per cell, and full cells with outputs "
        "near the focus as far as they fit. Start with it; later results report changes by "
        "others. For a few cells use read_cells."
    ),
}
"""Descriptions that differ from those for our own models."""
_TURN_TOOLS: Sequence[Mapping[str, Any]] = (
    {
        "name": BEGIN_TURN,
        "description": (
            "Start a new turn: what you do from here on is one piece of work, which the user "
            "reviews and takes back as a whole. Say in a few words what it is for. Without it a "
            "turn starts with the first call after ten minutes without one."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {"goal": {"type": "string", "description": "As the user would say it"}},
            "required": ["goal"],
        },
    },
    {
        "name": END_TURN,
        "description": "End your turn: the work is done. You get its turn_id.",
        "inputSchema": {"type": "object", "properties": {}},
    },
    {
        "name": UNDO_TURN,
        "description": (
            "Take back what your last turn did to cells, in all its notebooks. What people changed "
            "since stays and is listed. Variables and files keep what the turn did to them."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {"turn_id": {"type": "string", "description": "Default: your last turn"}},
        },
    },
)
_TURN_HINTS = {BEGIN_TURN: (True, False), END_TURN: (True, False), UNDO_TURN: (False, True)}
"""Whether it only reads; whether it destroys."""


class Catalogue:
    """The answer of `tools/list`, and the names `tools/call` takes."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        ours = [_ours(tool) for tool in toolbox.tools if tool.name not in _LEFT_OUT]
        listed = [*ours, *map(_about_the_turn, _TURN_TOOLS)]
        self._tools = {tool["name"]: tool for tool in sorted(listed, key=_place)}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._toolbox.current_name(name) in self._tools

    @property
    def phrases(self) -> Phrasebook:
        """The words for questions about calls."""
        return Phrasebook(self._toolbox.describe())

    @property
    def names(self) -> Sequence[str]:
        return list(self._tools)

    def waits(self, name: str) -> bool:
        """Whether the tool waits for a run, for as long as its `wait` says."""
        tool = self._tools[self._toolbox.current_name(name)]
        return "wait" in tool["inputSchema"]["properties"]

    def hint(self, name: str) -> str:
        """` Did you mean ...?` for an unknown name, with a tool that clients have."""
        return self._toolbox.hint(name, self._tools)

    def describe(self, *, notebook: str | None) -> list[dict[str, Any]]:
        """All tools, always in the same order; `notebook` is the default for calls: without it,
        they have to name one.
        """
        described = copy.deepcopy(list(self._tools.values()))
        for tool in described:
            schema = tool["inputSchema"]
            if notebook is None and "notebook" in schema["properties"]:
                schema["required"] = ["notebook", *schema.get("required", ())]
        return described


def _place(tool: Mapping[str, Any]) -> tuple[int, str]:
    name = tool["name"]
    return FIRST.index(name) if name in FIRST else len(FIRST), name


def _ours(tool: type[Tool]) -> dict[str, Any]:
    spec = tool.spec()
    annotations = hints(tool.action)
    schema = copy.deepcopy(spec["input_schema"])
    if tool.names_notebook:
        schema["properties"]["notebook"]["description"] = _NOTEBOOK
    if tool.examples:
        schema["examples"] = [*tool.examples]
    runs_code = tool.in_kernel or "and_run" in tool.model_fields
    return {
        "name": tool.name,
        "description": _DESCRIPTIONS.get(tool.name, spec["description"]),
        "inputSchema": schema,
        **_more(
            tool.name, reads=annotations.reads, destroys=annotations.destroys, open_world=runs_code
        ),
    }


def _about_the_turn(tool: Mapping[str, Any]) -> dict[str, Any]:
    reads, destroys = _TURN_HINTS[tool["name"]]
    return {**tool, **_more(tool["name"], reads=reads, destroys=destroys, open_world=False)}


def _more(name: str, *, reads: bool, destroys: bool, open_world: bool) -> dict[str, Any]:
    title = name.replace("_", " ").capitalize()
    annotations = {
        "title": title,
        "readOnlyHint": reads,
        "destructiveHint": destroys,
        "idempotentHint": reads,
        "openWorldHint": open_world,
    }
    meta = {"_meta": dict(_ALWAYS_LOAD)} if name in FIRST else {}
    return {"title": title, "annotations": annotations, **meta}
