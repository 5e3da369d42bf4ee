"""Results of several attempts at nbeval's tasks, and when a run of them ends."""

from __future__ import annotations

import base64
import io
import json
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import nbformat
import pytest
from PIL import Image

from nbeval import report, stats
from nbeval.progress import Progress
from nbeval.run import Budget, attempts, unreachable
from nbeval.score import Score
from nbeval.spent import request_tokens
from nbeval.tasks import Task, sample, tasks

NBEVAL = Path(__file__).parents[1] / "nbeval"


def score(task: str, passed: bool, seed: int = 1, **more: Any) -> Score:
    given: dict[str, Any] = {
        "category": "fix",
        "runs": True,
        "lost": 0,
        "unwanted": [],
        "unborne": [],
        "state": "done",
        "model_calls": 2,
        "tool_calls": 1,
        "failed_calls": 0,
        "questions": 0,
        "input_tokens": 100,
        "output_tokens": 10,
        "seconds": 3.0,
        "tool_seconds": 1.0,
        "model_seconds": 1.5,
        "kernel_seconds": 0.5,
    }
    return Score(task=task, passed=passed, seed=seed, **given | more)


def three(task: str, *passed: bool, **more: Any) -> list[Score]:
    return [score(task, done, seed, **more) for seed, done in enumerate(passed, start=1)]


# Tables exist for Wilson's interval; these are from Newcombe, Statistics in Medicine 17 (1998).
@pytest.mark.parametrize(
    ("passed", "count", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (29, 29, 0.8830, 1),
    ],
)
def test_intervals_are_those_of_wilson(passed: int, count: int, low: float, high: float) -> None:
    share = stats.Share.over([1.0] * passed + [0.0] * (count - passed))
    assert (share.low, share.high) == pytest.approx((low, high), abs=5e-5)


def test_tokens_are_of_all_that_a_model_reads_and_a_picture_counts_by_its_size() -> None:
    picture = io.BytesIO()
    Image.new("RGB", (300, 50)).save(picture, "PNG")
    data = base64.b64encode(picture.getvalue()).decode()
    ours = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    theirs = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    for block in (ours, theirs):
        message = {"content": [{**block, "cache_control": {"type": "ephemeral"}}]}
        bare = request_tokens({"messages": [{"content": []}]})
        assert request_tokens({"messages": [message]}) == bare + 20
        more = {"system": "x" * 400, "tools": ["é" * 400], "temperature": "x" * 400}
        assert 20 + 200 < request_tokens({"messages": [message], **more}) - bare < 20 + 220


def test_pass_k_counts_tasks_that_passed_each_time() -> None:
    scores = [*three("a", True, True, True), *three("b", True, False, True), *three("c", True)]
    assert stats.passed(scores).share == pytest.approx((1 + 2 / 3 + 1) / 3)
    each_time = stats.passed_each_time(scores)
    assert (each_time.share, each_time.of) == (0.5, 2)
    row = next(line for line in report.table(scores).splitlines() if line.startswith("b "))
    assert row.split()[1:3] == ["2/3", "3/3"]
    assert "pass^3 50.0%" in report.summary(scores)


def test_runs_of_several_attempts_are_compared_by_how_many_passed(tmp_path: Path) -> None:
    first = [*three("a", True, True, False, tool_calls=2), *three("b", True, True, True)]
    second = [*three("a", True, True, True, tool_calls=4), *three("b", True, True, True)]
    assert report.differences(first, first) == []
    assert report.differences(first, second)[:-1] == [
        "a: passed 2/3 -> 3/3",
        "a: tool_calls 2 -> 4",
    ]
    assert "1 tasks better, 0 worse (sign test: p = 1.000)" in report.differences(first, second)[-1]
    report.write(first, {"model": "x"}, tmp_path)
    assert report.read(tmp_path / "results.json") == ({"model": "x"}, first)
    found = json.loads((tmp_path / "results.json").read_text())["summary"]
    assert found["pass^3"]["share"] == 0.5
    assert found["own_seconds"] == 6.0
    assert "18 seconds: 9 the model, 3 the kernel, 6 the rest" in (
        (tmp_path / "index.html").read_text()
    )


def test_no_more_attempts_begin_when_the_budget_is_spent() -> None:
    scores = three("a", True, True, cost=0.25)
    assert Budget(dollars=0.6, tokens=500).spent(scores) == ""
    assert Budget(dollars=0.5).spent(scores) == "0.5 of 0.5 dollars are spent"
    assert Budget(tokens=200).spent(scores) == "220 of 200 tokens are used"


def test_a_model_that_fails_each_time_is_not_asked_on() -> None:
    failed = [score(name, False, state="failed", why="failed: wrong key") for name in "abc"]
    assert unreachable(failed) == "the last 3 turns failed, failed: wrong key"
    assert unreachable([*failed, score("d", True)]) == ""
    assert unreachable(failed[:2]) == ""


def test_what_has_a_score_is_not_played_again(tmp_path: Path) -> None:
    tasks = [Task(folder=tmp_path / name, category="x", prompts=["?"]) for name in "ab"]
    todo = attempts(tasks, 2, [score("a", False, seed=1)])
    assert [(one.task.name, one.seed) for one in todo] == [("b", 1), ("a", 2), ("b", 2)]


def test_progress_is_a_line_for_each_attempt_where_there_is_no_terminal() -> None:
    told = io.StringIO()
    progress = Progress(told, 4, known=1, passed=1)
    progress.tell(score("a", False))
    progress.tell(score("b", True))
    progress.end()
    assert told.getvalue().splitlines() == [
        "2/4 a failed, 1 passed so far, 0:00, about 0:00 left",
        "3/4 b passed, 2 passed so far, 0:00, about 0:00 left",
    ]


def test_progress_stays_on_one_line_of_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    told = Terminal()
    progress = Progress(told, 2)
    progress.tell(score("a", False))
    progress.tell(score("b", True))
    progress.end()
    first, second = told.getvalue().split("\r\x1b[K")[1:]
    assert first.startswith("1/2 a failed")
    assert "\n" not in first
    assert second.endswith("left\n")


def test_a_sample_is_the_same_each_time_and_has_most_categories() -> None:
    all_tasks = tasks()
    some = sample(all_tasks, 20)
    assert some == sample(all_tasks, 20)
    assert len(some) == 20
    assert len({task.category for task in some}) >= 10
    assert sample(all_tasks, 1000) == all_tasks
    assert len(sample(all_tasks, 7)) <= 7


def test_tasks_are_whole_and_the_readme_lists_and_counts_them() -> None:
    listed = defaultdict(list)
    people = 0
    for folder in sorted(folder for folder in (NBEVAL / "tasks").iterdir() if folder.is_dir()):
        task = tomllib.loads((folder / "task.toml").read_text(encoding="utf-8"))
        listed[task["category"]].append(folder.name)
        assert task["prompts"]
        assert (folder / "check.py").exists()
        assert (folder / "transcripts" / "oracle.jsonl").exists()
        nbformat.validate(nbformat.read(folder / "notebook.ipynb", as_version=4))  # type: ignore[no-untyped-call]
        people += (folder / "human.py").exists()
    readme = (NBEVAL / "README.md").read_text(encoding="utf-8")
    for category, names in listed.items():
        assert f"| {category} | {', '.join(names)} |\n" in readme
    count = sum(map(len, listed.values()))
    assert f"There are {count} tasks, all our own, {people} of them with a person" in readme
