"""The server extension: traits -> objects -> routes. The only module that knows everything."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, get_args

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.serverapp import ServerApp
from traitlets import Bool, Dict, Enum, Float, Int, List, Unicode, default

from jupyter_agent import tools
from jupyter_agent.agent.dispatch import Audit, Dispatcher, Record
from jupyter_agent.agent.limits import Limits
from jupyter_agent.agent.permissions import MODES, Rule
from jupyter_agent.carriers.known_tabs import KnownTabs
from jupyter_agent.carriers.leftovers import Leftovers
from jupyter_agent.carriers.page_saves import PageSaves
from jupyter_agent.carriers.registry import Moves, Notebooks
from jupyter_agent.carriers.room_saving import RoomSaver
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.carriers.timeouts import Timeouts
from jupyter_agent.carriers.ydoc import collaboration
from jupyter_agent.conversations.approvals import ApprovalStore, RuleStore
from jupyter_agent.conversations.audit import AuditLog, entry_of
from jupyter_agent.conversations.budget import MonthlyBudget, MonthlyBudgets
from jupyter_agent.conversations.changes import Journal
from jupyter_agent.conversations.database import Database
from jupyter_agent.conversations.instructions import TrustStore
from jupyter_agent.conversations.keyed import KeyStore
from jupyter_agent.conversations.live import TurnStores
from jupyter_agent.conversations.liveness import Presence
from jupyter_agent.conversations.recovery import RecoveryCopies, follow
from jupyter_agent.conversations.request import Rules
from jupyter_agent.conversations.requests import RequestStore
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.conversations.schema import MIGRATIONS
from jupyter_agent.conversations.store import ConversationStore
from jupyter_agent.conversations.usage import UsageStore
from jupyter_agent.conversations.wakes import Wakes, WakeStore
from jupyter_agent.errors import ModelError, StoreUnavailable, ToolError
from jupyter_agent.kernel.kernels import FreshKernels, Kernels
from jupyter_agent.mcp.config import servers_of
from jupyter_agent.mcp.offer import Offer
from jupyter_agent.mcp.servers import Servers
from jupyter_agent.models.base import ServerTool
from jupyter_agent.models.facts import FactBook
from jupyter_agent.models.registry import Models
from jupyter_agent.server.announce import announcer
from jupyter_agent.server.base import REQUESTS, Requests
from jupyter_agent.server.once import ONCE, Once
from jupyter_agent.server.routes import routes
from jupyter_agent.server.watchdog import Watchdog
from jupyter_agent.tools.base import Toolbox
from jupyter_agent.tools.mcp import ServerTools
from jupyter_agent.workspace.files import Files
from jupyter_agent.workspace.identity import Identities, root_of
from jupyter_agent.workspace.run_records import RunRecords
from jupyter_agent.workspace.runs import Runs
from jupyter_agent.workspace.visibility import SHARES, Redactor
from jupyter_agent.workspace.workspace import Services


class JupyterAgent(ExtensionApp):
    """An AI assistant that works inside the notebook you have open."""

    name = "jupyter_agent"
    load_other_extensions = True
    watchdog: Watchdog | None = None
    """There once the server has started."""
    tidying: asyncio.Task[None] | None = None
    """The same: notebooks whose save was cut off are put right, old copies are dropped."""
    recovering: asyncio.Task[None] | None = None
    """The same: runs that an earlier server left behind are found again."""
    saving: asyncio.Task[None] | None = None
    """The same: rooms are saved while people type in them."""
    greeting: asyncio.Task[list[Offer]] | None = None
    """The same: MCP servers are reached before the first question needs them."""
    built = False
    """Whether the configuration could be used; Jupyter starts and stops us also where not."""

    default_model = Unicode(
        "",
        config=True,
        help="`provider:model` that answers where a request names none. Empty: Anthropic where "
        "a key is present, else the scripted tour.",
    )
    fallback_model = Unicode(
        "",
        config=True,
        help="`provider:model` that answers where a turn's own model is overloaded or refuses to; "
        "the next turn tries its own again. Empty: none does.",
    )
    providers = Dict(
        {},
        config=True,
        help="Named endpoints: {name: {kind, base_url, api_key_file, models, options, headers, "
        "query, ca_bundle, proxy, proxy_headers, connect_seconds, read_seconds, ...}}. `options` "
        "are fields of every request and win over ours. A header's or a proxy's value may be "
        "{'file': path} or {'env': name}.",
    )
    mcp_servers = Dict(
        {},
        config=True,
        help="MCP servers whose tools models may call: {name: {url, headers, ca_bundle, proxy} or "
        "{command: [program, argument], env, cwd}, and of both tools, timeout}. A value of "
        "`headers` and `env` may be {'env': name} or {'file': path}.",
    )
    server_tools = List(
        Enum(get_args(ServerTool)),
        config=True,
        help="What model services may do themselves: web_search, web_fetch, code_execution; those "
        "of kind `anthropic` (at Anthropic) and `openai-responses` have such tools.",
    )
    model_facts = Dict(
        {},
        config=True,
        help="What is known of models, by name or pattern: {'anthropic:claude-*': {price: {input, "
        "output, cache_read, cache_write}, window}}; prices of a million tokens, a window in "
        "tokens.",
    )
    allow_keys = Bool(True, config=True, help="Whether users may store a key from the panel.")
    store_dir = Unicode(
        config=True,
        help="Folder of the store and the key file; `agent` in Jupyter's data folder by default.",
    )
    max_steps = Int(25, min=1, config=True, help="Model calls of a turn; the last must answer.")
    most_steps = Int(100, min=1, config=True, help="The most `max_steps` a request may ask for.")
    max_tokens = Int(16_000, min=1, config=True, help="Tokens of one reply of the model.")
    most_tokens = Int(64_000, min=1, config=True, help="The most `max_tokens` of a request.")
    token_budget = Int(
        300_000,
        min=1,
        config=True,
        help="Tokens of a turn by their price (read from a cache 0.1, written to it 1.25); then it "
        "must answer.",
    )
    token_cap = Int(
        3_000_000,
        min=1,
        config=True,
        help="Tokens of a turn, each counted as one whatever it costs; then it must answer.",
    )
    read_retries = Dict(
        value_trait=Int(min=0),
        key_trait=Unicode(),
        default_value={"*": 2},
        config=True,
        help="How often a call that only reads is tried again where the tab or the kernel is busy, "
        "by name of the tool, `*` for all others: after 0.5, 1, 2, ... seconds.",
    )
    most_token_budget = Int(
        3_000_000, min=1, config=True, help="The most `token_budget` a request may ask for."
    )
    cost_budget = Float(
        None,
        min=0,
        allow_none=True,
        config=True,
        help="What a turn may cost, in the currency of the prices; then it must answer.",
    )
    monthly_token_budget = Int(
        None,
        min=1,
        allow_none=True,
        config=True,
        help="Tokens by their price that each user may use in a calendar month (UTC); then turns "
        "that run must answer, and new ones are refused.",
    )
    monthly_cost_budget = Float(
        None,
        min=0,
        allow_none=True,
        config=True,
        help="What the turns of each user may cost in a calendar month (UTC), in the currency of "
        "the prices; then turns that run must answer, and new ones are refused.",
    )
    approval_seconds = Float(
        1800.0, min=1, config=True, help="Seconds that a question waits; unanswered it is denied."
    )
    max_mode = Enum(
        MODES,
        default_value="auto",
        config=True,
        help="The freest mode that users may choose: read, ask, edit or auto.",
    )
    share = Enum(
        SHARES,
        "all",
        config=True,
        help="How much of notebooks models see at most: all, no-outputs (no variables either) or "
        "code-only. Users and notebooks may say less.",
    )
    rules = List(
        Dict(),
        config=True,
        help="Rules before modes: [{verdict: deny|ask|allow, tool: pattern, notebook: pattern}]; "
        "`notebook` is the path of a notebook, file or folder below the root.",
    )
    allow_remote_content = Bool(
        False,
        config=True,
        help="Whether edits in mode `auto` may make pages load from other servers (pictures, "
        "styles, frames) without a question.",
    )
    kernel_start_timeout = Float(
        60.0, min=1, config=True, help="Seconds that a kernel may take to start."
    )
    tab_timeout = Float(
        5.0,
        min=0.1,
        config=True,
        help="Seconds that an open browser tab may take to confirm an edit; then it is refused.",
    )
    room_save_seconds = Float(
        3.0,
        min=0,
        config=True,
        help="Seconds after which what is typed in a room of jupyter-collaboration is saved while "
        "people keep typing; 0 leaves it to jupyter-collaboration, which waits until they pause.",
    )
    verify_seconds = Float(
        600.0,
        min=1,
        config=True,
        help="Seconds that all cells of a notebook together may take when it is verified.",
    )
    output_limit = Int(
        2_000_000,
        min=10_000,
        config=True,
        help="Characters of a run's text (streams, errors) that its cell keeps, and 25 times as "
        "many of displays; of more, beginning and end.",
    )
    save_widget_state = Bool(
        False,
        config=True,
        help="Whether runs store the state of widgets (`metadata.widgets`) also in notebooks that "
        "have none yet; where one is, it is kept up to date.",
    )
    result_chars = Int(
        12_000,
        min=1_000,
        config=True,
        help="Characters of a run's outputs that the model is told.",
    )
    trust_instructions = Bool(
        False,
        config=True,
        help="Whether `AGENTS.md` and `CLAUDE.md` of every folder are followed though the user has "
        "not seen and trusted them.",
    )
    recovery_days = Float(
        14.0, min=0, config=True, help="Days for which copies of notebooks are kept."
    )
    recovery_megabytes = Float(
        500.0, min=0, config=True, help="What copies of notebooks may take; the oldest go first."
    )
    open_panel = Bool(False, config=True, help="Whether JupyterLab starts with the panel open.")

    @default("store_dir")
    def _default_store_dir(self) -> str:
        return str(Path(self.data_dir) / "agent")

    def initialize_settings(self) -> None:
        """Builds the objects, each from what it needs."""
        assert self.serverapp is not None
        server, folder = self.serverapp, Path(self.store_dir)
        self.models = Models(
            default=self.default_model or None,
            fallback=self.fallback_model or None,
            key_file=folder / "keys.json",
            providers=self.providers,
            facts=FactBook(self.model_facts),
            allow_keys=self.allow_keys,
        )
        self.mcp = Servers(servers_of(self.mcp_servers), log=self.log)
        self.redactor = Redactor(lambda: self.models.secrets() | self.mcp.secrets())
        rules = [Rule(**rule) for rule in self.rules]
        database = Database(
            folder / "conversations.db",
            MIGRATIONS,
            self.log,
            root=root_of(server.contents_manager),
        )
        self.database = database
        self.presence = Presence(folder / "servers")
        self.recovery = RecoveryCopies(
            database, days=self.recovery_days, megabytes=self.recovery_megabytes
        )
        known = KnownTabs(self._leftovers(server, "tabs"))
        self.tabs = Tabs(Timeouts(sync=self.tab_timeout), known=known)
        stores = self._stores(server, database)
        self.services = self._services(server)
        self.page_saves = PageSaves(server.contents_manager, self.log)
        self.moves = Moves(self.services.notebooks, self._moved)
        assert server.event_logger is not None
        self.moves.listen(server.event_logger)
        self.toolbox = Toolbox(tools.ALL)
        self.dispatcher = Dispatcher(
            self.toolbox,
            record=_audit_into(stores.audit),
            retries=self.read_retries,
            others=ServerTools(self.mcp),
        )
        self.runner = TurnRunner(
            stores,
            self.models,
            self.dispatcher,
            self.services,
            Rules(
                max_mode=self.max_mode,
                rules=rules,
                share=self.share,
                server_tools=tuple(dict.fromkeys(self.server_tools)),
                trust_instructions=self.trust_instructions,
                allow_remote_content=self.allow_remote_content,
            ),
            self.presence,
            MonthlyBudgets(
                stores.usage,
                MonthlyBudget(tokens=self.monthly_token_budget, cost=self.monthly_cost_budget),
            ),
            self.log,
            missing=self.mcp.faults,
            active=partial(_note_activity, server.web_app.settings["last_activity_times"]),
        )
        self.wakes = Wakes(WakeStore(database), self.runner)
        self.requests = server.web_app.settings[REQUESTS] = Requests()
        server.web_app.settings[ONCE] = Once(KeyStore(database))
        self.built = True
        if self.open_panel:
            page = server.web_app.settings.setdefault("page_config_data", {})
            page["jupyterAgentOpen"] = "true"

    async def _moved(self, old: str, new: str) -> None:
        self.services.hidden.moved(old, new)
        self.services.verified.moved(old, new)
        await follow(self.database, old, new)

    def _stores(self, server: ServerApp, database: Database) -> TurnStores:
        assert server.event_logger is not None
        return TurnStores(
            conversations=ConversationStore(database),
            journal=Journal(database),
            approvals=ApprovalStore(database),
            requests=RequestStore(database, self.redactor),
            rules=RuleStore(database),
            trust=TrustStore(database),
            usage=UsageStore(database),
            audit=AuditLog(database),
            announce=announcer(server.event_logger),
        )

    def _leftovers(self, server: ServerApp, kind: str) -> Leftovers:
        folder = Path(self.store_dir) / kind
        root = root_of(server.contents_manager)
        return Leftovers(folder, self.presence.id, root, self.presence.alive)

    def _services(self, server: ServerApp) -> Services:
        notebooks = Notebooks(
            server.contents_manager,
            self.tabs,
            recovery=self.recovery.keep,
            rooms=lambda: collaboration(server.web_app.settings),
        )
        return Services(
            notebooks=notebooks,
            kernels=Kernels(
                server.session_manager,
                server.kernel_manager,
                server.kernel_spec_manager,
                start_timeout=self.kernel_start_timeout,
            ),
            runs=Runs(
                output_limit=self.output_limit,
                result_chars=self.result_chars,
                widget_state=self.save_widget_state,
                records=RunRecords(self._leftovers(server, "runs")),
            ),
            files=Files(server.contents_manager),
            identities=Identities(server.contents_manager, notebooks.locate),
            fresh=FreshKernels(
                server.session_manager,
                server.kernel_manager,
                start_timeout=self.kernel_start_timeout,
            ),
            redactor=self.redactor,
            verify_seconds=self.verify_seconds,
        )

    def initialize_handlers(self) -> None:
        """The table of routes."""
        limits = Limits(
            max_steps=self.max_steps,
            max_tokens=self.max_tokens,
            token_budget=self.token_budget,
            token_cap=self.token_cap,
            cost_budget=self.cost_budget,
            approval_seconds=self.approval_seconds,
        )
        ceiling = Limits(
            max_steps=self.most_steps,
            max_tokens=self.most_tokens,
            token_budget=self.most_token_budget,
        )
        self.routes = routes(
            runner=self.runner,
            limits=limits,
            ceiling=ceiling,
            services=self.services,
            models=self.models,
            dispatcher=self.dispatcher,
            tabs=self.tabs,
            copies=self.recovery,
            mcp=self.mcp,
            wakes=self.wakes,
        )
        self.handlers.extend(route.spec() for route in self.routes)

    async def _start_jupyter_server_extension(self, serverapp: Any) -> None:
        if not self.built:
            return
        await self.runner.recover()
        runs = self.services.runs.recover(self.services.notebooks, self.services.kernels)
        self.recovering = asyncio.create_task(runs)
        self.tidying = asyncio.create_task(self._tidy())
        with suppress(ModelError):  # a key that cannot be read is told where it is needed
            self.models.warm()
        if self.room_save_seconds:
            rooms = partial(collaboration, serverapp.web_app.settings)
            saver = RoomSaver(rooms, self.room_save_seconds, self.log)
            self.saving = asyncio.create_task(saver.run())
        self.greeting = asyncio.create_task(self.mcp.offered())
        self.watchdog = Watchdog(self.log)

    async def _tidy(self) -> None:
        with suppress(StoreUnavailable):  # it is tidied with the next copy
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

    def current_activity(self) -> list[dict[str, str]] | None:
        """Turns that run, or wait for a person, which has an end: they keep an idle server up."""
        running = self.runner.running if self.built else ()
        return [{"turn": turn.record.id} for turn in running] or None

    async def stop_extension(self) -> None:
        """Ends turns with a valid history and requests, lets go of runs, saves, and closes what
        was opened."""
        if not self.built:
            return
        assert self.serverapp is not None
        assert self.serverapp.event_logger is not None
        if self.watchdog is not None:
            self.watchdog.close()
        self.moves.stop(self.serverapp.event_logger)
        try:
            await self._close()
        except Exception:  # the outermost edge: with it Jupyter would never end its loop
            self.log.exception("jupyter_agent did not end in order")

    async def _close(self) -> None:
        """All of it, whatever goes wrong in a part."""
        async with AsyncExitStack() as steps:
            steps.callback(self.presence.close)
            steps.callback(self.database.close)
            steps.push_async_callback(self.mcp.close)
            for task in filter(None, (self.tidying, self.saving, self.recovering, self.greeting)):
                steps.push_async_callback(asyncio.wait, [task])
                steps.callback(task.cancel)
            steps.push_async_callback(self.models.close)
            steps.push_async_callback(self.services.notebooks.close)
            steps.push_async_callback(self.services.kernels.close)
            steps.push_async_callback(self.services.fresh.close)
            steps.push_async_callback(self.services.runs.close)
            steps.push_async_callback(self.requests.close)
            steps.push_async_callback(self.runner.close)
            await self.wakes.close()


def _note_activity(times: dict[str, datetime]) -> None:
    """For a hub, which culls a server that says of itself that it did nothing for long."""
    times["jupyter_agent"] = datetime.now(UTC)


def _audit_into(audit: AuditLog) -> Record:
    async def record(call: Audit) -> None:
        await audit.add([entry_of(call)])

    return record
