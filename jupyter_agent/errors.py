"""Our exceptions, sorted by who is meant to read them:

* AgentError
  + ToolError             the model: becomes an `is_error` result, the turn continues; the notebook
    |                     routes answer with the status that belongs to its `reason`
    - InvalidInput        the tool's input does not fit its schema
    - CellNotFound        no cell of that id
    - NotebookNotFound    no notebook (or file) at that path
    - UnreadableNotebook  corrupt, empty, too large or no valid notebook: it is left as it is
    - Conflict            somebody changed the same lines; carries the cell as it is now
    - NotRead             a whole rewrite of a cell that was never read here; carries the cell
    - NotOnce             `old_string` does not occur exactly once; carries the cell
    - Locked              the cell or notebook must not be changed
    - NotConfirmed        an edit was sent, but whether it arrived is unknown
      . Overtaken         it is known not to be there: somebody changed the same at the same moment
    - Busy                the tab or the kernel does not answer now
    - KernelUnavailable   no kernel can be had now
    - KernelNotInstalled  no kernel of that name; names the installed ones
    - NotPermitted        the mode, a rule or the authorizer forbids it
    - NeedsApproval       a person would have to allow it, and nobody can be asked here
    - CallsSpent          a client has made all calls that its turn may make
    - Exists              there is something at that path already
  + ModelError            the user: the model service failed; a plain sentence and the next step
  + StoreUnavailable      the user: the store of conversations cannot be read or written now
  + RequestError          the HTTP client: a JSON body with `status`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Self

from jupyter_agent.legible import quoted_id


class AgentError(Exception):
    """Anything that we raise on purpose and somebody is meant to read."""


class ToolError(AgentError):
    """What the model is told when a call could not do its work; the text names the fix."""

    reason: ClassVar[str] = "tool_error"

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts: dict[str, Any] = facts
        """More for programs, as JSON; `current` is a cell as `Cell.describe` gives it."""

    def saying(self, message: str, facts: dict[str, Any]) -> Self:
        """The same error in other words, for a reader who may not see all of it."""
        other = type(self).__new__(type(self), message)
        other.__dict__.update(self.__dict__, message=message, facts=facts)
        return other


class InvalidInput(ToolError):
    """The input of a call does not fit: a field is missing, unknown or of the wrong kind."""

    reason = "invalid_input"


class CellNotFound(ToolError):
    """There is no cell of that id."""

    reason = "cell_not_found"

    def __init__(self, cell_id: str, known: list[str]) -> None:
        shown = ", ".join(map(quoted_id, known[:40])) + (", ..." if len(known) > 40 else "")
        super().__init__(f"No cell `{quoted_id(cell_id)}`. Cells now: {shown or 'none'}.")


class NotebookNotFound(ToolError):
    """There is nothing at that path."""

    reason = "not_found"


class UnreadableNotebook(ToolError):
    """What is at that path is no notebook that we could change without harm."""

    reason = "unreadable_notebook"


class Conflict(ToolError):
    """Somebody changed what the edit rests on; `facts["current"]` is the cell as it is now."""

    reason = "changed"


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
        """The `Change`s that were made for certain, though others changed them at once: for the
        journal, so that they can be taken back.
        """


class Overtaken(NotConfirmed):
    """The edit is not there, since somebody changed or deleted the same at the same moment: for
    whoever asked for it that is a conflict, and nothing is unknown.
    """

    reason = Conflict.reason


class Busy(ToolError):
    """The browser tab or the kernel is there but does not answer now; nothing was changed."""

    reason = "busy"


class KernelUnavailable(ToolError):
    """No kernel could be started or reached."""

    reason = "kernel_unavailable"


class KernelNotInstalled(ToolError):
    """There is no kernel of that name; `facts["installed"]` are the names that there are."""

    reason = "kernel_not_installed"


class NotPermitted(ToolError):
    """The mode, a rule or Jupyter's authorizer forbids it."""

    reason = "denied"


class NeedsApproval(ToolError):
    """A person would have to allow it first, and here nobody can be asked."""

    reason = "needs_approval"


class CallsSpent(ToolError):
    """An MCP client has made as many calls in one turn as it may."""

    reason = "calls_spent"


class Exists(ToolError):
    """There is something at that path already; nothing was overwritten."""

    reason = "exists"


def tool_error(reason: str, message: str, facts: Mapping[str, Any]) -> ToolError | None:
    """The error that a server answered with, by its `reason`; None if that is no tool's."""
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
        """Seconds the service asked us to wait, where it did."""
        self.request_id = request_id
        self.said = said
        """The service's own words, or those of the network; part of `message`."""
        self.until = until
        """When it will be worth asking again, where that is not soon."""


class StoreUnavailable(AgentError):
    """The store is locked, its disk is full, or it is not there; the message names the fix."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class RequestError(AgentError):
    """What an HTTP client gets when its request cannot be served."""

    def __init__(self, status: int, reason: str, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.facts: dict[str, Any] = facts
