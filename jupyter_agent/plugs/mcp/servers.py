"""All configured servers: connected when needed, listed, called, stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from jupyter_agent import __version__
from jupyter_agent.errors import ModelError
from jupyter_agent.mcp_server.messages import RpcMessage
from jupyter_agent.models.network import Network, mask_secrets
from jupyter_agent.plugs.mcp.client import Client, Transport, argument_headers
from jupyter_agent.plugs.mcp.config import ServerConfig
from jupyter_agent.plugs.mcp.http import HttpTransport
from jupyter_agent.plugs.mcp.messages import McpError
from jupyter_agent.plugs.mcp.offer import MOST_TOOLS, Offer, offers
from jupyter_agent.plugs.mcp.stdio import StdioTransport
from jupyter_agent.tools.sources import McpServerState, ServerState

_PATIENCE_S = 5.0
"""Seconds a question waits for servers that are starting."""
_GLANCE_S = 1.0
"""The same for servers that failed last time."""
_FRESH_S = 10.0
"""Seconds for which a list of tools is fresh enough for a decision."""
_ABOUT = {"name": "jupyter_agent", "version": __version__}

log = logging.getLogger(__name__)


class Servers:
    """The servers, independent of each other: a failing one does not affect the others."""

    def __init__(
        self,
        configured: Iterable[ServerConfig] = (),
        *,
        environment: Mapping[str, str] = os.environ,
        log: logging.Logger = log,
        patience: float = _PATIENCE_S,
        fresh: float = _FRESH_S,
    ) -> None:
        """`patience`: seconds that `fetch_offers` waits at most; `fresh`: seconds for which a list
        of tools is fresh.
        """
        self._servers = {
            config.name: _Server(config, environment, log, fresh) for config in configured
        }
        self._patience = patience

    async def fetch_offers(self) -> list[Offer]:
        """The current tools. Servers that stopped or could not be reached are tried again; a slow
        one continues in the background.
        """
        stale = [server for server in self._servers.values() if server.is_stale]
        updates = {server.update(): server.is_worth_waiting for server in stale}
        wanted = [task for task, worth in updates.items() if worth]
        others = [task for task, worth in updates.items() if not worth]
        if wanted:
            await asyncio.wait(wanted, timeout=self._patience)
        if others:
            await asyncio.wait(others, timeout=min(_GLANCE_S, self._patience))
        return self.known_offers

    @property
    def known_offers(self) -> list[Offer]:
        """The tools as of the last time the servers were asked."""
        return self._every[:MOST_TOOLS]

    async def current(self, server: str, tool: str, *, ask: bool = False) -> Offer | None:
        """The tool as the server defines it now, or None if it was removed. Raises McpError if
        the server cannot be reached.

        Without `ask`, a definition of the last seconds will do, unless the server announced a
        change.
        """
        return await self._servers[server].current(tool, ask=ask)

    async def call(self, offer: Offer, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The server's result. Raises McpError."""
        return await self._servers[offer.server].call(offer, arguments)

    @property
    def _every(self) -> list[Offer]:
        return [offer for server in self._servers.values() for offer in server.offers]

    def describe(self) -> list[McpServerState]:
        """For `GET status`."""
        return [server.describe() for server in self._servers.values()]

    def faults(self) -> list[str]:
        """Sentences about missing tools."""
        faults = [one.fault for one in self.describe() if one.note]
        if (left := len(self._every) - MOST_TOOLS) > 0:
            faults.append(
                f"{left} tools of MCP servers are left out: models take {MOST_TOOLS} of them. "
                "Choose with `tools` in `mcp_servers`."
            )
        return faults

    def secrets(self) -> frozenset[str]:
        """Values that must not reach a model."""
        return frozenset().union(*(server.secrets for server in self._servers.values()))

    async def close(self) -> None:
        """Stops all servers."""
        async with asyncio.TaskGroup() as together:
            for server in self._servers.values():
                together.create_task(server.close())


class _Server:
    def __init__(
        self,
        config: ServerConfig,
        environment: Mapping[str, str],
        log: logging.Logger,
        fresh: float,
    ) -> None:
        self._config = config
        self._environment = environment
        self._log = log
        self._fresh = fresh
        self._client: Client | None = None
        self._listed = 0.0
        """When its tools were listed (monotonic)."""
        self._updating: asyncio.Task[None] | None = None
        self._fault = ""
        self._left_out: list[str] = []
        self.secrets: frozenset[str] = frozenset()
        self.offers: Sequence[Offer] = ()

    @property
    def is_worth_waiting(self) -> bool:
        """Whether it may be ready soon: it is not known to fail."""
        return not self._fault

    def update(self) -> asyncio.Task[None]:
        """Connects if need be and lists the tools; one such task at a time."""
        if self._updating is None or self._updating.done():
            if self._client is not None and self._client.fault is not None:
                self._fault = ""  # it worked before it stopped: worth waiting for
            self._updating = asyncio.create_task(self._update())
        return self._updating

    async def current(self, tool: str, *, ask: bool) -> Offer | None:
        if self._client is not None and self._client.fault is not None:
            raise McpError(
                f"{self._client.fault.message}; it is started again with the next question"
            )
        if ask or self.is_stale:
            await asyncio.shield(self.update())
        if self._fault:
            raise McpError(self._fault)
        return next((offer for offer in self.offers if offer.tool == tool), None)

    async def call(self, offer: Offer, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        client = self._client
        if client is None:
            raise McpError(self._fault or "it is not ready yet")
        headers = argument_headers(offer.headers, arguments)
        return await client.call(offer.tool, arguments, headers=headers)

    def describe(self) -> McpServerState:
        busy = self._updating is not None and not self._updating.done()
        state: ServerState = "failed" if self._fault else "ready" if self._client else "starting"
        note = self._fault
        if not note and self._left_out:
            note = f"left out: {', '.join(self._left_out[:3])}"
            if len(self._left_out) > 3:
                note += f" and {len(self._left_out) - 3} more"
        if not note and busy and state == "starting":
            note = "still starting"
        return McpServerState(
            name=self._config.name,
            state=state,
            tools=len(self.offers),
            version=self._client.version if self._client else None,
            note=note or None,
        )

    async def close(self) -> None:
        if self._updating is not None:
            self._updating.cancel()
            await asyncio.wait([self._updating])
        await self._end()
        self._fault = "it was stopped"

    # -- connecting

    @property
    def is_stale(self) -> bool:
        """Whether it has to be connected, or its tools listed, before anything relies on them."""
        client = self._client
        if client is None or client.fault is not None or client.tools_changed:
            return True
        return time.monotonic() - self._listed >= self._fresh

    async def _update(self) -> None:
        before = self._fault
        try:
            if self._client is None or self._client.fault is not None:
                await self._end()
                self._client = await self._connect()
            self._take(await self._client.tools())
            self._fault = ""
        except (McpError, ModelError) as error:
            self._fault = self._mask(error.message).rstrip(".")
            self.offers = ()
            if self._fault != before:
                self._log.warning("MCP server `%s`: %s.", self._config.name, self._fault)

    async def _connect(self) -> Client:
        self.secrets = self._config.secrets(self._environment)
        client = self._make_client(*self._way())
        async with AsyncExitStack() as undo:
            undo.push_async_callback(client.close)
            await client.open()
            undo.pop_all()
        return client

    def _way(self) -> tuple[Network | None, Mapping[str, str]]:
        if self._config.url is not None:
            return self._config.network(self._environment), {}
        return None, self._config.environment(self._environment)

    def _make_client(self, network: Network | None, environment: Mapping[str, str]) -> Client:
        config = self._config

        def transport(on_message: Callable[[RpcMessage], None]) -> Transport:
            if config.url is not None and network is not None:
                agent = f"{_ABOUT['name']}/{_ABOUT['version']}"
                return HttpTransport(config.url, network, agent=agent, on_message=on_message)
            return StdioTransport(
                config.name,
                config.command,
                environment=environment,
                cwd=config.cwd,
                on_message=on_message,
                mask=self._mask,
                log=self._log,
            )

        return Client(
            transport,
            about=_ABOUT,
            timeout=config.timeout,
            cancels_by_closing=config.url is not None,
        )

    def _take(self, listed: Sequence[Mapping[str, Any]]) -> None:
        chosen = [
            tool
            for tool in listed
            if not isinstance(tool.get("name"), str) or self._config.offers(tool["name"])
        ]
        found, left_out = offers(self._config.name, chosen)
        if left_out and left_out != self._left_out:
            self._log.warning(
                "MCP server `%s`: left out: %s", self._config.name, ", ".join(left_out[:20])
            )
        self.offers, self._left_out = found, left_out
        self._listed = time.monotonic()

    async def _end(self) -> None:
        client, self._client = self._client, None
        self.offers = ()
        if client is not None:
            await client.close()

    def _mask(self, text: str) -> str:
        return mask_secrets(text, self.secrets)
