"""Conversations: list, read, rename, delete, export."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from jupyter_agent.conversations.records import TurnRecord
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.errors import RequestError
from jupyter_agent.events import Usage
from jupyter_agent.server import wire
from jupyter_agent.server.answers.assistant import RulesAnswer
from jupyter_agent.server.answers.conversations import (
    CompactedAnswer,
    ConversationAnswer,
    ConversationListAnswer,
)
from jupyter_agent.server.base import AgentHandler, operation
from jupyter_agent.workspace.workspace import Services


class RenameBody(BaseModel):
    """A new title."""

    title: str = Field(min_length=1, max_length=200)


class ConversationHandlerBase(AgentHandler):
    """Base of the conversation routes."""

    def initialize(self, runner: TurnRunner, services: Services) -> None:
        self.runner = runner
        self.services = services
        self.store = runner.stores.conversations

    async def ready(self) -> None:
        await self.runner.recover()

    async def find_row(self, conversation_id: str) -> dict[str, Any]:
        """The conversation's row. Raises RequestError 404 if it is not the user's."""
        row = await self.store.conversation(self.owner, conversation_id)
        if row is None:
            raise RequestError(404, "not_found", f"No conversation `{conversation_id}`.")
        return dict(row)

    async def with_messages(
        self, conversation_id: str, *, replaced: bool = False
    ) -> dict[str, Any]:
        """The conversation with its messages."""
        row = await self.find_row(conversation_id)
        turns = await self.store.turns(self.owner, conversation_id, replaced=replaced)
        messages: list[dict[str, Any]] = []
        for turn in turns:
            live = self.runner.live(turn.id)
            events = live.events if live else [e for _, e in await self.store.events(turn.id)]
            answer = wire.message(turn.answer_id, events)
            answer["metadata"] |= _duration(turn)
            messages += [dict(turn.question), answer]
        return {
            "id": row["id"],
            "title": row["title"],
            "notebook": row["notebook"],
            "model": row["model"],
            "created": row["created"],
            "updated": row["updated"],
            "state": turns[-1].state if turns else None,
            "usage": asdict(await self.store.usage(self.owner, conversation_id)),
            "instructions": turns[-1].request["instructions"] if turns else [],
            "turns": [{"id": turn.id, "state": turn.state} for turn in turns],
            "messages": messages,
        }


class ConversationsHandler(ConversationHandlerBase):
    """`GET conversations`"""

    @operation("read", query={"notebook": str, "q": str, "page": int}, gives=ConversationListAnswer)
    async def get(self) -> None:
        """Lists the user's conversations, newest first."""
        notebook = self.get_query_argument("notebook", None)
        conversations, next_page = await self.store.conversations(
            self.owner,
            notebook=notebook and await self.services.identities.path(notebook),
            query=self.get_query_argument("q", None),
            page=self.number("page", 1),
        )
        self.answer({"conversations": conversations, "next_page": next_page})


class ConversationHandler(ConversationHandlerBase):
    """`conversations/{id}`"""

    @operation("read", gives=ConversationAnswer)
    async def get(self, conversation_id: str) -> None:
        """Returns a conversation; `messages` work as initial messages of `useChat`."""
        self.answer(await self.with_messages(conversation_id))

    @operation("write", body=RenameBody, gives=ConversationAnswer)
    async def patch(self, conversation_id: str, body: RenameBody) -> None:
        """Renames a conversation."""
        await self.find_row(conversation_id)
        await self.store.rename(self.owner, conversation_id, body.title)
        self.runner.stores.announce(conversation_id)
        self.answer(await self.with_messages(conversation_id))

    @operation("write", answers=204)
    async def delete(self, conversation_id: str) -> None:
        """Deletes a conversation and its turns; a running turn is stopped first."""
        await self.find_row(conversation_id)
        await self.runner.stop_in(self.owner, conversation_id)
        await self.store.delete(self.owner, conversation_id)
        self.runner.access.forget(self.owner, conversation_id)
        self.runner.stores.announce(conversation_id)
        self.answer_nothing()


class CompactHandler(ConversationHandlerBase):
    """`POST conversations/{id}/compact`"""

    @operation("write", gives=CompactedAnswer)
    async def post(self, conversation_id: str) -> None:
        """Summarises now: the model continues from the summary, the transcript stays."""
        row = await self.find_row(conversation_id)
        turns = await self.store.turns(self.owner, conversation_id)
        used = None
        if turns:
            used = await self.runner.compact(turns[-1], self.person, row["model"])
        self.answer({"compacted": used is not None, "usage": asdict(used or Usage())})


class RulesHandler(ConversationHandlerBase):
    """`conversations/{id}/rules`"""

    @operation("read", gives=RulesAnswer)
    async def get(self, conversation_id: str) -> None:
        """Lists the answers "always allow here": tools, each in a notebook."""
        await self.find_row(conversation_id)
        grants = await self.runner.stores.rules.of(self.owner, conversation_id)
        self.answer(
            {
                "allow": list(dict.fromkeys(grant.tool for grant in grants)),
                "rules": [{"tool": grant.tool, "notebook": grant.notebook} for grant in grants],
            }
        )

    @operation("write", answers=204)
    async def delete(self, conversation_id: str) -> None:
        """Forgets these answers: the turns of this conversation ask again."""
        await self.find_row(conversation_id)
        await self.runner.stores.rules.forget(self.owner, conversation_id)
        self.answer_nothing()


class ExportHandler(ConversationHandlerBase):
    """`GET conversations/{id}/export`"""

    @operation(
        "read", query={"format": ("json", "md")}, gives=ConversationAnswer, media=("text/markdown",)
    )
    async def get(self, conversation_id: str) -> None:
        """Exports everything: `json` can be replayed, `md` can be read."""
        if self.choice("format", ("json", "md")) == "md":
            whole = await self.with_messages(conversation_id)
            text = markdown(whole["title"], whole["messages"])
            self.finish(text, set_content_type="text/markdown; charset=utf-8")
            return
        whole = await self.with_messages(conversation_id, replaced=True)
        whole["history"] = await self.store.history(self.owner, conversation_id)
        for turn in whole["turns"]:
            events = await self.store.events(turn["id"])
            turn["events"] = [{"seq": seq, **wire.chunk(event)} for seq, event in events]
            turn["changes"] = [
                entry.change.to_json()
                for entry in await self.runner.stores.journal.of_turn(turn["id"])
            ]
            turn["audit"] = await self.runner.stores.audit.of_turn(turn["id"])
        self.answer(whole)


def _duration(turn: TurnRecord) -> dict[str, float]:
    """How long a finished turn took."""
    if turn.ended is None:
        return {}
    took = datetime.fromisoformat(turn.ended) - datetime.fromisoformat(turn.started)
    return {"seconds": round(took.total_seconds(), 1)}


def markdown(title: str, messages: Iterable[Mapping[str, Any]]) -> str:
    """Questions and answers, each under a heading; calls with input and result, folded."""
    pieces = [f"# {title}"]
    for message in messages:
        pieces.append("## You" if message["role"] == "user" else "## Assistant")
        pieces += [text for text in map(_part, message["parts"]) if text]
    return "\n\n".join(pieces) + "\n"


def _part(part: Mapping[str, Any]) -> str:
    match part["type"]:
        case "text":
            return str(part["text"])
        case "file":
            return f"*({part['mediaType']} attached)*"
        case "dynamic-tool":
            given = json.dumps(part.get("input"), indent=2)
            output = part.get("output") or {}
            result = output.get("text") or part.get("errorText") or part["state"]
            return _details(part["toolName"], f"{_fence(given)}\n\n{_fence(str(result))}")
        case "data-notice":
            text = part["data"]["text"] or part["data"].get("error", "")
            return f"*{text}*" if text else ""
        case _:
            return ""


def _details(head: str, body: str) -> str:
    return f"<details><summary>{head}</summary>\n\n{body}\n\n</details>"


def _fence(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
