"""Between Anthropic's messages and events and those of chat completions. Knows no SDK."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

from jupyter_agent.models.base import Block, Message, ModelEvent, ModelRequest

_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}

# -- what is asked


def chat_tools(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tools as functions."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool["description"],
                "parameters": tool["input_schema"],
            },
        }
        for tool in tools
    ]


def chat_messages(request: ModelRequest) -> list[dict[str, Any]]:
    """System prompt and history; thinking has no place in it."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": request.system}]
    for message in request.messages:
        if message["role"] == "assistant":
            messages += _assistant(message["content"])
        else:
            messages += _user(message["content"])
    return messages


def used_call_ids(messages: Sequence[Message]) -> set[str]:
    """Ids of all calls in the history."""
    return {
        block["id"]
        for message in messages
        for block in message["content"]
        if block["type"] == "tool_use"
    }


def _assistant(content: Sequence[Block]) -> Iterator[dict[str, Any]]:
    text = "".join(block["text"] for block in content if block["type"] == "text")
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
        }
        for block in content
        if block["type"] == "tool_use"
    ]
    if calls:
        yield {"role": "assistant", "content": text or None, "tool_calls": calls}
    elif text:
        yield {"role": "assistant", "content": text}


def _user(content: Sequence[Block]) -> Iterator[dict[str, Any]]:
    """Tool messages take only text, and stand before anything else; so images follow them."""
    parts: list[dict[str, Any]] = []
    for block in content:
        if block["type"] == "tool_result":
            yield {
                "role": "tool",
                "tool_call_id": block["tool_use_id"],
                "content": _result_text(block),
            }
            parts += [_image(part) for part in block["content"] if part["type"] == "image"]
        elif block["type"] == "image":
            parts.append(_image(block))
        elif block["type"] == "text":
            parts.append({"type": "text", "text": block["text"]})
    if parts:
        yield {"role": "user", "content": parts}


def _result_text(block: Block) -> str:
    texts = [
        part["text"] if part["type"] == "text" else "(image follows)" for part in block["content"]
    ]
    prefix = "Error: " if block.get("is_error") else ""
    return prefix + "\n".join(texts)


def _image(block: Block) -> dict[str, Any]:
    source = block["source"]
    url = f"data:{source['media_type']};base64,{source['data']}"
    return {"type": "image_url", "image_url": {"url": url}}


# -- what is answered


class ChunkReader:
    """Makes the events of one reply out of chat completion chunks, as differently as servers write
    them: calls without id, without index, all at the same index, input as an object."""

    def __init__(self, used: Collection[str]) -> None:
        self._used = set(used)
        self._blocks = 0
        self._open: tuple[str, int] | None = None
        """The text or thinking that is being written: (kind, index)."""
        self._calls: dict[int, tuple[str | None, int]] = {}
        """By the server's index: (the server's id, our block)."""
        self._call_blocks: list[int] = []
        self._finish: str | None = None
        self._refusal = ""
        self._usage: dict[str, int] = {}
        self._started = False

    def feed(self, chunk: Mapping[str, Any]) -> Iterator[ModelEvent]:
        """The events of one chunk."""
        if not self._started:
            self._started = True
            yield {"type": "message_start", "message": {"content": [], "usage": {}}}
        self._count(chunk.get("usage"))
        for choice in chunk.get("choices") or ():
            if choice.get("index"):  # one answer was asked for; some servers omit the index
                continue
            self._finish = choice.get("finish_reason") or self._finish
            delta = choice.get("delta") or {}
            yield from self._write("thinking", delta.get("reasoning_content"))
            yield from self._write("thinking", delta.get("reasoning"))
            yield from self._write("text", delta.get("content"))
            self._refusal += delta.get("refusal") or ""
            for position, call in enumerate(delta.get("tool_calls") or ()):
                yield from self._call(call, position)

    def end(self) -> Iterator[ModelEvent]:
        """The events of the end; none where the server did not say that it is one."""
        if self._finish is None:
            return
        yield from self._close()
        for index in self._call_blocks:
            yield {"type": "content_block_stop", "index": index}
        yield {"type": "message_delta", "delta": self._ending(), "usage": self._usage}
        yield {"type": "message_stop"}

    def _ending(self) -> dict[str, Any]:
        """Why it ended. A refusal comes in a field of its own, and `stop` as the reason."""
        if self._refusal:
            return {"stop_reason": "refusal", "stop_details": {"explanation": self._refusal}}
        return {"stop_reason": _STOP_REASONS.get(self._finish or "", self._finish)}

    def _write(self, kind: str, piece: Any) -> Iterator[ModelEvent]:
        if not isinstance(piece, str) or not piece:
            return
        if self._open is None or self._open[0] != kind:
            yield from self._close()
            index = self._next()
            self._open = (kind, index)
            block = {"type": kind, kind: ""}
            yield {"type": "content_block_start", "index": index, "content_block": block}
        delta = {"type": f"{kind}_delta", kind: piece}
        yield {"type": "content_block_delta", "index": self._open[1], "delta": delta}

    def _call(self, call: Mapping[str, Any], position: int) -> Iterator[ModelEvent]:
        function = call.get("function") or {}
        slot = call.get("index")
        slot = position if slot is None else slot
        their_id, block = self._calls.get(slot, (None, -1))
        if block < 0 or (call.get("id") and call["id"] != their_id):
            yield from self._close()
            block = self._next()
            self._calls[slot] = (call.get("id"), block)
            self._call_blocks.append(block)
            yield {
                "type": "content_block_start",
                "index": block,
                "content_block": {
                    "type": "tool_use",
                    "id": self._unique(call.get("id")),
                    "name": function.get("name") or "",
                    "input": {},
                },
            }
        arguments = function.get("arguments")
        if arguments:
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            delta = {"type": "input_json_delta", "partial_json": text}
            yield {"type": "content_block_delta", "index": block, "delta": delta}

    def _close(self) -> Iterator[ModelEvent]:
        if self._open is not None:
            yield {"type": "content_block_stop", "index": self._open[1]}
            self._open = None

    def _next(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    def _unique(self, call_id: str | None) -> str:
        """Some servers number their calls anew in each reply; a transcript needs them distinct."""
        chosen = call_id if call_id and call_id not in self._used else f"call_{uuid4().hex[:24]}"
        self._used.add(chosen)
        return chosen

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, Mapping):
            return
        cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        self._usage = {
            "input_tokens": (usage.get("prompt_tokens") or 0) - cached,
            "cache_read_input_tokens": cached,
            "output_tokens": usage.get("completion_tokens") or 0,
        }
