"""Results in the format of MCP: content blocks and structured content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_agent.conversations.clients import Outcome
from jupyter_agent.errors import ToolError
from jupyter_agent.legible import clip

MOST_CHARACTERS = 50_000
"""Of the text of one result; clients cut off the end of longer ones."""
_CUT = "\n[... {left} characters cut ...]\n"
_TOLD_IN_TEXT = {"outputs", "text"}
"""Facts that are already in the text, within its limits."""


def of_outcome(outcome: Outcome) -> dict[str, Any]:
    """The result of a successful call.

    Clients show their model the structured content instead of the blocks if there is any. So it has
    the text, too, and results with pictures have no structured content.
    """
    text = _clip(outcome.text)
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
    blocks += [
        {"type": "image", "data": data, "mimeType": media_type}
        for media_type, data in outcome.images
    ]
    blocks += [{"type": "text", "text": news} for news in outcome.news]
    result: dict[str, Any] = {"content": blocks, "isError": False}
    if not outcome.images:
        news = {"news": list(outcome.news)} if outcome.news else {}
        facts = _lean(outcome.facts)
        result["structuredContent"] = {"text": text, **facts, "turn_id": outcome.turn_id, **news}
    return result


def of_text(text: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a tool for the turn itself."""
    return {
        "content": [{"type": "text", "text": text}],
        "isError": False,
        "structuredContent": {"text": text, **facts},
    }


def of_error(error: ToolError) -> dict[str, Any]:
    """The result of a failed call: its text says what to do instead."""
    text = _clip(error.message)
    facts = _lean(error.facts)
    return {
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "structuredContent": {"text": text, "reason": error.reason, **facts},
    }


def _clip(text: str) -> str:
    return clip(text if text.strip() else "(no output)", MOST_CHARACTERS, _CUT, head=0.6)


def _lean(value: Any) -> Any:
    """The same JSON without outputs."""
    if isinstance(value, Mapping):
        return {key: _lean(item) for key, item in value.items() if key not in _TOLD_IN_TEXT}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_lean(item) for item in value]
    return value
