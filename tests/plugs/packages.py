"""Packages with the examples of docs/plugs.md, installed for one test."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Protocol

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "plugs.md"
ECHO, COUNT_WORDS, SENSORS, WORDS, SHOUT = re.findall(
    r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S
)
"""The examples of a kind, a tool, a source of tools, a route and a command."""


class Install(Protocol):
    """Puts a package with this module and these entry points of a group on the path."""

    def __call__(self, package: str, module: str, group: str, **entries: str) -> None: ...


def installer(folder_of_all: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Removed again with the monkeypatch."""

    def put(package: str, module: str, group: str, **entries: str) -> None:
        folder = folder_of_all / package
        metadata = folder / f"{package}-1.0.dist-info"
        metadata.mkdir(parents=True)
        about = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        (metadata / "METADATA").write_text(about)
        points = "".join(f"{name} = {package}:{value}\n" for name, value in entries.items())
        (metadata / "entry_points.txt").write_text(f"[jupyter_agent.{group}]\n{points}")
        (folder / f"{package}.py").write_text(module)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, package, raising=False)  # of an earlier test

    return put
