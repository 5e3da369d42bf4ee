"""Who asks, and how the administrator's configuration names them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, kw_only=True)
class Person:
    """Who makes a request, which need not be the owner of the server."""

    name: str
    """Owner of what the request makes."""
    groups: frozenset[str] = frozenset()
    """Groups of JupyterHub, as they were when the request was made."""

    def is_among(self, user: str, group: str) -> bool:
        """Whether shell patterns of a name and of a group are both about them; `*` is everybody,
        also people without a group.
        """
        in_group = group == "*" or any(fnmatchcase(each, group) for each in self.groups)
        return in_group and fnmatchcase(self.name, user)
