"""Kernel messages as nbformat outputs, and where they go."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

_OK = re.compile(rb'"status"\s*:\s*"ok"')
_ENDS = 200
"""Bytes at both ends of a reply where its status is: between them is what makes it large."""


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
        # A notebook knows two streams; kernels may name others.
        name = "stderr" if content.get("name") == "stderr" else "stdout"
        sink.stream(name, str(content.get("text") or ""))
    elif kind == "clear_output":
        sink.clear(bool(content.get("wait")))
    elif kind == "error":
        sink.display({"output_type": "error", **error_of(content)})
    elif kind in ("display_data", "execute_result", "update_display_data"):
        display_id = _display_id(content)
        data, metadata = content.get("data") or {}, content.get("metadata") or {}
        if kind != "update_display_data":
            output = {"output_type": kind, "data": data, "metadata": metadata}
            if kind == "execute_result":
                output["execution_count"] = content.get("execution_count")
            sink.display(output, display_id)
        elif display_id is not None:
            sink.update_display(display_id, data, metadata)


def error_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Name, value and traceback of an error message or reply; kernels may leave out any of them."""
    return {
        "ename": content.get("ename") or "Error",
        "evalue": content.get("evalue") or "",
        "traceback": list(content.get("traceback") or ()),
    }


def _display_id(content: Mapping[str, Any]) -> str | None:
    display_id = (content.get("transient") or {}).get("display_id")
    return display_id if isinstance(display_id, str) else None


def too_large(kind: str, raw: bytes) -> dict[str, Any]:
    """In place of a content that is too large to be read: what it would show is named."""
    note = f"[... {len(raw) / 1e6:,.0f} MB in one output: too much for a notebook, left out ...]"
    match kind:
        case "stream":
            return {"name": "stderr", "text": f"{note}\n"}
        case "display_data" | "execute_result":
            return {"data": {"text/plain": note}, "metadata": {}}
        case "error":
            return {"ename": "Error", "evalue": note, "traceback": []}
        case "execute_reply":
            ends = raw[:_ENDS] + raw[-_ENDS:]
            if _OK.search(ends):
                return {"status": "ok"}
            return {"status": "error", "ename": "Error", "evalue": note, "traceback": []}
    return {}
