"""Prompts for the users of clients."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A common request; `{path}` in its text is the notebook."""

    name: str
    title: str
    description: str
    text: str
    tool: str = "get_notebook_state"
    """The tool without which it is of no use."""


_ALL = (
    Prompt(
        name="explain-notebook",
        title="Explain a notebook",
        description="Explains what a notebook does, cell by cell; changes nothing.",
        text=(
            "Explain the notebook {path}. Read it with get_notebook_state, and with read_cells "
            "the cells you only got a line of. Say in three sentences what it is for, then "
            "go through its sections: what goes in, what comes out, which results matter. Name "
            "cells whose outputs are stale. Change and run nothing."
        ),
    ),
    Prompt(
        name="fix-notebook",
        title="Fix a notebook",
        description="Finds the errors in a notebook and fixes their causes.",
        text=(
            "Fix the notebook {path}. Start a turn with begin_turn. Read it with "
            "get_notebook_state and find the cells with errors and those that are stale. Fix the "
            "cause, not the symptom, with the smallest edits (edit_cells with old_string), and run "
            "what you changed. Hide no error and delete none of my cells. End with end_turn and a "
            "list of what you changed and why."
        ),
    ),
    Prompt(
        name="make-it-run",
        title="Make it run from top to bottom",
        description="Makes a notebook run in a fresh kernel from its first cell to its last.",
        tool="verify_notebook",
        text=(
            "Make the notebook {path} run from top to bottom in a fresh kernel. Start a turn with "
            "begin_turn, and check with verify_notebook, which runs a copy. Fix what fails: order, "
            "missing imports, names that only this kernel knows. Verify again until all is the "
            "same. End with end_turn, and report anything that cannot be fixed."
        ),
    ),
)


def describe(tools: Container[str]) -> list[dict[str, Any]]:
    """The answer of `prompts/list`, always in the same order: those for which there are tools."""
    argument = {
        "name": "path",
        "description": "Path of the notebook below Jupyter's root",
        "required": True,
    }
    return [
        {
            "name": prompt.name,
            "title": prompt.title,
            "description": prompt.description,
            "arguments": [argument],
        }
        for prompt in _ALL
        if prompt.tool in tools
    ]


def get(name: Any, arguments: Mapping[str, Any], tools: Container[str]) -> dict[str, Any]:
    """The answer of `prompts/get`. Raises ValueError for a bad name or argument."""
    offered = [prompt for prompt in _ALL if prompt.tool in tools]
    prompt = next((each for each in offered if each.name == name), None)
    if prompt is None:
        names = ", ".join(each.name for each in offered)
        raise ValueError(f"No prompt `{name}`. Prompts: {names}.")
    path = arguments.get("path")
    if not isinstance(path, str) or not path:
        raise ValueError("The argument `path` is missing: which notebook?")
    text = prompt.text.replace("{path}", f"`{path}`")
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return {"description": prompt.description, "messages": [message]}
