"""What a person chooses for a turn, and what goes along or comes after it."""

from __future__ import annotations

import base64
import json
import os
import re
from pathlib import Path

from playwright.sync_api import expect

from jupyter_agent.testing import Scripted, calls, says
from tests.ui.conftest import OpenPage
from tests.ui.lab import Lab, Replies, workspace
from tests.ui.page import OpenNotebook
from tests.ui.panel import Panel
from tests.ui.test_composer import PASTE
from tests.waiting import eventually

PDF = base64.b64encode(b"%PDF-1.7\n%%EOF\n").decode()
CSV = base64.b64encode(b"region,cost\nnorth,1\nsouth,2\n").decode()
WAITS = "text = open({gate!r}).read()\n6 * 7"


def test_an_effort_is_chosen_beside_the_model_and_kept(
    panel: Panel, notebook: OpenNotebook, replies: Replies, lab: Lab
) -> None:
    replies.append([says("Quick.")])
    replies.append([says("Deep.")])
    replies.append([says("Deep again.")])
    choice = panel.region.get_by_label("Effort", exact=True)
    expect(choice).to_have_value("")
    panel.ask("One?")
    expect(panel.log).to_contain_text("Quick.")
    assert "output_config" not in lab.fake.requests[-1]
    choice.select_option("High effort")
    panel.ask("Two?")
    expect(panel.log).to_contain_text("Deep.")
    assert lab.fake.requests[-1]["output_config"] == {"effort": "high"}
    kept = "jupyter-agent:assistant"
    eventually(lambda: workspace(lab, panel.page.url).get(kept, {}), lambda it: it.get("effort"))
    notebook.reload()
    panel.open()
    expect(choice).to_have_value("high")
    panel.ask("Three?")
    expect(panel.log).to_contain_text("Deep again.")
    assert lab.fake.requests[-1]["output_config"] == {"effort": "high"}
    panel.region.get_by_label("Model", exact=True).select_option("demo:tour")
    expect(choice).to_be_hidden()


def test_a_fallback_model_is_chosen_with_the_keys_answers_and_is_kept(
    panel: Panel, notebook: OpenNotebook, replies: Replies, lab: Lab
) -> None:
    panel.region.get_by_role("button", name="Settings").first.click()
    choice = panel.region.get_by_role("combobox", name="Fallback model")
    expect(choice.locator("option:checked")).to_have_text("Server default (none)")
    expect(choice.get_by_role("option", name="Tour")).to_have_count(0)
    choice.select_option("anthropic:claude-haiku-5-5")
    panel.button("Back").click()
    replies.append(Scripted(blocks=[], stop_reason="refusal"))
    replies.append([says("I can.")])
    panel.ask("Do it.")
    expect(panel.log).to_contain_text("Sonnet 5.5 refused to answer, so Haiku 5.5 answers.")
    expect(panel.log).to_contain_text("I can.")
    kept = "jupyter-agent:assistant"
    eventually(lambda: workspace(lab, panel.page.url).get(kept, {}), lambda it: it.get("fallback"))
    notebook.reload()
    panel.open()
    panel.region.get_by_role("button", name="Settings").first.click()
    expect(choice).to_have_value("anthropic:claude-haiku-5-5")
    choice.select_option("None")
    panel.button("Back").click()
    replies.append(Scripted(blocks=[], stop_reason="refusal"))
    panel.ask("And this?")
    expect(panel.log).to_contain_text("The model refused to answer")


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


def test_a_model_that_reads_no_pdf_is_not_asked(panel: Panel) -> None:
    panel.page.evaluate(PASTE, [PDF, "report.pdf", "application/pdf"])
    panel.message.fill("What is in it?")
    expect(panel.button("Send")).to_be_enabled()
    panel.region.get_by_label("Model", exact=True).select_option("demo:tour")
    expect(panel.region.get_by_role("alert")).to_contain_text("can't read PDF files")
    expect(panel.button("Send")).to_be_disabled()
    panel.button("Remove report.pdf").click()
    expect(panel.button("Send")).to_be_enabled()


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


def test_the_end_of_a_run_is_told_where_somebody_wants_that(
    open_page: OpenPage, replies: Replies, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    notebook = open_page([WAITS.format(gate=str(gate))])
    panel = Panel(notebook.page).open("auto")
    replies.append([calls("run_cell", cell_id="c0", wait=0)])
    replies.append([says("It runs.")])
    replies.append([says("It gave 42.")])
    panel.ask("Train it.")
    expect(panel.log).to_contain_text("It runs.")
    panel.button("Tell me when done").click()
    expect(panel.log).to_contain_text("You will be told when it is done.")
    panel.button("Cancel").click()
    panel.button("Tell me when done").click()
    expect(panel.button("Cancel")).to_be_visible()
    gate.write_text("")
    expect(panel.log).to_contain_text("It gave 42.")
    expect(panel.log).to_contain_text(re.compile(r"Cell 1 finished: .*ok"))
    expect(panel.button("Cancel")).to_be_hidden()
    expect(panel.button("Tell me when done")).to_be_hidden()
