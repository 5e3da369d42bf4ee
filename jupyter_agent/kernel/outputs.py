"""Converts kernel messages to nbformat outputs and delivers them to sinks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Any, Protocol

_OK = re.compile(rb'"status"\s*:\s*"ok"')
_JSON = re.compile(r"application/(.*\+)?json")
_LARGEST = sys.float_info.max
_DEEPEST = 400
"""Levels of lists and objects in an output; programs that read it may fail beyond."""
_ENDS = 200
"""Bytes at both ends of a large reply that are searched for its status."""


class OutputSink(Protocol):
    """Receives the outputs of one piece of code, in the order in which the kernel sends them."""

    async def prepare(self) -> bool:
        """Called just before the code is sent; False withdraws it."""

    def on_start(self) -> None:
        """The kernel has started the code."""

    def stream(self, name: str, text: str) -> None:
        """`name` is `stdout` or `stderr`."""

    def display(self, output: Mapping[str, Any], display_id: str | None = None) -> None:
        """A display_data, execute_result or error output in nbformat 4."""

    def update_display(
        self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> None:
        """Replaces the data of all outputs with that id, including those of other cells."""

    def clear(self, wait: bool) -> None:
        """Removes the outputs so far; with `wait`, only when the next one arrives."""


class Discarded:
    """A sink that discards all outputs."""

    async def prepare(self) -> bool:
        return True

    def on_start(self) -> None: ...

    def stream(self, name: str, text: str) -> None: ...

    def display(self, output: Mapping[str, Any], display_id: str | None = None) -> None: ...

    def update_display(
        self, display_id: str, data: Mapping[str, Any], metadata: Mapping[str, Any]
    ) -> None: ...

    def clear(self, wait: bool) -> None: ...


def deliver(kind: str, content: Mapping[str, Any], sink: OutputSink) -> None:
    """Pass an iopub message to the sink; messages without outputs are ignored.

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
    """A message as one output of nbformat 4; None for messages that are not an output."""
    if kind == "stream":
        # nbformat has two streams; kernels may name others.
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
    """The execution count of a message, if it has a valid one."""
    count = content.get("execution_count")
    valid = isinstance(count, int) and not isinstance(count, bool) and 0 <= count < 2**53
    return count if valid else None


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is a mapping, as the protocol requires; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def storable(value: Any, levels: int = _DEEPEST) -> Any:
    """The value without what no file, socket or page accepts: lone surrogates, which programs
    produce that cut UTF-16 inside of a pair, and numbers that are not finite, which become null as
    in JavaScript, as do lists and objects below so many levels.
    """
    if isinstance(value, float | int):
        return value if abs(value) <= _LARGEST else None  # NaN is not smaller than anything
    if isinstance(value, str):
        try:
            value.isascii() or value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    elif isinstance(value, Mapping):
        if not levels:
            return None
        return {storable(key): storable(each, levels - 1) for key, each in value.items()}
    elif isinstance(value, list):
        return [storable(each, levels - 1) for each in value] if levels else None
    return value


def language_info_of(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """The language in a kernel_info_reply as nbformat metadata; None without a name."""
    info = storable(mapping(content.get("language_info")))
    if not isinstance(info.get("name"), str):
        return None
    mode = mapping(info.get("codemirror_mode"))
    flat = all(isinstance(item, str | int | float | None) for item in mode.values())
    texts = {key: item for key, item in info.items() if isinstance(item, str)}
    return {**texts, "codemirror_mode": dict(mode)} if mode and flat else texts


def payload_of(reply: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The payloads of an execute_reply: a page to show, a cell to propose, an exit.

    https://jupyter-client.readthedocs.io/en/stable/messaging.html#payloads-deprecated
    """
    payload = reply.get("payload")
    return [mapping(each) for each in payload] if isinstance(payload, list) else []


def _data(content: Mapping[str, Any]) -> dict[str, Any]:
    """A MIME bundle that nbformat accepts: text is a string or lines, JSON may be any value. A type
    without a value, as `_repr_mimebundle_` may return it, is left out.
    """
    return {
        storable(kind): storable(value) if _fits(kind, value) else json.dumps(value)
        for kind, value in mapping(content.get("data")).items()
        if value is not None or _JSON.fullmatch(kind)
    }


def _fits(kind: str, value: Any) -> bool:
    if isinstance(value, str) or _JSON.fullmatch(kind):
        return True
    return isinstance(value, list) and all(isinstance(line, str) for line in value)


def _display_id(content: Mapping[str, Any]) -> str | None:
    display_id = storable(mapping(content.get("transient")).get("display_id"))
    return display_id if isinstance(display_id, str) else None


def left_out(kind: str, raw: bytes, why: str) -> dict[str, Any]:
    """A replacement for a content that cannot be parsed, with a note that says why."""
    note = f"[... {why}, left out ...]"
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


def asks_to_exit(reply: Mapping[str, Any]) -> bool:
    """Whether the code called `exit()` or `quit()`, and not with `keep_kernel=True`."""
    return any(
        each.get("source") == "ask_exit" and not each.get("keepkernel")
        for each in payload_of(reply)
    )
