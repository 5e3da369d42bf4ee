"""What a task took: tokens, and how long its turns waited for the model and the kernel."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from io import BytesIO
from itertools import takewhile
from typing import Any

from PIL import Image

from nbeval.servers import Lab

_VOLATILE = re.compile(r"\b\d+\.\d s\b|\b(?:idle|busy|starting)\b|\btoolu_\d+\b")
"""How long things took, what the kernel did at that moment, and ids of calls, which count on from
task to task: not the same in each run."""


def request_tokens(request: Mapping[str, Any]) -> int:
    """Of all that a model reads: instructions, tools and messages."""
    parts = ("system", "tools", "messages")
    return tokens_of({name: request[name] for name in parts if name in request})


def tokens_of(value: Any) -> int:
    """A token for 4 characters, and for 750 pixels of a picture
    (https://platform.claude.com/docs/en/build-with-claude/vision)."""
    return len(_VOLATILE.sub("", _written(value))) // 4


def _written(value: Any) -> str:
    """As JSON but for what no model reads: escapes in texts, marks for a cache, and the bytes of
    pictures, in whose place are as many characters as they count."""
    if isinstance(value, Mapping):
        if value.get("type") in ("image", "image_url"):
            return " " * 4 * _picture_tokens(value)
        read = ((key, each) for key, each in value.items() if key != "cache_control")
        return "{" + ", ".join(f'"{key}": {_written(each)}' for key, each in read) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return f'"{value}"' if isinstance(value, str) else json.dumps(value)


def model_seconds(turn: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> float:
    """From each request to the first call of its reply; where that calls nothing, to the next
    request or to the end."""
    began = [_time(request["made"]) for request in requests]
    ends = [_time(each) for each in (*_calls(turn), turn["ended"]) if each]
    marks = sorted([*began, *ends])
    return sum(next((m - at for m in marks if m > at), 0.0) for at in began)


def _picture_tokens(block: Mapping[str, Any]) -> int:
    """Of a picture as Anthropic's API or a chat completions API has it."""
    data = block["source"]["data"] if "source" in block else block["image_url"]["url"]
    width, height = Image.open(BytesIO(b64decode(data.rpartition(",")[2]))).size
    return width * height // 750


def runs_since(lab: Lab, newest: str | None) -> list[dict[str, Any]]:
    """The runs after the one with that id, newest first."""
    return list(takewhile(lambda run: run["run_id"] != newest, _runs(lab)))


def newest_run(lab: Lab) -> str | None:
    """Its id; None where nothing ran yet."""
    return next((run["run_id"] for run in _runs(lab)), None)


def _runs(lab: Lab) -> Iterator[dict[str, Any]]:
    page: int | None = 1
    while page is not None:
        told = lab.ask("GET", f"api/agent/runs?page={page}")
        yield from told["runs"]
        page = told["next_page"]


def _calls(turn: Mapping[str, Any]) -> Iterator[str]:
    return (call["started"] for call in turn["calls"])


def _time(written: str) -> float:
    return datetime.fromisoformat(written).timestamp()
