"""An AI assistant that works inside the Jupyter notebook you have open.

`Agent` is the API for programs, `SyncAgent` the same for blocking scripts; see docs/python.md.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes longer to import than all else here
if TYPE_CHECKING:
    from typing import Any

    from jupyter_agent.client.agent import Agent
    from jupyter_agent.client.sync import SyncAgent

__version__: str
__all__ = ["Agent", "SyncAgent"]


def __getattr__(name: str) -> Any:
    """Imports on first use: Jupyter imports this module in every server."""
    if name == "__version__":
        from importlib.metadata import version

        return version("jupyter-live-agent")
    if name == "Agent":
        from jupyter_agent.client.agent import Agent

        return Agent
    if name == "SyncAgent":
        from jupyter_agent.client.sync import SyncAgent

        return SyncAgent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from jupyter_agent.extension import JupyterAgent

    return [{"module": "jupyter_agent", "app": JupyterAgent}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "jupyter-agent"}]
