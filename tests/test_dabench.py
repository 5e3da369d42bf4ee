"""Questions in DABench's format, invented for these tests, become tasks of nbeval."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from nbeval.dabench import oracles, wrap, wrong
from nbeval.tasks import tasks

NBEVAL = Path(__file__).parents[1] / "nbeval"
QUESTION = {
    "id": 3,
    "question": 'What is the mean length of the "boats"?',
    "concepts": ["Summary Statistics"],
    "constraints": "{\nLeave out boats without a length.\n}",
    "format": '@mean_length[mean]\n@longest[name] where "mean" has two decimal places.',
    "file_name": "boats é.csv",
    "level": "easy",
}
LABELS = [["longest", "Ida, Mia"], ["mean_length", "7.50"]]
CODE = "answer(f\"{data['length'].mean():.2f}\")\nanswer('Ida, Mia')"


def made_up(checkout: Path) -> Path:
    """A clone with one question."""
    data = checkout / "examples" / "DA-Agent" / "data"
    (data / "da-dev-tables").mkdir(parents=True)
    (data / "da-dev-tables" / "boats é.csv").write_text("boat,length\nIda,10\nMia,\nUte,5\n")
    (data / "da-dev-questions.jsonl").write_text(json.dumps(QUESTION) + "\n")
    labels = {"id": 3, "common_answers": LABELS}
    (data / "da-dev-labels.jsonl").write_text(json.dumps(labels) + "\n\n")
    (checkout / "LICENSE").write_text("Apache License")
    return checkout


def test_a_question_becomes_a_task_in_a_notebook_with_its_table(tmp_path: Path) -> None:
    made = made_up(tmp_path / "clone")
    assert wrap(made, tmp_path / "tasks", {3: CODE}) == ["dabench-003"]
    (task,) = tasks(folder=tmp_path / "tasks")
    assert (task.name, task.category, task.first) == ("dabench-003", "DABench easy", ["load"])
    for part in ("question", "constraints", "format"):
        assert str(QUESTION[part]) in task.prompts[0]
    assert (task.folder / "boats é.csv").read_text().startswith("boat,length")
    book = nbformat.read(task.folder / "notebook.ipynb", as_version=4)
    assert book.cells[-1].source.endswith("data = pd.read_csv('boats é.csv')")
    look, run, say = task.transcript("oracle")
    assert look[0]["name"] == "get_notebook_state"
    (cell,) = run[0]["input"]["cells"]
    assert cell["source"].startswith("names = iter(['mean_length', 'longest'])")
    assert cell["source"].endswith(CODE)
    assert say == [{"type": "text", "text": "$answers"}]
    task.check(SimpleNamespace(answer="@mean_length[7.5] @longest[Ida, Mia]"))
    with pytest.raises(AssertionError, match="mean_length is 7.4, not 7.50"):
        task.check(SimpleNamespace(answer="@mean_length[7.4] @longest[Ida, Mia]"))
    assert "CC BY-NC 4.0" in (tmp_path / "tasks" / "NOTICE").read_text()
    assert (tmp_path / "tasks" / "LICENSE").read_text() == "Apache License"


def test_its_folder_of_data_will_do(tmp_path: Path) -> None:
    data = made_up(tmp_path / "clone") / "examples" / "DA-Agent" / "data"
    assert wrap(data, tmp_path / "tasks", {3: CODE}) == ["dabench-003"]


@pytest.mark.parametrize(
    ("answer", "mistakes"),
    [
        ("So: @mean_length[7.50], @longest[Ida, Mia].", []),
        ("**@mean_length[7.5000009]** @longest[Ida, Mia]", []),
        ("@mean_length[1] @mean_length[75e-1] @longest[Ida, Mia]", []),
        ("@mean_length[7.500002] @longest[Ida, Mia]", ["mean_length is 7.500002, not 7.50"]),
        ("@mean_length[7,5] @longest[Ida, Mia]", ["mean_length is 7,5, not 7.50"]),
        ("@mean_length[nan] @longest[Ida, Mia]", ["mean_length is nan, not 7.50"]),
        ("@mean_length[7.5] @longest[Mia, Ida]", ["longest is Mia, Ida, not Ida, Mia"]),
        ("@longest[Ida, Mia]", ["mean_length is missing, not 7.50"]),
        ("7.5, Ida, Mia", ["longest is missing, not Ida, Mia", "mean_length is missing, not 7.50"]),
    ],
)
def test_a_value_counts_that_is_the_label_or_almost_its_number(
    answer: str, mistakes: list[str]
) -> None:
    assert wrong(answer, dict(map(tuple, LABELS))) == mistakes


def test_there_is_code_for_sixty_questions() -> None:
    found = oracles()
    assert len(found) == 60
    assert all("answer(" in code and "@" not in code for code in found.values())


@pytest.mark.full
def test_a_clone_without_the_questions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no question and label 4"):
        wrap(made_up(tmp_path / "clone"), tmp_path / "tasks", {3: CODE, 4: CODE})
    done = subprocess.run(
        [sys.executable, "-m", "nbeval.dabench", str(tmp_path), str(tmp_path / "tasks")],
        cwd=NBEVAL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert "da-dev-questions.jsonl" in done.stderr
