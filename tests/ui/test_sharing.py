"""How much models may see: the settings, and the panel's messages about it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import nbformat
import pytest
from playwright.sync_api import Route, expect

from tests.fakes import calls, says
from tests.ui.conftest import OpenPage, new_file
from tests.ui.lab import Lab, Replies
from tests.ui.panel import Panel
from tests.waiting import eventually

SETTING = "lab/api/settings/jupyter-agent:plugin"


@pytest.fixture
def own_choice(lab: Lab) -> Iterator[None]:
    """Reset a test's choice for all notebooks afterwards."""
    yield
    lab.request("PUT", SETTING, {"raw": "{}"})


@pytest.mark.story
@pytest.mark.usefixtures("own_choice")
def test_a_person_chooses_what_models_see_and_what_was_shared_before_is_not_sent_again(
    panel: Panel, lab: Lab, replies: Replies
) -> None:
    kept_back = panel.region.get_by_role("note").filter(has_text="Data sharing")
    replies.append([calls("read_cells", cell_ids=["c0"])])
    for answer in ("I read it.", "I see only code."):
        replies.append([says(answer)])
    panel.ask("Read.")
    expect(panel.log).to_contain_text("I read it.")
    expect(kept_back).to_be_hidden()
    assert lab.fake.requests[-1]["messages"][0] == lab.fake.requests[-2]["messages"][0]
    panel.button("Settings").click()
    panel.region.get_by_label("All your notebooks").select_option("code-only")
    eventually(lambda: str(lab.request("GET", SETTING).body["raw"]), lambda raw: "code-only" in raw)
    panel.button("Back").click()
    expect(kept_back).to_contain_text("Data sharing: Code only.")
    panel.ask("And now?")
    expect(panel.log).to_contain_text("I see only code.")
    expect(panel.log).to_contain_text(
        "An earlier answer is not sent to the model: it shared more than you share now."
    )
    sent = json.dumps(lab.fake.requests[-1]["messages"])
    assert "Not shared with you: Markdown, outputs, variables" in sent
    assert "I read it." not in sent


def test_a_notebook_says_less_and_its_hidden_cells_are_counted(
    open_page: OpenPage, lab: Lab, replies: Replies
) -> None:
    path = new_file(lab, "kept back", ["x = 1", "key = 'KANARI 77'"])
    content = nbformat.read(lab.root / path, as_version=4)
    content.cells[1].metadata["tags"] = ["agent-hidden"]
    nbformat.write(content, lab.root / path)
    notebook = open_page(path=path)
    panel = Panel(notebook.page).open("auto")
    note = panel.region.get_by_role("note").filter(has_text="hidden")
    expect(note).to_contain_text("1 cell is hidden.")
    note.get_by_role("button", name="Change").click()
    panel.region.get_by_label("This notebook").select_option("no-outputs")
    panel.button("Back").click()
    expect(note).to_contain_text("Data sharing: No outputs or variables. 1 cell is hidden.")
    replies.append([calls("get_notebook_state")])
    replies.append([says("Two cells.")])
    panel.ask("What is there?")
    expect(panel.log).to_contain_text("Two cells.")
    sent = json.dumps(lab.fake.requests[-1]["messages"])
    assert "Not shared with you: outputs and variables" in sent
    assert "KANARI" not in sent
    notebook.save()
    assert notebook.on_disk().metadata["jupyter_agent"] == {"share": "no-outputs"}


def test_the_administrators_limit_is_said(open_page: OpenPage) -> None:
    notebook = open_page()

    def limited(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, json={**answer.json(), "share": "code-only"})

    notebook.page.route("**/api/agent/status*", limited)
    notebook.reload()
    panel = Panel(notebook.page).open()
    expect(panel.region.get_by_role("note")).to_contain_text("Data sharing: Code only.")
    panel.button("Settings").first.click()
    choices = panel.region.get_by_role("region", name="Data sharing")
    expect(choices).to_contain_text("Your administrator allows at most: Code only.")
    notebook.page.unroute_all(behavior="wait")


def test_the_first_sending_to_a_service_says_who_gets_what(panel: Panel, replies: Replies) -> None:
    told = panel.log.get_by_text("are sent to 0.0.0.0:")
    for answer in ("Hello.", "Hello again."):
        replies.append([says(answer)])
        panel.page.evaluate(
            "() => void jupyterapp.commands.execute('jupyter-agent:send',"
            " {text: 'Hello?', model: 'far:claude-sonnet-5-5'})"
        )
        expect(panel.log).to_contain_text(answer)
    expect(told).to_have_count(1)
    expect(told).to_contain_text(
        "Your messages and the cells, outputs and files it reads are sent to"
    )
