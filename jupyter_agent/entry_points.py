"""What installed packages plug into the assistant, by their entry points.

The groups are `jupyter_agent.models` (kinds of providers), `.carriers` (documents that pages
share), `.tools`, `.sources` (of tools that change), `.routes` (handlers below a notebook's path)
and `.commands`; see docs/plugs.md. Ours are in `plugs/` and named in `pyproject.toml`; those of
other packages are loaded the same way.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import Any, Literal, TypeAlias, TypeVar, get_args

log = logging.getLogger(__name__)

T = TypeVar("T")
Group: TypeAlias = Literal["carriers", "commands", "models", "routes", "sources", "tools"]
GROUPS: Sequence[Group] = get_args(Group)
_OURS = "jupyter-live-agent"
ONLY = "JUPYTER_AGENT_PLUGS"
"""Environment variable with the names of the only plugs to use, separated by commas; empty for
none. If it is not set, all are used."""


class UnusablePlug(Exception):
    """A plug cannot be used; the message names it, its package and the cause."""

    def __init__(self, point: EntryPoint, cause: str) -> None:
        super().__init__(f"The plug `{point.name}` of {_package(point)} ({point.value}) {cause}.")


def find(group: Group) -> Mapping[str, EntryPoint]:
    """The plugs of a group by name, ours first, none of them loaded. If two packages use the same
    name, ours wins, else the first package by name.

    The first call in a process takes up to 0.1 s, to read the metadata of all packages.
    """
    plugs: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=f"jupyter_agent.{group}"), key=_rank):
        if not is_left_out(point.name):
            plugs.setdefault(point.name, point)
    return plugs


def find_one(group: Group, name: str) -> EntryPoint | None:
    """The plug of that name, None without one. Quick if it is ours: other packages are read only if
    it is not.
    """
    if is_left_out(name):
        return None
    with suppress(PackageNotFoundError):
        ours = distribution(_OURS).entry_points.select(group=f"jupyter_agent.{group}", name=name)
        if ours:
            return next(iter(ours))
    return find(group).get(name)


def is_left_out(name: str) -> bool:
    """Whether the environment leaves out plugs of that name."""
    only = os.environ.get(ONLY)
    return only is not None and name not in (each.strip() for each in only.split(","))


def load(point: EntryPoint, expected: type[T]) -> T:
    """The object of a plug. Raises UnusablePlug."""
    try:
        plug = point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever its module does when it is imported
        raise UnusablePlug(point, f"cannot be loaded: {describe(error)}") from error
    if not isinstance(plug, expected):
        raise UnusablePlug(point, f"is not a {expected.__name__}")
    return plug


def load_class(point: EntryPoint, base: type[T]) -> type[T]:
    """The class of a plug. Raises UnusablePlug."""
    plug = load(point, type)
    if not issubclass(plug, base):
        raise UnusablePlug(point, f"is not a {base.__name__}")
    return plug


def make(point: EntryPoint, base: type[T], *given: Any, refuses: type[Exception]) -> T:
    """An object of a plug's class, made from `given`. Raises UnusablePlug, or `refuses`, with which
    the class says that it is not to be used here.
    """
    plug = load_class(point, base)
    try:
        return plug(*given)
    except refuses:
        raise
    except Exception as error:  # it is code of a plug
        raise UnusablePlug(point, f"cannot be used: {describe(error)}") from error


def usable(points: Mapping[str, EntryPoint], use: Callable[[EntryPoint], T]) -> dict[str, T]:
    """What `use` makes of each plug, by name. The log names those for which it raises
    UnusablePlug.
    """
    plugs = {}
    for name, point in points.items():
        try:
            plugs[name] = use(point)
        except UnusablePlug as error:
            log.warning("jupyter_agent: %s", error)
    return plugs


def describe(error: BaseException) -> str:
    """Type and message of an exception, whatever its class."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001  it is code of a plug
        return type(error).__name__


def of_other_packages() -> Iterator[tuple[str, str | None]]:
    """The plugs that are not ours: `name (package)`, and the cause if it cannot be loaded."""
    for group in GROUPS:
        for point in find(group).values():
            if not _is_ours(point):
                cause = None
                try:
                    load(point, object)
                except UnusablePlug as error:
                    cause = str(error)
                yield f"{point.name} ({_package(point)}, {group})", cause


def _is_ours(point: EntryPoint) -> bool:
    return _package(point) == _OURS


def _package(point: EntryPoint) -> str:
    return (point.dist.name if point.dist is not None else None) or "?"


def _rank(point: EntryPoint) -> tuple[bool, str, str]:
    return not _is_ours(point), _package(point), point.name
