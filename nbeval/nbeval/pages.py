"""Harnesses that work in a page of JupyterLab, under the script.

Somebody types the question into their chat. Their model is a strict fake of an API that answers
with their own tools (`page_tools`), which act in the page; the same person does the same.
"""

from __future__ import annotations

import json
import queue
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import chain, groupby, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from nbeval.page_tools import STEPS, Call, Desk, Hands, Input, Steps, Together
from nbeval.person import Person, chromium, person
from nbeval.play import NOTEBOOK, begin, scored_peer, wait_for_saves
from nbeval.score import Score
from nbeval.script import Ahead, Reply, Script, calls_in, texts
from nbeval.servers import Lab, peer_lab
from nbeval.spent import tokens_of
from nbeval.tasks import Task
from tests.fakes import in_thread, says
from tests.fakes.chat import ChatCompletions, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

KEY = "sk-test-0123456789"
"""That settings have for the fake, which takes any."""
_DONE: Reply = [says("Done.")]
_ACTS_S = 0.05
_TURN_S = 120
_SAVE_S = 1.5
"""What a model takes at least; by then a room is in its file."""
_QUIET_S = 15
"""A turn has ended where nothing is asked for so long, and the chat shows no work."""


class Chat(ABC):
    """A harness, as somebody works with it in its page."""

    package: str
    """Its name on PyPI."""
    hands: Hands
    in_rooms = False
    """Whether its notebooks save themselves."""
    placeholder = "Type a chat message"
    """In the field for a question."""

    @abstractmethod
    def files(self, url: str) -> Mapping[str, Any]:
        """Its settings, in the home, for a model at this address."""

    @abstractmethod
    def open(self, page: Page) -> None:
        """Until a question can be typed, with its tools."""

    def ask(self, page: Page, question: str) -> None:
        """Sends it."""
        message = page.get_by_placeholder(self.placeholder).first
        message.fill(question)
        message.press("Enter")

    @abstractmethod
    def is_busy(self, page: Page) -> bool:
        """Whether it still answers."""


class Model:
    """What the fake replies: the script of the task that is played, with the harness's tools."""

    def __init__(self) -> None:
        self.requests: Sequence[Mapping[str, Any]] = ()
        self.played: list[Mapping[str, Any]] = []
        """The requests of the task that is played."""
        self.error: Exception | None = None
        """For whoever plays."""
        self._replies: Iterator[Reply] = iter(())
        self._prompts: Sequence[str] = ()

    def plays(self, replies: Iterator[Reply], prompts: Sequence[str]) -> None:
        """They are for requests with one of the prompts: others ask for a title, or are of a task
        that is over."""
        self._replies, self._prompts = replies, prompts
        self.played, self.error = [], None

    def __iter__(self) -> Iterator[Reply]:
        return self

    def __next__(self) -> Reply:
        request = self.requests[-1]
        said = (texts(message["content"] or "") for message in request["messages"])
        asked = "\n".join(chain.from_iterable(said))
        if not request.get("tools") or not any(prompt in asked for prompt in self._prompts):
            return _DONE
        self.played.append(request)
        try:
            return next(self._replies, _DONE)
        except CancelledError:  # the task is over
            return _DONE
        except Exception as error:  # noqa: BLE001 - it is raised where the task is played
            self.error = error
            return _DONE


class Answering:
    """One task's replies with the harness's tools, and what came of them."""

    def __init__(
        self, model: Model, script: Script, desk: Desk, hands: Hands, replies: Sequence[Reply]
    ) -> None:
        self.said: list[str] = []
        self.results: list[str] = []
        """Of tools."""
        self.calls = self.failed = 0
        self.turns = 0
        """How many have ended as the script wants."""
        self._model = model
        self._script = script
        self._desk = desk
        self._hands = hands
        self._replies = replies
        self._ahead = Ahead(script, desk.is_busy)

    def __iter__(self) -> Iterator[Reply]:
        said: list[Mapping[str, Any]] = []
        while True:
            reply = self._ahead.next()
            said += [block for block in reply if block["type"] == "text"]
            self.said += [block["text"] for block in reply if block["type"] == "text"]
            calls, rest = calls_in(reply), calls_in(*self._replies[self._script.asked :])
            if calls and not self.calls and self._hands.first:
                yield [*said, *self._blocks(self._hands.first)]
                said = []
                self._told(self._hands.first)
            for blocks in self._played(calls, rest):
                yield [*said, *blocks]
                said = []
            if not calls:
                self.turns += 1
                yield said or _DONE
                said = []

    def _played(self, calls: Sequence[Input], rest: Sequence[Input]) -> Iterator[Reply]:
        """Calls of ours, in as few replies as that can be."""
        waiting: list[tuple[Steps, Together]] = []
        for number, call in enumerate(calls):
            self._desk.later = [*calls[number + 1 :], *rest]
            does = STEPS[call["name"]]
            if does is None:
                continue
            steps = does(self._desk, self._hands, call["input"])
            step = next(steps, None)
            while step is not None:
                waiting.append((steps, step))
                if step.joins and number + 1 < len(calls):
                    break
                answers = yield from self._made(waiting)
                waiting = []
                step = _next(steps, answers)
        if waiting:
            answers = yield from self._made(waiting)
            _next(waiting[-1][0], answers)

    def _made(
        self, waiting: Sequence[tuple[Steps, Together]]
    ) -> Generator[Reply, None, Sequence[str]]:
        """What the calls of the last of them answered; the others get their answers."""
        ended = [self._ahead.take(step.wait) for _, step in waiting if step.wait is not None]
        answers: list[str] = []
        for calls in self._replies_for([call for _, step in waiting for call in step.calls]):
            if any(name in self._hands.reads_file for name, _ in calls):
                time.sleep(_SAVE_S)
            yield self._blocks(calls)
            told = self._told(calls)
            if any(map(self._hands.is_to_repeat, told)) and not self._desk.is_busy():
                yield self._blocks(calls)
                told = self._told(calls)
            answers += told
        for each in ended:
            each.set()
        self._desk.is_fresh = False
        for steps, step in waiting[:-1]:
            _next(steps, answers[: len(step.calls)])
            answers = answers[len(step.calls) :]
        return answers

    def _replies_for(self, calls: Sequence[Call]) -> Iterator[Sequence[Call]]:
        """All in one where that keeps their order."""
        if self._hands.any_order is None:
            yield from [calls] if calls else []
            return
        for name, some in groupby(calls, key=itemgetter(0)):
            if name in self._hands.any_order:
                yield list(some)
            else:
                yield from ([call] for call in some)

    def _blocks(self, calls: Sequence[Call]) -> Reply:
        blocks = []
        for name, input in calls:
            self.calls += 1
            id = f"call_{self.calls}"
            blocks.append({"type": "tool_use", "id": id, "name": name, "input": dict(input)})
        return blocks

    def _told(self, calls: Sequence[Call]) -> list[str]:
        """What they answered, which are those of the last reply."""
        messages = reversed(self._model.requests[-1]["messages"])
        answered = takewhile(lambda message: message["role"] == "tool", messages)
        told = ["\n".join(texts(message["content"])) for message in answered][::-1]
        self.results += told
        names = (name for name, _ in calls)
        self.failed += sum(map(self._hands.has_failed, names, told))
        return told


def _next(steps: Steps, answers: Sequence[str]) -> Together | None:
    try:
        return steps.send(answers)
    except StopIteration:
        return None


@contextmanager
def page_player(chat: Chat, python: str) -> Iterator[PagePlayer]:
    """In one JupyterLab of that environment, and in Chromium."""
    model = Model()
    fake = ChatCompletions(model)
    model.requests = fake.requests
    with ExitStack() as stack:
        stack.enter_context(in_thread(serving(fake)))
        lab = stack.enter_context(peer_lab(python, chat.files(fake.url)))
        browser = stack.enter_context(chromium())
        version = subprocess.run(
            [python, "-c", f"from importlib.metadata import *; print(version({chat.package!r}))"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        yield PagePlayer(f"{chat.package} {version}", chat, lab, browser, model)


@dataclass(frozen=True)
class PagePlayer:
    """Plays tasks in the harness's JupyterLab, as `play.Player` does in ours."""

    name: str
    chat: Chat
    lab: Lab
    browser: Browser
    model: Model

    @property
    def definitions(self) -> int:
        offered = (tokens_of(request.get("tools", [])) for request in self.model.requests)
        return max(offered, default=0)

    def lacks(self, replies: Sequence[Reply]) -> str:
        calls = calls_in(*replies)
        if unknown := {call["name"] for call in calls} - STEPS.keys():
            return f"nothing stands for {', '.join(sorted(unknown))}"
        if any(edit.get("type") for call in calls for edit in call["input"].get("edits", ())):
            return "another type of a cell"
        if not self.chat.hands.opens_notebooks and any(c["input"].get("notebook") for c in calls):
            return "another notebook: its tools work in the one in front"
        return ""

    def play(self, task: Task, replies: Sequence[Reply]) -> Score:
        folder, before = begin(self.lab, task)
        home = f"{task.name}/{NOTEBOOK}"
        script, model = self.lab.script, self.model
        seconds, failure = 0.0, ""
        with person(self.browser, self.lab.url, self.lab.token, home, folder) as somebody:
            desk = Desk(script, self.lab.root, home, before, self.lab.is_busy)
            answering = Answering(model, script, desk, self.chat.hands, replies)
            try:
                self.chat.open(somebody.page)
                for cell_id in task.first:
                    somebody.run(cell_id)
                desk.begin(somebody)
                script.begin(replies, task.meanwhile)
                model.plays(iter(answering), task.prompts)
                began = time.monotonic()
                for number, prompt in enumerate(task.prompts, start=1):
                    self.chat.ask(somebody.page, prompt)
                    if failure := self._attend(answering, number, somebody):
                        break
                seconds = time.monotonic() - began
            except Exception as error:  # noqa: BLE001 - others are played all the same
                failure = f"failed: {type(error).__name__}: {error}"
            finally:
                script.end()
            somebody.save()
            if self.chat.in_rooms or somebody.page.is_closed():
                wait_for_saves(folder)
            self.lab.close_kernels()
        return scored_peer(
            folder,
            task,
            before,
            somebody,
            answer="\n".join(answering.said),
            failure=failure,
            told=answering.results,
            requests=[_as_read(request) for request in model.played],
            tool_calls=answering.calls,
            failed_calls=answering.failed,
            seconds=seconds,
            tool_seconds=0.0,
            names=desk.names,
        )

    def _attend(self, answering: Answering, turns: int, somebody: Person) -> str:
        """Does what the person does until the turn has ended; why it failed."""
        acts, rests = self.lab.script.acts, time.monotonic()
        end = time.monotonic() + _TURN_S
        while time.monotonic() < end:
            if self.model.error is not None:
                raise self.model.error
            try:
                acts.get(timeout=_ACTS_S).do(somebody)
                rests = time.monotonic()
            except queue.Empty:
                closed = somebody.page.is_closed()
                if not closed and self.chat.is_busy(somebody.page):
                    rests = time.monotonic()
                elif answering.turns >= turns:
                    return ""
                elif time.monotonic() - rests > _QUIET_S:
                    return f"its turn ended {'with the page' if closed else 'early'}"
        return "its turn did not end"


def _as_read(request: Mapping[str, Any]) -> dict[str, Any]:
    """With the input of calls as it is, where the API has it as a text."""
    messages = [dict(each) for each in request["messages"]]
    for message in messages:
        if made := message.get("tool_calls"):
            called = [call["function"] for call in made]
            message["tool_calls"] = [
                {**each, "arguments": json.loads(each["arguments"])} for each in called
            ]
    return {"tools": request.get("tools", []), "messages": messages}
