"""Why a package is installed."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache
from importlib.metadata import distributions

_NAME = re.compile(r"[A-Za-z0-9._-]+")


@cache
def brought_by(name: str) -> tuple[str, ...]:
    """The installed packages for whose sake this one is there: those that require it, themselves
    or through others, and that no installed package requires; in order.

    It reads the metadata of all packages, so it is done once; an installation needs a restart of
    the server in any case.
    """
    requirers: defaultdict[str, set[str]] = defaultdict(set)
    for distribution in distributions():
        for requirement in distribution.requires or ():
            found = _NAME.match(requirement)
            if found and "extra ==" not in requirement:
                requirers[_normalised(found[0])].add(_normalised(distribution.name))
    above, left = set[str](), [_normalised(name)]
    while left:
        new = requirers[left.pop()] - above
        above |= new
        left += new
    return tuple(sorted(package for package in above if not requirers[package]))


def _normalised(name: str) -> str:
    """As registries compare names (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
