"""A person's choices for a turn, its attachments, and its follow-ups."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.fakes import Scripted, calls, says
from tests.gates import Gate
from tests.ui.conftest import OpenPage
from tests.ui.lab import Lab, Replies, workspace
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.ui.test_composer import PASTE, PDF
from tests.waiting import eventually

HIGH = {"effort": "high"}
CSV = base64.b64encode(b"region,cost\nnorth,1\nsouth,2\n").decode()


def test_effort_and_fallback_model_are_chosen_count_for_each_question_and_are_kept(
    panel: Panel, notebook: OpenNotebook, replies: Replies, lab: Lab
) -> None:
    effort = panel.region.get_by_label("Effort", exact=True)
    expect(effort).to_have_value("")
    replies.append([says("Quick.")])
    panel.ask("One?")
    expect(panel.log).to_contain_text("Quick.")
    assert "output_config" not in lab.fake.requests[-1]
    effort.select_option("High effort")
    panel.region.get_by_role("button", name="Settings").first.click()
    fallback = panel.region.get_by_role("combobox", name="Fallback model")
    expect(fallback.locator("option:checked")).to_have_text("Server default (none)")
    expect(fallback.get_by_role("option", name="Tour")).to_have_count(0)
    fallback.select_option("anthropic:claude-haiku-5-5")
    panel.button("Back").click()
    replies.append(Scripted(blocks=[], stop_reason="refusal"))
    replies.append([says("I can.")])
    panel.ask("Two?")
    expect(panel.log).to_contain_text("Sonnet 5.5 refused to answer, so Haiku 5.5 answers.")
    expect(panel.log).to_contain_text("I can.")
    refused = lab.fake.requests[-2]
    assert (refused["model"], refused["output_config"]) == ("claude-sonnet-5-5", HIGH)

    def kept() -> dict[str, Any]:
        found: dict[str, Any] = workspace(lab, panel.page.url).get("jupyter-agent:assistant", {})
        return found

    eventually(kept, lambda it: it.get("effort") and it.get("fallback"))
    notebook.reload()
    panel.open()
    expect(effort).to_have_value("high")
    panel.region.get_by_role("button", name="Settings").first.click()
    expect(fallback).to_have_value("anthropic:claude-haiku-5-5")
    fallback.select_option("None")
    panel.button("Back").click()
    replies.append(Scripted(blocks=[], stop_reason="refusal"))
    panel.ask("Three?")
    expect(panel.log).to_contain_text("The model refused to answer")
    assert lab.fake.requests[-1]["output_config"] == HIGH
    model = panel.region.get_by_label("Model", exact=True)
    model.select_option("demo:tour")
    expect(effort).to_be_hidden()
    model.select_option("anthropic:claude-sonnet-5-5")  # the next test has the page as it is
    effort.select_option("")


def test_files_go_with_a_question_and_their_names_stay_with_it(
    panel: Panel, replies: Replies, lab: Lab
) -> None:
    replies.append([says("A page and a table.")])
    alert = panel.region.get_by_role("alert")
    panel.page.evaluate(PASTE, ["AAAA", "data.zip", "application/zip"])
    expect(alert).to_contain_text("attach it with @")
    panel.page.evaluate(PASTE, [PDF, "report.pdf", "application/pdf"])
    panel.page.evaluate(PASTE, [CSV, "costs.csv", "application/vnd.ms-excel"])
    expect(panel.button("Remove report.pdf")).to_be_visible()
    expect(panel.button("Remove costs.csv")).to_be_visible()
    panel.ask("What is in them?")
    expect(panel.log).to_contain_text("A page and a table.")
    question = panel.log.locator(".jp-Agent-question")
    expect(question).to_contain_text("report.pdf")
    expect(question).to_contain_text("costs.csv")
    expect(question.locator("img")).to_have_count(0)
    asked = lab.fake.requests[-1]["messages"][-1]["content"]
    assert [block["title"] for block in asked if block["type"] == "document"] == ["report.pdf"]
    assert "costs.csv (2 rows below the first, 2 columns)" in json.dumps(asked)


def test_what_a_service_looked_up_is_a_line_of_the_answer(panel: Panel, replies: Replies) -> None:
    search = {
        "type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search",
        "input": {"query": "pandas 3 merge"},
    }  # fmt: skip
    page = {
        "type": "web_search_result", "title": "Merging frames", "encrypted_content": "x",
        "url": "https://pandas.example/merge",
    }  # fmt: skip
    found = {
        "type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [page],
    }  # fmt: skip
    replies.append([search, found, says("Use merge.")])
    panel.ask("How do I merge?")
    expect(panel.log).to_contain_text("Use merge.")
    panel.unfold()
    expect(panel.call("Searched the web for “pandas 3 merge”")).to_be_visible()


def test_the_end_of_a_run_is_reported_to_whoever_asks_for_that(
    open_page: OpenPage, replies: Replies, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    notebook = open_page([f"{gate.waits}\n6 * 7"])
    panel = Panel(notebook.page).open("auto")
    replies.append([calls("run_cell", cell_id="c0", wait=0)])
    replies.append([says("It runs.")])
    replies.append([says("It gave 42.")])
    panel.ask("Train it.")
    expect(panel.log).to_contain_text("It runs.")
    panel.button("Tell me when done").click()
    expect(panel.log).to_contain_text("You will be notified when it is done.")
    panel.button("Cancel").click()
    panel.button("Tell me when done").click()
    expect(panel.button("Cancel")).to_be_visible()
    gate.open()
    expect(panel.log).to_contain_text("It gave 42.")
    expect(panel.log).to_contain_text(re.compile(r"Cell 1 finished: .*ok"))
    expect(panel.button("Cancel")).to_be_hidden()
    expect(panel.button("Tell me when done")).to_be_hidden()
