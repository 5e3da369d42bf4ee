"""Tools of MCP servers, treated like our own: offered, approved, recorded; their results are
data."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from jupyter_agent.errors import ToolError
from jupyter_agent.legible import clip, legible, quoted
from jupyter_agent.plugs.mcp.config import servers_of
from jupyter_agent.plugs.mcp.messages import McpError
from jupyter_agent.plugs.mcp.offer import Offer
from jupyter_agent.plugs.mcp.servers import Servers
from jupyter_agent.text.images import KINDS, pick_last
from jupyter_agent.tools.base import Action, Effect, Need, Progress, Question, Result, Tool
from jupyter_agent.tools.sources import McpServerState, ToolSource
from jupyter_agent.workspace.lease import Lease
from jupyter_agent.workspace.visibility import View

MOST_CHARACTERS = 20_000
"""Characters of a result for the model."""
_MOST_OF_A_REASON = 4_000
"""Characters of an error message from a server."""
_MOST_PICTURES = 5
_CUT = "\n[... {left} characters left out ...]\n"
_MOST_KEPT = 50_000
"""Characters of structured content stored for programs."""


class McpTool(Tool):
    """A call of a server's tool; each such tool is a subclass."""

    name: ClassVar[str] = "mcp"
    effect: ClassVar[Effect] = "run"
    action: ClassVar[Action] = "run"
    needs: ClassVar[Sequence[Need]] = (("execute", "agent:mcp"),)
    names_notebook: ClassVar[bool] = False
    offer: ClassVar[Offer]
    servers: ClassVar[Servers]

    arguments: dict[str, Any] = {}

    @classmethod
    def spec(cls) -> dict[str, Any]:
        return {
            "name": cls.offer.name,
            "description": cls.offer.description,
            "input_schema": dict(cls.offer.schema),
        }

    @classmethod
    def parse(cls, input: Mapping[str, Any]) -> Self:
        """The call, unchecked: the server knows its schema and reports errors."""
        return cls(arguments=dict(input))

    async def current_action(self, nb: Lease) -> Action:
        """ "read" as long as the server declares the tool read-only, else "run"."""
        now = await self._current_offer(nb)
        return "read" if self.offer.reads and now.reads else "run"

    async def current_definition(self, nb: Lease) -> str | None:
        return (
            await self._current_offer(nb, ask=True)
        ).definition  # a grant is bound to the definition

    async def question(self, nb: Lease) -> Question:
        now = await self._current_offer(nb, ask=True)
        return Question(
            notebook=nb.work.home,
            server=now.server,
            remote_tool=now.tool,
            definition=now.definition,
        )

    async def run(self, nb: Lease, progress: Progress | None = None) -> Result:
        offer, view = self.offer, await nb.work.visibility_of_data()
        try:
            result = await self.servers.call(offer, self.arguments)
        except McpError as error:
            raise self._error(error, nb, view) from error
        said = await asyncio.to_thread(view.data, _text(result))
        fence, text = nb.work.fence, nb.work.redact(said)
        if result.get("isError") is True:
            reason = clip(text, _MOST_OF_A_REASON, _CUT, head=0.6)
            raise ToolError(
                f"`{offer.name}` failed:\n{fence.around(reason or '(no reason given)')}"
            )
        text = clip(text, MOST_CHARACTERS, _CUT, head=0.8)
        pictures, which = await asyncio.to_thread(pick_last, _pictures(result), _MOST_PICTURES)
        fenced = fence.around(text) if text else "(The answer is empty.)"
        return Result(
            text=f"{fenced}\n{fence.line(which)}" if which else fenced,
            facts={
                "server": offer.server,
                "server_tool": offer.tool,
                **await asyncio.to_thread(_structured_content, result, view),
            },
            images=pictures,
        )

    async def _current_offer(self, nb: Lease, *, ask: bool = False) -> Offer:
        """The tool as the server defines it now. Raises ToolError if it, or the server, is gone."""
        try:
            offer = await self.servers.current(self.offer.server, self.offer.tool, ask=ask)
        except McpError as error:
            raise self._error(error, nb, await nb.work.visibility_of_data()) from error
        if offer is None:
            raise ToolError(
                f"The MCP server `{self.offer.server}` no longer has `{self.offer.name}`. "
                "Continue without it."
            )
        return offer

    def _error(self, error: McpError, nb: Lease, view: View) -> ToolError:
        """The error as data: parts of it may come from the server."""
        why = nb.work.fence.around(view.data(f"{error.message.rstrip('.')}."))
        return ToolError(f"The MCP server `{self.offer.server}` failed:\n{why}")


class McpTools(ToolSource):
    """The tools of the servers in the trait `mcp_servers`; a class per tool and definition."""

    def __init__(self, options: Any, log: logging.Logger) -> None:
        super().__init__(options, log)
        self._servers = Servers(servers_of(options.mcp_servers), log=log)
        self._made: dict[str, type[McpTool]] = {}

    async def tools(self, *, ask: bool) -> Sequence[type[Tool]]:
        offered = await self._servers.fetch_offers() if ask else self._servers.known_offers
        before, self._made = self._made, {}
        for offer in offered:
            made = before.get(offer.name)
            self._made[offer.name] = (
                made if made is not None and made.offer == offer else _tool(self._servers, offer)
            )
        return list(self._made.values())

    async def connect(self) -> None:
        await self._servers.fetch_offers()

    def secrets(self) -> frozenset[str]:
        return self._servers.secrets()

    def describe(self) -> Sequence[McpServerState]:
        return self._servers.describe()

    def faults(self) -> Sequence[str]:
        return self._servers.faults()

    async def close(self) -> None:
        await self._servers.close()


def _tool(servers: Servers, offer: Offer) -> type[McpTool]:
    class Offered(McpTool):
        name: ClassVar[str] = offer.name
        effect: ClassVar[Effect] = "read" if offer.reads else "run"

    Offered.offer, Offered.servers = offer, servers
    return Offered


def _text(result: Mapping[str, Any]) -> str:
    """The text of a result, with a line for other content; the structured content if that is
    all."""
    blocks = _blocks(result)
    parts = [part for block in blocks if (part := _part(block))]
    if not any(block.get("type") == "text" for block in blocks):
        structured = result.get("structuredContent")
        if structured is not None:
            parts.append(json.dumps(structured, ensure_ascii=False))
    return legible("\n".join(parts))


def _blocks(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = result.get("content")
    return (
        [each for each in content if isinstance(each, Mapping)] if isinstance(content, list) else []
    )


def _part(block: Mapping[str, Any]) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "image", "mimeType": str(kind)}:
            return "" if kind in KINDS else f"({clip(kind, 100)} is left out)"
        case {"type": "resource_link", "uri": str(uri)}:
            return f"({quoted(clip(uri, 1_000))})"
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": str(kind)}:
            return f"({clip(kind, 100)} is left out)"
    return ""


def _pictures(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    found = []
    for block in _blocks(result):
        match block:
            case {"type": "image", "mimeType": str(kind), "data": str(data)} if kind in KINDS:
                found.append((kind, "".join(data.split())))
    return found


def _structured_content(result: Mapping[str, Any], view: View) -> dict[str, Any]:
    """The structured content for programs, unless it is too large."""
    structured = result.get("structuredContent")
    if structured is None or len(json.dumps(structured)) > _MOST_KEPT:
        return {}
    return {"structured_content": view.data(structured)}
