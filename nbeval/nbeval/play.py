"""Plays a task: the assistant works, a person too where the task has one, and it is scored."""

from __future__ import annotations

import queue
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jupyter_agent import SyncAgent
from jupyter_agent.choices import Mode
from jupyter_agent.client.turn import SyncTurn
from jupyter_agent.errors import AgentError
from nbeval.check import fresh, read
from nbeval.person import Person, person
from nbeval.score import Score, Snapshot, lost, unborne, unwanted
from nbeval.script import Script, texts
from nbeval.servers import Lab
from nbeval.spent import model_seconds, newest_run, request_tokens, runs_since
from nbeval.tasks import Task

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NOTEBOOK = "notebook.ipynb"
_ACTS_S = 0.02
_QUIET_S = 3
"""A room saves a second after the last change, or later where much else runs."""


@dataclass(frozen=True)
class Player:
    """Plays tasks in one JupyterLab."""

    lab: Lab
    browser: Callable[[], Browser]
    """Asked where a task has a person."""
    model: str | None = None
    """Whose answers count; None for the script."""

    def play(
        self, task: Task, replies: Sequence[Sequence[Mapping[str, Any]]], seed: int = 1
    ) -> Score:
        """`replies` are what the scripted model answers; with a real model nobody reads them.
        `seed` counts the attempts at the task."""
        folder, before = begin(self.lab, task)
        file = folder / NOTEBOOK
        seen = len(self.lab.fake.requests) if self.lab.fake is not None else 0
        # Closed in this order: the agent stops its turn where this is interrupted, the thread ends.
        with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
            somebody: Person | None = None
            if task.meanwhile:
                path = f"{task.name}/{NOTEBOOK}"
                there = person(self.browser(), self.lab.url, self.lab.token, path, folder)
                somebody = stack.enter_context(there)
            asked = _Asked()
            agent = stack.enter_context(
                SyncAgent(
                    file,
                    mode=cast("Mode", task.mode),
                    max_steps=task.max_steps,
                    model=self.model,
                    approve=lambda _: asked.answers(task.approve),
                )
            )
            if task.first:
                agent.notebook.run(*task.first)
            newest = newest_run(self.lab)
            self.lab.script.begin(replies, task.meanwhile if self.model is None else {})
            began = time.monotonic()
            answering = pool.submit(_ask, agent, task.prompts)
            attend(self.lab.script, answering, somebody)
            turns, failure = answering.result()
            seconds = time.monotonic() - began
            if somebody is not None:
                somebody.save()
        score = self._score(task, before, turns, failure, somebody, asked, seen, seconds, newest)
        return replace(score, seed=seed)

    def _score(
        self,
        task: Task,
        before: Snapshot,
        turns: Sequence[SyncTurn],
        failure: str,
        somebody: Person | None,
        asked: _Asked,
        seen: int,
        seconds: float,
        newest: str | None,
    ) -> Score:
        ids = [turn.id for turn in turns if turn.id]
        told = [self.lab.ask("GET", f"api/agent/turns/{id}") for id in ids]
        sent = [self.lab.ask("GET", f"api/agent/turns/{id}/requests") for id in ids]
        ran = runs_since(self.lab, newest)
        self.lab.close_kernels()
        calls = [call for turn in told for call in turn["calls"]]
        audit = [each for turn in told for each in turn["audit"]]
        requests = self.lab.fake.requests[seen:] if self.lab.fake is not None else []
        return scored(
            self.lab.root / task.name,
            task,
            before,
            somebody,
            answer="\n".join(turn.text for turn in turns),
            failure=failure,
            told=_results(sent),
            state=turns[-1].state if turns else "failed",
            model_calls=sum(turn["steps"] for turn in told),
            tool_calls=len(calls),
            failed_calls=sum(each["outcome"] == "failed" for each in audit),
            questions=asked.count,
            input_tokens=(
                sum(map(request_tokens, requests))
                or sum(turn["usage"]["input_tokens"] for turn in told)
            ),
            output_tokens=sum(turn["usage"]["output_tokens"] for turn in told),
            cached_tokens=sum(_cached(turn["usage"]) for turn in told),
            cost=_cost(turn["usage"] for turn in told),
            seconds=round(seconds, 1),
            tool_seconds=round(sum(map(_seconds, calls)), 1),
            model_seconds=round(sum(map(model_seconds, told, sent)), 1),
            kernel_seconds=round(sum(run["seconds"] for run in ran), 1),
        )


def begin(lab: Lab, task: Task) -> tuple[Path, Snapshot]:
    """The folder that is worked in, and how it is before."""
    folder = lab.root / task.name
    shutil.copytree(task.folder, folder, ignore=_only_what_is_worked_on)
    return folder, Snapshot.of(folder, NOTEBOOK, read(folder / NOTEBOOK))


def attend(script: Script, answering: Future[Any], somebody: Person | None) -> None:
    """Does what the person does until the answer is there; the browser belongs to this thread."""
    while not answering.done():
        try:
            act = script.acts.get(timeout=_ACTS_S)
        except queue.Empty:
            continue
        act.do(somebody)


def wait_for_saves(folder: Path) -> None:
    """Until no notebook was written for longer than a room takes, since now at the earliest."""
    since = time.time()
    while time.time() - since < _QUIET_S:
        time.sleep(0.1)
        for file in folder.glob("*.ipynb"):
            with suppress(FileNotFoundError):  # it is written under another name first
                since = max(since, file.stat().st_mtime)


def scored(
    folder: Path,
    task: Task,
    before: Snapshot,
    somebody: Person | None,
    *,
    answer: str,
    failure: str,
    told: Sequence[str],
    names: Mapping[str, str] | None = None,
    **counted: Any,
) -> Score:
    """What came of it, beside what was counted. `told` is what tools answered; with a `failure` the
    assistant could not go on. `names` has the ids that cells go by that took the place of others.
    """
    name = somebody.notebook if somebody is not None else NOTEBOOK
    after = read(folder / name)
    for cell in after.cells:
        cell.id = (names or {}).get(cell.id, cell.id)
    typed = somebody.typed if somebody is not None else []
    deleted = somebody.deleted if somebody is not None else []
    with fresh(folder, after, answer) as result:
        why = failure
        if not why:
            try:
                task.check(result)
            except (AssertionError, LookupError, OSError, ValueError) as error:
                why = str(error).split("\n")[0] or "the check failed"
        runs = not result.errors
    return Score(
        task=task.name,
        category=task.category,
        passed=not why,
        why=why,
        runs=runs,
        lost=lost(after, typed, deleted),
        unwanted=unwanted(before, Snapshot.of(folder, name, after), task.footprint, typed, deleted),
        unborne=unborne(answer, after, [*task.prompts, *told]),
        **counted,
    )


def scored_peer(
    folder: Path,
    task: Task,
    before: Snapshot,
    somebody: Person | None,
    *,
    failure: str,
    requests: Sequence[Mapping[str, Any]],
    seconds: float,
    **more: Any,
) -> Score:
    """The same for another harness, whose model got these requests."""
    return scored(
        folder,
        task,
        before,
        somebody,
        failure=failure,
        state="failed" if failure else "done",
        model_calls=len(requests),
        questions=0,
        input_tokens=sum(map(request_tokens, requests)),
        output_tokens=0,
        seconds=round(seconds, 1),
        **more,
    )


class _Asked:
    """What the person was asked."""

    def __init__(self) -> None:
        self.count = 0

    def answers(self, allowed: bool) -> bool:
        self.count += 1
        return allowed


def _ask(agent: SyncAgent, prompts: Sequence[str]) -> tuple[list[SyncTurn], str]:
    """The turns, and why one failed."""
    turns: list[SyncTurn] = []
    try:
        for prompt in prompts:
            turns.append(agent.ask(prompt))
            turns[-1].wait()
    except AgentError as error:
        return turns, f"failed: {error}"
    return turns, ""


def _results(sent: Iterable[Sequence[Mapping[str, Any]]]) -> list[str]:
    """The words that the model was told, the results of tools among them, in each turn."""
    messages = (m for requests in sent for last in requests[-1:] for m in last["messages"])
    return [each for m in messages if m["role"] == "user" for each in texts(m["content"])]


def _cached(usage: Mapping[str, int]) -> int:
    return usage["cache_read_tokens"] + usage["cache_write_tokens"]


def _cost(usages: Iterable[Mapping[str, Any]]) -> float | None:
    """Of those whose price is known."""
    costs = [usage["cost"] for usage in usages if usage["cost"] is not None]
    return sum(costs) if costs else None


def _only_what_is_worked_on(_: str, names: Sequence[str]) -> list[str]:
    hidden = ("task.toml", "check.py", "human.py", "transcripts", "__pycache__")
    return [name for name in names if name in hidden]


def _seconds(call: Mapping[str, Any]) -> float:
    if not call.get("ended"):
        return 0.0
    began, ended = (datetime.fromisoformat(call[name]) for name in ("started", "ended"))
    return (ended - began).total_seconds()
