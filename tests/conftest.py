"""What all tests share: a real Jupyter server's fixtures, run without pytest-asyncio."""

from __future__ import annotations

pytest_plugins = ["pytest_jupyter.jupyter_server"]
