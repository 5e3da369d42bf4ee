"""The last verification of each notebook, by this server or recorded in the notebook."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from jupyter_agent.document.cell import Cell

SECTION = "jupyter_agent"
"""Our key in a notebook's metadata."""
_KEY = "verified"
_NOTEBOOKS = 200
"""Notebooks whose last verification is remembered."""
_KINDS: Mapping[str, Any] = {
    "ok": bool,
    "at": str,
    "kernel": str,
    "packages": dict,
    "hash": str,
    "cells": int | float,
    "same": int | float,
}
"""Fields of a verification and their types; see docs/api.md."""


def code_hash(cells: Sequence[Cell]) -> str:
    """Hexadecimal SHA-256 of the sources of all non-empty code cells, in order."""
    code = [cell.source for cell in cells if cell.type == "code" and cell.source.strip()]
    return hashlib.sha256(json.dumps(code).encode("utf-8", "surrogatepass")).hexdigest()


class Verified:
    """The verifications of this server; only those recorded in notebooks outlive it."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def note(self, path: str, facts: Mapping[str, Any]) -> None:
        """Store the verification of a notebook in its current state."""
        self._last[path] = {key: facts[key] for key in _KINDS}
        self._last.move_to_end(path)
        if len(self._last) > _NOTEBOOKS:
            self._last.popitem(last=False)

    def forget(self, path: str) -> None:
        """Forget the verification, which the user has dismissed."""
        self._last.pop(path, None)

    def rename(self, old: str, new: str) -> None:
        """Follow a rename of the notebook."""
        if old in self._last:
            self._last[new] = self._last.pop(old)

    def last(self, path: str) -> Mapping[str, Any] | None:
        """The last verification by this server."""
        return self._last.get(path)

    def of(
        self, path: str, metadata: Mapping[str, Any], cells: Sequence[Cell]
    ) -> dict[str, Any] | None:
        """The last verification by this server, else the one recorded in the notebook, or None.

        `outdated`: the code has changed since. `recorded`: it is in the notebook. `here`: it is
        from this server, not just a claim of the notebook's author.
        """
        recorded, last = read_record(metadata), self.last(path)
        chosen = last or recorded
        if chosen is None:
            return None
        return {
            **chosen,
            "outdated": chosen["hash"] != code_hash(cells),
            "recorded": chosen == recorded,
            "here": last is not None,
        }


def read_record(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """The verification recorded in a notebook's metadata; None without a valid one."""
    section = metadata.get(SECTION)
    found = section.get(_KEY) if isinstance(section, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    fits = all(isinstance(found.get(key), kind) for key, kind in _KINDS.items())
    return {key: found[key] for key in _KINDS} if fits else None


def with_record(metadata: Mapping[str, Any], facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """Our section of a notebook's metadata with these facts recorded, or without a record."""
    section = metadata.get(SECTION)
    others = dict(section) if isinstance(section, Mapping) else {}
    others.pop(_KEY, None)
    return {SECTION: {**others, _KEY: dict(facts)} if facts is not None else others}
