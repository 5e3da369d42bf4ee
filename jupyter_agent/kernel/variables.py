"""What the variables of a kernel hold, told briefly and without running code of theirs."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_agent.kernel.session import Kernel


async def variables(kernel: Kernel, names: Sequence[str] | None = None) -> str:
    """Name, type, shape, size and head of each variable, as text; `busy` while a cell runs."""
    return ""
