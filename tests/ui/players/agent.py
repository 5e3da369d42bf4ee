"""An agent that works in a notebook over HTTP, at random."""

from __future__ import annotations

import http.client
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from tests.fakes import calls, says
from tests.history.checker import (
    TOKEN,
    Edit,
    Outcome,
    tokens,
)
from tests.ui.lab import Answer, Replies
from tests.ui.players.scene import MOST_CELLS, Where

PART = re.compile("[EGNQTUW]")
"""Matches a word that is being typed."""


class Agent:
    """Works over HTTP, beside the people; records its answers."""

    name = "agent"

    def __init__(self, where: Where, replies: Replies, seed: int) -> None:
        self._where = where
        self._log = where.log
        self._lab = where.lab
        self._replies = replies
        self._random = random.Random(seed)
        self._own: set[str] = set()
        self.answers: Counter[str] = Counter()

    def work(self) -> None:
        """Until it is over."""
        doings = {
            self._patch: 6, self._replace: 2, self._insert: 2, self._rewrite: 2, self._stale: 2,
            self._move: 2, self._delete: 1, self._retype: 1, self._run: 1, self._turn: 0.7,
        }  # fmt: skip
        while not self._where.over.is_set():
            self._where.idle.set()
            self._where.agent_may.wait()
            self._where.idle.clear()
            if self._where.agent_may.is_set():
                doing = self._random.choices(list(doings), list(doings.values()))[0]
                try:
                    doing()
                except (OSError, http.client.HTTPException) as error:
                    self._log.note(f"the agent cannot read: {error!r}")
                    time.sleep(0.2)
                self._log.done[f"agent {doing.__name__.strip('_')}"] += 1
                self._where.idle.set()
            time.sleep(self._random.choice((0, 0.02, 0.1, 0.4)))
        self._where.idle.set()

    def _cells(self) -> list[Any]:
        answer = self._call("GET", "")
        return answer.body["cells"] if answer.status == 200 else []

    def _some(self) -> Any:
        cells = self._cells()
        return self._random.choice(cells) if cells else None

    def _with_own_word(self) -> tuple[Any, str] | None:
        """A cell and a word in it that the agent wrote, once in that cell."""
        found = [
            (cell, token)
            for cell in self._cells()
            for token, count in tokens(cell["source"]).items()
            if count == 1 and token in self._own
        ]
        return self._random.choice(found) if found else None

    # ---- its actions

    def _patch(self) -> None:
        """Writes a word behind one of its own."""
        if (found := self._with_own_word()) is None:
            return self._insert()
        (cell, old), new = found, self._new()
        between = self._random.choice((" ", "\n"))
        body = {"old_string": old, "new_string": f"{old}{between}{new}"}
        self._edit("patch", lambda: self._patched(cell, body), (new,), cell=cell["id"])

    def _replace(self) -> None:
        if (found := self._with_own_word()) is not None:
            (cell, old), new = found, self._new()
            body = {"old_string": old, "new_string": new}
            removes = Counter([old])
            self._edit(
                "replace", lambda: self._patched(cell, body), (new,), removes, cell=cell["id"]
            )

    def _insert(self) -> None:
        cells = self._cells()
        if cells and len(cells) < MOST_CELLS:
            new = self._new()
            body = {"source": f"{new} = 1", "index": self._random.randrange(len(cells) + 1)}
            self._edit("insert", lambda: self._call("POST", "/cells", body), adds=(new,))

    def _rewrite(self) -> None:
        """Writes the whole text, if the cell is still as it was read."""
        if (cell := self._some()) is not None:
            new = self._new()
            source = self._written(cell["source"], new)
            match = {"If-Match": f'"{cell["version"]}"'}
            self._edit(
                "rewrite",
                lambda: self._patched(cell, {"source": source}, match),
                (new,),
                tokens(cell["source"]) - tokens(source),
                cell=cell["id"],
            )

    def _stale(self) -> None:
        """Writes the whole text, long after reading it: later typing is merged."""
        if (cell := self._some()) is None:
            return
        call = {"notebook": self._where.path, "mode": "auto", "conversation_id": "fuzz"}
        self._tool("read_cells", {**call, "input": {"cell_ids": [cell["id"]]}})
        again = self._call("GET", f"/cells/{cell['id']}")
        if again.status != 200 or again.body["version"] != cell["version"]:
            return
        time.sleep(self._random.choice((0, 0.1, 0.7)))
        new = self._new()
        source = self._written(cell["source"], new)
        body = {**call, "input": {"cell_id": cell["id"], "source": source}}
        removes = tokens(cell["source"]) - tokens(source)
        self._edit(
            "stale", lambda: self._tool("update_cell", body), (new,), removes, cell=cell["id"]
        )

    def _written(self, source: str, new: str) -> str:
        """The text with one more line, perhaps replacing another. The agent only removes text that
        it has read: it leaves lines alone in which someone is in the middle of a word.
        """
        lines = source.split("\n")
        whole = [at for at, line in enumerate(lines) if not PART.search(TOKEN.sub("", line))]
        if whole and self._random.random() < 0.3:
            lines[self._random.choice(whole)] = f"{new} = 1"
        else:
            lines.insert(self._random.randrange(len(lines) + 1), f"{new} = 1")
        return "\n".join(lines)

    def _move(self) -> None:
        cells = self._cells()
        if cells:
            cell, body = self._random.choice(cells), {"index": self._random.randrange(len(cells))}
            self._edit("move", lambda: self._call("POST", f"/cells/{cell['id']}/move", body))

    def _delete(self) -> None:
        """If it is still as it was read."""
        cells = self._cells()
        if len(cells) > 3:
            cell = self._random.choice(cells)
            match = {"If-Match": f'"{cell["version"]}"'}
            self._edit(
                "delete",
                lambda: self._call("DELETE", f"/cells/{cell['id']}", headers=match),
                removes=tokens(cell["source"]),
            )

    def _retype(self) -> None:
        if (cell := self._some()) is not None:
            body = {"type": "code" if cell["type"] != "code" else "markdown"}
            types = {cell["id"]: body["type"]}
            self._edit("retype", lambda: self._patched(cell, body), types=types)

    def _run(self) -> None:
        if (cell := self._some()) is not None:
            self._edit("run", lambda: self._call("POST", f"/cells/{cell['id']}/run", {"wait": 2}))

    def _turn(self) -> None:
        """A turn of the chat makes a cell and edits one; perhaps it is undone."""
        found, one, two = self._with_own_word(), self._new(), self._new()
        self._replies.clear()
        self._replies.append([calls("create_cell", source=f"{one} = 1")])
        adds: tuple[str, ...] = (one,)
        if found is not None:
            cell, old = found
            change = {"cell_id": cell["id"], "old_string": old, "new_string": f"{old} {two}"}
            self._replies.append([calls("update_cell", **change)])
            adds = (one, two)
        self._replies.append([says("Done.")])
        begin = self._log.now()
        message = {"role": "user", "parts": [{"type": "text", "text": "Please."}]}
        body = {"messages": [message], "notebook": self._where.path, "mode": "auto"}
        there: list[Any] = []
        try:
            turn = self._lab.call("POST", "chat", {**body, "stream": False}, timeout=90)
            if turn.status == 200:
                changes = self._lab.call("GET", f"turns/{turn.body['turn_id']}/changes")
                there = changes.body if changes.status == 200 else []
        except (OSError, http.client.HTTPException) as error:
            self._log.note(f"the turn died: {error!r}")
        for token in adds:
            cells = [
                one["cell_id"] for one in there if token in (one["after"] or {}).get("source", "")
            ]
            outcome: Outcome = "done" if cells else "unknown"
            self._ended("turn", begin, outcome, (token,), cell="".join(cells[:1]))
        if not there or self._random.random() < 0.3:
            return
        begin, undone = self._log.now(), None
        try:
            answer = self._lab.call("POST", f"turns/{turn.body['turn_id']}/undo", {})
            if answer.status == 200:
                undone = [(one["before"], one["after"]) for one in answer.body["undone"]]
                self._log.note(f"undone: {answer.body}")
            else:
                self._log.note(f"the undo of {adds}: {answer}")
        except (OSError, http.client.HTTPException) as error:
            self._log.note(f"the undo died: {error!r}")
        for token in adds:
            gone = undone is None or any(
                token in (after or {}).get("source", "") + (before or {}).get("source", "")
                for before, after in undone
            )
            if gone:
                outcome = "unknown" if undone is None else "done"
                self._ended("undo", begin, outcome, removes=Counter([token]))

    # ---- how

    def _new(self) -> str:
        token = self._where.words.next()
        self._own.add(token)
        return token

    def _call(
        self, method: str, what: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        path = f"notebooks/{quote(self._where.path)}{what}"
        return self._lab.call(method, path, body, headers=headers)

    def _patched(self, cell: Any, body: Any, headers: dict[str, str] | None = None) -> Answer:
        return self._call("PATCH", f"/cells/{cell['id']}", body, headers)

    def _tool(self, name: str, body: Any) -> Answer:
        return self._lab.call("POST", f"tools/{name}", body)

    def _edit(
        self,
        kind: str,
        act: Callable[[], Answer],
        adds: tuple[str, ...] = (),
        removes: Mapping[str, int] | None = None,
        types: Mapping[str, str] | None = None,
        cell: str = "",
    ) -> None:
        begin = self._log.now()
        saved = True
        try:
            answer = act()
        except (OSError, http.client.HTTPException) as error:
            outcome: Outcome = "unknown"
            self._log.note(f"the agent's {kind} {adds} {removes} died: {error!r}")
        else:
            body = answer.body if isinstance(answer.body, dict) else {}
            outcome = _outcome(answer, body)
            saved = bool(body.get("saved", True))
            why = body.get("reason", "")
            self.answers[f"{answer.status} {why}".strip()] += 1
            if outcome != "done" or body.get("note"):
                told = {
                    key: body[key]
                    for key in ("reason", "message", "text", "saved", "note")
                    if key in body
                }
                self._log.note(
                    f"the agent's {kind} {adds} {dict(removes or {})}: {answer.status} {told}"
                )
        self._ended(kind, begin, outcome, adds, removes, types, saved, cell)

    def _ended(
        self,
        kind: str,
        begin: float,
        outcome: Outcome,
        adds: tuple[str, ...] = (),
        removes: Mapping[str, int] | None = None,
        types: Mapping[str, str] | None = None,
        saved: bool = True,
        cell: str = "",
    ) -> None:
        edit = Edit(
            begin, self._log.now(), self.name, kind, outcome, adds, dict(removes or {}),
            dict(types or {}), saved, cell,
        )  # fmt: skip
        self._log.events.append(edit)


def _outcome(answer: Answer, body: Mapping[str, Any]) -> Outcome:
    """The promised outcome. A tool answers 200 even if it reports a failure."""
    failed = answer.status >= 400 or body.get("is_error")
    if not failed:
        return "done"
    told = f"{body.get('message')} {body.get('text')}"
    unknown = (
        answer.status >= 500
        or body.get("reason") == "not_confirmed"
        # The person removed the new text, or the answer gives its new place.
        or any(part in told for part in ("was deleted at the same moment", "split it"))
    )
    return "unknown" if unknown else "refused"
