"""The notebook as text for a model, within a budget."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jupyter_agent.notebook.cell import Cell, Output


@dataclass(frozen=True, kw_only=True)
class Rendered:
    """Text for a model, and the cells whose whole source is in it."""

    text: str
    full: frozenset[str]


def render(
    cells: Sequence[Cell],
    *,
    stale: Collection[str] = (),
    focus: str | None = None,
    budget: int = 48_000,
    outline: bool = False,
) -> Rendered:
    """A line per cell, and full cells outward from the focus within `budget` characters."""
    return Rendered(text="", full=frozenset())


def render_cells(cells: Sequence[Cell], *, output_from: int = 0, output_chars: int = 12_000) -> str:
    """These cells in full; `output_from` pages through the output text of each."""
    return ""


def output_text(outputs: Sequence[Output], *, limit: int = 12_000, start: int = 0) -> str:
    """What outputs show, as text of at most about `limit` characters, from `start` on."""
    return ""


def images(outputs: Sequence[Output]) -> list[tuple[str, str]]:
    """(media type, base64) of the pictures that models can look at: PNG and JPEG."""
    return []


def search(cells: Sequence[Cell], query: str, regex: bool) -> str:
    """Lines of sources and outputs that contain the query, each with its cell."""
    return ""
