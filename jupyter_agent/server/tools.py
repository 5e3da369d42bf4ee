"""The tools over REST, as a model calls them: the same dispatcher, the same permissions."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.carriers.registry import WhileAway
from jupyter_agent.choices import Mode, Share
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.errors import RequestError, ToolError
from jupyter_agent.server.answers import ListedTool, ToolAnswer
from jupyter_agent.server.base import MEBIBYTE, WHILE_AWAY, AgentHandler, Authorizer, operation
from jupyter_agent.workspace.workspace import Services, Workspace


class ToolBody(BaseModel):
    """A call, and what its caller allows."""

    model_config = ConfigDict(extra="forbid")

    notebook: str | None = None
    input: dict[str, Any] = Field(default_factory=dict)
    conversation_id: str | None = None
    """Whose reads are the base of a whole rewrite."""
    mode: Mode = "ask"
    allow: list[str] = Field(default_factory=list)
    while_away: WhileAway = "wait"
    """Edits are refused while a tab with unsaved work is away, or written into the file."""
    share: Share = "all"
    """How much of notebooks may be told; administrator and notebook may say less."""


class CallHandler(AgentHandler):
    """What the routes of tools share."""

    max_body_bytes = 16 * MEBIBYTE

    def initialize(self, dispatcher: Dispatcher, services: Services, runner: TurnRunner) -> None:
        self.dispatcher = dispatcher
        self.services = services
        self.runner = runner


class ToolsHandler(CallHandler):
    """`GET tools`"""

    @operation("read", gives=list[ListedTool])
    async def get(self) -> None:
        """Names, descriptions, input schemas and effects."""
        self.answer((await self.dispatcher.with_others(ask=False)).toolbox.describe())


class ToolHandler(CallHandler):
    """`POST tools/{name}`"""

    @operation("write", body=ToolBody, query=WHILE_AWAY, gives=ToolAnswer)
    async def post(self, name: str, body: ToolBody) -> None:
        """Calls a tool; what would ask is refused, unless `allow` names it."""
        dispatcher = self.dispatcher
        if name not in dispatcher.toolbox:
            dispatcher = await dispatcher.with_others()
        if name not in dispatcher.toolbox:
            hint = dispatcher.toolbox.hint(name)
            raise RequestError(404, "unknown_tool", f"No tool `{name}`; see `GET tools`.{hint}")
        # Without a conversation, a user's calls by this entry share what was read.
        conversation = body.conversation_id or "tools"
        work = Workspace(
            services=self.services,
            user=self.owner,
            authorize=Authorizer(self),
            home=await self.services.identities.path(body.notebook) if body.notebook else None,
            reads=self.runner.reads(self.owner, conversation),
            share=self.runner.share(body.share),
            while_away=body.while_away,
        )
        policy = self.runner.policy(self.person, body.mode, frozenset(body.allow))
        try:
            result = await dispatcher.call(name, body.input, work, policy)
        except ToolError as error:
            self.answer(
                {"text": error.message, "is_error": True, "reason": error.reason, **error.facts}
            )
            return
        # A person reads the events of a turn; this answer may go to a model as it is.
        view = await work.visibility(result.facts.get("notebook", work.home))
        images = [{"media_type": kind, "data": data} for kind, data in result.images]
        self.answer(
            {
                **view.facts(result.output()),
                "is_error": False,
                "changes": [
                    view.facts(self.services.redactor.change(each)) for each in result.changes
                ],
                **({"images": images} if images else {}),
            }
        )
