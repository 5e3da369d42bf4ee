"""A notebook on disk with a real kernel, and waiting for outputs of its runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.document.notebook import Notebook
from jupyter_agent.document.steps import Insert
from jupyter_agent.kernel.kernel import Kernel
from jupyter_agent.kernel.kernels import Kernels
from jupyter_agent.workspace.run import Run, RunOrigin
from jupyter_agent.workspace.runs import Runs
from tests.gates import Gate
from tests.notebook.editing import make_edit


@dataclass
class Room:
    """A notebook on disk, its kernel, the server's runs, and a gate for which code can wait."""

    notebook: Notebook
    kernel: Kernel
    runs: Runs
    file: Path
    kernels: Kernels
    notebooks: Notebooks
    gate: Gate

    async def run(self, source: str, turn_id: str | None = None, **options: Any) -> Run:
        """Insert a cell and start it."""
        edit = await make_edit(self.notebook, Insert(source=source))
        assert edit.cell is not None
        origin = RunOrigin("ada", turn_id)
        return self.runs.start(self.notebook, self.kernel, edit.cell, origin, **options)

    def on_disk(self, cell_id: str) -> Any:
        cells = json.loads(self.file.read_text())["cells"]
        return next(cell for cell in cells if cell["id"] == cell_id)


async def printed(run: Run, text: str) -> None:
    """Wait until the run has printed this text."""
    async for _ in run.updates(60):
        if any(text in output.get("text", "") for output in run.outputs()):
            return
