"""Scores as a table, as JSON and as a page; and two runs beside each other."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from html import escape
from pathlib import Path
from statistics import fmean
from typing import Any

from nbeval import plots, stats
from nbeval.score import Score

_TIMES = ("seconds", "tool_seconds", "model_seconds", "kernel_seconds")
_COLUMNS = (
    "task",
    "passed",
    "runs",
    "lost",
    "unwanted",
    "unborne",
    "model_calls",
    "tool_calls",
    "failed_calls",
    "questions",
    "input_tokens",
)
_ON_THE_PAGE = (
    *_COLUMNS,
    "cached_tokens",
    "output_tokens",
    "cost",
    "seconds",
    "model_seconds",
    "kernel_seconds",
    "own_seconds",
    "why",
)
STYLE = f"""
body {{ font: 14px system-ui, sans-serif; margin: 2rem; color: #222; background: #fff }}
table {{ border-collapse: collapse }} td, th {{ padding: .2rem .7rem; text-align: left }}
tr:nth-child(even) {{ background: #f4f4f4 }} .bad {{ color: #b00020; font-weight: 600 }}
{plots.STYLE}"""


def table(scores: Sequence[Score]) -> str:
    """A line a task without times, so that two runs of a script are the same; then the sums."""
    tasks = stats.by_task(scores).values()
    rows = [_COLUMNS, *(tuple(_text(those, name) for name in _COLUMNS) for those in tasks)]
    widths = [max(len(row[n]) for row in rows) for n in range(len(_COLUMNS))]
    lines = [
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "\n".join([*lines, "", summary(scores)])


def summary(scores: Sequence[Score]) -> str:
    """One line; the intervals are those of 95 %."""
    return ", ".join(
        [
            _passed(scores),
            f"{sum(score.lost for score in scores)} keystrokes lost",
            f"{sum(len(score.unwanted) for score in scores)} unwanted changes",
            f"{sum(score.tool_calls for score in scores)} tool calls",
            f"{sum(score.input_tokens for score in scores)} input tokens",
        ]
    )


def write(scores: Sequence[Score], about: Mapping[str, Any], folder: Path) -> None:
    """`results.json` and `index.html`; each is there as a whole or as it was."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {
        "about": dict(about),
        "summary": _sums(scores),
        "scores": [asdict(score) for score in scores],
    }
    _replace(folder / "results.json", json.dumps(found, indent=1))
    _replace(folder / "index.html", _page(scores, about))


def read(file: Path) -> tuple[dict[str, Any], list[Score]]:
    """What was played, and the scores. Raises OSError, ValueError, LookupError, TypeError for what
    is no result of ours."""
    found = json.loads(file.read_text(encoding="utf-8"))
    return found["about"], [Score(**score) for score in found["scores"]]


def differences(first: Sequence[Score], second: Sequence[Score]) -> list[str]:
    """What is not the same in both, but times; of tasks that were played several times, sums and
    means. Last how many tasks passed more often, and less."""
    ones, others = stats.by_task(first), stats.by_task(second)
    lines = [f"{name}: only in one" for name in sorted(ones.keys() ^ others.keys())]
    both = sorted(ones.keys() & others.keys())
    for name in both:
        one, other = ones[name], others[name]
        lines += [
            f"{name}: {key} {_text(one, key)} -> {_text(other, key)}"
            for key in asdict(one[0])
            if key not in (*_TIMES, "seed") and _value(one, key) != _value(other, key)
        ]
    changes = [_mean(others[name], "passed") - _mean(ones[name], "passed") for name in both]
    better, worse = sum(c > 0 for c in changes), sum(c < 0 for c in changes)
    if better or worse:
        lines.append(
            f"all: {_passed(first)} -> {_passed(second)}; {better} tasks better, {worse} worse "
            f"(sign test: p = {stats.sign_test(better, worse):.3f})"
        )
    return lines


def _passed(scores: Sequence[Score]) -> str:
    times, tasks = stats.seeds(scores), len(stats.by_task(scores))
    if times == 1:
        share = stats.passed(scores)
        return (
            f"{sum(score.passed for score in scores)} of {tasks} passed "
            f"({share.low:.1%} to {share.high:.1%})"
        )
    each_time = stats.passed_each_time(scores)
    return f"{tasks} tasks: pass^1 {stats.passed(scores)}, pass^{times} {each_time}"


def _sums(scores: Sequence[Score]) -> dict[str, Any]:
    return {
        "tasks": len(stats.by_task(scores)),
        "seeds": stats.seeds(scores),
        "pass^1": asdict(stats.passed(scores)),
        f"pass^{stats.seeds(scores)}": asdict(stats.passed_each_time(scores)),
        "by_category": {name: asdict(of) for name, of in stats.by_category(scores).items()},
        "cost": _sum(scores, "cost"),
        "seconds": _sum(scores, "seconds"),
        "model_seconds": _sum(scores, "model_seconds"),
        "kernel_seconds": _sum(scores, "kernel_seconds"),
        "own_seconds": _sum(scores, "own_seconds"),
    }


def _sum(scores: Sequence[Score], name: str) -> float | None:
    known = [value for score in scores if (value := getattr(score, name)) is not None]
    return round(sum(known), 6) if known else None


def _mean(scores: Sequence[Score], name: str) -> float:
    return fmean(getattr(score, name) or 0 for score in scores)


def _value(scores: Sequence[Score], name: str) -> object:
    """What several attempts at a task come to, to be compared."""
    match getattr(scores[0], name):
        case str() | list() | tuple() | None:
            return _text(scores, name)
        case _:
            return round(_mean(scores, name), 9)


def _text(scores: Sequence[Score], name: str) -> str:
    """What several attempts at a task come to, to be read."""
    values = [getattr(score, name) for score in scores]
    if len(values) == 1:
        return _shown(values[0])
    if all(isinstance(value, bool) for value in values):
        return f"{sum(values)}/{len(values)}"
    if isinstance(values[0], str):
        return "; ".join(sorted({value for value in values if value}))
    if isinstance(values[0], (list, tuple)):
        return _shown(sorted({each for value in values for each in value}))
    if name == "lost":
        return str(sum(values))
    known = [value for value in values if value is not None]
    return f"{fmean(known):.10g}" if known else "-"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, (list, tuple)):
        return "; ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)


def _replace(file: Path, text: str) -> None:
    written = file.with_name(f".{file.name}.new")
    written.write_text(text, encoding="utf-8")
    os.replace(written, file)


def _page(scores: Sequence[Score], about: Mapping[str, Any]) -> str:
    tasks = stats.by_task(scores)
    heads = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in _ON_THE_PAGE)
    rows = "".join(
        "<tr>" + "".join(_td(those, name) for name in _ON_THE_PAGE) + "</tr>"
        for those in tasks.values()
    )
    told = ", ".join(f"{key}: {value}" for key, value in about.items() if value)
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>nbeval</title>"
        f"<style>{STYLE}</style><h1>nbeval</h1>"
        f"<p>{escape(told)}</p><p>{escape(summary(scores))}</p><p>{escape(_times(scores))}</p>"
        f"<h2>Passed, by category, with 95 % intervals</h2>"
        f"{plots.shares({'all': stats.passed(scores), **stats.by_category(scores)})}"
        f"<h2>Input tokens of a task, cached ones too</h2>"
        f"{_bars(tasks, lambda score: score.input_tokens + score.cached_tokens)}"
        f"<h2>Calls of tools of a task</h2>{_bars(tasks, lambda score: score.tool_calls)}"
        f"<h2>Tasks</h2><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></html>"
    )


def _times(scores: Sequence[Score]) -> str:
    total, model, kernel, own = (
        _sum(scores, name) for name in ("seconds", "model_seconds", "kernel_seconds", "own_seconds")
    )
    if own is None:
        return f"{total or 0:.0f} seconds"
    return (
        f"{total:.0f} seconds: {model:.0f} the model, {kernel:.0f} the kernel, {own:.0f} the rest"
    )


def _bars(tasks: Mapping[str, Sequence[Score]], of: Callable[[Score], float]) -> str:
    return plots.bars([(name, fmean(map(of, those))) for name, those in tasks.items()])


def _td(scores: Sequence[Score], name: str) -> str:
    values = [getattr(score, name) for score in scores]
    harm = name in ("lost", "unwanted", "unborne", "why") and any(values)
    bad = harm or any(value is False for value in values)
    return f"<td{' class=bad' if bad else ''}>{escape(_text(scores, name))}</td>"
