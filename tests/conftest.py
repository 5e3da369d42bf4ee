"""What all tests share: a real Jupyter server with the extension, and a strict fake of the API."""

from __future__ import annotations

pytest_plugins = ["pytest_jupyter.jupyter_server", "jupyter_agent.testing"]
