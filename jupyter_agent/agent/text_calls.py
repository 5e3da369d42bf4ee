"""Detects calls of tools that a model wrote as text, because its service does not translate them.

The marks are those of the chat templates of Hermes and Qwen, Mistral, Llama, Kimi, Granite and
DeepSeek.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_MARK = re.compile(
    r"<(?:tool_call|function_call|function=)|\[TOOL_CALLS\]|<\|python_tag\|>"
    r"|<\|tool_call[^|]*\|>|<｜tool▁calls?▁begin｜>"
)
_NEAR = 200
"""Characters after a mark in which the name of the tool is."""


def has_text_call(text: str, tools: Iterable[str]) -> bool:
    """Whether a text has such a mark with the name of one of the tools after it."""
    after = [text[mark.end() : mark.end() + _NEAR] for mark in _MARK.finditer(text)]
    return any(re.search(rf"\b{re.escape(tool)}\b", part) for tool in tools for part in after)
