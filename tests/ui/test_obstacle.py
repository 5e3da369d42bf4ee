"""Where the assistant can work in no notebook, the panel says so before anything is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from jupyter_agent.carriers.ydoc import WITHOUT_DOCUMENTS
from tests.ui.lab import Lab, Replies, running_lab
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel


@pytest.fixture(scope="module")
def lab(
    browser: Browser, script: Replies, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A server that has, in its settings, what jupyter-server-documents 0.3 puts there."""
    config = {"ServerApp": {"tornado_settings": {"yroom_manager": True}}}
    with running_lab(tmp_path_factory.mktemp("lab") / "lab", script, config=config) as lab:
        yield lab


def test_the_package_that_is_in_the_way_is_named_with_the_line_that_helps(
    notebook: OpenNotebook,
) -> None:
    panel = Panel(notebook.page).open()
    said = panel.region.get_by_role("alert")
    expect(said).to_contain_text("jupyter-server-documents")
    expect(said.locator("code")).to_have_text(WITHOUT_DOCUMENTS)
