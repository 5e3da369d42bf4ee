"""What a model may do: each tool is one class in one of these modules."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_agent.tools.base import Tool
from jupyter_agent.tools.edit import (
    CreateCell,
    CreateCells,
    CreateNotebook,
    DeleteCell,
    EditCells,
    MoveCell,
    UpdateCell,
)
from jupyter_agent.tools.files import ListFiles, ReadFile
from jupyter_agent.tools.inspect import InspectVariables
from jupyter_agent.tools.plan import WritePlan
from jupyter_agent.tools.read import GetNotebookState, ReadCells, SearchNotebook
from jupyter_agent.tools.run import (
    InterruptKernel,
    RestartKernel,
    RunCell,
    RunCells,
    RunCode,
    WaitForRun,
)
from jupyter_agent.tools.verify import VerifyNotebook

ALL: Sequence[type[Tool]] = (
    GetNotebookState,
    ReadCells,
    SearchNotebook,
    CreateCell,
    CreateCells,
    UpdateCell,
    EditCells,
    DeleteCell,
    MoveCell,
    CreateNotebook,
    RunCell,
    RunCells,
    RunCode,
    WaitForRun,
    InterruptKernel,
    RestartKernel,
    VerifyNotebook,
    InspectVariables,
    ListFiles,
    ReadFile,
    WritePlan,
)
