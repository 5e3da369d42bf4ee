"""Tracks the widgets of a kernel as a page would: their state and captured outputs.

`ipywidgets.Output` asks its page to capture the outputs of the cell while its context is entered.
If the run has no page that does so, this does it, the way nbclient does:
https://github.com/jupyter/nbclient/blob/main/nbclient/output_widget.py
"""

from __future__ import annotations

import base64
import html
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jupyter_agent.kernel.outputs import as_output, mapping, storable

VIEW = "application/vnd.jupyter.widget-view+json"
MODEL = "IPY_MODEL_"
_OF_HTML = ("HTMLModel", "HTMLMathModel")
"""Widgets whose value is HTML; that of others is a plain text."""
_TAG = re.compile(r"<[^<>]*>")
_MOST_CAPTURED = 2_000_000
"""Characters of text that one widget stores; the oldest are dropped."""
_DEPTH = 8
_MOST_BUFFERED = 50_000_000
"""Most bytes of binary state (pictures, arrays) that are stored for all widgets together."""


class Widgets:
    """The widgets of one kernel process."""

    def __init__(self) -> None:
        self._states: dict[str, dict[str, Any]] = {}
        self._capturing: defaultdict[str, list[str]] = defaultdict(list)
        """Request -> the Output widgets that capture its outputs; the last one gets them."""
        self._clear_before_next = set[str]()
        self._unsent = set[str]()
        self._buffers: defaultdict[str, dict[tuple[str | int, ...], bytes]] = defaultdict(dict)
        """Widget -> binary values of its state, by their paths in the state."""

    def follow(self, kind: str, content: Mapping[str, Any], buffers: Sequence[Any] = ()) -> None:
        """Process a `comm_open`, `comm_msg` or `comm_close`; other messages are ignored."""
        comm_id = content.get("comm_id")
        if not isinstance(comm_id, str):
            return
        state = mapping(mapping(content.get("data")).get("state"))
        if kind == "comm_open" and content.get("target_name") == "jupyter.widget":
            self._states[comm_id] = dict(state)
            self._buffer(comm_id, content, buffers)
        elif kind == "comm_msg" and comm_id in self._states:
            before = self._states[comm_id].get("msg_id")
            self._states[comm_id].update(state)
            self._buffer(comm_id, content, buffers)
            if self._is_output(comm_id) and "msg_id" in state:
                self._set_capture(comm_id, before, state["msg_id"])
        elif kind == "comm_close":
            self._states.pop(comm_id, None)
            self._buffers.pop(comm_id, None)
            self._clear_before_next.discard(comm_id)
            self._unsent.discard(comm_id)

    def take(self, request_id: str, kind: str, content: Mapping[str, Any]) -> bool:
        """Whether an Output widget captured this message, so that the cell does not show it."""
        capturing = [each for each in self._capturing.get(request_id, ()) if each in self._states]
        if not capturing:
            return False
        comm_id = capturing[-1]
        if kind == "clear_output":
            if content.get("wait"):
                self._clear_before_next.add(comm_id)
            else:
                self._states[comm_id]["outputs"] = []
                self._unsent.add(comm_id)
            return True
        output = as_output(kind, content)
        if output is None:
            return False
        captured = [] if comm_id in self._clear_before_next else self._captured_outputs(comm_id)
        self._clear_before_next.discard(comm_id)
        last = captured[-1] if captured else {}
        if output["output_type"] == "stream" and last.get("name") == output["name"]:
            text = (str(last.get("text", "")) + output["text"])[-_MOST_CAPTURED:]
            captured[-1] = {**last, "text": text}
        else:
            captured.append(output)
        self._states[comm_id]["outputs"] = captured
        self._unsent.add(comm_id)
        return True

    def unsent(self) -> Iterator[Mapping[str, Any]]:
        """The contents of comm_msgs with the new outputs of Output widgets for the kernel; once."""
        while self._unsent:
            comm_id = self._unsent.pop()
            state = {"outputs": self._captured_outputs(comm_id)}
            data = {"method": "update", "state": state, "buffer_paths": []}
            yield {"comm_id": comm_id, "data": data}

    def forget(self, request_id: str) -> None:
        """Forget a request that has ended for good."""
        self._capturing.pop(request_id, None)

    def resolve_widgets(self, outputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """These outputs with the current state of their widgets: the outputs of Output widgets, and
        progress bars and others as text.
        """
        result: list[dict[str, Any]] = []
        for output in outputs:
            view = mapping(mapping(output.get("data")).get(VIEW))
            text, held = self._text(view.get("model_id"), _DEPTH)
            if text:
                result.append({**output, "data": {"text/plain": text}})
            elif not held:
                result.append(dict(output))
            result += held
        return result

    def models(self) -> dict[str, dict[str, Any]]:
        """The widgets by id, in the form of `metadata.widgets`:
        https://github.com/jupyter-widgets/ipywidgets/blob/main/packages/schema/v2/state.schema.json
        """
        return {
            comm_id: {
                "model_name": state["_model_name"],
                "model_module": state.get("_model_module"),
                "model_module_version": state.get("_model_module_version"),
                "state": storable(state),
                **({"buffers": buffers} if (buffers := self._stored_buffers(comm_id)) else {}),
            }
            for comm_id, state in self._states.items()
            if "_model_name" in state
        }

    def _stored_buffers(self, comm_id: str) -> list[dict[str, Any]]:
        return [
            {
                "data": base64.b64encode(data).decode(),
                "encoding": "base64",
                "path": list(path),
            }
            for path, data in self._buffers.get(comm_id, {}).items()
        ]

    def _buffer(self, comm_id: str, content: Mapping[str, Any], buffers: Sequence[Any]) -> None:
        """Store the binary values of a state, replacing earlier ones at the same paths."""
        data = mapping(content.get("data"))
        stored, paths = self._buffers[comm_id], data.get("buffer_paths")
        for path in [path for path in stored if path[0] in mapping(data.get("state"))]:
            del stored[path]
        for path, buffer in zip(paths if isinstance(paths, list) else (), buffers, strict=False):
            if isinstance(path, list) and path and all(isinstance(key, str | int) for key in path):
                stored.pop(tuple(path), None)
                total = sum(
                    len(each) for every in self._buffers.values() for each in every.values()
                )
                if total + len(buffer) <= _MOST_BUFFERED:
                    stored[tuple(path)] = bytes(buffer)

    def _text(self, model_id: Any, depth: int) -> tuple[str, list[dict[str, Any]]]:
        """A widget as one line, and the captured outputs of its children."""
        state = self._states.get(model_id) if isinstance(model_id, str) else None
        if state is None or depth < 0:
            return "", []
        if self._is_output(str(model_id)):
            return "", self._captured_outputs(str(model_id))
        children = state.get("children")
        if isinstance(children, list):
            parts = [
                self._text(child.removeprefix(MODEL), depth - 1)
                for child in children
                if isinstance(child, str)
            ]
            texts = " ".join(text for text, _ in parts if text)
            return texts, [output for _, held in parts for output in held]
        value = state.get("value")
        words: list[Any] = [state.get("description"), value]
        if isinstance(state.get("max"), int | float) and isinstance(value, int | float):
            words[1] = f"{value:g}/{state['max']:g}"
        if state.get("_model_name") in _OF_HTML and isinstance(value, str):
            words[1] = html.unescape(_TAG.sub("", value))
        shown = [str(word) for word in words if isinstance(word, str | int | float)]
        return " ".join(" ".join(shown).split()), []

    def _is_output(self, comm_id: str) -> bool:
        return self._states[comm_id].get("_model_name") == "OutputModel"

    def _captured_outputs(self, comm_id: str) -> list[dict[str, Any]]:
        outputs = mapping(self._states.get(comm_id)).get("outputs")
        return [dict(each) for each in outputs or () if isinstance(each, Mapping)]

    def _set_capture(self, comm_id: str, before: Any, now: Any) -> None:
        """Update which request an Output widget captures: `before` and `now` are request ids."""
        if isinstance(before, str) and comm_id in self._capturing.get(before, ()):
            self._capturing[before].remove(comm_id)
        if isinstance(now, str) and now:
            self._capturing[now].append(comm_id)
