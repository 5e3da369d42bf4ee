"""If the assistant cannot work in notebooks, the panel says so before the user asks anything."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Route, expect

from jupyter_agent.carriers.sharing import WITHOUT_DOCUMENTS, Sharing
from jupyter_agent.errors import Busy
from tests.ui.conftest import OpenPage
from tests.ui.panel import Panel


def test_the_package_that_is_in_the_way_is_named_with_the_line_that_helps(
    context: BrowserContext, open_page: OpenPage
) -> None:
    """The status is that of a server with jupyter-server-documents 0.3: see
    `tests/server/test_status.py`.
    """
    with pytest.raises(Busy) as refused:
        Sharing({"yroom_manager": object()}).documents()

    def answer(route: Route) -> None:
        status = route.fetch().json()
        route.fulfill(json=status | {"carriers": [], "notes": [str(refused.value)]})

    context.route("**/api/agent/status*", answer)
    panel = Panel(open_page().page).open()
    said = panel.region.get_by_role("alert")
    expect(said).to_contain_text("jupyter-server-documents")
    expect(said.locator("code")).to_have_text(WITHOUT_DOCUMENTS)
