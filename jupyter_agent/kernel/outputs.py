"""Kernel messages as nbformat outputs, and where they go."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Protocol

_OK = re.compile(rb'"status"\s*:\s*"ok"')
_JSON = re.compile(r"application/(.*\+)?json")
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
    output = as_output(kind, content)
    if kind == "clear_output":
        sink.clear(bool(content.get("wait")))
    elif output is not None and kind == "stream":
        sink.stream(output["name"], output["text"])
    elif output is not None:
        sink.display(output, _display_id(content))
    elif kind == "update_display_data" and (display_id := _display_id(content)) is not None:
        sink.update_display(display_id, _data(content), storable(mapping(content.get("metadata"))))


def as_output(kind: str, content: Mapping[str, Any]) -> dict[str, Any] | None:
    """A message as one output of nbformat 4; None for those that show nothing by themselves."""
    if kind == "stream":
        # A notebook knows two streams; kernels may name others.
        name = "stderr" if content.get("name") == "stderr" else "stdout"
        text = storable(str(content.get("text") or ""))
        return {"output_type": kind, "name": name, "text": text}
    if kind == "error":
        return {"output_type": kind, **error_of(content)}
    if kind in ("display_data", "execute_result"):
        data, metadata = _data(content), storable(mapping(content.get("metadata")))
        output: dict[str, Any] = {"output_type": kind, "data": data, "metadata": metadata}
        if kind == "execute_result":
            output["execution_count"] = count_of(content)
        return output
    return None


def error_of(content: Mapping[str, Any]) -> dict[str, Any]:
    """Name, value and traceback of an error message or reply; kernels may leave out any of them."""
    frames = content.get("traceback") or []
    return {
        "ename": storable(str(content.get("ename") or "Error")),
        "evalue": storable(str(content.get("evalue") or "")),
        "traceback": [
            storable(str(frame)) for frame in (frames if isinstance(frames, list) else [frames])
        ],
    }


def count_of(content: Mapping[str, Any]) -> int | None:
    """The number of the cell, where the message has one."""
    count = content.get("execution_count")
    return count if isinstance(count, int) and not isinstance(count, bool) else None


def mapping(value: Any) -> Mapping[str, Any]:
    """The value where it is a mapping, as the protocol has it; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def storable(value: Any) -> Any:
    """The value without halves of characters (lone surrogates): no file and no socket takes them.

    JSON can spell them, and programs that cut UTF-16 in the middle do.
    """
    if isinstance(value, str):
        try:
            value.isascii() or value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    elif isinstance(value, Mapping):
        return {storable(key): storable(each) for key, each in value.items()}
    elif isinstance(value, list):
        return [storable(each) for each in value]
    return value


def language_info_of(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """The language in a kernel_info_reply as nbformat takes it in a notebook's metadata; None where
    the reply does not name it.
    """
    info = storable(mapping(content.get("language_info")))
    if not isinstance(info.get("name"), str):
        return None
    mode = mapping(info.get("codemirror_mode"))
    flat = all(isinstance(item, str | int | float | None) for item in mode.values())
    texts = {key: item for key, item in info.items() if isinstance(item, str)}
    return {**texts, "codemirror_mode": dict(mode)} if mode and flat else texts


def payload_of(reply: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What an execute_reply asks of its client: a page to show, a cell to propose, an exit.

    https://jupyter-client.readthedocs.io/en/stable/messaging.html#payloads-deprecated
    """
    payload = reply.get("payload")
    return [mapping(each) for each in payload] if isinstance(payload, list) else []


def _data(content: Mapping[str, Any]) -> dict[str, Any]:
    """A bundle as nbformat takes it: text is a string or lines, JSON may be anything."""
    return {
        storable(kind): storable(value) if _fits(kind, value) else json.dumps(value)
        for kind, value in mapping(content.get("data")).items()
    }


def _fits(kind: str, value: Any) -> bool:
    if isinstance(value, str) or _JSON.fullmatch(kind):
        return True
    return isinstance(value, list) and all(isinstance(line, str) for line in value)


def _display_id(content: Mapping[str, Any]) -> str | None:
    display_id = storable(mapping(content.get("transient")).get("display_id"))
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
