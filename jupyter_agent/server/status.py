"""Models, keys, usage, the state of the server and the description of this API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import date
from typing import Any

from pydantic import BaseModel, Field

from jupyter_agent import __version__
from jupyter_agent.agent.options import CallOptions
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.conversations.allowances import Allowances
from jupyter_agent.conversations.instructions import ProjectInstructions, describe
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.conversations.usage import GROUPINGS
from jupyter_agent.document.cell import CarrierName
from jupyter_agent.errors import Busy, RequestError
from jupyter_agent.models.registry import Models
from jupyter_agent.packages import namesake_warning, openai_warning, outdated_warnings
from jupyter_agent.server.answers.assistant import (
    InstructionsAnswer,
    KeyAnswer,
    ModelsAnswer,
    OfferedAnswer,
    StatusAnswer,
    UsageAnswer,
)
from jupyter_agent.server.answers.base import DescriptionAnswer
from jupyter_agent.server.base import AgentHandler, operation
from jupyter_agent.server.people import Authorizer
from jupyter_agent.tools.sources import Sources
from jupyter_agent.workspace.workspace import Services, Workspace


class KeyBody(BaseModel):
    """A key of a provider; no route ever returns it."""

    key: str = Field(min_length=1, max_length=4096)
    check: bool = False
    """Whether to try the key first; one that the provider rejects is not stored."""


class ProvidersHandler(AgentHandler):
    """Base of the routes of models and their keys."""

    def initialize(self, models: Models, allowances: Allowances) -> None:
        self.models = models
        self.allowances = allowances


class ModelsHandler(ProvidersHandler):
    """`GET models`"""

    @operation("read", gives=ModelsAnswer)
    async def get(self) -> None:
        """Lists the user's default model, and the providers with their models and whether they
        have a key, as far as the user may use them."""
        mine = self.allowances.of(self.person)
        all_models = self.models.describe()
        providers = [
            {
                **each,
                "models": [one for one in each["models"] if mine.permits(_model_id(each, one))],
            }
            for each in all_models["providers"]
            if mine.offers(each["name"])
        ]
        fallback = all_models["fallback"]
        self.answer(
            {
                **all_models,
                "default": mine.default(all_models["default"]),
                "fallback": fallback if fallback and mine.permits(fallback) else None,
                "providers": providers,
            }
        )


def _model_id(provider: Mapping[str, Any], model: str) -> str:
    return f"{provider['name']}:{model}"


class OfferedHandler(ProvidersHandler):
    """`POST providers/{name}/models`: not GET, because it sends out the provider's key."""

    @operation("write", gives=OfferedAnswer)
    async def post(self, provider: str) -> None:
        """Asks the provider for its models now and lists those that the user may use."""
        mine = self.allowances.of(self.person)
        names = await self.models.list_models(provider)
        self.answer({"models": [name for name in names if mine.permits(f"{provider}:{name}")]})


class KeyHandler(ProvidersHandler):
    """`providers/{name}/key`"""

    @operation("write", body=KeyBody, answers=204, also=(200,), gives=KeyAnswer)
    async def put(self, provider: str, body: KeyBody) -> None:
        """Stores a key; it works at once. With `check` the answer is 200 with the number of
        `models` that the provider lists for it, null if it does not say."""
        await self.require_admin()
        if not body.check:
            self.models.set_key(provider, body.key)
            self.answer_nothing()
            return
        models = await self.models.try_key(provider, body.key)
        self.models.set_key(provider, body.key)
        self.answer({"models": models})

    @operation("write", answers=204)
    async def delete(self, provider: str) -> None:
        """Deletes a stored key."""
        await self.require_admin()
        self.models.delete_key(provider)
        self.answer_nothing()


class ProjectHandler(AgentHandler):
    """Base of the routes that need the instructions of a folder."""

    def initialize(self, runner: TurnRunner, services: Services, sources: Sources) -> None:
        self.runner = runner
        self.services = services
        self.sources = sources

    async def project(self, path: str) -> ProjectInstructions:
        """The instructions for a notebook, or for any file in its folder."""
        work = Workspace(
            services=self.services,
            user=self.owner,
            authorize=Authorizer(self),
            home=path.strip("/") or None,
        )
        return await self.runner.access.instructions(work)


class StatusHandler(ProjectHandler):
    """`GET status`"""

    @operation("read", query=("notebook",), gives=StatusAnswer)
    async def get(self) -> None:
        """Returns version, carriers, missing features and why, open notebooks, running turns, the
        state of the store, limits on what models may see and do, MCP servers, and the files of
        instructions that a turn on `notebook` would follow."""
        may_read = await Authorizer(self)("read", "contents")
        database = self.runner.stores.conversations.database
        project = await self.project(self.get_query_argument("notebook", ""))
        carriers, no_rooms = _carriers(self.services.notebooks)
        mended = self.services.notebooks.repairs if may_read else []
        notes = [no_rooms, openai_warning(), namesake_warning(), *outdated_warnings(), *mended]
        turns = [
            {
                "id": turn.record.id,
                "conversation_id": turn.record.conversation_id,
                "state": turn.state,
            }
            for turn in self.runner.running
            if turn.record.owner == self.owner
        ]
        self.answer(
            {
                "version": __version__,
                "carriers": carriers,
                "notes": [note for note in notes if note],
                "notebooks": self.services.notebooks.open() if may_read else [],
                "turns": turns,
                "share": self.runner.access.share("all"),
                "policy": self._policy(),
                "instructions": describe(project.active),
                "mcp_servers": [asdict(server) for server in self.sources.describe()],
                "store": {"ok": database.note is None, "note": database.note},
            }
        )

    def _policy(self) -> dict[str, Any]:
        """The administrator's decisions for the user's turns, and the identity they apply to."""
        person = self.person
        policy = self.runner.access.policy(person, CallOptions(mode="auto"))
        return {
            "user": person.name,
            "groups": sorted(person.groups),
            "models": list(self.runner.access.allowances.of(person).models),
            "max_mode": policy.max_mode,
            "rules": [asdict(rule) for rule in policy.rules],
            "allow_remote_content": policy.allow_remote_content,
        }


class TrustBody(BaseModel):
    """A user's decision about an instruction file, after reading the text with this digest."""

    source: str = Field(min_length=1, max_length=4096)
    digest: str = Field(min_length=1, max_length=128)
    trusted: bool


class InstructionsHandler(ProjectHandler):
    """`instructions`"""

    @operation("read", query=("notebook",), gives=InstructionsAnswer)
    async def get(self) -> None:
        """Lists the instruction files for `notebook`, with their texts and whether this user trusts
        them."""
        project = await self.project(self.get_query_argument("notebook", ""))
        self.answer({"instructions": project.describe()})

    @operation("write", body=TrustBody, answers=204)
    async def post(self, body: TrustBody) -> None:
        """Remembers whether to follow a text. 409 if the file has changed since."""
        project = await self.project(body.source)
        for each, _ in project.files:
            if (each.source, each.digest) == (body.source, body.digest):
                await self.runner.stores.trust.decide(self.owner, each, trusted=body.trusted)
                self.answer_nothing()
                return
        raise RequestError(
            409,
            "conflict",
            f"`{body.source}` has changed since it was read, or is gone. Read it again, and decide "
            "about its current text.",
            instructions=project.describe(),
        )


def _carriers(notebooks: Notebooks) -> tuple[list[CarrierName], str]:
    """The available carriers, and why rooms are missing; empty if they are not."""
    try:
        carriers = notebooks.carriers()
    except Busy as error:
        return [], error.message
    if "room" in carriers:
        return carriers, ""
    why = "Real-time collaboration (jupyter-collaboration) is not installed, or is switched off."
    return carriers, why


class OpenApiHandler(AgentHandler):
    """`GET openapi.json`"""

    def initialize(self, describe: Callable[[], dict[str, Any]]) -> None:
        self.describe = describe

    @operation("read", gives=DescriptionAnswer)
    async def get(self) -> None:
        """OpenAPI 3.1 of all routes, generated from the code."""
        servers = [{"url": f"{self.base_url}api/agent"}]
        self.answer({**await asyncio.to_thread(self.describe), "servers": servers})


class UsageHandler(AgentHandler):
    """`GET usage`"""

    def initialize(self, runner: TurnRunner) -> None:
        self.runner = runner

    async def ready(self) -> None:
        await self.runner.recover()

    @operation("read", query={"by": GROUPINGS, "from": date, "to": date}, gives=UsageAnswer)
    async def get(self) -> None:
        """Reports tokens, costs, steps and time of the user's turns by day, model or notebook, with
        averages, and this month's budget. A day is the UTC day on which a turn started."""
        by = self.choice("by", GROUPINGS)
        first, last = self._day("from"), self._day("to")
        if first and last and first > last:
            raise RequestError(400, "invalid_query", "`from` has to be no later than `to`.")
        report = await self.runner.stores.usage.report(self.owner, by, first, last)
        month = await self.runner.affordable.budgets.month(self.person)
        self.answer({**report, "month": month.to_json()})

    def _day(self, name: str) -> date | None:
        """A day from the query."""
        text = self.get_query_argument(name, None)
        try:
            return date.fromisoformat(text) if text else None
        except ValueError:
            message = f"`{name}` has to be a day such as 2026-11-23."
            raise RequestError(400, "invalid_query", message) from None
