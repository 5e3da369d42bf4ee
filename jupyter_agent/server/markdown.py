"""A conversation as Markdown that a person can read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any


def markdown(title: str, messages: Iterable[Mapping[str, Any]]) -> str:
    """The questions and answers under a heading each; calls with input and result, folded."""
    pieces = [f"# {title}"]
    for message in messages:
        pieces.append("## You" if message["role"] == "user" else "## Assistant")
        pieces += [text for text in map(_part, message["parts"]) if text]
    return "\n\n".join(pieces) + "\n"


def _part(part: Mapping[str, Any]) -> str:
    match part["type"]:
        case "text":
            return str(part["text"])
        case "file":
            return f"*({part['mediaType']} attached)*"
        case "dynamic-tool":
            given = json.dumps(part.get("input"), indent=2)
            output = part.get("output") or {}
            said = output.get("text") or part.get("errorText") or part["state"]
            return _folded(part["toolName"], f"{_fenced(given)}\n\n{_fenced(str(said))}")
        case "data-notice":
            return f"*{part['data']['text']}*"
        case _:
            return ""


def _folded(head: str, body: str) -> str:
    return f"<details><summary>{head}</summary>\n\n{body}\n\n</details>"


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
