"""The person who makes a request, and how the administrator's configuration names people."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who makes a request; need not be the owner of the server."""

    name: str
    """Owner of everything that the request creates."""
    groups: frozenset[str] = frozenset()
    """JupyterHub groups at the time of the request."""

    def is_among(self, user: str, group: str) -> bool:
        """Whether both shell patterns match, for the name and for a group; `*` matches everyone,
        including people without a group.
        """
        in_group = group == "*" or any(fnmatchcase(each, group) for each in self.groups)
        return in_group and fnmatchcase(self.name, user)
