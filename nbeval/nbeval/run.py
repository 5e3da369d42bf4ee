"""Plays tasks, several times each and in several JupyterLabs at once where that is wanted."""

from __future__ import annotations

import multiprocessing
import queue
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from nbeval.person import chromium
from nbeval.play import Player
from nbeval.score import Score
from nbeval.servers import lab
from nbeval.tasks import Task
from tests.fakes import says

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_ALIVE_S = 5
_FAILURES = 3
"""So many turns that fail one after the other say that the model cannot be asked at all."""


@dataclass(frozen=True)
class Attempt:
    """One task, played for the time that `seed` counts."""

    task: Task
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Who answers: a model, or else the script of each task."""

    model: str | None = None
    price: tuple[float, float] | None = None
    """Dollars of a million tokens of input and of output."""
    transcript: str = "oracle"
    empty: bool = False
    """Whether the script only says "Done."."""

    @property
    def name(self) -> str:
        return self.model or ("empty answers" if self.empty else f"script {self.transcript}")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What all attempts together may take; the one that goes beyond is finished."""

    dollars: float | None = None
    tokens: int | None = None

    def spent(self, scores: Sequence[Score]) -> str:
        """Which limit is reached, in words; empty where none is."""
        cost = sum(score.cost or 0.0 for score in scores)
        if self.dollars is not None and cost >= self.dollars:
            return f"{cost:.4g} of {self.dollars:g} dollars are spent"
        tokens = sum(score.tokens for score in scores)
        if self.tokens is not None and tokens >= self.tokens:
            return f"{tokens} of {self.tokens} tokens are used"
        return ""


def attempts(tasks: Sequence[Task], seeds: int, done: Iterable[Score] = ()) -> list[Attempt]:
    """Each task once, then each once more; without those that are done."""
    known = {(score.task, score.seed) for score in done}
    return [
        Attempt(task, seed)
        for seed in range(1, seeds + 1)
        for task in tasks
        if (task.name, seed) not in known
    ]


def unreachable(scores: Sequence[Score]) -> str:
    """Why there is no point in asking the model again; empty where there may be."""
    last = scores[-_FAILURES:]
    if len(last) < _FAILURES or any(score.state != "failed" for score in last):
        return ""
    return f"the last {_FAILURES} turns failed, {last[-1].why}"


def played(todo: Iterator[Attempt], who: Answers, jobs: int = 1) -> Iterator[Score]:
    """The scores as they come, each attempt taken from `todo` when it can begin."""
    return _one_by_one(todo, who) if jobs == 1 else _at_once(todo, who, jobs)


def _one_by_one(todo: Iterator[Attempt], who: Answers) -> Iterator[Score]:
    # A folder that was worked in stays known to its server, so each seed has one of its own.
    for _, those in groupby(todo, key=lambda attempt: attempt.seed):
        with ExitStack() as stack:
            served = stack.enter_context(lab(scripted=who.model is None, facts=_facts(who)))

            @cache
            def browser(stack: ExitStack = stack) -> Browser:
                return stack.enter_context(chromium())

            player = Player(served, browser, who.model)
            for attempt in those:
                yield player.play(attempt.task, _replies(attempt.task, who), attempt.seed)


def _at_once(todo: Iterator[Attempt], who: Answers, jobs: int) -> Iterator[Score]:
    # Processes, because an agent finds servers by the environment, and playwright wants a thread.
    context = multiprocessing.get_context("spawn")
    given, come = context.Queue(), context.Queue()
    workers = [context.Process(target=_work, args=(who, given, come)) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    try:
        under_way = 0
        for attempt in islice(todo, jobs):
            given.put(attempt)
            under_way += 1
        while under_way:
            yield _next(come, workers)
            under_way -= 1
            for attempt in islice(todo, 1):
                given.put(attempt)
                under_way += 1
    finally:
        for _ in workers:
            given.put(None)
        for worker in workers:
            worker.join()


def _next(come: Any, workers: Sequence[Any]) -> Score:
    """Raises RuntimeError where a worker failed."""
    while True:
        try:
            score = come.get(timeout=_ALIVE_S)
        except queue.Empty:
            if any(worker.exitcode for worker in workers):
                raise RuntimeError("A process that played tasks ended.") from None
        else:
            if isinstance(score, str):
                raise RuntimeError(score)
            return score  # type: ignore[no-any-return]


def _work(who: Answers, given: Any, come: Any) -> None:
    """In a process of its own: attempts come in, None at the end, and scores go out."""
    try:
        for score in _one_by_one(iter(given.get, None), who):
            come.put(score)
    except Exception:  # noqa: BLE001 - it is raised where the scores are waited for
        come.put(traceback.format_exc())
    except KeyboardInterrupt:
        return


def _replies(task: Task, who: Answers) -> Sequence[Sequence[dict[str, Any]]]:
    """What the script says; a model is not told of it."""
    if who.model is not None or who.empty:
        return [[dict(says("Done."))]]
    return task.transcript(who.transcript)


def _facts(who: Answers) -> dict[str, Any]:
    if who.model is None or who.price is None:
        return {}
    price = dict(zip(("input", "output"), who.price, strict=True))
    # As Anthropic reckons, of which other services differ little.
    cached = {"cache_read": 0.1 * price["input"], "cache_write": 1.25 * price["input"]}
    return {who.model: {"price": {**price, **cached}}}
