"""The last verification of each notebook, as this server made it or as the notebook records it."""

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
"""Of which the last verification is remembered."""
_KINDS: Mapping[str, Any] = {
    "ok": bool,
    "at": str,
    "kernel": str,
    "packages": dict,
    "hash": str,
    "cells": int | float,
    "same": int | float,
}
"""What is known of a verification, here and in a notebook; see docs/api.md."""


def code_hash(cells: Sequence[Cell]) -> str:
    """SHA-256 of the code of all cells that have code, in their order, hexadecimal."""
    code = [cell.source for cell in cells if cell.type == "code" and cell.source.strip()]
    return hashlib.sha256(json.dumps(code).encode("utf-8", "surrogatepass")).hexdigest()


class Verified:
    """What this server verified; nothing of it outlives the server but what is recorded."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, dict[str, Any]] = OrderedDict()

    def note(self, path: str, facts: Mapping[str, Any]) -> None:
        """A notebook was verified as it is."""
        self._last[path] = {key: facts[key] for key in _KINDS}
        self._last.move_to_end(path)
        if len(self._last) > _NOTEBOOKS:
            self._last.popitem(last=False)

    def forget(self, path: str) -> None:
        """Nobody wants to see it any more."""
        self._last.pop(path, None)

    def rename(self, old: str, new: str) -> None:
        """The notebook has another path."""
        if old in self._last:
            self._last[new] = self._last.pop(old)

    def last(self, path: str) -> Mapping[str, Any] | None:
        """The last verification by this server."""
        return self._last.get(path)

    def of(
        self, path: str, metadata: Mapping[str, Any], cells: Sequence[Cell]
    ) -> dict[str, Any] | None:
        """The last verification by this server, else the one that the notebook records; None if
        neither is. `outdated`: the code is another now. `recorded`: it stands in the notebook.
        `here`: it is not just a claim of whoever wrote the notebook.
        """
        recorded, last = read_record(metadata), self.last(path)
        known = last or recorded
        if known is None:
            return None
        return {
            **known,
            "outdated": known["hash"] != code_hash(cells),
            "recorded": known == recorded,
            "here": last is not None,
        }


def read_record(metadata: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a notebook records of its verification; None for nothing, and for another shape."""
    section = metadata.get(SECTION)
    found = section.get(_KEY) if isinstance(section, Mapping) else None
    if not isinstance(found, Mapping):
        return None
    fits = all(isinstance(found.get(key), kind) for key, kind in _KINDS.items())
    return {key: found[key] for key in _KINDS} if fits else None


def with_record(metadata: Mapping[str, Any], facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """The key of a notebook's metadata in which that is recorded, or no longer is."""
    section = metadata.get(SECTION)
    kept = dict(section) if isinstance(section, Mapping) else {}
    kept.pop(_KEY, None)
    return {SECTION: {**kept, _KEY: dict(facts)} if facts is not None else kept}
