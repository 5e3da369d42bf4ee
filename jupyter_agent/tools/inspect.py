"""Looking into the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from jupyter_agent.tools.base import Need, Progress, Result
from jupyter_agent.tools.read import ReadTool
from jupyter_agent.workspace.lease import Lease


class InspectVariables(ReadTool):
    """Type, shape, size and first values of the kernel's variables. Use it before you work with
    data that is loaded already. It tells what is in memory, which need not be what the cells
    say."""

    name: ClassVar[str] = "inspect_variables"
    needs: ClassVar[Sequence[Need]] = (("execute", "kernels"),)

    names: list[str] | None = None
    """Names of the variables (default: all)"""

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        text = await nb.variables(self.names)
        return Result(text=nb.work.fence.around(text))
