"""The pages with unsaved work, on disk: those that a server leaves behind, killed or not, the next
one waits for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from jupyter_agent.carriers.leftovers import Leftovers

Page: TypeAlias = tuple[str, str]
"""The id of a page load, and the path of its notebook."""


class KnownTabs:
    """The pages with unsaved work that this server and earlier ones knew."""

    def __init__(self, leftovers: Leftovers) -> None:
        self._leftovers = leftovers
        self._kept: list[Page] = []

    def left(self) -> list[Page]:
        """Those of servers of this root that are gone; returned once."""
        return self._leftovers.take("pages", _read)

    def keep(self, pages: Iterable[Page]) -> None:
        """These have unsaved work now."""
        now = sorted(pages)
        if now != self._kept:
            self._kept = now
            self._leftovers.replace("pages", now)


def _read(value: Any) -> Page:
    client, path = value
    return str(client), str(path)
