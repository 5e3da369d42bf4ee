"""The first minutes: one notification, the toolbar button, a key check, the demo's one question."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.programs import free_port
from tests.ui.conftest import OpenPage
from tests.ui.lab import INTRODUCED, Lab
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.waiting import eventually

SETTINGS = "lab/api/settings/jupyter-agent:plugin"


@pytest.mark.fresh
def test_the_first_page_says_once_that_the_assistant_is_installed(
    open_page: OpenPage, lab: Lab
) -> None:
    assert lab.request("PUT", SETTINGS, {"raw": "{}"}).status == 204
    notebook = open_page(cells=["x = 1"])
    page = notebook.page
    told = page.get_by_text("Assistant installed.")
    expect(told).to_be_visible()
    eventually(lambda: lab.request("GET", SETTINGS).body["raw"], lambda raw: "introduced" in raw)
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.get_by_role("region", name="Assistant")).to_be_visible()
    expect(Panel(page).message).to_be_focused()
    other = open_page(path=notebook.path)
    expect(other.page.get_by_role("button", name="Assistant", exact=True)).to_be_visible()
    expect(other.page.get_by_text("Assistant installed.")).to_have_count(0)
    assert '"introduced": true' in lab.request("GET", SETTINGS).body["raw"]
    assert lab.request("PUT", SETTINGS, {"raw": json.dumps(INTRODUCED)}).status == 204


def test_the_button_in_the_notebook_opens_the_panel_and_closes_it(notebook: OpenNotebook) -> None:
    page = notebook.page
    button = page.locator(".jp-NotebookPanel-toolbar").get_by_text("Assistant", exact=True)
    panel = page.get_by_role("region", name="Assistant")
    expect(panel).to_have_count(0)
    button.click()
    expect(panel).to_be_visible()
    expect(Panel(page).message).to_be_focused()
    button.click()
    expect(panel).to_have_count(0)


def test_settings_lead_to_a_key_refuse_a_wrong_one_and_lead_to_the_rest_of_the_settings(
    panel: Panel,
) -> None:
    panel.button("Settings").first.click()
    link = panel.region.get_by_role("link", name="Get a key").first
    expect(link).to_have_attribute("href", re.compile("^https://"))
    key = panel.region.get_by_label("Anthropic API key")
    key.fill("not-a-key")
    key.press("Enter")
    expect(panel.region.get_by_role("alert")).to_have_text("Anthropic rejected this key.")
    panel.button("More settings").click()
    expect(panel.page.locator(".jp-SettingsPanel")).to_contain_text("Show Fix button")


def test_another_model_is_chosen_from_those_that_its_service_lists(panel: Panel) -> None:
    panel.region.get_by_label("Model", exact=True).select_option("")
    dialog = panel.page.get_by_role("dialog")
    offered = dialog.locator("datalist option")
    expect(offered.first).to_be_attached()
    name = offered.first.get_attribute("value") or ""
    assert name.startswith(("anthropic:", "far:"))
    dialog.locator("input").fill(name)
    dialog.get_by_role("button", name="OK").or_(dialog.get_by_role("button", name="Ok")).click()
    expect(panel.region.get_by_label("Model", exact=True)).to_have_value(name)


def test_the_demo_opens_saved_asks_once_and_leaves_nothing_in_the_store_of_its_user(
    browser: Browser, tmp_path: Path
) -> None:
    port = free_port()
    data = tmp_path / "data"
    options = [f"--port={port}", "--no-browser", "--IdentityProvider.token=secret"]
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyter_agent.cli.main", "demo", "--", *options],
        env={**os.environ, "JUPYTER_DATA_DIR": str(data), "HOME": str(tmp_path)},
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        while b"is running at" not in (line := process.stderr.readline()):
            assert line, "the demo did not start"
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        page = context.new_page()
        page.goto(f"http://localhost:{port}/lab/tree/coffee.ipynb?token=secret")
        take(page)
        context.close()
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert not (data / "agent").exists()
    assert not list(tmp_path.rglob("*.jupyterlab-workspace"))


def take(page: Page) -> None:
    """The tour: one question, and then it is done."""
    region = page.get_by_role("region", name="Assistant")
    region.get_by_role("button", name="Remove coffee.ipynb").wait_for()  # it is about that one
    setup = region.get_by_role("region", name="Set up a model")
    expect(setup).to_contain_text("Demo: a script, not an AI.")
    expect(page.get_by_text("Python 3 (ipykernel) | Idle")).to_be_visible()
    expect(page.locator(".jp-mod-dirty")).to_have_count(0)
    region.get_by_role("button", name="Show me what you can do").click()
    name = re.compile(r"dd 2 cells at the end and run them[?]")
    question = region.get_by_role("group", name=name)
    question.get_by_role("button", name=re.compile("^Allow|Show the rest")).first.wait_for()
    while (more := question.get_by_role("button", name="Show the rest")).count():
        more.click()
    question.get_by_role("button", name="Allow", exact=True).click()
    expect(region).to_contain_text("run it yourself")
    expect(region.get_by_role("button", name="Allow", exact=True)).to_have_count(0)
