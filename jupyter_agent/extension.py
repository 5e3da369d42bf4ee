"""The server extension: its configuration, and a placeholder until the rest is loaded.

Every Jupyter server imports this module at start, whether or not anyone uses the assistant: it
imports nothing slow. The assistant itself is in `assistant`, which is imported in a thread shortly
after the server has started, or with the first request.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from jupyter_server.extension.application import ExtensionApp
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import url_path_join
from traitlets import Bool, Dict, Enum, Float, Int, List, TraitError, Unicode, default

from jupyter_agent.carriers.page_saves import PageSaves
from jupyter_agent.carriers.sharing import Sharing
from jupyter_agent.choices import MODES, SHARES
from jupyter_agent.models.base import CacheTtl, ServerTool
from jupyter_agent.server import announce
from jupyter_agent.server.late_routes import LateRoutes

if TYPE_CHECKING:
    from jupyter_agent.assistant import Assistant

SERVER_FIRST_S = 0.5
"""Seconds in which a freshly started server serves its first requests undisturbed."""


class JupyterAgent(ExtensionApp):
    """An AI assistant that works inside the notebook you have open."""

    name = "jupyter_agent"
    load_other_extensions = True
    _assistant: Assistant | None = None
    """Set once it is loaded."""
    _loading: asyncio.Task[Assistant] | None = None
    _starting: asyncio.Task[None] | None = None
    _asked: asyncio.Event
    """Set when a request to us has arrived."""
    _refused: Exception | None = None
    """Why the configuration was refused."""

    default_model = Unicode(
        "",
        config=True,
        help="Default model as `provider:model`. Empty: Anthropic's if there is a key, else the "
        "scripted tour.",
    )
    fallback_model = Unicode(
        "",
        config=True,
        help="`provider:model` that answers if a turn's own model fails or refuses; the next turn "
        "tries its own model again. Empty: none.",
    )
    cache_ttl = Enum(
        get_args(CacheTtl),
        "5m",
        config=True,
        help="How long Anthropic caches the tools and the system prompt, which all conversations "
        "share: `1h` costs twice the price of input once an hour instead of 1.25 times after each "
        "pause of five minutes.",
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
    mcp_max_calls = Int(
        500,
        min=1,
        config=True,
        help="Calls that an MCP client (`POST mcp`) may make in a turn; then it has to ask its "
        "user and start another.",
    )
    server_tools = List(
        Enum(get_args(ServerTool)),
        config=True,
        help="What model services may do themselves: web_search, web_fetch, code_execution; "
        "services of kind `anthropic` (at Anthropic) and `openai-responses` have such tools.",
    )
    model_facts = Dict(
        {},
        config=True,
        help="Facts about models, by name or pattern: {'anthropic:claude-*': {price: {input, "
        "output, cache_read, cache_write}, window}}; prices per million tokens, a window in "
        "tokens.",
    )
    allow_keys = Bool(True, config=True, help="Whether users may store a key from the panel.")
    store_dir = Unicode(
        config=True,
        help="Folder of the store and the key file; by default `agent` in Jupyter's data folder.",
    )
    key_file = Unicode(
        config=True,
        help="File for the keys that users store; by default `keys.json` in `store_dir`.",
    )
    max_steps = Int(25, min=1, config=True, help="Model calls per turn; the last must answer.")
    most_steps = Int(100, min=1, config=True, help="The highest `max_steps` of a request.")
    max_tokens = Int(16_000, min=1, config=True, help="Tokens of one reply of the model.")
    most_tokens = Int(64_000, min=1, config=True, help="The highest `max_tokens` of a request.")
    token_budget = Int(
        300_000,
        min=1,
        config=True,
        help="Tokens per turn, weighted by price (cache reads 0.1, cache writes 1.25); then the "
        "model must answer.",
    )
    token_cap = Int(
        3_000_000,
        min=1,
        config=True,
        help="Tokens per turn, unweighted; then the model must answer.",
    )
    read_retries = Dict(
        value_trait=Int(min=0),
        key_trait=Unicode(),
        default_value={"*": 2},
        config=True,
        help="How often to retry a read-only call if the tab or the kernel is busy, by tool name, "
        "`*` for all others: after 0.5, 1, 2, ... seconds.",
    )
    most_token_budget = Int(
        3_000_000, min=1, config=True, help="The highest `token_budget` of a request."
    )
    cost_budget = Float(
        None,
        min=0,
        allow_none=True,
        config=True,
        help="The highest cost of a turn, in the currency of the prices; then the model must "
        "answer.",
    )
    monthly_token_budget = Int(
        None,
        min=1,
        allow_none=True,
        config=True,
        help="Tokens, weighted by price, per user and calendar month (UTC); then running turns "
        "must answer, and new ones are refused.",
    )
    monthly_cost_budget = Float(
        None,
        min=0,
        allow_none=True,
        config=True,
        help="The highest cost per user and calendar month (UTC), in the currency of the prices; "
        "then running turns must answer, and new ones are refused.",
    )
    approval_seconds = Float(
        1800.0, min=1, config=True, help="Seconds a question waits; then it is denied."
    )
    max_mode = Enum(
        MODES,
        default_value="auto",
        config=True,
        help="The most permissive mode that users may choose: read, ask, edit or auto.",
    )
    share = Enum(
        SHARES,
        "all",
        config=True,
        help="How much of notebooks models see at most: all, no-outputs (no variables either) or "
        "code-only. Users and notebooks may choose less.",
    )
    rules = List(
        Dict(),
        config=True,
        help="Rules before modes: [{verdict: deny|ask|allow, tool: pattern, notebook: pattern, "
        "user: pattern, group: pattern}]; `notebook` is the path of a notebook, file or folder "
        "below the root, `group` one of JupyterHub.",
    )
    allowances = List(
        Dict(),
        config=True,
        help="Exceptions for some people: [{user: pattern, group: pattern, max_mode, models: "
        "[pattern], default_model, monthly_token_budget, monthly_cost_budget}]; for each field "
        "the first matching entry with that field decides. `group` is a JupyterHub group.",
    )
    allow_remote_content = Bool(
        False,
        config=True,
        help="Whether edits in mode `auto` may make pages load from other servers (pictures, "
        "styles, frames) without a question.",
    )
    kernel_start_timeout = Float(
        60.0, min=1, config=True, help="Timeout in seconds for starting a kernel."
    )
    tab_timeout = Float(
        5.0,
        min=0.1,
        config=True,
        help="Timeout in seconds for an open browser tab to confirm an edit; then it is refused.",
    )
    room_save_seconds = Float(
        3.0,
        min=0,
        config=True,
        help="Seconds after which typing in a room of jupyter-collaboration is saved while people "
        "keep typing; 0 leaves it to jupyter-collaboration, which waits until they pause.",
    )
    verify_seconds = Float(
        600.0,
        min=1,
        config=True,
        help="Seconds for all cells of a notebook together in a verification.",
    )
    output_limit = Int(
        2_000_000,
        min=10_000,
        config=True,
        help="Characters of a run's text (streams, errors) to keep in its cell, and 25 times as "
        "many for displays; of longer ones, the beginning and end.",
    )
    save_widget_state = Bool(
        False,
        config=True,
        help="Whether runs store the state of widgets (`metadata.widgets`) in notebooks without "
        "it; existing state is always updated.",
    )
    result_chars = Int(
        12_000,
        min=1_000,
        config=True,
        help="Characters of a run's outputs that the model reads.",
    )
    trust_instructions = Bool(
        False,
        config=True,
        help="Whether to follow `AGENTS.md` and `CLAUDE.md` in every folder even if the user has "
        "not seen and trusted them.",
    )
    recovery_days = Float(14.0, min=0, config=True, help="Days to keep copies of notebooks.")
    recovery_megabytes = Float(
        500.0, min=0, config=True, help="Megabytes for copies of notebooks; the oldest go first."
    )
    open_panel = Bool(False, config=True, help="Whether JupyterLab starts with the panel open.")

    @default("store_dir")
    def _default_store_dir(self) -> str:
        return str(Path(self.data_dir) / "agent")

    @default("key_file")
    def _default_key_file(self) -> str:
        return str(Path(self.store_dir) / "keys.json")

    def _link_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        try:
            super()._link_jupyter_server_extension(serverapp)
            self._refuse_unknown_options()
        except Exception as error:  # Jupyter warns, and continues with the defaults
            self._refused = error
            raise

    def _refuse_unknown_options(self) -> None:
        """Raises TraitError for a misspelt option, which may be a restriction."""
        options = self.trait_names(config=True)
        for name in sorted(set(self.config.get(type(self).__name__, {})) - set(options)):
            from difflib import get_close_matches  # not needed by most starts

            near = get_close_matches(name, options, n=1)
            hint = f" Did you mean `{near[0]}`?" if near else ""
            raise TraitError(f"There is no option `c.JupyterAgent.{name}`.{hint}")

    def initialize_settings(self) -> None:
        """Settings for pages before the assistant is loaded."""
        assert self.serverapp is not None
        assert self.serverapp.event_logger is not None
        self._asked = asyncio.Event()
        announce.register(self.serverapp.event_logger)
        PageSaves(self.serverapp.contents_manager)
        if self.open_panel:
            page = self.serverapp.web_app.settings.setdefault("page_config_data", {})
            page["jupyterAgentOpen"] = "true"

    def initialize_handlers(self) -> None:
        """Makes requests to `api/agent` wait until the assistant is loaded."""
        assert self.serverapp is not None
        app = self.serverapp.web_app
        pattern = url_path_join(app.settings["base_url"], "api/agent/.*")
        app.add_handlers(".*$", [(pattern, LateRoutes(app, self._ready))])  # type: ignore[no-untyped-call]

    async def load(self) -> Assistant:
        """The assistant with its routes; loaded once.

        Raises the exceptions of its parts for an unusable configuration.
        """
        return await asyncio.shield(self._load_once())

    def _load_once(self) -> asyncio.Task[Assistant]:
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        return self._loading

    async def _load(self) -> Assistant:
        if self._refused is not None:
            raise self._refused
        server = self.serverapp
        assert server is not None
        module = await asyncio.to_thread(import_module, "jupyter_agent.assistant")
        plugs = await asyncio.to_thread(module.Plugs.load, self)
        assistant: Assistant = module.Assistant(self, server, plugs)
        base_url = server.web_app.settings["base_url"]
        server.web_app.add_handlers(  # type: ignore[no-untyped-call]
            ".*$",
            [
                (url_path_join(base_url, pattern), handler, given)
                for pattern, handler, given in (route.spec() for route in assistant.routes)
            ],
        )
        self._assistant = assistant
        return assistant

    async def _start_jupyter_server_extension(self, serverapp: ServerApp) -> None:
        if (shared := self.sharing.usable) is not None:
            shared.fill(self._keep, self._bring_over)
        self._starting = asyncio.create_task(self._start())

    async def _start(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._asked.wait(), SERVER_FIRST_S)
        try:
            assistant = await self.load()
            await assistant.start()
        except Exception:  # the outermost handler: Jupyter works without us
            self.log.exception("jupyter_agent | extension failed loading")

    @cached_property
    def sharing(self) -> Sharing:
        """What the pages of this server share."""
        assert self.serverapp is not None
        return Sharing(self.serverapp.web_app.settings)

    async def _keep(self, path: str, text: str) -> None:
        await (await self.load()).services.notebooks.keep_unsaved(path, text)

    async def _bring_over(self, path: str) -> None:
        (await self.load()).services.notebooks.carry_over(path)

    async def _ready(self) -> None:
        """Waits until requests can be answered; if loading failed, Jupyter then answers 404."""
        self._asked.set()
        await asyncio.wait([self._starting or self._load_once()])

    def current_activity(self) -> list[dict[str, str]] | None:
        """Turns that run or wait for a person, which keep an idle server alive for a limited
        time."""
        return self._assistant.activity() if self._assistant is not None else None

    async def stop_extension(self) -> None:
        """Ends turns with a valid history and closes everything that was opened."""
        if self._loading is None and self._starting is not None:
            self._starting.cancel()
        for task in filter(None, (self._starting, self._loading)):
            await asyncio.wait([task])
        if self._assistant is not None:
            await self._assistant.stop()
        if self.serverapp is not None and (shared := self.sharing.usable) is not None:
            await shared.close()
