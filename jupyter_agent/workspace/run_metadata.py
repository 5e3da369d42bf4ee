"""What a run leaves in the metadata of its notebook, beside the outputs in its cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jupyter_agent.document.notebook import Notebook
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.outputs import mapping
from jupyter_agent.kernel.widgets import MODEL, VIEW

_STATE = "application/vnd.jupyter.widget-state+json"
_LINKS = ("LinkModel", "DirectionalLinkModel")
"""Widgets that are in no other: they join those that they name."""


def after_run(notebook: Notebook, kernel: Kernel, *, widget_state: bool) -> dict[str, Any]:
    """The keys of the notebook's metadata that are to have other values now that code has run.

    `language_info` where there is none, as JupyterLab writes it. The state of the widgets that the
    notebook shows, where it has such a state already, or with `widget_state` in any notebook.
    """
    items: dict[str, Any] = {}
    metadata = notebook.known_metadata
    if not metadata.get("language_info") and kernel.language_info is not None:
        items["language_info"] = dict(kernel.language_info)
    stored = metadata.get("widgets")
    if widget_state or (isinstance(stored, Mapping) and _STATE in stored):
        widgets = _widgets(notebook, kernel, mapping(stored))
        if widgets != (stored or {}):
            items["widgets"] = widgets
    return items


def _widgets(notebook: Notebook, kernel: Kernel, stored: Mapping[str, Any]) -> dict[str, Any]:
    """`metadata.widgets` with the state of what the cells show; `stored` is what it is.

    Widgets of which the kernel told before we were connected are known from there only.
    """
    known = {**mapping(mapping(stored.get(_STATE)).get("state")), **kernel.widget_models()}
    shown = _with_their_own([cell.outputs for cell in notebook.cells()], known)
    if not shown and not stored:
        return {}
    state = {key: model for key, model in known.items() if key in shown}
    return {**stored, _STATE: {"version_major": 2, "version_minor": 0, "state": state}}


def _with_their_own(outputs: Any, known: Mapping[str, Any]) -> set[str]:
    """Ids of the known widgets in these outputs, of those in them, and of what links them."""
    found, new = set[str](), set(_named(outputs)) & known.keys()
    while new:
        found |= new
        new = {each for key in new for each in _named(known[key])}
        for key, model in known.items():
            ends = set(_named(model)) if mapping(model).get("model_name") in _LINKS else set()
            if ends and ends <= found:
                new.add(key)
        new = (new & known.keys()) - found
    return found


def _named(value: Any) -> Iterator[str]:
    """Ids of the widgets that a value names, wherever in it that is."""
    match value:
        case str():
            if value.startswith(MODEL):
                yield value.removeprefix(MODEL)
        case Mapping():
            for key, item in value.items():
                if key == VIEW and isinstance(mapping(item).get("model_id"), str):
                    yield item["model_id"]
                yield from _named(item)
        case list() | tuple():
            for item in value:
                yield from _named(item)
