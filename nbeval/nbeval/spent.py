"""How long a turn waited for the model and for the kernel, as the product tells it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import takewhile
from typing import Any

from nbeval.servers import Lab


def model_seconds(turn: Mapping[str, Any], requests: Sequence[Mapping[str, Any]]) -> float:
    """From each request to the first call of its reply; where that calls nothing, to the next
    request or to the end."""
    began = [_time(request["made"]) for request in requests]
    ends = [_time(each) for each in (*_calls(turn), turn["ended"]) if each]
    marks = sorted([*began, *ends])
    return sum(next((m - at for m in marks if m > at), 0.0) for at in began)


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
