"""Two harnesses under the same script beside each other: as a table, as JSON and as a page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path

from nbeval.report import STYLE
from nbeval.score import Score


@dataclass(frozen=True)
class Side:
    """A harness, and what came of the tasks that are some for it."""

    name: str
    """With its version."""
    definitions: int
    """Tokens of its tools' definitions, a part of each request to the model."""
    scores: Sequence[Score]
    not_offered: Mapping[str, str] = field(default_factory=dict)
    """Task -> what it would take that this harness does not claim to have."""


_COLUMNS: Mapping[str, Callable[[Score], int | bool | float]] = {
    "passed": lambda score: score.passed,
    "runs": lambda score: score.runs,
    "lost": lambda score: score.lost,
    "unwanted": lambda score: len(score.unwanted),
    "calls": lambda score: score.tool_calls,
    "failed": lambda score: score.failed_calls,
    "requests": lambda score: score.model_calls,
    "tokens": lambda score: score.input_tokens,
    "seconds": lambda score: score.seconds,
}
_TIMES = ("seconds",)


def table(sides: Sequence[Side]) -> str:
    """A line a task that all of them played, their figures in the order of `sides`, and without
    times, so that two runs of a script are the same; the sums; what went wrong."""
    names = [name for name in _COLUMNS if name not in _TIMES]
    rows = list(_rows(sides, names))
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    heads = [f"{side.name}: tools of {side.definitions} tokens" for side in sides]
    return "\n".join(["; ".join(heads), "", *lines, "", *_remarks(sides)])


def write(sides: Sequence[Side], about: Mapping[str, str], folder: Path) -> None:
    """`results.json` and `index.html`."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {
        "about": dict(about),
        "sides": [
            {
                **asdict(side),
                "sums": {name: _sum(side, sides, name) for name in _COLUMNS},
            }
            for side in sides
        ],
    }
    (folder / "results.json").write_text(json.dumps(found, indent=1), encoding="utf-8")
    (folder / "index.html").write_text(_page(sides, about), encoding="utf-8")


def _both(sides: Sequence[Side]) -> list[str]:
    """Tasks that all of them played."""
    played = [{score.task for score in side.scores} for side in sides]
    return [score.task for score in sides[0].scores if all(score.task in each for each in played)]


def _rows(sides: Sequence[Side], names: Sequence[str]) -> Iterator[Sequence[str]]:
    yield ("task", *names)
    both = _both(sides)
    scores = [{score.task: score for score in side.scores} for side in sides]
    for task in both:
        yield task, *(_shown([_COLUMNS[name](each[task]) for each in scores]) for name in names)
    yield (
        f"{len(both)} tasks",
        *(_shown([_sum(side, sides, name) for side in sides]) for name in names),
    )


def _sum(side: Side, sides: Sequence[Side], name: str) -> int | float:
    both = set(_both(sides))
    figures = [_COLUMNS[name](score) for score in side.scores if score.task in both]
    return round(sum(figures), 1)


def _shown(figures: Sequence[int | bool | float]) -> str:
    words = {True: "yes", False: "NO"}
    return " / ".join(words[f] if isinstance(f, bool) else str(f) for f in figures)


def _remarks(sides: Sequence[Side]) -> Iterator[str]:
    for side in sides:
        for score in side.scores:
            if not score.passed:
                yield f"{side.name}: {score.task}: {score.why}"
            if score.lost:
                yield f"{side.name}: {score.task}: {score.lost} keystrokes lost"
            if score.unwanted:
                yield f"{side.name}: {score.task}: unwanted: {'; '.join(score.unwanted)}"
        for task, why in side.not_offered.items():
            yield f"{side.name}: {task}: not offered: {why}"


def _page(sides: Sequence[Side], about: Mapping[str, str]) -> str:
    head, *rows = _rows(sides, list(_COLUMNS))
    heads = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td{' class=bad' * ('NO' in c)}>{escape(c)}</td>" for c in row) + "</tr>"
        for row in rows
    )
    tools = ", ".join(f"{side.definitions} of {side.name}" for side in sides)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>nbeval</title>"
        f"<style>{STYLE}</style><h1>{escape(' / '.join(side.name for side in sides))}</h1>"
        f"<p>{escape(', '.join(f'{key}: {value}' for key, value in about.items()))}</p>"
        f"<p>Tokens (4 characters each) are of all requests of a task, with instructions and "
        f"definitions of tools (in each request {escape(tools)}).</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        f"<ul>{''.join(f'<li>{escape(remark)}' for remark in _remarks(sides))}</ul></html>"
    )
