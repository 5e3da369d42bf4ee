"""What installed packages plug into the assistant, by their entry points.

The groups are `jupyter_agent.models`, whose entries are kinds of providers (`models/kinds.py`).
Ours are in `plugs/` and named in `pyproject.toml`; those of other packages are loaded the same way.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Literal, TypeAlias, TypeVar

T = TypeVar("T")
Group: TypeAlias = Literal["models"]
ONLY = "JUPYTER_AGENT_PLUGS"
"""Environment variable with the names of the only plugs to use, separated by commas; empty for
none. If it is not set, all are used."""


class UnusablePlug(Exception):
    """A plug cannot be loaded; the message names it, its package and the cause."""


def find(group: Group) -> Mapping[str, EntryPoint]:
    """The plugs of a group by name, none of them loaded. If two packages use the same name, ours
    wins, else the first package by name.

    The first call in a process takes up to 0.1 s, to read the metadata of all packages.
    """
    only = os.environ.get(ONLY)
    wanted = None if only is None else {name.strip() for name in only.split(",")}
    points = sorted(entry_points(group=f"jupyter_agent.{group}"), key=_rank, reverse=True)
    return {point.name: point for point in points if wanted is None or point.name in wanted}


def load(point: EntryPoint, expected: type[T]) -> T:
    """The object of a plug. Raises UnusablePlug."""
    try:
        plug = point.load()
    except Exception as error:  # whatever its module does when it is imported
        raise UnusablePlug(f"{_title(point)} cannot be loaded: {error!r}") from error
    if not isinstance(plug, expected):
        raise UnusablePlug(f"{_title(point)} is not a {expected.__name__}.")
    return plug


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "?"


def _rank(point: EntryPoint) -> tuple[bool, str]:
    return not point.value.startswith("jupyter_agent."), _package(point)


def _title(point: EntryPoint) -> str:
    return f"The plug `{point.name}` of {_package(point)} ({point.value})"
