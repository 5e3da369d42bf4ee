"""One turn from the client's side: started once and followed to its end, across reconnects."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from jupyter_agent.client.server import Server, ServerRefused, Unreachable

_RECONNECTIONS = 5
_PAUSE_SECONDS = 1.0
_SILENT_SECONDS = 60.0
"""A connection silent for this long counts as lost: the server writes something every 15 s."""


class Chat:
    """A request to `POST chat`, which starts only one turn, however often it is sent."""

    def __init__(self, server: Server, body: Mapping[str, Any]) -> None:
        """`body` as in docs/api.md, with the conversation's `id`."""
        self._server = server
        self._body = body
        self._once = {"Idempotency-Key": secrets.token_hex(16)}
        self._answered: set[str] = set()
        self._seq = 0
        self.turn_id: str | None = None
        """None until the turn has started."""

    @property
    def attended(self) -> bool:
        """Whether the client answers questions; else the server declines them."""
        return self._body.get("on_approval") != "decline"

    def chunks(self) -> Iterator[dict[str, Any]]:
        """The chunks not read yet, to the end of the turn. Raises ServerRefused."""
        left, pause = _RECONNECTIONS, 0.0
        while True:
            time.sleep(pause)
            try:
                for seq, chunk in self._stream():
                    if seq > self._seq:
                        self._seq, left = seq, _RECONNECTIONS
                        if chunk["type"] == "start":
                            self.turn_id = chunk["messageMetadata"]["turnId"]
                        yield chunk
                return
            except Unreachable:
                if not left or not self._seq:
                    raise
                left, pause = left - 1, _PAUSE_SECONDS

    def _stream(self) -> Iterator[tuple[int, dict[str, Any]]]:
        return self._server.stream(
            "POST", "chat", self._body, headers=self._once, seconds=_SILENT_SECONDS
        )

    def outcome(self) -> Any:
        """The turn as a single JSON answer. Raises ServerRefused."""
        return self._server.ask("POST", "chat", {**self._body, "stream": False}, headers=self._once)

    def outputs_of(self, run: Mapping[str, Any]) -> Sequence[Any]:
        """All outputs of a run; those in the event if the server no longer knows the run."""
        try:
            outputs: Sequence[Any] = self._server.ask("GET", f"runs/{run['run_id']}")["outputs"]
        except ServerRefused:
            outputs = run["outputs"]
        return outputs

    def stop(self) -> None:
        """Stops the turn and the run that it started. Raises ServerRefused."""
        try:
            self._server.ask("POST", f"chat/{self._body['id']}/stop", {})
        except ServerRefused as error:
            if error.status != 404:  # the turn has not started
                raise

    def questions(self) -> list[list[dict[str, Any]]]:
        """The open approvals without a reply so far, by group. Raises ServerRefused."""
        turn = self._server.ask("GET", f"turns/{self.turn_id}")
        open_approvals = [each for each in turn["approvals"] if each["id"] not in self._answered]
        return [list(group) for _, group in groupby(open_approvals, key=itemgetter("group"))]

    def reply(self, replies: Sequence[Mapping[str, Any]]) -> bool:
        """Answers the approvals of a group; False if they were answered elsewhere or have expired.
        Raises ServerRefused.
        """
        self._answered |= {each["id"] for each in replies}
        body = {"approvals": list(replies)}
        try:
            self._server.ask("POST", f"chat/{self._body['id']}/approvals", body)
        except ServerRefused as error:
            if error.reason != "approval_closed":
                raise
            return False
        return True
