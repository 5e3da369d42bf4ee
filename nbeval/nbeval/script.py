"""The scripted model: its replies, and what the person does before each."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from nbeval.dabench import ANSWER
from tests.fakes import says

Found = TypeVar("Found")
Reply: TypeAlias = Sequence[Mapping[str, Any]]
"""The blocks that a model says."""

_BEGINS = "begins with "
"""Before the text of a cell, where a script has no id for it."""
_RUN_ID = re.compile(r"\b[0-9a-f]{32}\b")
_CELL = "$cell "
_LOOK_S = 0.05


class Script:
    """The replies of the task that runs, each after what the person does before it."""

    def __init__(self) -> None:
        self.acts: queue.Queue[Act] = queue.Queue()
        """What the person has to do now; whoever has the browser does it."""
        self.asked = 0
        """How many replies the model was asked for."""
        self.is_over = False
        self._replies: Sequence[Sequence[Mapping[str, Any]]] = ()
        self._meanwhile: Mapping[int, Callable[..., None]] = {}
        self._requests: Sequence[Mapping[str, Any]] = ()

    def follow(self, requests: Sequence[Mapping[str, Any]]) -> None:
        """The requests to the model, in which a reply's `$run_id` and `$answers` are looked up, and
        the id of the `$cell` whose text begins with what follows."""
        self._requests = requests

    def begin(
        self,
        replies: Sequence[Sequence[Mapping[str, Any]]],
        meanwhile: Mapping[int, Callable[..., None]],
    ) -> None:
        """The next replies are these."""
        self._replies, self._meanwhile, self.asked = replies, meanwhile, 0
        self.is_over = False

    def end(self) -> None:
        """Nobody does anything more: whoever waits for that gets CancelledError."""
        self.is_over = True
        with suppress(queue.Empty):
            while True:
                self.acts.get_nowait().cancel()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self.asked += 1
        if (does := self._meanwhile.get(self.asked)) is not None:
            self._have_done(does)
        if self.asked > len(self._replies):
            return [says("Done.")]
        return [self._filled_in(block) for block in self._replies[self.asked - 1]]

    def ask(self, looks: Callable[..., Found]) -> Found:
        """What it answers, given the person, where the browser is."""
        found: Found = self._have_done(looks)
        return found

    def _have_done(self, does: Callable[..., Any]) -> Any:
        act = Act(does)
        self.acts.put(act)
        if self.is_over:
            self.end()
        return act.wait()

    def _filled_in(self, value: Any) -> Any:
        """What is another in each run, as the model was told it last."""
        if isinstance(value, Mapping):
            return {key: self._filled_in(each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled_in(each) for each in value]
        if value == "$run_id":
            return _RUN_ID.findall(self._told())[-1]
        if value == "$answers":
            found = [each.group() for each in ANSWER.finditer(self._told())]
            return "\n".join(found) or "There is no answer."
        if isinstance(value, str) and value.startswith(_CELL):
            text = re.escape(value.removeprefix(_CELL))
            return re.findall(rf"^\[\d+ \w+ (\S+) .*\]\n{text}", self._told(), re.MULTILINE)[-1]
        return value

    def _told(self) -> str:
        """What the model was told last."""
        return "\n".join(texts(self._requests[-1]["messages"][-1]["content"]))


def calls_in(*replies: Reply) -> list[Mapping[str, Any]]:
    return [block for reply in replies for block in reply if block["type"] == "tool_use"]


def without_ids(value: Any) -> Any:
    """Ids that only our tools tell: a run is waited for where it is begun, and a cell is found by
    how its text begins."""
    if isinstance(value, Mapping):
        return {key: without_ids(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_ids(each) for each in value]
    if isinstance(value, str) and value.startswith(_CELL):
        return _BEGINS + value.removeprefix(_CELL)
    return "" if value == "$run_id" else value


def beginning(name: str) -> str | None:
    """How the text of a cell begins for which a script has no id; None if the name is an id."""
    return name.removeprefix(_BEGINS) if name.startswith(_BEGINS) else None


def texts(content: Any) -> Iterator[str]:
    """The words of a message and of the results of tools in it."""
    if isinstance(content, str):
        yield content
    else:
        for block in content:
            yield from texts(block.get("text") or block.get("content") or "")


class Act:
    """Something that another thread is to do."""

    def __init__(self, does: Callable[..., Any]) -> None:
        self._does = does
        self._came: Future[Any] = Future()

    def do(self, *given: Any) -> None:
        """Raises nothing: who waits for it gets the error."""
        if not self._came.set_running_or_notify_cancel():
            return
        try:
            self._came.set_result(self._does(*given))
        except BaseException as error:  # noqa: BLE001 - it is raised where the act was wanted
            self._came.set_exception(error)

    def wait(self) -> Any:
        """What it answered. Raises what it raised, CancelledError where it was not done."""
        return self._came.result()

    def cancel(self) -> None:
        self._came.cancel()


class Ahead:
    """The next reply of a script, taken while a call runs for which ours would only wait."""

    def __init__(self, script: Script, is_busy: Callable[[], bool]) -> None:
        """`is_busy`: whether code runs."""
        self._script = script
        self._is_busy = is_busy
        self._taken: list[Future[Any]] = []

    def next(self) -> Any:
        return self._taken.pop().result() if self._taken else next(self._script)

    def take(self, wait: float) -> threading.Event:
        """Takes it in that many seconds, once code runs: a person acts on what they see running.
        At once when what this returns is set, since the call has ended."""
        taken: Future[Any] = Future()
        ended = threading.Event()

        def take() -> None:
            ended.wait(wait)
            try:
                while not self._is_busy() and not ended.wait(_LOOK_S):
                    if self._script.is_over:
                        raise CancelledError
                taken.set_result(next(self._script))
            except BaseException as error:  # noqa: BLE001 - it is raised where the reply is wanted
                taken.set_exception(error)

        self._taken.append(taken)
        threading.Thread(target=take, daemon=True).start()
        return ended
