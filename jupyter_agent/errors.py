"""Our exceptions, grouped by their readers:

* AgentError
  + ToolError             the model: becomes an `is_error` result, the turn continues; notebook
    |                     routes answer with the status for its `reason`
    - InvalidInput        the tool's input does not fit its schema
    - CellNotFound        no cell with that id
    - NotebookNotFound    no notebook (or file) at that path
    - UnreadableNotebook  corrupt, empty, too large or invalid: the file is left unchanged
    - Conflict            someone else changed the same lines; carries the cell as it is now
    - NotRead             a whole rewrite of a cell that was never read here; carries the cell
    - NotOnce             `old_string` does not occur exactly once; carries the cell
    - Locked              the cell or notebook must not be changed
    - NotConfirmed        an edit was sent, but whether it arrived is unknown
      . Overtaken         it was certainly lost: someone changed the same at the same moment
    - Busy                the tab or the kernel does not answer now
      . CellInUse         a person types in the cell, or runs it, at this moment
    - KernelUnavailable   no kernel is available now
    - KernelNotInstalled  no kernel with that name; names the installed ones
    - NotPermitted        the mode, a rule or the authorizer forbids it
    - NeedsApproval       a person would have to allow it, and no one can be asked here
    - CallsSpent          a client has made all the calls its turn may make
    - Exists              something already exists at that path
  + ModelError            the user: the model service failed; a plain sentence and the next step
  + StoreUnavailable      the user: the store of conversations cannot be read or written now
  + RequestError          the HTTP client: a JSON body with `status`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Literal, Self

from jupyter_agent.legible import quoted_id


class AgentError(Exception):
    """Base of our deliberate errors, whose messages are for readers."""


class ToolError(AgentError):
    """A failed call, for the model; the message says how to fix it."""

    reason: ClassVar[str] = "tool_error"

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts: dict[str, Any] = facts
        """More for programs, as JSON; `current` is a cell in the format of `Cell.describe`."""

    def saying(self, message: str, facts: dict[str, Any]) -> Self:
        """The same error with another message, for a reader who may not see all of it."""
        other = type(self).__new__(type(self), message)
        other.__dict__.update(self.__dict__, message=message, facts=facts)
        return other


class InvalidInput(ToolError):
    """Invalid input of a call: a field is missing, unknown or of the wrong type."""

    reason = "invalid_input"


class CellNotFound(ToolError):
    """There is no cell with that id."""

    reason = "cell_not_found"

    def __init__(self, cell_id: str, known: list[str]) -> None:
        shown = ", ".join(map(quoted_id, known[:40])) + (", ..." if len(known) > 40 else "")
        super().__init__(f"No cell `{quoted_id(cell_id)}`. Cells now: {shown or 'none'}.")


class NotebookNotFound(ToolError):
    """There is nothing at that path."""

    reason = "not_found"


class UnreadableNotebook(ToolError):
    """The file at that path is not a notebook that we can change safely."""

    reason = "unreadable_notebook"


class Conflict(ToolError):
    """Someone changed what the edit is based on; `facts["current"]` is the cell as it is now."""

    reason = "changed"


class NoRecoveryCopy(ToolError):
    """The notebook was not written, since its copy for recovery could not be stored before."""

    reason = "no_recovery_copy"


class NotRead(ToolError):
    """A whole rewrite needs a base: the text that this conversation last read."""

    reason = "not_read"


class NotOnce(ToolError):
    """`old_string` has to occur exactly once in the cell's current text."""

    reason = "not_once"


class Locked(ToolError):
    """The author of the notebook locked this cell, or the file is read-only."""

    reason = "locked"


class NotConfirmed(ToolError):
    """An edit was sent and it is unknown whether it arrived. Never reported as done."""

    reason = "not_confirmed"

    def __init__(self, message: str, *, changes: Sequence[Any] = (), **facts: Any) -> None:
        super().__init__(message, **facts)
        self.changes = changes
        """The `Change`s that were certainly made, though others changed the cells, too: for the
        journal, so that they can be undone.
        """


class Overtaken(NotConfirmed):
    """The edit is lost, since someone changed or deleted the same at the same moment: for the
    caller that is a conflict, and nothing is unknown.
    """

    reason = Conflict.reason


class Busy(ToolError):
    """The browser tab or the kernel is there but does not answer now; nothing was changed."""

    reason = "busy"


class CellInUse(Busy):
    """A person began to type in the cell, or to run it, at the moment of the edit; nothing was
    changed.
    """

    def __init__(self, message: str, cell_id: str, use: Literal["typing", "running"]) -> None:
        super().__init__(message)
        self.cell_id = cell_id
        self.use = use


class KernelUnavailable(ToolError):
    """No kernel could be started or reached."""

    reason = "kernel_unavailable"


class KernelNotInstalled(ToolError):
    """There is no kernel with that name; `facts["installed"]` lists the installed ones."""

    reason = "kernel_not_installed"


class NotPermitted(ToolError):
    """The mode, a rule or Jupyter's authorizer forbids it."""

    reason = "denied"


class NeedsApproval(ToolError):
    """A person would have to allow it first, and no one can be asked here."""

    reason = "needs_approval"


class CallsSpent(ToolError):
    """An MCP client has made all the calls that one turn may have."""

    reason = "calls_spent"


class Exists(ToolError):
    """Something already exists at that path; nothing was overwritten."""

    reason = "exists"


def tool_error(reason: str, message: str, facts: Mapping[str, Any]) -> ToolError | None:
    """The error in a server's answer, by its `reason`; None if it is not a ToolError."""
    for kind in ToolError.__subclasses__():
        if kind.reason == reason:
            error = kind.__new__(kind, message)
            ToolError.__init__(error, message, **facts)
            return error
    return None


class ModelError(AgentError):
    """The model service failed; `message` is a plain sentence without keys or tracebacks."""

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        retryable: bool = False,
        retry_after: float | None = None,
        request_id: str | None = None,
        said: str = "",
        until: datetime | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        """`overloaded`, `rate_limit`, `network`, `broken_stream`, `authentication`, ..."""
        self.retryable = retryable
        self.retry_after = retry_after
        """Seconds the service asked us to wait, if it did."""
        self.request_id = request_id
        self.said = said
        """The words of the service or of the network; part of `message`."""
        self.until = until
        """When to try again, if that is not soon."""


class StoreUnavailable(AgentError):
    """The store is locked or missing, or its disk is full; the message says how to fix it."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RequestError(AgentError):
    """A request that cannot be served, for the HTTP client."""

    def __init__(self, status: int, reason: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.facts: dict[str, Any] = facts


def stopping_error() -> RequestError:
    """The error for a request that comes while the server stops."""
    return RequestError(503, "stopping", "The server is stopping. Ask again when it is back.")
