"""People, an agent, other programs and faults in one notebook, with a log of their actions and
the answers they got. `tests/history/checker.py` derives from the log what must be there at the end.

Each word is written only once. People have real keys in real pages, the agent works over HTTP
beside them. No call here waits for a question of JupyterLab: it is recorded and answered by a
rule, and text typed while it was open counts as perhaps typed.
"""

from __future__ import annotations

import http.client
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Route

from tests.history.checker import (
    TOKEN,
    Edit,
    End,
    Fault,
    Question,
    Told,
    Typed,
    faults,
)
from tests.ui.lab import Replies
from tests.ui.page import OpenNotebook
from tests.ui.players.agent import Agent
from tests.ui.players.editor import Editor
from tests.ui.players.person import Person
from tests.ui.players.scene import Log, Where, Words

LONG = 3.0
"""Seconds after which the server considers a tab closed."""
LINES = """
(() => {
  window.agentDialogs = 0;
  new MutationObserver(changes => {
    for (const node of changes.flatMap(({ addedNodes }) => [...addedNodes])) {
      window.agentDialogs += node.classList?.contains('jp-Dialog') ? 1 : 0;
    }
  }).observe(document, { childList: true, subtree: true });
  window.agentLines = [];
  window.agentOffline = false;
  const isOurs = url => /api\\/agent\\/tab|api\\/collaboration/.test(String(url));
  window.WebSocket = class extends WebSocket {
    constructor(url, protocols) {
      super(isOurs(url) && window.agentOffline ? 'ws://127.0.0.1:65534/' : url, protocols);
      if (isOurs(url)) {
        window.agentLines.push(this);
      }
    }
  };
})();
"""
"""Connections that can be cut and refused, and a count of the questions that JupyterLab asks."""


class Fuzz:
    """One session in one notebook.

    `trouble`: of `cut`, `offline`, `freeze`, `kill` and `editor` what may happen, before such a
    part (`rate`) of the operations. `gate`: the agent waits while a page is away for long.
    """

    def __init__(
        self,
        seed: int,
        notebooks: list[OpenNotebook],
        replies: Replies,
        *,
        trouble: frozenset[str] = frozenset(),
        rate: float = 0.1,
        gate: bool = True,
        together: bool = False,
    ) -> None:
        self.seed = seed
        self.log = Log()
        self._random = random.Random(seed)
        first = notebooks[0]
        self._where = Where(first.lab, first.path, self.log, Words(), together, len(notebooks))
        self._where.agent_may.set()
        self._where.idle.set()
        self._people = [
            Person(f"person {number}", notebook, self._where, seed * 10 + number)
            for number, notebook in enumerate(notebooks)
        ]
        self._agent = Agent(self._where, replies, seed * 10 + 7)
        self._editor = Editor(self._where, seed * 10 + 8)
        self._trouble = sorted(trouble)
        self._rate = rate
        self._gate = gate
        self._together = together
        self.person = self._people[0]
        self._lab = first.lab

    def work(self, operations: int) -> None:
        """That many operations of people, with the agent beside them."""
        for person in self._people:
            person.notebook.page.set_default_timeout(10_000)
            person.watch()
        self.person.page.bring_to_front()
        with ThreadPoolExecutor(2) as threads:
            working = threads.submit(self._agent.work)
            try:
                for _ in range(operations):
                    self._step(threads)
                    if working.done():
                        working.result()
            finally:
                self._where.over.set()
                self._where.agent_may.set()
            working.result()

    def judge(self) -> list[Fault]:
        """End all players; returns the problems."""
        self._last = end = self._end()
        self.person.note_conflicts()
        alone = not self._together and len(self._people) == 1 and "editor" not in self._trouble
        return faults(self.log.events, end, alone=alone)

    def report(self, found: list[Fault]) -> str:
        """The operations, and the log's entries about the problems."""
        events = self.log.events
        typed = sum(isinstance(event, Typed) for event in events)
        sure = sum(isinstance(event, Typed) and event.sure for event in events)
        done = Counter[str]()
        for event in events:
            if isinstance(event, Edit):
                done[event.outcome] += len(event.adds)
        given_up = self._given_up()
        questions = sum(isinstance(event, Question) for event in events)
        lines = [
            f"seed {self.seed}: {sum(self.log.done.values())} operations"
            f" ({_by_player(self.log.done)}) in {self.log.now():.0f} s;"
            f" {typed} words typed ({sure} surely), of the agent {dict(done)};"
            f" File Changed {questions}, words given up because of it {given_up};"
            f" {len(found)} faults",
            f"  {dict(sorted(self.log.done.items()))}",
            f"  {dict(self._agent.answers)}",
        ]
        for fault in found:
            lines.append(f"  {fault}")
            if TOKEN.fullmatch(fault.what):
                lines.append(f"    {self.log.about(fault.what)}")
        if found and (folder := os.environ.get("FUZZ_LOG")):
            whole = Path(folder) / f"{self.seed}.log"
            whole.write_text(
                "\n".join([*lines, *self.log.lines(), str(self._last)]), encoding="utf-8"
            )
        return "\n".join(lines)

    def _given_up(self) -> int:
        """How many words are not there, and all that speaks for it is that somebody was asked."""
        left = [event for event in self.log.events if not isinstance(event, Told)]
        without = faults(left, self._last, alone=False)
        return sum(fault.kind == "lost" for fault in without)

    # ---- events

    def _step(self, threads: ThreadPoolExecutor) -> None:
        if self._trouble and self._random.random() < self._rate:
            what = self._random.choice(self._trouble)
            self.log.note(f"trouble: {what}")
            match what:
                case "editor":
                    self._editor.write()
                case "kill":
                    self._kill(threads)
                case "offline":
                    self._offline()
                case "freeze":
                    self._freeze()
                case "cut":
                    self._cut()
            self.log.done[f"trouble {what}"] += what != "editor"
        if len(self._people) > 1 and self._random.random() < (0.5 if self._together else 0.1):
            self._switch()
        self.person.do()
        self.person.page.wait_for_timeout(self._random.choice((0, 20, 100, 300)))

    def _switch(self) -> None:
        """To another page. Without a room: save here, and take the file there."""
        other = self._random.choice([one for one in self._people if one is not self.person])
        if not self._together:
            self.person.do("save")
            if not self.person._until(lambda: not self.person.dirty(), 5):
                return
        other.notebook.path = self._where.path
        other.page.bring_to_front()
        self.person = other
        if not self._together:
            other.do("revert")

    def _cut(self) -> None:
        self.person.page.evaluate("() => agentLines.forEach(line => line.close())")

    def _offline(self) -> None:
        """Nothing reaches the server, for a moment or for long; the person works on."""
        page, long = self.person.page, self._random.random() < 0.5
        seconds = self._random.uniform(LONG + 0.5, 8) if long else self._random.uniform(0.3, 2)

        def refuse(route: Route) -> None:
            route.abort("internetdisconnected")

        with self._agent_aside(long):
            page.route("**/api/**", refuse)
            page.evaluate("() => (agentOffline = true, agentLines.forEach(line => line.close()))")
            self._work_on(seconds)
            page.unroute("**/api/**", refuse)
            page.evaluate("() => (agentOffline = false)")
            self._come_back()

    def _work_on(self, seconds: float) -> None:
        """Operations that need no server, and a save that fails."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.person.do(self._random.choice(("type", "type", "insert", "move", "split", "save")))
            self.person.page.wait_for_timeout(100)

    def _freeze(self) -> None:
        session = self.person.page.context.new_cdp_session(self.person.page)
        seconds = self._random.choice((0.5, 2, 4, 7))
        session.send("Page.setWebLifecycleState", {"state": "frozen"})
        time.sleep(seconds)
        session.send("Page.setWebLifecycleState", {"state": "active"})
        session.detach()

    def _kill(self, threads: ThreadPoolExecutor) -> None:
        """The server dies and restarts while the person keeps working."""
        with self._agent_aside(True):
            self._lab.kill()
            started = threads.submit(self._lab.start)
            self._work_on(self._random.choice((0.1, 1)))
            while not started.done():
                self._work_on(0.5)
            started.result()
            self._come_back()

    @contextmanager
    def _agent_aside(self, long: bool) -> Iterator[None]:
        """With the gate it asks for nothing more while the page is away for long; what it has
        asked for already may die.
        """
        if long and self._gate:
            self._where.agent_may.clear()
        try:
            yield
        finally:
            self._where.agent_may.set()

    def _come_back(self) -> None:
        """End the page's reconnection pause."""
        self.person.page.evaluate("() => void window.dispatchEvent(new Event('online'))")
        if self._gate and not self._together:
            self._linked(self.person)

    def _linked(self, person: Person) -> None:
        if not person._until(lambda: self._carrier() == "tab", 30):
            self.log.note(f"the tab has not come back: {self._where.server()}")

    def _carrier(self) -> str:
        try:
            return self._where.server()[0]
        except (OSError, http.client.HTTPException) as error:
            return repr(error)

    # ---- the end

    def _end(self) -> End:
        """Everyone stops, the person saves, and all compare until they see the same, or give up."""
        for person in self._people:
            person.answer_questions("Overwrite")
        if not self._together:
            self._linked(self.person)
        end = self._look()
        for _ in range(4):
            self.person.do("save")
            self.person._until(self._same, 5)
            self.person.answer_questions("Overwrite")
            end = self._look()
            if self._same():
                break
        return end

    def _look(self) -> End:
        people = self._people if self._together else [self.person]
        pages = {f"page {number}": person.cells() for number, person in enumerate(people)}
        try:
            server = self._where.server()[1]
        except (OSError, http.client.HTTPException) as error:
            self.log.note(f"the server cannot be read: {error!r}")
            server = []
        return End({**pages, "server": server, "disk": self._where.disk()})

    def _same(self) -> bool:
        first, *others = self._look().places.values()
        return all(other == first for other in others)


def _by_player(done: Counter[str]) -> str:
    players = Counter[str]()
    for what, count in done.items():
        players[what.split()[0]] += count
    return ", ".join(f"{player} {count}" for player, count in players.items())
