"""Real third-party agents, in notebooks that are open in Chromium."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.agents.sdk import SdkClient
from tests.ui.conftest import *  # noqa: F403 - whatever it takes to open a page there
from tests.ui.lab import Lab

SDKS = {"1": (1, "legacy"), "2": (2, "auto"), "2-legacy": (2, "legacy")}
"""Majors of the client, and the era of the protocol that they use."""

Connect = Callable[..., SdkClient]


@pytest.fixture(params=SDKS)
def connect(request: pytest.FixtureRequest, lab: Lab) -> Iterator[Connect]:
    """Starts a client; by default it can show forms, and has the token."""
    major, mode = SDKS[request.param]
    python = Path(os.environ["MCP_CLIENTS"]) / f"mcp{major}" / "bin" / "python"
    with ExitStack() as clients:

        def connect(
            address: str, *, forms: bool = True, token: str | None = lab.token
        ) -> SdkClient:
            url = f"{lab.url}/api/agent/mcp?{address}"
            return clients.enter_context(SdkClient(python, url, mode, token=token, forms=forms))

        yield connect
