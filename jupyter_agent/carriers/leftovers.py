"""What a server leaves behind for its successor, even if it is killed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Leftovers(Protocol):
    """Entries of one kind, as JSON values. Writing never waits, and never fails: an entry that
    cannot be stored now is stored once that is possible.
    """

    async def claim(self) -> Sequence[Any]:
        """The entries of servers of this root that are gone; each is returned only once. Waits for
        a store that cannot be used now.
        """
        ...

    def put(self, key: str, entry: Any) -> None:
        """Add this entry, or replace the one with this key."""
        ...

    def remove(self, key: str) -> None:
        """Remove the entry with this key, if there is one."""
        ...


class _None:
    async def claim(self) -> Sequence[Any]:
        return ()

    def put(self, key: str, entry: Any) -> None: ...

    def remove(self, key: str) -> None: ...


NONE: Leftovers = _None()
"""Stores nothing."""
