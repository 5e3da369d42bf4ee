"""A Model that answers from a script, without any network."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from copy import deepcopy

from jupyter_agent.errors import ModelError
from jupyter_agent.models.base import ModelEvent, ModelRequest
from tests.fakes.rules import check_messages
from tests.fakes.script import FakeReply, Script


class ScriptedModel:
    """Answers from a list and records its requests.

    It raises Refused for a history that the API would refuse, and AssertionError when it runs out
    of replies: both are bugs of the caller, not failures of a model service.
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
        """Streams the next reply. A Scripted `error` is not supported: use a ModelError."""
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
