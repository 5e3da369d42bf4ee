"""A Model that answers from a script, without any network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from copy import deepcopy

from jupyter_agent.errors import ModelError
from jupyter_agent.models.base import ModelEvent, ModelRequest
from jupyter_agent.testing.rules import check_messages
from jupyter_agent.testing.script import FakeReply, Script


class ScriptedModel:
    """Answers from a list and remembers what it was asked.

    It raises Refused for a history that the API would refuse, and AssertionError when it is asked
    more often than it has replies: both are faults of whoever asks, not of a model service.
    """

    host = ""

    def __init__(
        self, replies: Iterable[FakeReply | ModelError], id: str = "scripted:model"
    ) -> None:
        self.id = id
        self.requests: list[ModelRequest] = []
        self._faults: list[ModelError | None] = []
        script: list[FakeReply] = []
        for reply in replies:
            fault = reply if isinstance(reply, ModelError) else None
            self._faults.append(fault)
            script.append([] if isinstance(reply, ModelError) else reply)
        self._script = Script(script)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """The next reply. An `error` of a Scripted one is not known here: give a ModelError."""
        check_messages(request.messages)
        self.requests.append(deepcopy(request))
        reply = self._script.next()
        assert reply is not None, "The script is over, and the model is asked once more."
        fault = self._faults.pop(0)
        if fault is not None:
            raise fault
        for position, event in enumerate(reply.events()):
            if position == reply.stop_after:
                if reply.then != "wait" or reply.gate is None:
                    return
                await reply.gate.wait()
            yield event
