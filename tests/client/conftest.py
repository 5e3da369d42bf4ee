"""A person's folder, as for the command line, in which Python code runs."""

from __future__ import annotations

import pytest

from ..cli.conftest import Desk, desk, model, replies, served, somewhere  # noqa: F401
from ..programs import environment


@pytest.fixture
def at_home(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    """This process is in the desk's folder, with nothing of the machine's own Jupyter."""
    for name, value in environment(desk.folder).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(desk.folder)
