"""The table as Markdown, and as a page with plots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from tests.bench.figures import Curve, Figure, Summary, exponent

STYLE = """
body { font: 14px system-ui, sans-serif; margin: 2rem; color: #222; background: #fff }
table { border-collapse: collapse } td, th { padding: .2rem .7rem; text-align: left }
td:not(:last-child) { white-space: nowrap }
tr:nth-child(even) { background: #f4f4f4 } .missed { color: #b00020; font-weight: 600 }
figure { display: inline-block; margin: 1rem 2rem 1rem 0 } svg { font-size: 12px }
polyline { fill: none; stroke-width: 2 } .grid { stroke: #ddd }
"""
COLOURS = ("#0b6bcb", "#c2571a", "#3f8f3f", "#7a4fb0")
WIDTH, HEIGHT, LEFT, BOTTOM, LABEL = 420, 260, 60, 40, 55
HEADS = ("", "what", "result", "spread", "goal", "", "ours", "beside")


def markdown(table: Mapping[str, Sequence[Summary]]) -> str:
    """A line for each figure."""
    rows = [HEADS, tuple("---" for _ in HEADS), *_rows(table)]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def page(
    about: Mapping[str, object], table: Mapping[str, Sequence[Summary]], curves: Sequence[Curve]
) -> str:
    facts = ", ".join(f"{name}: {value}" for name, value in about.items())
    heads = "".join(f"<th>{name}</th>" for name in HEADS)
    rows = "".join(
        "<tr>" + "".join(f"<td{_class(cell)}>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in _rows(table)
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Performance</title>"
        f"<style>{STYLE}</style><h1>Performance</h1><p>{escape(facts)}</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
        "<h2>Growth</h2><p>Both axes are logarithmic. The exponent is the slope over the larger "
        "half of the sizes: 1 is linear.</p>" + "".join(map(_plot, curves)) + "</html>\n"
    )


def _rows(table: Mapping[str, Sequence[Summary]]) -> Iterator[tuple[str, ...]]:
    for name, summaries in table.items():
        for one in summaries:
            figure = one.rounds[0]
            low, high = (_result(figure, result) for result in one.spread)
            verdict = {True: "met", False: "missed", None: ""}[one.is_met]
            if one.peers_ahead:
                verdict = ", ".join([*filter(None, [verdict]), f"behind {one.peers_ahead[0]}"])
            beside = [*one.floors.items(), *one.peers.items()]
            yield (
                name,
                one.what,
                _result(figure, one.result),
                f"{low} to {high}" if len(one.rounds) > 1 else "",
                _goal(figure),
                verdict,
                f"{_number(one.value)} {figure.unit}".strip(),
                ", ".join(f"{other} {_number(value)}" for other, value in beside),
            )


def _result(figure: Figure, value: float) -> str:
    match figure.judged:
        case "ratio" | "peer":
            return f"{_number(value)} x"
        case "added":
            return f"{'+' if value >= 0 else ''}{_number(value)} {figure.unit}".strip()
        case "value":
            return f"{_number(value)} {figure.unit}".strip()


def _goal(figure: Figure) -> str:
    if figure.goal is None:
        return ""
    return f"{'≥' if figure.at_least else '≤'} {_result(figure, figure.goal)}"


def _number(value: float) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def _class(cell: str) -> str:
    return " class=missed" if "missed" in cell or "behind" in cell else ""


def _plot(curve: Curve) -> str:
    sizes = sorted({size for line in curve.lines.values() for size in line})
    values = [value for line in curve.lines.values() for value in line.values()]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    across = math.log10(sizes[-1] / sizes[0])

    def x(size: float) -> float:
        return LEFT + WIDTH * math.log10(size / sizes[0]) / across

    def y(value: float) -> float:
        return HEIGHT * (1 - (math.log10(value) - low) / (high - low)) + 10

    grid = "".join(
        f"<line class=grid x1={LEFT} x2={LEFT + WIDTH} y1={y(10**n)} y2={y(10**n)} />"
        f'<text x={LEFT - 5} y={y(10**n) + 4} text-anchor="end">{10.0**n:,g}</text>'
        for n in range(low, high + 1)
    ) + "".join(
        f'<text x={x(size)} y={HEIGHT + 25} text-anchor="middle">{size:,}</text>'
        for size, following in zip(sizes, [*sizes[1:], math.inf], strict=True)
        if x(following) - x(size) > LABEL
    )
    lines = "".join(
        f'<polyline stroke="{colour}" points="'
        + " ".join(f"{x(size):.1f},{y(value):.1f}" for size, value in sorted(line.items()))
        + '" />'
        for colour, line in zip(COLOURS, curve.lines.values(), strict=False)
    )
    legend = "; ".join(
        f'<span style="color: {colour}">{escape(name)}</span>: exponent {exponent(line):.2f}'
        for colour, (name, line) in zip(COLOURS, curve.lines.items(), strict=False)
    )
    return (
        f"<figure><figcaption><b>{escape(curve.what)}</b>, {curve.unit} by {curve.size}<br>"
        f"{legend}</figcaption><svg width={LEFT + WIDTH + 30} height={HEIGHT + BOTTOM} role=img>"
        f"{grid}{lines}</svg></figure>"
    )
