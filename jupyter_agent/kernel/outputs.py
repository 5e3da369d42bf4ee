"""Kernel messages as nbformat outputs, and where they go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

MAX_ITEM = 20_000_000
"""Characters that one representation of one output may have; a browser cannot show more anyway."""


class OutputSink(Protocol):
    """Takes what one piece of code shows, in the order in which the kernel sends it."""

    async def wanted(self) -> bool:
        """Asked just before the code is sent; False withdraws it."""

    def started(self) -> None:
        """The kernel begins with the code."""

    def stream(self, name: str, text: str) -> None:
        """`name` is `stdout` or `stderr`."""

    def display(self, output: Mapping[str, Any], display_id: str | None = None) -> None:
        """A display_data, execute_result or error output as nbformat 4 writes it."""

    def update_display(
        self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> None:
        """Replaces what outputs with that id show, also those of other cells."""

    def clear(self, wait: bool) -> None:
        """Removes the outputs so far; with `wait` only when the next one comes."""


class Discarded:
    """A sink for code whose outputs nobody looks at."""

    async def wanted(self) -> bool:
        return True

    def started(self) -> None: ...

    def stream(self, name: str, text: str) -> None: ...

    def display(self, output: Mapping[str, Any], display_id: str | None = None) -> None: ...

    def update_display(
        self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> None: ...

    def clear(self, wait: bool) -> None: ...


def deliver(kind: str, content: Mapping[str, Any], sink: OutputSink) -> None:
    """Hand an iopub message to the sink; messages that show nothing are passed over.

    Message types and their content: https://jupyter-client.readthedocs.io/en/stable/messaging.html
    """
    if kind == "stream":
        sink.stream(content["name"], content["text"])
    elif kind == "clear_output":
        sink.clear(bool(content.get("wait")))
    elif kind == "update_display_data":
        display_id = _display_id(content)
        if display_id is not None:
            sink.update_display(display_id, _bundle(content), content.get("metadata", {}))
    elif kind in ("display_data", "execute_result"):
        output = {
            "output_type": kind,
            "data": _bundle(content),
            "metadata": content.get("metadata", {}),
        }
        if kind == "execute_result":
            output["execution_count"] = content.get("execution_count")
        sink.display(output, _display_id(content))
    elif kind == "error":
        sink.display({"output_type": "error", **error_of(content)})


def error_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Name, value and traceback of an error message or reply; kernels may leave out any of them."""
    return {
        "ename": content.get("ename") or "Error",
        "evalue": content.get("evalue") or "",
        "traceback": list(content.get("traceback") or ()),
    }


def _display_id(content: Mapping[str, Any]) -> str | None:
    display_id = content.get("transient", {}).get("display_id")
    return display_id if isinstance(display_id, str) else None


def _bundle(content: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a message without representations that are too large to be stored."""
    data = content.get("data", {})
    kept = {
        kind: value
        for kind, value in data.items()
        if not (isinstance(value, str) and len(value) > MAX_ITEM)
    }
    if len(kept) < len(data):
        left_out = ", ".join(
            f"{kind} ({len(data[kind]):,} characters)" for kind in data if kind not in kept
        )
        kept.setdefault("text/plain", f"<left out, too large for a notebook: {left_out}>")
    return kept
