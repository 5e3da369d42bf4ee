"""An AI assistant that works inside the Jupyter notebook you have open."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from jupyter_agent.extension import JupyterAgent

    return [{"module": "jupyter_agent", "app": JupyterAgent}]


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "jupyter-agent"}]
