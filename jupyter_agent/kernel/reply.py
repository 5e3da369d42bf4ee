"""How code ended, and what the process of a kernel can say about that."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from jupyter_agent.kernel.channels import End
from jupyter_agent.kernel.client import Connection

ExecutionStatus: TypeAlias = Literal["ok", "error", "timeout", "interrupted", "died", "restarted"]


@dataclass(frozen=True, kw_only=True)
class ExecutionReply:
    """How the code ended."""

    status: ExecutionStatus
    execution_count: int | None = None
    error: Mapping[str, Any] | None = None
    """`ename`, `evalue` and `traceback` if the code raised an error."""
    note: str = ""
    """Anything else that a reader has to know, as a sentence."""
    user_expressions: Mapping[str, Any] = field(default_factory=dict)
    by_someone: bool = False
    """Someone else interrupted the code, or it raised the error of an interrupt itself."""

    @property
    def raised_error(self) -> bool:
        """Whether the code raised an error, and not because we interrupted it."""
        return self.error is not None and (self.status == "error" or self.by_someone)


class KernelProcess(Protocol):
    """What an execution needs of its kernel."""

    queue: asyncio.Lock
    """Held by the execution that runs in the kernel; the others wait in order of arrival."""

    @property
    def generation(self) -> int: ...

    async def connect(self, *, busy: bool = False) -> Connection: ...

    async def check(self) -> None:
        """Check whether the process is alive; `connection.ended` is set if not."""

    async def interrupt_process(self) -> None: ...

    def how_it_ended(self) -> End:
        """How the process before this one ended."""

    def why_it_ended(self) -> str:
        """The known cause, as the end of a sentence; usually empty."""

    def leave(self) -> None:
        """The code asked the process to exit: later code runs in the next process."""
