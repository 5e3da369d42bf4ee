"""A notebook on disk with a real kernel, and waiting for what its runs put out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.kernels import Kernels
from jupyter_agent.workspace.runs import Run, Runs


@dataclass
class Room:
    """A notebook on disk, its kernel, and the runs of the server."""

    notebook: Notebook
    kernel: Kernel
    runs: Runs
    file: Path
    kernels: Kernels
    notebooks: Notebooks

    async def run(self, source: str, **options: Any) -> Run:
        """A new cell, started."""
        edit = await self.notebook.insert(source=source)
        assert edit.cell is not None
        return self.runs.start(self.notebook, self.kernel, edit.cell, owner="ada", **options)

    @property
    def waits(self) -> str:
        """Code that goes on at `go`; a process that dies at once takes along what it shows."""
        return (
            f"import os, time\nwhile not os.path.exists({str(self._gate)!r}):\n    time.sleep(0.01)"
        )

    def go(self) -> None:
        self._gate.touch()

    @property
    def _gate(self) -> Path:
        return self.file.with_name("gate")

    def on_disk(self, cell_id: str) -> Any:
        cells = json.loads(self.file.read_text())["cells"]
        return next(cell for cell in cells if cell["id"] == cell_id)


async def printed(run: Run, text: str) -> None:
    """Wait until the run has put out that text."""
    async for _ in run.news(60):
        if any(text in output.get("text", "") for output in run.outputs()):
            return
