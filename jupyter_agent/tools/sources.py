"""Tools that are not ours and change while the server runs, such as those of MCP servers. Plugs of
the group `jupyter_agent.sources` bring them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any, Literal, Self, TypeAlias

from jupyter_agent.entry_points import ONLY, describe, find, is_left_out, make, usable
from jupyter_agent.tools.base import Tool, fault_of_words

PREFIX = "mcp__"
"""Of the names of all tools of MCP servers: `mcp__server__tool`."""
_MCP = "mcp"
"""The plug that connects to MCP servers."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every service accepts as the name of a tool."""
_PATIENCE_S = 15.0
"""Seconds that a question waits for the tools of a source, and a server that ends for its end."""
_GLANCE_S = 1.0
"""Seconds that a question waits for a source that did not answer the last one in time."""
_LONGEST_S = 120.0
"""Seconds after which a source that does not answer is asked once more."""

ServerState: TypeAlias = Literal["ready", "starting", "failed"]


class UnusableOptions(ValueError):
    """What the administrator configured for a source is invalid: the assistant does not start. The
    message says why."""


@dataclass(frozen=True, kw_only=True)
class McpServerState:
    """A configured MCP server, as in `GET status`."""

    name: str
    state: ServerState
    tools: int = 0
    version: str | None = None
    """The version of the protocol."""
    note: str | None = None
    """What is wrong with it."""

    @property
    def fault(self) -> str:
        """A sentence about that."""
        return f"MCP server `{self.name}`: {self.note}."


class ToolSource(ABC):
    """What offers tools while the server runs."""

    def __init__(self, options: Any, log: logging.Logger) -> None:
        """`options` has the traits of our extension. It connects to nothing yet, and runs in a
        thread. Raises UnusableOptions.
        """
        self.options = options
        self.log = log

    @abstractmethod
    async def tools(self, *, ask: bool) -> Sequence[type[Tool]]:
        """The tools that it offers now; without `ask` those that it offered last, at once."""

    async def connect(self) -> None:  # noqa: B027  not every source has to
        """Called once the server has started: what takes long is done before the first question."""

    def secrets(self) -> frozenset[str]:
        """Values that must not reach a model."""
        return frozenset()

    def describe(self) -> Sequence[McpServerState]:
        """The MCP servers that it connects to, for `GET status`."""
        return ()

    def faults(self) -> Sequence[str]:
        """Sentences about tools that are missing now, for the next question."""
        return [one.fault for one in self.describe() if one.note]

    async def close(self) -> None:  # noqa: B027  not every source has to
        """Called when the server ends."""


class _LeftOut(ToolSource):
    """MCP servers are configured, and nothing connects to them."""

    async def tools(self, *, ask: bool) -> Sequence[type[Tool]]:
        return ()

    def describe(self) -> Sequence[McpServerState]:
        why = (
            f"{ONLY} leaves out the plug `{_MCP}`, which connects to it"
            if is_left_out(_MCP)
            else f"the plug `{_MCP}`, which connects to it, is missing or unusable (see the log)"
        )
        names = sorted(map(str, self.options.mcp_servers))
        return [McpServerState(name=name, state="failed", note=why) for name in names]


class Sources:
    """All sources, independent of each other: one that raises is named, and the others work."""

    def __init__(
        self,
        sources: Mapping[str, ToolSource],
        log: logging.Logger,
        *,
        patience: float = _PATIENCE_S,
    ) -> None:
        """`sources` by the names of their plugs; `patience`: seconds that a question waits."""
        self._sources = sources
        self._log = log
        self._patience = patience
        self._asked: dict[tuple[str, bool], asyncio.Future[Sequence[type[Tool]]]] = {}
        """Requests for tools that are not answered, by source and `ask`."""
        self._late: set[tuple[str, bool]] = set()
        """Those that a question has waited for without an answer."""
        self._broken: dict[tuple[str, str], str] = {}
        """Sentences about sources, by what they raised in when they were asked last."""

    @classmethod
    def load(cls, options: Any, log: logging.Logger) -> Self:
        """The sources of all plugs. Call it in a thread, since it may import packages. Raises
        UnusableOptions.
        """

        def use(point: EntryPoint) -> ToolSource:
            given = (options, log)
            return make(point, ToolSource, *given, refuses=UnusableOptions)  # type: ignore[type-abstract]

        sources = usable(find("sources"), use)
        if options.mcp_servers and _MCP not in sources:
            sources[_MCP] = _LeftOut(options, log)
        return cls(sources, log)

    async def tools(self, *, ask: bool) -> Sequence[type[Tool]]:
        """The tools of all; of two with one name, the first."""
        offered = await asyncio.gather(*(self._tools(name, ask) for name in self._sources))
        return list({tool.name: tool for tools in reversed(offered) for tool in tools}.values())

    async def _tools(self, name: str, ask: bool) -> Sequence[type[Tool]]:
        with self._guard(name, "tools"):
            tools = [*await self._answer(name, ask)]
            for tool in tools:
                _check(tool)
            return tools
        return ()

    async def _answer(self, name: str, ask: bool) -> Sequence[type[Tool]]:
        """What a source answers. Raises TimeoutError; its answer then counts for a later question,
        and none waits for it as long again.
        """
        key = name, ask
        asked = self._asked.get(key)
        if asked is None or _has_failed(asked):  # it may work by now
            answer = self._sources[name].tools(ask=ask)
            self._asked[key] = asked = asyncio.ensure_future(asyncio.wait_for(answer, _LONGEST_S))
        patience = min(_GLANCE_S, self._patience) if key in self._late else self._patience
        await asyncio.wait([asked], timeout=patience)
        if not asked.done():
            self._late.add(key)
            raise TimeoutError("no answer yet")
        self._late.discard(key)
        if self._asked.get(key) is asked:
            del self._asked[key]
        return asked.result()

    async def connect(self) -> None:
        """Connects all."""
        await asyncio.gather(
            *(self._act(name, "connect", source.connect) for name, source in self._sources.items())
        )

    def secrets(self) -> frozenset[str]:
        """Values that must not reach a model."""
        found: set[str] = set()
        for name, source in self._sources.items():
            with self._guard(name, "secrets"):
                found |= source.secrets()
        return frozenset(found)

    def describe(self) -> list[McpServerState]:
        """All MCP servers."""
        found: list[McpServerState] = []
        for name, source in self._sources.items():
            with self._guard(name, "describe"):
                found += source.describe()
        return found

    def faults(self) -> list[str]:
        """Sentences about missing tools."""
        found: list[str] = []
        for name, source in self._sources.items():
            with self._guard(name, "faults"):
                found += source.faults()
        return [*found, *self._broken.values()]

    async def close(self) -> None:
        """Closes all."""
        for asked in self._asked.values():
            asked.cancel()
        await asyncio.gather(
            *(self._act(name, "close", source.close) for name, source in self._sources.items())
        )

    async def _act(self, name: str, what: str, act: Callable[[], Awaitable[None]]) -> None:
        with self._guard(name, what):
            async with asyncio.timeout(_PATIENCE_S):
                await act()

    @contextmanager
    def _guard(self, name: str, what: str) -> Iterator[None]:
        """Names the source if it raises."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  it is code of a plug
            fault = f"The source of tools `{name}` failed in `{what}`: {describe(error)}."
            if self._broken.get((name, what)) != fault:
                self._log.warning("jupyter_agent: %s", fault)
            self._broken[name, what] = fault
        else:
            self._broken.pop((name, what), None)


def _has_failed(asked: asyncio.Future[Any]) -> bool:
    return asked.cancelled() or (asked.done() and asked.exception() is not None)


def server_of(name: str) -> str | None:
    """The MCP server of a tool by its name here; None for our own tools."""
    server, _, tool = name.removeprefix(PREFIX).partition("__")
    return server if name.startswith(PREFIX) and tool else None


def _check(tool: object) -> None:
    """Raises TypeError or ValueError for a tool that services would refuse."""
    if not (isinstance(tool, type) and issubclass(tool, Tool)):
        raise TypeError(f"{tool!r} is not a Tool")
    if not _NAME.fullmatch(tool.name):
        raise ValueError(f"{tool.name!r} is not a name of letters, digits, _ and -")
    if (fault := fault_of_words(tool)) is not None:
        raise ValueError(f"{tool.name!r} {fault}")
    json.dumps(tool.spec(), allow_nan=False)
