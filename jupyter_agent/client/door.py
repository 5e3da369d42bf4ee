"""The server of a notebook while an agent is open, and its refusals as errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_agent.client.server import Server, ServerRefused, Unreachable
from jupyter_agent.client.servers import existing, find, serving
from jupyter_agent.errors import AgentError, InvalidInput, ModelError, RequestError, tool_error

if TYPE_CHECKING:
    pass


@contextmanager
def raising(route: str = "") -> Iterator[None]:
    """Turns a server's refusal into the corresponding error."""
    try:
        yield
    except Unreachable as error:
        reason = error.reason or "unreachable"
        raise RequestError(error.status or 503, reason, str(error)) from None
    except ServerRefused as error:
        raise _error(error, route) from None


def _error(refused: ServerRefused, route: str) -> AgentError:
    message, reason, facts = str(refused), refused.reason, refused.facts
    if refused.is_of_model and route == "chat":
        return ModelError(message, kind=reason)
    named = tool_error(reason, message, facts)
    if named is None or (reason == "not_found" and not route.startswith("notebooks")):
        return RequestError(refused.status or 503, reason or "refused", message, **facts)
    return named


class Door:
    """A notebook and its server, while an agent is open."""

    def __init__(self, notebook: Path, store: Path | None) -> None:
        self.notebook = notebook
        self._store = store
        self._opened = ExitStack()
        self._server: Server | None = None

    def open(self) -> None:
        """Finds the running server of the notebook, or starts one. Raises AgentError."""
        if self._server is None:
            with raising("notebooks"):
                self.notebook = existing(self.notebook)
                self._server = self._opened.enter_context(serving(self.notebook, self._store))

    def close(self) -> None:
        """Stops the server if it was started for this; `open` works again."""
        self._server = None
        self._opened.close()

    @property
    def server(self) -> Server:
        """Raises AgentError if it is not open, or its own server is no longer the right one."""
        if self._server is None:
            raise InvalidInput("Not open: use `with SyncAgent(...)`, or `open()` and `close()`.")
        if self._server.own and self._store is None:
            with raising():
                other = find(self.notebook)
            if other is not None:
                raise RequestError(
                    409,
                    "served_elsewhere",
                    f"The Jupyter server at {other.url} was started since and serves that "
                    "notebook, which may be open there. Close this agent and open it again to "
                    "work through that server.",
                )
        return self._server

    def ask(self, method: str, route: str, body: Any = None, version: str | None = None) -> Any:
        """The route's answer. Raises AgentError."""
        headers = {"If-Match": f'"{version}"'} if version is not None else {}
        with raising(route):
            return self.server.ask(method, route, body, headers=headers)

    def route(self, *more: str) -> str:
        """A route of the notebook."""
        return self.server.route(self.notebook, *more)
