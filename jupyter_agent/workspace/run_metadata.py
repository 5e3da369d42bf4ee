"""What a run writes into the notebook's metadata: the kernel's language, the state of widgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jupyter_agent.document.cell import metadata_text
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.outputs import mapping
from jupyter_agent.kernel.widgets import MODEL, VIEW

_STATE = "application/vnd.jupyter.widget-state+json"
_LINKS = ("LinkModel", "DirectionalLinkModel")
"""Widgets outside of any other, which link the widgets that they refer to."""


def metadata_after_run(notebook: Notebook, kernel: Kernel, *, widget_state: bool) -> dict[str, Any]:
    """Updates of the notebook's metadata after a run.

    `language_info` if it is missing, as JupyterLab writes it. The state of the widgets in the
    notebook, if it has one already, or always with `widget_state`.
    """
    items: dict[str, Any] = {}
    metadata = notebook.cached_metadata
    if (
        metadata_text(metadata, "language_info", "name") is None
        and kernel.language_info is not None
    ):
        items["language_info"] = dict(kernel.language_info)
    stored = metadata.get("widgets")
    if widget_state or (isinstance(stored, Mapping) and _STATE in stored):
        widgets = _widgets(notebook, kernel, mapping(stored))
        if widgets != (stored or {}):
            items["widgets"] = widgets
    return items


def _widgets(notebook: Notebook, kernel: Kernel, stored: Mapping[str, Any]) -> dict[str, Any]:
    """The new `metadata.widgets` for the widgets in the cells; `stored` is the current one.

    It is the only source for widgets that the kernel announced before we connected.
    """
    known = {**mapping(mapping(stored.get(_STATE)).get("state")), **kernel.widgets.models()}
    shown = _related_widgets([cell.outputs for cell in notebook.cached_cells()], known)
    if not shown and not stored:
        return {}
    state = {key: model for key, model in known.items() if key in shown}
    return {**stored, _STATE: {"version_major": 2, "version_minor": 0, "state": state}}


def _related_widgets(outputs: Any, known: Mapping[str, Any]) -> set[str]:
    """Ids of the known widgets in these outputs, their nested widgets, and links between them."""
    found, new = set[str](), set(_widget_ids(outputs)) & known.keys()
    while new:
        found |= new
        new = {each for key in new for each in _widget_ids(known[key])}
        for key, model in known.items():
            ends = set(_widget_ids(model)) if mapping(model).get("model_name") in _LINKS else set()
            if ends and ends <= found:
                new.add(key)
        new = (new & known.keys()) - found
    return found


def _widget_ids(value: Any) -> Iterator[str]:
    """Ids of all widgets that a value refers to, at any depth."""
    match value:
        case str():
            if value.startswith(MODEL):
                yield value.removeprefix(MODEL)
        case Mapping():
            for key, item in value.items():
                if key == VIEW and isinstance(mapping(item).get("model_id"), str):
                    yield item["model_id"]
                yield from _widget_ids(item)
        case list() | tuple():
            for item in value:
                yield from _widget_ids(item)
