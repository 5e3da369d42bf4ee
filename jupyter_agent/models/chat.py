"""Converts between Anthropic's messages and events and those of chat completions. Uses no SDK."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jupyter_agent.models.base import (
    VIA,
    Block,
    Message,
    ModelRequest,
    data_url,
    description_with_examples,
    short_id,
)
from jupyter_agent.models.dialect import Dialect

EXTRA = "extra_content"
"""Key of data that a service adds to a call and expects back with it."""
_UNSIGNED = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""The signature that Gemini accepts for a call of another model.
Source: https://ai.google.dev/gemini-api/docs/thought-signatures."""

_SHORT = re.compile(r"[A-Za-z0-9]{9}")
"""The only form of a call's id that Mistral accepts. Source: https://docs.mistral.ai/api."""
_LONGEST_ID = 40
"""Characters that OpenAI accepts in the id of a call."""
_KIMI_ID = re.compile(r"functions\.[\w-]+:\d+")
"""Source: https://github.com/MoonshotAI/Kimi-K2/blob/main/docs/tool_call_guidance.md."""

_UNREAD = {"type": "text", "text": "[a PDF file, which this model cannot read]"}

# -- requests


def chat_tools(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tools as functions."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": description_with_examples(tool),
                "parameters": tool["input_schema"],
            },
        }
        for tool in tools
    ]


def chat_messages(request: ModelRequest, dialect: Dialect) -> list[dict[str, Any]]:
    """The system prompt and history in the form that the service accepts."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": request.system}]
    history = request.messages
    turn = _start_of_turn(history)
    names = {
        block["id"]: block["name"]
        for message in history
        for block in message["content"]
        if block["type"] == "tool_use"
    }
    for n, message in enumerate(history):
        if message["role"] == "assistant":
            back = dialect.reasoning == "always" or (dialect.reasoning == "turn" and n > turn)
            messages += _assistant(message["content"], dialect, back)
        else:
            messages += _user(message["content"], dialect, names)
    return messages


def this_turn(history: Sequence[Message]) -> Sequence[Message]:
    """The messages from the last question on."""
    return history[_start_of_turn(history) :]


def _start_of_turn(history: Sequence[Message]) -> int:
    questions = [n for n, message in enumerate(history) if _is_question(message)]
    return questions[-1] if questions else 0


def _is_question(message: Message) -> bool:
    kinds = {block["type"] for block in message["content"]}
    return message["role"] == "user" and "tool_result" not in kinds


def _assistant(content: Sequence[Block], dialect: Dialect, back: bool) -> Iterator[dict[str, Any]]:
    text = "".join(block["text"] for block in content if block["type"] == "text")
    calls = [_call(block, dialect) for block in content if block["type"] == "tool_use"]
    if calls and dialect.signatures and EXTRA not in calls[0]:
        calls[0][EXTRA] = _UNSIGNED
    if calls:
        reasoning = _reasoning(content, text, dialect) if back else {}
        yield {"role": "assistant", "content": text or None, "tool_calls": calls, **reasoning}
    elif text:
        yield {"role": "assistant", "content": text}


def _call(block: Block, dialect: Dialect) -> dict[str, Any]:
    call = {
        "id": _id(block["id"], dialect),
        "type": "function",
        "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
    }
    return {**call, EXTRA: block[EXTRA]} if EXTRA in block else call


def _reasoning(content: Sequence[Block], text: str, dialect: Dialect) -> dict[str, Any]:
    """The fields for a message's reasoning, under the name under which it came.

    If reasoning is required, a space replaces that of another model: DeepSeek refuses an empty text
    (NousResearch/hermes-agent, pull request 17341).
    """
    thoughts = [block for block in content if block["type"] == "thinking" and VIA in block]
    thought = "".join(block["thinking"] for block in thoughts)
    via = thoughts[0][VIA] if thoughts else ""
    if via == "parts":
        texts = [{"type": "text", "text": text}] if text else []
        thinking = {"type": "thinking", "thinking": [{"type": "text", "text": thought}]}
        return {"content": [thinking, *texts]}
    if via in ("reasoning", "reasoning_content") and dialect.reasoning != "always":
        return {via: thought}
    if dialect.reasoning == "always":
        return {via if via == "reasoning" else "reasoning_content": thought or " "}
    return {}


def _user(
    content: Sequence[Block], dialect: Dialect, names: Mapping[str, str]
) -> Iterator[dict[str, Any]]:
    """Tool messages can only have text and come before anything else, so images follow them."""
    parts: list[dict[str, Any]] = []
    has_results = False
    for block in content:
        if block["type"] == "tool_result":
            has_results = True
            name = names.get(block["tool_use_id"])
            yield {
                "role": "tool",
                "tool_call_id": _id(block["tool_use_id"], dialect),
                **({"name": name} if name and dialect.tool_names else {}),
                "content": _result_text(block, dialect),
            }
            if dialect.images:
                parts += [_image(part) for part in block["content"] if part["type"] == "image"]
        elif block["type"] == "image":
            text = {"type": "text", "text": "[an image, which this model cannot see]"}
            parts.append(_image(block) if dialect.images else text)
        elif block["type"] == "document":
            parts.append(_file(block) if dialect.documents else _UNREAD)
        elif block["type"] == "text":
            parts.append({"type": "text", "text": block["text"]})
    if parts and has_results and not dialect.user_after_tool:
        yield {"role": "assistant", "content": "Noted."}
    if parts:
        # Some services, and templates of local models, only accept a text.
        are_texts = all(part["type"] == "text" for part in parts)
        joined = "\n\n".join(part["text"] for part in parts) if are_texts else None
        yield {"role": "user", "content": joined or parts}


def _id(call_id: str, dialect: Dialect) -> str:
    """An id for a call that every service accepts, even if the call came from another model; the
    same in each request. Kimi reads the tool's name in its own ids.
    """
    if not dialect.short_ids and len(call_id) <= _LONGEST_ID and _KIMI_ID.fullmatch(call_id):
        return call_id
    return call_id if _SHORT.fullmatch(call_id) else short_id(call_id)


def _result_text(block: Block, dialect: Dialect) -> str:
    image = "(image follows)" if dialect.images else "(an image, which this model cannot see)"
    texts = [part["text"] if part["type"] == "text" else image for part in block["content"]]
    prefix = "Error: " if block.get("is_error") else ""
    return prefix + "\n".join(texts)


def _file(block: Block) -> dict[str, Any]:
    file = {"filename": block["title"], "file_data": data_url(block)}
    return {"type": "file", "file": file}


def _image(block: Block) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(block)}}


# -- replies
