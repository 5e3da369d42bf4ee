"""What a caller may do, see and ask, within the administrator's rules."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.options import CallOptions
from jupyter_agent.agent.people import Person
from jupyter_agent.agent.permissions import Policy
from jupyter_agent.choices import Share
from jupyter_agent.conversations.allowances import Allowances
from jupyter_agent.conversations.instructions import (
    ProjectInstructions,
    TrustStore,
    find_instructions,
)
from jupyter_agent.conversations.request import Rules
from jupyter_agent.errors import InvalidInput
from jupyter_agent.text.fence import NO_FENCE, Fence
from jupyter_agent.tools.sources import PREFIX
from jupyter_agent.workspace.reads import Reads
from jupyter_agent.workspace.visibility import strictest
from jupyter_agent.workspace.workspace import Authorize, Services, Workspace

MAX_READS = 200
"""Conversations whose reads are remembered; others have to read notebooks again."""


class Access:
    """Workspaces and policies for whoever calls tools: a person's turn, a script, an MCP client."""

    def __init__(
        self,
        services: Services,
        dispatcher: Dispatcher,
        rules: Rules,
        allowances: Allowances,
        trust: TrustStore,
    ) -> None:
        self.allowances = allowances
        self._services = services
        self._dispatcher = dispatcher
        self._rules = rules
        self._trust = trust
        self._reads: dict[tuple[str, str], Reads] = {}

    def workspace(
        self,
        user: str,
        authorize: Authorize,
        options: CallOptions,
        conversation_id: str,
        *,
        client: str | None = None,
        turn_id: str | None = None,
        fence: Fence = NO_FENCE,
    ) -> Workspace:
        """The workspace for calls with these options, with the conversation's reads."""
        return Workspace(
            services=self._services,
            user=user,
            authorize=authorize,
            home=options.notebook,
            client=client,
            turn_id=turn_id,
            reads=self.reads(user, conversation_id),
            share=self.share(options.share),
            while_away=options.while_away,
            fence=fence,
        )

    def reads(self, owner: str, conversation_id: str) -> Reads:
        """What a conversation has read; only the `MAX_READS` used last are remembered."""
        key = (owner, conversation_id)
        self._reads[key] = reads = self._reads.pop(key, None) or Reads()
        if len(self._reads) > MAX_READS:
            del self._reads[next(iter(self._reads))]  # the least recently used
        return reads

    def forget(self, owner: str, conversation_id: str) -> None:
        """Drop the reads of a deleted conversation."""
        self._reads.pop((owner, conversation_id), None)

    def share(self, wanted: Share) -> Share:
        """How much of a notebook a caller's model sees, up to the administrator's ceiling."""
        return strictest(wanted, self._rules.share)

    def policy(self, person: Person, options: CallOptions) -> Policy:
        """What a caller may do with these options, below the administrator's ceiling for them."""
        return Policy(
            mode=options.mode,
            max_mode=self.allowances.of(person).max_mode,
            preapproved_tools=frozenset(options.allow),
            rules=[rule for rule in self._rules.rules if rule.is_for(person)],
            allow_remote_content=self._rules.allow_remote_content,
        )

    async def require_tools(self, names: Sequence[str]) -> None:
        """Raises InvalidInput if a caller allows a tool that does not exist. Those of MCP servers,
        which come and go, are not checked.
        """
        if not names:
            return
        toolbox = (await self._dispatcher.with_external_tools(ask=False)).toolbox
        unknown = [
            f"`{name}`" for name in names if name not in toolbox and not name.startswith(PREFIX)
        ]
        if unknown:
            raise InvalidInput(f"No tool {', '.join(unknown)}. Tools: {', '.join(toolbox)}.")

    async def instructions(
        self, work: Workspace, *, trust_all: bool = False
    ) -> ProjectInstructions:
        """The files of instructions that apply to the workspace's own notebook."""
        return await self._trust.classify(
            work.user,
            await find_instructions(work),
            trust_all=trust_all or self._rules.trust_instructions,
        )
