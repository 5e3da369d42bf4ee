"""The tools for models: each is one class in one of these modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jupyter_agent.tools.base import Tool
from jupyter_agent.tools.edit import (
    ClearCells,
    CreateCells,
    CreateNotebook,
    DeleteCell,
    EditCells,
    MoveCell,
)
from jupyter_agent.tools.former import CreateCell, RunCell, UpdateCell
from jupyter_agent.tools.plan import WritePlan
from jupyter_agent.tools.read import (
    GetNotebookState,
    InspectVariables,
    ReadCells,
    ReadFile,
    SearchNotebook,
)
from jupyter_agent.tools.run import (
    InterruptKernel,
    RestartKernel,
    RunCells,
    RunCode,
    WaitForRun,
)
from jupyter_agent.tools.verify import VerifyNotebook

ALL: Sequence[type[Tool]] = (
    GetNotebookState,
    ReadCells,
    SearchNotebook,
    CreateCells,
    EditCells,
    DeleteCell,
    MoveCell,
    ClearCells,
    CreateNotebook,
    RunCells,
    RunCode,
    WaitForRun,
    InterruptKernel,
    RestartKernel,
    VerifyNotebook,
    InspectVariables,
    ReadFile,
    WritePlan,
)
FORMER: Mapping[str, type[Tool]] = {
    "create_cell": CreateCell,
    "update_cell": UpdateCell,
    "run_cell": RunCell,
    "list_files": ReadFile,
}
"""By old names, which are accepted but not offered: conversations, scripts and rules may use
them."""
