"""Reads the chunks of a chat completion into events."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jupyter_agent.models.base import (
    VIA,
    ModelEvent,
    new_call_id,
    usage_of,
)
from jupyter_agent.models.chat import EXTRA

_BEGIN, _END = "<think>", "</think>"
_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "model_length": "model_context_window_exceeded",  # of Mistral
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
_FAILURES = ("error", "abort", "insufficient_system_resource", "malformed_function_call")
"""Last words of reasons that end no complete reply: of OpenRouter, vLLM, DeepSeek, Gemini."""
_UNFINISHED = (None, "", "null")
"""Reasons in chunks of a reply that continues: of most services, of SGLang, of KoboldCpp."""
_LONGEST_NAME = 256
_HEAD = 64
"""Characters by which a text is recognised that repeats from its start."""
_BLANK_BEFORE = 1_000
"""Most whitespace characters that are held back to see whether a tag follows."""


@dataclass(kw_only=True)
class _Call:
    """A call while it is received. Its name may grow until its input, and its block, start."""

    id: str | None
    name: str = ""
    extra: Any = None
    """Data that the service expects back with the call, e.g. Gemini's signature of its thoughts."""
    block: int | None = None
    """The index of its block, once that has started."""
    input: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether its input is complete."""
        last = next((piece for piece in reversed(self.input) if not piece.isspace()), "")
        if not last.rstrip().endswith("}"):  # to parse all of it after each piece takes long
            return False
        try:
            return isinstance(json.loads("".join(self.input)), dict)
        except ValueError:
            return False


class ChunkReader:
    """Turns chat completion chunks into the events of one reply.

    Servers write them in many ways: calls without id, without index, all at the same index, input
    as an object, text as parts, reasoning under several names, one message in place of chunks.
    """

    def __init__(self, *, think_tags: bool = True) -> None:
        self._used: set[str] = set()
        """Ids of the calls that have begun."""
        self._tags = ThinkTags() if think_tags else None
        self._blocks = 0
        self._open: tuple[str, int] | None = None
        """The open text or thinking: (kind, index)."""
        self._slots: dict[int, _Call] = {}
        """Calls by the server's index."""
        self._calls: list[_Call] = []
        self._finish: str | None = None
        self._has_pieces = False
        """Whether a chunk had no finish reason: servers that write one into each chunk exist."""
        self.is_complete = False
        """Whether only usage can follow: the last piece came with the finish reason."""
        self._done = False
        self._refusal = ""
        self._head = ""
        self._length = 0
        """Length of the text so far."""
        self._usage: dict[str, int] = {}
        self._started = False

    def feed(self, chunk: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """The events of one chunk."""
        if not self._started:
            self._started = True
            yield {"type": "message_start", "message": {"content": [], "usage": {}}}
        self._count(chunk.get("usage") or _mapping(chunk.get("x_groq")).get("usage"))
        for choice in chunk.get("choices") or ():
            if choice.get("index"):  # only one answer was requested; some servers omit the index
                continue
            if (reason := choice.get("finish_reason")) in _UNFINISHED:
                self._has_pieces, self.is_complete = True, False
            else:
                self._finish, self.is_complete = reason, self._has_pieces
            if isinstance(delta := choice.get("delta"), Mapping):
                yield from self._delta(delta)
            else:
                yield from self._delta(self._rest_of(_mapping(choice.get("message"))))

    def mark_done(self) -> None:
        """Note that the server ended the stream properly."""
        self._done = True

    @property
    def failure(self) -> str:
        """The finish reason if it is that of an incomplete reply; else empty. The usage may follow
        it.
        """
        reason = str(self._finish)
        return reason if reason.lower().endswith(_FAILURES) else ""

    def end(self) -> Iterator[ModelEvent]:
        """The last events of the reply; no events if the stream broke off."""
        if self._finish is None and not self._done:
            return
        if not self._started:
            yield from self.feed({})
        yield from self._flush_tags()
        yield from self._close()
        for call in self._calls:
            if not call.name and not call.input:  # an empty piece with an id of its own
                continue
            yield from self._begin(call)
            yield {"type": "content_block_stop", "index": call.block}
        yield {"type": "message_delta", "delta": self._ending(), "usage": self._usage}
        yield {"type": "message_stop"}

    def _ending(self) -> dict[str, Any]:
        """Why it ended. A refusal comes in its own field, with `stop` as the reason."""
        if self._refusal:
            return {"stop_reason": "refusal", "stop_details": {"explanation": self._refusal}}
        finish = self._finish or ("tool_calls" if self._calls else "stop")
        return {"stop_reason": _STOP_REASONS.get(finish, finish)}

    def _rest_of(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """The new part of a message that came in place of a delta: some servers repeat the whole
        text in each chunk, others only write its new part."""
        content = message.get("content")
        if isinstance(content, str) and len(content) >= self._length:
            if content.startswith(self._head):
                return {**message, "content": content[self._length :]}
        return message

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[ModelEvent]:
        for via in ("reasoning_content", "reasoning"):
            if isinstance(delta.get(via), str) and delta[via]:
                yield from self._write("thinking", delta[via], via)
                break
        else:
            for detail in delta.get("reasoning_details") or ():
                thought = detail.get("text") or detail.get("summary") or ""
                yield from self._write("thinking", thought, "reasoning")
        yield from self._content(delta.get("content"))
        self._refusal += delta.get("refusal") or ""
        for position, call in enumerate(delta.get("tool_calls") or ()):
            yield from self._call(call, position)
        if isinstance(delta.get("function_call"), Mapping):
            yield from self._call({"function": delta["function_call"]}, 0)

    def _content(self, content: Any) -> Iterator[ModelEvent]:
        if isinstance(content, str):
            self._head = (self._head + content[:_HEAD])[:_HEAD]
            self._length += len(content)
            pieces = self._tags.feed(content) if self._tags else [("text", content)]
            for kind, piece in pieces:
                yield from self._write(kind, piece, "tags")
            return
        for part in content or ():
            if part.get("type") == "text":
                yield from self._content(part.get("text") or "")
            elif part.get("type") == "thinking":
                yield from self._write("thinking", _plain(part.get("thinking")), "parts")

    def _write(self, kind: str, piece: str, via: str) -> Iterator[ModelEvent]:
        if not piece:
            return
        if self._open is None or self._open[0] != kind:
            yield from self._close()
            index = self._next()
            self._open = (kind, index)
            block = {"type": kind, kind: ""}
            if kind == "thinking":
                block[VIA] = via
            yield {"type": "content_block_start", "index": index, "content_block": block}
        delta = {"type": f"{kind}_delta", kind: piece}
        yield {"type": "content_block_delta", "index": self._open[1], "delta": delta}

    def _call(self, written: Mapping[str, Any], position: int) -> Iterator[ModelEvent]:
        function = _mapping(written.get("function"))
        index, id = written.get("index"), written.get("id") or None  # Gemini's may be empty
        slot = index if isinstance(index, int) else position
        call = self._slots.get(slot)
        name, arguments = function.get("name") or "", function.get("arguments")
        if call is None and not id and not name:  # with another index than its call
            if not arguments:
                return
            if self._calls and not self._calls[-1].is_complete:
                call = self._slots[slot] = self._calls[-1]
        if call is None or _is_another(call, id, name):
            yield from self._flush_tags()
            yield from self._close()
            call = self._slots[slot] = _Call(id=id)
            self._calls.append(call)
        if call.block is None and len(call.name) < _LONGEST_NAME:
            call.name += name if name != call.name else ""
        call.extra = written.get(EXTRA) or call.extra
        if arguments:
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            call.input.append(text)
            yield from self._begin(call)
            delta = {"type": "input_json_delta", "partial_json": text}
            yield {"type": "content_block_delta", "index": call.block, "delta": delta}

    def _begin(self, call: _Call) -> Iterator[ModelEvent]:
        if call.block is not None:
            return
        call.block = self._next()
        block = {"type": "tool_use", "id": self._unique(call.id), "name": call.name, "input": {}}
        if call.extra:
            block[EXTRA] = call.extra
        yield {"type": "content_block_start", "index": call.block, "content_block": block}

    def _flush_tags(self) -> Iterator[ModelEvent]:
        for kind, piece in self._tags.flush() if self._tags else ():
            yield from self._write(kind, piece, "tags")

    def _close(self) -> Iterator[ModelEvent]:
        if self._open is not None:
            yield {"type": "content_block_stop", "index": self._open[1]}
            self._open = None

    def _next(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    def _unique(self, call_id: str | None) -> str:
        """A distinct id: some servers leave it out, or give several calls the same one."""
        chosen = call_id if call_id and call_id not in self._used else new_call_id()
        self._used.add(chosen)
        return chosen

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, Mapping):
            return
        details = _mapping(usage.get("prompt_tokens_details"))
        cached = details.get("cached_tokens") or usage.get("prompt_cache_hit_tokens")
        self._usage = usage_of(usage.get("prompt_tokens"), cached, usage.get("completion_tokens"))


def _is_another(call: _Call, id: str | None, name: str) -> bool:
    """Whether a piece at the index of a call starts another call. Some servers give each piece of a
    call an id of its own.
    """
    if not id:
        return bool(name) and call.id is None and call.is_complete
    if id == call.id or (call.id is None and call.block is None):
        return False
    return bool(name) or call.is_complete


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _plain(thinking: Any) -> str:
    """The text of a part of thinking, which may itself have parts."""
    if isinstance(thinking, str):
        return thinking
    return "".join(part.get("text") or "" for part in thinking or ())


class ThinkTags:
    """Splits a text that starts with `<think>...</think>`, however its pieces are cut.

    Only at the start: later, an answer may be about such tags.
    """

    def __init__(self) -> None:
        self._held = ""
        self._state: Literal["begin", "thinking", "text"] = "begin"
        self._thought = False

    def feed(self, piece: str) -> Iterator[tuple[str, str]]:
        """The parts of the piece, each with its kind: `text` or `thinking`."""
        self._held += piece
        if self._state == "begin":
            stripped = self._held.lstrip()
            few = len(self._held) < _BLANK_BEFORE
            if few and len(stripped) < len(_BEGIN) and _BEGIN.startswith(stripped):
                return
            if stripped.startswith(_BEGIN):
                self._state, self._held = "thinking", stripped[len(_BEGIN) :]
            else:  # blank lines after thinking belong to neither
                self._state, self._held = "text", stripped if self._thought else self._held
        if self._state == "thinking":
            thought, tag, rest = self._held.partition(_END)
            if tag:
                yield "thinking", thought
                self._held, self._state, self._thought = "", "begin", True
                yield from self.feed(rest)
                return
            tail = next((n for n in range(len(_END) - 1, 0, -1) if thought.endswith(_END[:n])), 0)
            self._held = thought[len(thought) - tail :]
            yield "thinking", thought[: len(thought) - tail]
        else:
            held, self._held = self._held, ""
            yield "text", held

    def flush(self) -> Iterator[tuple[str, str]]:
        """The text held back, when nothing follows it; another text may start afterwards."""
        kind = "thinking" if self._state == "thinking" else "text"
        held, self._held, self._state = self._held, "", "begin"
        if held.strip():
            yield kind, held
