"""How code ended, and what the process of a kernel can say about that."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias

from jupyter_agent.kernel.channels import End
from jupyter_agent.kernel.client import Connection

ExecutionStatus: TypeAlias = Literal["ok", "error", "timeout", "interrupted", "died", "restarted"]
INTERRUPT_ERRORS = ("KeyboardInterrupt", "InterruptException")
"""The names of errors by interrupts in Python and Julia; R and bash do not raise any."""


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
    maybe_interrupted: bool = False
    """Someone else may have interrupted the code, or it raised the error of an interrupt itself."""

    @property
    def raised_error(self) -> bool:
        """Whether the code raised an error, and not because it was interrupted, as far as known."""
        return self.error is not None and (self.status == "error" or self.maybe_interrupted)

    def with_note(self, sentence: str) -> ExecutionReply:
        """A copy with one more sentence in its note."""
        return replace(self, note=f"{self.note} {sentence}".strip())


class KernelProcess(Protocol):
    """What an execution needs of its kernel."""

    queue: asyncio.Lock
    """Held by the execution that runs in the kernel; the others wait in order of arrival."""

    @property
    def generation(self) -> int: ...

    @property
    def state(self) -> str:
        """As `Kernel.state`."""

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


def exit_of(manager: Any) -> str:
    """How a kernel's process ended, in words; empty if unknown, as with a gateway."""
    process = getattr(getattr(manager, "provisioner", None), "process", None)
    code = getattr(process, "returncode", None)
    if not isinstance(code, int):
        return ""
    if code >= 0:
        return f"its process exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "a signal"
    why = {"SIGKILL": ", probably because memory ran out", "SIGSEGV": ", a crash"}
    return f"its process was ended by {name} ({code}){why.get(name, '')}"
