"""The recipe for continuous integration: verifies notebooks and proposes repairs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import nbformat
import pytest
import yaml

from tests.fakes import FakeAnthropic, calls, says
from tests.fakes.script import FakeReply

from ..programs import run
from ..test_readme import ROOT
from ..waiting import PATIENCE
from .conftest import NOTEBOOK, Desk, Done

ACTION = ROOT / ".github/actions/verify-notebook"
OUTPUT = ".cache/out"
CANARY = "sk-ant-api03-canary-of-the-test"
MEND = calls("update_cell", cell_id="c3", old_string="y)", new_string="x)")


def recipe(desk: Desk, *notebooks: str, **variables: str) -> Done:
    """The script of the action, called as the action does."""
    given = {"OUTPUT": OUTPUT, "ANTHROPIC_API_KEY": CANARY, **variables}
    command = (ACTION / "verify-notebook", *notebooks)
    done = run(desk.folder, *command, timeout=PATIENCE * 4, **given)
    return Done(done.returncode, done.stdout, done.stderr)


def written(desk: Desk) -> dict[str, str]:
    folder = desk.folder / OUTPUT
    return {file.name: file.read_text() for file in folder.iterdir()}


def change(desk: Desk, sources: Mapping[str, str]) -> None:
    notebook = nbformat.read(desk.notebook, as_version=4)
    for cell in notebook.cells:
        cell.source = sources.get(cell.id, cell.source)
    nbformat.write(notebook, desk.notebook)


@pytest.fixture
def holding(desk: Desk) -> Desk:
    """The notebook has run, and its outputs are current."""
    assert desk.type("verify", NOTEBOOK, "--update").code == 0
    return desk


@pytest.mark.full
def test_a_notebook_that_holds_asks_no_model_and_has_no_patch(
    holding: Desk, model: FakeAnthropic
) -> None:
    before = holding.notebook.read_bytes()
    done = recipe(holding, NOTEBOOK)
    assert (done.code, done.err) == (0, "")
    assert done.out == f"== {NOTEBOOK}\nIt holds.\n"
    assert sorted(written(holding)) == ["report.md", "work-sales.verify.json"]
    assert f"## `{NOTEBOOK}`\n\nIt holds.\n" in written(holding)["report.md"]
    assert model.requests == []
    assert holding.notebook.read_bytes() == before


@pytest.mark.full
def test_a_broken_notebook_gets_a_patch_that_mends_it_and_stays_as_it_was(
    holding: Desk, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    change(holding, {"c3": "print('x is', y)"})
    before = holding.notebook.read_bytes()
    replies += [[says("`y` is not set anywhere. <b>It</b> is `x`."), MEND], [says("Mended.")]]
    done = recipe(holding, NOTEBOOK, GITHUB_STEP_SUMMARY=str(holding.folder / ".cache/summary"))
    assert (done.code, done.err) == (1, "")
    assert "c3  error: " in done.out
    assert "NameError" in json.dumps(model.requests[0])
    assert holding.notebook.read_bytes() == before
    assert [file.name for file in holding.notebook.parent.glob("*.ipynb")] == ["sales.ipynb"]
    report = written(holding)["report.md"]
    assert "\n    `y` is not set anywhere. <b>It</b> is `x`.\n" in report
    assert "The model ended with exit code 0." in report
    assert (holding.folder / ".cache/summary").read_text() == report
    patch = f"{OUTPUT}/work-sales.patch"
    assert f"git apply {patch}" in report
    for command in (["git", "apply", "--check", patch], ["patch", "-p1", "-i", patch]):
        subprocess.run(command, cwd=holding.folder, check=True, capture_output=True)
    assert holding.sources()["c3"] == "print('x is', x)"
    assert holding.type("verify", NOTEBOOK).code == 0


@pytest.mark.full
def test_what_a_model_cannot_mend_has_no_patch(
    holding: Desk, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    change(holding, {"c3": "print('x is', y)"})
    before = holding.notebook.read_bytes()
    wrong = calls("update_cell", cell_id="c3", old_string="y)", new_string="z)")
    runs = calls("run_cells", cell_ids=["c3"])
    replies += [[wrong], [runs], [says("I could not run it.")]]
    done = recipe(holding, NOTEBOOK, "nothing.ipynb")
    assert done.code == 3
    assert "There is no notebook at" in done.err
    files = written(holding)
    assert not any(name.endswith(".patch") for name in files)
    assert "The model ended with exit code 3." in files["report.md"]  # it may not run code
    assert "No fix was found.\n\n    A cell failed" in files["report.md"]
    assert holding.notebook.read_bytes() == before
    assert recipe(holding, NOTEBOOK, MODEL="none").code == 2


@pytest.mark.full
def test_outputs_out_of_date_are_refreshed_without_a_model(
    holding: Desk, model: FakeAnthropic
) -> None:
    change(holding, {"b2": "x = 5"})
    named = holding.folder / ".cache" / "first half" / "all sales.ipynb"
    named.parent.mkdir(parents=True)
    shutil.copy(holding.notebook, named)
    name = named.relative_to(holding.folder).as_posix()
    done = recipe(holding, NOTEBOOK, name, MODEL="none")
    assert (done.code, model.requests) == (1, [])
    before = named.read_bytes()
    for command in (["git", "apply"], ["patch", "-p1", "-i"]):
        named.write_bytes(before)
        patch = f"{OUTPUT}/.cache-first-half-all-sales.patch"
        subprocess.run([*command, patch], cwd=holding.folder, check=True)
        assert "x is 5" in named.read_text()
    subprocess.run(["git", "apply", f"{OUTPUT}/work-sales.patch"], cwd=holding.folder, check=True)
    assert holding.type("verify", NOTEBOOK).code == 0


@pytest.mark.full
def test_without_a_key_nobody_is_asked_and_no_demonstration_is_proposed(holding: Desk) -> None:
    holding.configure("c.JupyterAgent.default_model = ''\nc.JupyterAgent.providers = {}\n")
    change(holding, {"b2": "x = 5"})
    done = recipe(holding, NOTEBOOK, ANTHROPIC_API_KEY="")
    assert (done.code, done.err) == (1, "")
    assert "No model was asked." in done.out
    patch = written(holding)["work-sales.patch"]
    changed = [
        line for line in patch.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert [line for line in changed if "x is" not in line] == []


@pytest.mark.full
def test_keys_are_neither_printed_nor_within_reach_of_the_notebooks_code(
    holding: Desk, replies: list[FakeReply], model: FakeAnthropic
) -> None:
    change(holding, {"c3": "import os\nprint(dict(os.environ))\nprint(y)"})
    replies += [[MEND], [says("Mended.")]]
    secrets = ("SOME_TOKEN", "A_SECRET", "JUPYTER_TOKEN", "JUPYTERHUB_API_TOKEN")
    done = recipe(holding, NOTEBOOK, **dict.fromkeys(secrets, CANARY))
    assert done.code == 1
    everything = [done.out, done.err, *written(holding).values(), json.dumps(model.requests)]
    assert "JUPYTER_CONFIG_DIR" in written(holding)["work-sales.patch"]
    assert not any(CANARY in text or model.api_key in text for text in everything)


def test_the_action_hands_its_inputs_on_as_variables_and_never_as_code() -> None:
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    script = (ACTION / "verify-notebook").read_text()
    steps = action["runs"]["steps"]
    assert not any("${{" in step.get("run", "") for step in steps)
    (step,) = [step for step in steps if "verify-notebook" in step.get("run", "")]
    for name in ("MODEL", "ALLOW", "MAX_STEPS", "OUTPUT"):
        assert name in step["env"]
        assert re.search(rf"\$\{{{name}\b", script)
    used = {name for each in steps for name in re.findall(r"inputs\.([\w-]+)", json.dumps(each))}
    assert used == set(action["inputs"])


def test_the_page_says_what_the_script_says() -> None:
    page = (ROOT / "docs/ci.md").read_text()
    listed = re.findall(r"^\| (\d) \| (.*) \|$", page, re.M)
    assert [code for code, _ in listed] == ["0", "1", "2", "3"]
    workflow = yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.S)[1])  # type: ignore[index]
    (job,) = workflow["jobs"].values()
    (used,) = [step for step in job["steps"] if "verify-notebook" in step.get("uses", "")]
    assert set(used["with"]) <= set(yaml.safe_load((ACTION / "action.yml").read_text())["inputs"])


def test_the_script_is_sound_shell() -> None:
    subprocess.run(["bash", "-n", ACTION / "verify-notebook"], check=True)
    assert Path(ACTION / "verify-notebook").stat().st_mode & 0o111
