"""Plots for the page, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from nbeval.stats import Share

STYLE = """
svg { display: block; margin: 1rem 0; font-size: 12px } .bar, .dot { fill: #4477aa }
.reach, .axis { stroke: #4477aa } .axis { stroke: #ccc }
"""
_LINE = 20
_LEFT = 260
_WIDTH = 500


def shares(found: Mapping[str, Share]) -> str:
    """A line each: a dot where the share is, from 0 to 100 %, and how far the interval reaches."""
    height = _LINE * (len(found) + 1)
    ticks = "".join(_tick(percent, height) for percent in range(0, 101, 25))
    lines = "".join(_share(name, share, _LINE * n) for n, (name, share) in enumerate(found.items()))
    return _svg(height, ticks + lines)


def bars(rows: Sequence[tuple[str, float]]) -> str:
    """A line each, as long as the number beside it."""
    most = max((value for _, value in rows), default=0) or 1
    lines = (_bar(name, value, most, _LINE * n) for n, (name, value) in enumerate(rows))
    return _svg(_LINE * len(rows), "".join(lines))


def _svg(height: int, content: str) -> str:
    return f"<svg width={_LEFT + _WIDTH + 240} height={height} role=img>{content}</svg>"


def _tick(percent: int, height: int) -> str:
    x = _x(percent / 100)
    return (
        f"<line class=axis x1={x} x2={x} y1=0 y2={height - _LINE} />"
        f'<text x={x} y={height - 5} text-anchor="middle">{percent} %</text>'
    )


def _share(name: str, share: Share, top: int) -> str:
    middle = top + _LINE // 2
    return (
        f"<text x=0 y={top + 14}>{escape(name)}</text>"
        f"<line class=reach x1={_x(share.low)} x2={_x(share.high)} y1={middle} y2={middle} />"
        f"<circle class=dot cx={_x(share.share)} cy={middle} r=4 />"
        f"<text x={_x(1) + 25} y={top + 14}>{share}, {share.of} tasks</text>"
    )


def _bar(name: str, value: float, most: float, top: int) -> str:
    length = round(_WIDTH * value / most)
    return (
        f"<text x=0 y={top + 14}>{escape(name)}</text>"
        f"<rect class=bar x={_LEFT} y={top + 3} height=14 width={length} />"
        f"<text x={_LEFT + length + 5} y={top + 14}>{value:.10g}</text>"
    )


def _x(share: float) -> int:
    return round(_LEFT + _WIDTH * share)
