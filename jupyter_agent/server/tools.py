"""The tools over REST, as a model calls them: same dispatcher, same permissions."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field

from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.options import CallOptions
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.errors import RequestError, ToolError
from jupyter_agent.server.answers.assistant import ListedTool, ToolAnswer
from jupyter_agent.server.base import MEBIBYTE, WHILE_AWAY, AgentHandler, operation
from jupyter_agent.server.people import Authorizer
from jupyter_agent.workspace.workspace import Services


class ToolBody(CallOptions):
    """A call, and what its caller allows."""

    model_config = ConfigDict(extra="forbid")

    input: dict[str, Any] = Field(default_factory=dict)
    conversation_id: str | None = None
    """The conversation whose reads are the base of a whole rewrite."""


class CallHandler(AgentHandler):
    """Base of the tool routes."""

    max_body_bytes = 16 * MEBIBYTE

    def initialize(self, dispatcher: Dispatcher, services: Services, runner: TurnRunner) -> None:
        self.dispatcher = dispatcher
        self.services = services
        self.runner = runner


class ToolsHandler(CallHandler):
    """`GET tools`"""

    @operation("read", gives=list[ListedTool])
    async def get(self) -> None:
        """Lists names, descriptions, input schemas and effects."""
        self.answer((await self.dispatcher.with_external_tools(ask=False)).toolbox.describe())


class ToolHandler(CallHandler):
    """`POST tools/{name}`"""

    @operation("write", body=ToolBody, query=WHILE_AWAY, gives=ToolAnswer)
    async def post(self, name: str, body: ToolBody) -> None:
        """Calls a tool; a call that would need an approval is refused, unless `allow` names the
        tool."""
        await self.runner.access.require_tools(body.allow)
        dispatcher = self.dispatcher
        if name not in dispatcher.toolbox:
            dispatcher = await dispatcher.with_external_tools()
        if name not in dispatcher.toolbox:
            hint = dispatcher.toolbox.hint(name)
            raise RequestError(404, "unknown_tool", f"No tool `{name}`; see `GET tools`.{hint}")
        # Without a conversation, all calls of a user through this route share their reads.
        conversation = body.conversation_id or "tools"
        options = await body.on_path(self.services.identities)
        work = self.runner.access.workspace(self.owner, Authorizer(self), options, conversation)
        policy = self.runner.access.policy(self.person, options)
        try:
            result = await dispatcher.call(name, body.input, work, policy)
        except ToolError as error:
            failed = {"text": work.redact(error.message), "is_error": True, "reason": error.reason}
            self.answer({**failed, **error.facts})
            return
        # This answer may go to a model as it is; the events of a turn are for people.
        changes = [self.services.redactor.change(each) for each in result.changes]
        facts = await work.facts_for_model({**result.output(), "changes": changes})
        images = [{"media_type": kind, "data": data} for kind, data in result.images]
        self.answer({**facts, "is_error": False, **({"images": images} if images else {})})
