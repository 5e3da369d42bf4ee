"""Builds the assistant in a server: traits, objects, routes. The only module that knows all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from jupyter_server.serverapp import ServerApp

from jupyter_agent.agent.attempt import Audit, Record
from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.entries import entries_of
from jupyter_agent.agent.limits import Limits
from jupyter_agent.agent.permissions import Rule
from jupyter_agent.carriers.listener import ContentsListener
from jupyter_agent.carriers.registry import Notebooks
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.carriers.timeouts import Timeouts
from jupyter_agent.conversations.access import Access
from jupyter_agent.conversations.affordable import AffordableModels
from jupyter_agent.conversations.allowances import Allowance, Allowances
from jupyter_agent.conversations.audit import AuditLog, entry_of
from jupyter_agent.conversations.caller import ClientHost
from jupyter_agent.conversations.clients import Clients
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.idempotency import IdempotencyStore
from jupyter_agent.conversations.liveness import Presence, StoredLeftovers
from jupyter_agent.conversations.namings import StoredNamings
from jupyter_agent.conversations.recovery import RecoveryCopies, follow
from jupyter_agent.conversations.request import Rules
from jupyter_agent.conversations.run_journal import RunJournal
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.conversations.schema import MIGRATIONS
from jupyter_agent.conversations.turn_stores import TurnStores
from jupyter_agent.conversations.usage import MonthlyBudgets
from jupyter_agent.conversations.wakes import Wakes, WakeStore
from jupyter_agent.errors import ModelError, StoreUnavailable, ToolError
from jupyter_agent.kernel.kernels import FreshKernels, Kernels
from jupyter_agent.mcp_server.catalogue import Catalogue
from jupyter_agent.mcp_server.server import McpServer
from jupyter_agent.models.facts import FactBook
from jupyter_agent.models.registry import Models
from jupyter_agent.packages import namesake_warning
from jupyter_agent.server import routes
from jupyter_agent.server.announce import Announcer
from jupyter_agent.server.base import REQUESTS
from jupyter_agent.server.in_flight import InFlightRequests
from jupyter_agent.server.once import ONCE, Once
from jupyter_agent.server.watchdog import Watchdog
from jupyter_agent.tools import toolbox
from jupyter_agent.tools.sources import Sources
from jupyter_agent.tools.toolbox import Toolbox
from jupyter_agent.workspace.files import Files
from jupyter_agent.workspace.paths import Identities, root_of
from jupyter_agent.workspace.redactor import Redactor
from jupyter_agent.workspace.runs import Runs
from jupyter_agent.workspace.workspace import Services

if TYPE_CHECKING:
    from jupyter_agent.extension import JupyterAgent


@dataclass(frozen=True, kw_only=True)
class Plugs:
    """The parts that plugs add to, with our own."""

    models: Models
    toolbox: Toolbox
    sources: Sources
    routes: routes.NotebookHandlers

    @classmethod
    def load(cls, options: JupyterAgent) -> Self:
        """Imports the plugs: call it in a thread. Raises ValueError for unusable options."""
        return cls(
            models=_models(options),
            toolbox=toolbox(),
            sources=Sources.load(options, options.log),
            routes=routes.load_plugs(),
        )


class Assistant:
    """All parts of the assistant, each built from the parts it needs.

    Raises their exceptions for an unusable configuration.
    """

    watchdog: Watchdog | None = None
    """Set once the server has started."""
    tidying: asyncio.Task[None] | None = None
    """Also from then on: repairs notebooks whose save was cut off, and drops old copies."""
    recovering: asyncio.Task[None] | None = None
    """Also from then on: finds pages and runs that an earlier server left behind."""
    saving: asyncio.Task[None] | None = None
    """Also from then on: saves rooms while people type in them."""
    greeting: asyncio.Task[None] | None = None
    """Also from then on: connects the sources of tools before the first question needs them."""

    def __init__(self, options: JupyterAgent, server: ServerApp, plugs: Plugs) -> None:
        self.options = options
        self.server = server
        self.log = options.log
        folder = Path(options.store_dir)
        self.models = plugs.models
        self.sources = plugs.sources
        self.redactor = Redactor(lambda: self.models.secrets() | self.sources.secrets())
        rules, allowances = self._rules(), self._allowances()
        database = Database(
            folder / "conversations.db",
            MIGRATIONS,
            self.log,
            root=root_of(server.contents_manager),
        )
        self.database = database
        self.presence = Presence(folder / "servers")
        self.recovery = RecoveryCopies(
            database, days=options.recovery_days, megabytes=options.recovery_megabytes
        )
        self.tabs = Tabs(
            Timeouts(sync=options.tab_timeout),
            leftovers=StoredLeftovers(database, self.presence, "pages"),
        )
        assert server.event_logger is not None
        self.announcer = Announcer(server.event_logger)
        stores = TurnStores.on(database, self.announcer)
        self.services = self._services(server)
        self.moves = ContentsListener(self.services.notebooks, self._follow_rename)
        self.moves.listen(server.event_logger)
        self.toolbox = plugs.toolbox
        self.dispatcher = Dispatcher(
            self.toolbox,
            record=_audit_into(stores.audit),
            retries=options.read_retries,
            external_tools=self.sources.tools,
        )
        budgets = MonthlyBudgets(stores.usage, allowances)
        self.runner = TurnRunner(
            stores,
            self.models,
            AffordableModels(self.models, allowances, budgets),
            Access(self.services, self.dispatcher, rules, allowances, stores.trust),
            RunJournal(stores, self.services.runs, self.redactor, self.toolbox),
            self.dispatcher,
            self.services,
            rules.server_tools,
            self.presence,
            self.log,
            missing=self.sources.faults,
            active=partial(_note_activity, server.web_app.settings["last_activity_times"]),
        )
        self.wakes = Wakes(WakeStore(database), self.runner)
        self.requests = server.web_app.settings[REQUESTS] = InFlightRequests()
        server.web_app.settings[ONCE] = Once(IdempotencyStore(database))
        self.routes = self._routes(plugs.routes)

    def _rules(self) -> Rules:
        options = self.options
        return Rules(
            rules=entries_of(Rule, "rules", options.rules),
            share=options.share,
            server_tools=tuple(dict.fromkeys(options.server_tools)),
            trust_instructions=options.trust_instructions,
            allow_remote_content=options.allow_remote_content,
        )

    def _allowances(self) -> Allowances:
        options = self.options
        everybody = Allowance(
            max_mode=options.max_mode,
            monthly_token_budget=options.monthly_token_budget,
            monthly_cost_budget=options.monthly_cost_budget,
        )
        return Allowances(everybody, options.allowances)

    async def _follow_rename(self, old: str, new: str) -> None:
        self.services.hidden.rename(old, new)
        self.services.verified.rename(old, new)
        await asyncio.gather(
            self.services.kernels.follow_rename(old, new), follow(self.database, old, new)
        )

    def _services(self, server: ServerApp) -> Services:
        notebooks = Notebooks(
            server.contents_manager,
            self.tabs,
            recovery=self.recovery.keep,
            shared=self.options.sharing.documents,
            namings=StoredNamings(self.database),
        )
        return Services(
            notebooks=notebooks,
            kernels=Kernels(
                server.session_manager,
                server.kernel_manager,
                server.kernel_spec_manager,
                start_timeout=self.options.kernel_start_timeout,
                follow=notebooks.follow,
            ),
            runs=Runs(
                output_limit=self.options.output_limit,
                result_chars=self.options.result_chars,
                widget_state=self.options.save_widget_state,
                leftovers=StoredLeftovers(self.database, self.presence, "runs"),
            ),
            files=Files(server.contents_manager),
            identities=Identities(server.contents_manager, notebooks.locate),
            fresh=FreshKernels(
                server.session_manager,
                server.kernel_manager,
                start_timeout=self.options.kernel_start_timeout,
            ),
            redactor=self.redactor,
            verify_seconds=self.options.verify_seconds,
        )

    def _routes(self, plugs: routes.NotebookHandlers) -> Sequence[routes.Route]:
        limits = Limits(
            max_steps=self.options.max_steps,
            max_tokens=self.options.max_tokens,
            token_budget=self.options.token_budget,
            token_cap=self.options.token_cap,
            cost_budget=self.options.cost_budget,
            approval_seconds=self.options.approval_seconds,
        )
        ceiling = Limits(
            max_steps=self.options.most_steps,
            max_tokens=self.options.most_tokens,
            token_budget=self.options.most_token_budget,
        )
        clients = self.clients(limits)
        return routes.routes(
            runner=self.runner,
            limits=limits,
            ceiling=ceiling,
            services=self.services,
            models=self.models,
            dispatcher=self.dispatcher,
            tabs=self.tabs,
            copies=self.recovery,
            sources=self.sources,
            wakes=self.wakes,
            mcp_server=McpServer(clients, Catalogue(self.toolbox)),
            clients=clients,
            plugs=plugs,
        )

    def clients(self, limits: Limits) -> Clients:
        """Other agents that call our tools over MCP, and scripts that name themselves."""
        return Clients(
            ClientHost(
                runner=self.runner,
                dispatcher=self.dispatcher,
                services=self.services,
                server_id=self.presence.id,
                has_page=self.tabs.has_page_of,
                max_calls=self.options.mcp_max_calls,
                approval_seconds=limits.approval_seconds,
            )
        )

    async def start(self) -> None:
        """Takes over what an earlier server left, and starts the background tasks."""
        self.recovering = asyncio.create_task(self._recover())
        await self.runner.recover()
        self.tidying = asyncio.create_task(self._tidy())
        with suppress(ModelError):  # an unreadable key is reported when it is needed
            self.models.warm()
        shared, seconds = self.options.sharing.usable, self.options.room_save_seconds
        if shared is not None and seconds:
            self.saving = asyncio.create_task(shared.keep_saved(seconds, self.log))
        self.greeting = asyncio.create_task(self.sources.connect())
        self.watchdog = Watchdog(self.log)
        if (warning := namesake_warning()) is not None:
            self.log.warning("jupyter_agent: %s", warning)

    async def _recover(self) -> None:
        await self.tabs.recover()
        await self.services.runs.recover(self.services.notebooks, self.services.kernels)

    async def _tidy(self) -> None:
        with suppress(StoreUnavailable):  # the next copy tidies up, too
            for path in await self.recovery.notebooks():
                await self._mend(path)
            await self.recovery.tidy()

    async def _mend(self, path: str) -> None:
        try:
            done = await self.services.notebooks.mend(path, partial(self.recovery.newest, path))
        except ToolError as error:
            done = error.message
        if done:
            self.log.warning("jupyter_agent: %s", done)

    def activity(self) -> list[dict[str, str]] | None:
        """Turns that run or wait for a person; None instead of an empty list."""
        return [{"turn": turn.record.id} for turn in self.runner.running] or None

    async def stop(self) -> None:
        """Ends turns, with a valid history, and requests; lets go of runs; saves, and closes
        everything that was opened."""
        assert self.server.event_logger is not None
        if self.watchdog is not None:
            self.watchdog.close()
        self.moves.stop(self.server.event_logger)
        self.requests.refuse_more()
        try:
            await self._close()
        except Exception:  # the outermost handler: with an error here Jupyter would never stop
            self.log.exception("jupyter_agent did not shut down cleanly")

    async def _close(self) -> None:
        """Closes everything, even if some parts fail."""
        async with AsyncExitStack() as steps:
            steps.callback(self.presence.close)
            steps.callback(self.database.close)
            steps.push_async_callback(self.sources.close)
            for task in filter(None, (self.tidying, self.saving, self.recovering, self.greeting)):
                steps.push_async_callback(asyncio.wait, [task])
                steps.callback(task.cancel)
            steps.push_async_callback(self.models.close)
            steps.push_async_callback(self.services.notebooks.close)
            steps.push_async_callback(self.services.kernels.close)
            steps.push_async_callback(self.services.fresh.close)
            steps.callback(self.announcer.close)
            steps.push_async_callback(self.services.runs.close)
            steps.push_async_callback(self.runner.close)  # turns of clients that a late call began
            steps.push_async_callback(self.requests.close)
            steps.push_async_callback(self.runner.close)
            await self.wakes.close()


def _models(options: JupyterAgent) -> Models:
    return Models(
        default=options.default_model or None,
        fallback=options.fallback_model or None,
        cache_ttl=options.cache_ttl,
        key_file=Path(options.key_file),
        providers=options.providers,
        facts=FactBook(options.model_facts),
        allow_keys=options.allow_keys,
    )


def _note_activity(times: dict[str, datetime]) -> None:
    """For JupyterHub, which culls servers that report no activity for long."""
    times["jupyter_agent"] = datetime.now(UTC)


def _audit_into(audit: AuditLog) -> Record:
    async def record(call: Audit) -> None:
        await audit.add([entry_of(call, "tools")])

    return record
