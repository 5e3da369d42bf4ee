"""All routes, in one table."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib.metadata import EntryPoint
from typing import Any, TypeAlias

from jupyter_server.base.handlers import JupyterHandler

from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.limits import Limits
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.conversations.clients import Clients
from jupyter_agent.conversations.recovery import RecoveryCopies
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.conversations.wakes import Wakes
from jupyter_agent.entry_points import UnusablePlug, find, load_class, usable
from jupyter_agent.mcp_server.server import McpServer
from jupyter_agent.mcp_server.sessions import Sessions
from jupyter_agent.models.registry import Models
from jupyter_agent.server import (
    chat,
    conversations,
    edits,
    events,
    mcp,
    notebooks,
    run_state,
    runs,
    status,
    tab,
    tools,
    turns,
)
from jupyter_agent.server.openapi import describe, goes_beyond_path
from jupyter_agent.tools.sources import Sources
from jupyter_agent.workspace.workspace import Services

ROOT = "api/agent"
_NOTEBOOK = r"((?:.+/)?[^/]*(?:\.|%2[eE])[^/]*)"
"""A path whose last segment has a dot, in plain or encoded form."""
_BELOW = "notebooks/{path}"
_NAME = re.compile("[a-z_]+")
"""A plug's route."""
Given: TypeAlias = Mapping[str, Any]
"""Keyword arguments for a handler's `initialize`."""
NotebookHandlers: TypeAlias = Mapping[str, type[notebooks.DocumentHandler]]
"""Handlers of `notebooks/{path}/NAME` by name; those of our own routes win."""


@dataclass(frozen=True)
class Route:
    """A path with its handler; `{path}` may contain slashes, every other name is one segment. See
    `goes_beyond_path`.
    """

    template: str
    handler: type[JupyterHandler]
    given: Given = field(default_factory=dict)

    def spec(self) -> tuple[str, type[JupyterHandler], dict[str, Any]]:
        """The route for Jupyter, which prepends its base URL."""
        path, segment = ("(.+)", "([^/]+)")
        if goes_beyond_path(self.template):
            path, segment = (_NOTEBOOK, "([^/.]+)")
        pieces = re.split(r"\{(\w+)\}", self.template)
        pattern = "".join(
            re.escape(piece) if n % 2 == 0 else (path if piece == "path" else segment)
            for n, piece in enumerate(pieces)
        )
        return f"/{ROOT}/{pattern}", self.handler, dict(self.given)


def load_plugs() -> NotebookHandlers:
    """The handlers of plugs. Call it in a thread, since it may import packages."""
    templates = (route.template for route in _notebooks({}, {}, {}, {}))
    ours = {template.removeprefix(f"{_BELOW}/").partition("/")[0] for template in templates}
    return usable(find("routes"), partial(_plug, ours))


def _plug(ours: Container[str], point: EntryPoint) -> type[notebooks.DocumentHandler]:
    """The handler of a plug. Raises UnusablePlug; `ours` are the names that are taken."""
    if not _NAME.fullmatch(point.name):
        raise UnusablePlug(point, "needs a name of small letters and _")
    if point.name in ours:
        raise UnusablePlug(point, "has the name of a route of jupyter_agent")
    return load_class(point, notebooks.DocumentHandler)


def routes(
    *,
    runner: TurnRunner,
    limits: Limits,
    ceiling: Limits,
    services: Services,
    models: Models,
    dispatcher: Dispatcher,
    tabs: Tabs,
    copies: RecoveryCopies,
    sources: Sources,
    wakes: Wakes,
    mcp_server: McpServer,
    clients: Clients,
    plugs: NotebookHandlers,
) -> Sequence[Route]:
    """The table; if two routes match, the earlier one wins."""
    talk = {"runner": runner, "services": services, "limits": limits, "ceiling": ceiling}
    kept = {"runner": runner, "services": services}
    done = {**kept, "clients": clients}
    document = {"services": services, "clients": clients}
    table = [
        *_chat(talk, kept, done),
        *_notebooks(document, done, {"recovery": copies, "services": services}, plugs),
        *_runs(document, {**document, "wakes": wakes, "limits": limits}),
        *_tools({**kept, "dispatcher": dispatcher}, mcp_server),
        *_server(
            {"models": models, "allowances": runner.access.allowances},
            {**kept, "sources": sources},
        ),
        Route("usage", status.UsageHandler, {"runner": runner}),
        Route("tab", tab.TabHandler, {"tabs": tabs}),
    ]

    @cache  # takes a tenth of a second, and is rarely requested
    def description() -> dict[str, Any]:
        return describe([(route.template, route.handler) for route in table])

    table.append(Route("openapi.json", status.OpenApiHandler, {"describe": description}))
    return table


def _chat(talk: Given, kept: Given, done: Given) -> list[Route]:
    return [
        Route("chat", chat.ChatHandler, talk),
        Route("chat/{conversation_id}/stream", chat.ChatStreamHandler, talk),
        Route("chat/{conversation_id}/stop", chat.ChatStopHandler, talk),
        Route("chat/{conversation_id}/retry", chat.ChatRetryHandler, talk),
        Route("chat/{conversation_id}/approvals", chat.ChatApprovalsHandler, talk),
        Route("conversations", conversations.ConversationsHandler, kept),
        Route("conversations/{conversation_id}", conversations.ConversationHandler, kept),
        Route("conversations/{conversation_id}/compact", conversations.CompactHandler, kept),
        Route("conversations/{conversation_id}/rules", conversations.RulesHandler, kept),
        Route("conversations/{conversation_id}/export", conversations.ExportHandler, kept),
        Route("turns", turns.TurnListHandler, done),
        Route("turns/{turn_id}", turns.TurnHandler, done),
        Route("turns/{turn_id}/changes", turns.ChangesHandler, done),
        Route("turns/{turn_id}/requests", turns.RequestsHandler, done),
        Route("turns/{turn_id}/stop", turns.StopHandler, done),
        Route("turns/{turn_id}/undo", turns.UndoHandler, done),
        Route("turns/{turn_id}/accept", turns.AcceptHandler, done),
    ]


def _notebooks(document: Given, done: Given, copies: Given, plugs: NotebookHandlers) -> list[Route]:
    return [
        Route("notebooks/{path}/cells/{cell_id}/move", edits.MoveHandler, document),
        Route("notebooks/{path}/cells/{cell_id}/run", runs.RunCellHandler, document),
        Route("notebooks/{path}/cells/{cell_id}", edits.CellHandler, document),
        Route("notebooks/{path}/cells", edits.CellsHandler, document),
        Route("notebooks/{path}/edits", edits.EditsHandler, document),
        Route("notebooks/{path}/clear", edits.ClearHandler, document),
        Route("notebooks/{path}/events", events.EventsHandler, document),
        Route("notebooks/{path}/kernel/code", runs.CodeHandler, document),
        Route("notebooks/{path}/kernel/variables", runs.VariablesHandler, document),
        Route("notebooks/{path}/run", runs.RunCellsHandler, document),
        Route("notebooks/{path}/save", notebooks.SaveHandler, document),
        Route("notebooks/{path}/changes", turns.PendingHandler, done),
        Route("notebooks/{path}/blame", turns.BlameHandler, done),
        Route("notebooks/{path}/kernel", notebooks.KernelHandler, document),
        Route("notebooks/{path}/recovery/{copy_id}", notebooks.CopyHandler, copies),
        Route("notebooks/{path}/recovery", notebooks.CopiesHandler, copies),
        *(Route(f"{_BELOW}/{name}", each, document) for name, each in plugs.items()),
        Route("notebooks/{path}", notebooks.NotebookHandler, document),
    ]


def _runs(document: Given, woken: Given) -> list[Route]:
    return [
        Route("runs", run_state.RunListHandler, document),
        Route("runs/{run_id}", run_state.RunHandler, woken),
        Route("runs/{run_id}/stream", run_state.RunStreamHandler, document),
        Route("runs/{run_id}/wake", run_state.WakeHandler, woken),
        Route("runs/{run_id}/interrupt", run_state.InterruptRunHandler, document),
    ]


def _tools(calls: Given, mcp_server: McpServer) -> list[Route]:
    return [
        Route("tools", tools.ToolsHandler, calls),
        Route("tools/{name}", tools.ToolHandler, calls),
        Route("mcp", mcp.McpHandler, {"server": mcp_server, "sessions": Sessions()}),
    ]


def _server(offered: Given, known: Given) -> list[Route]:
    return [
        Route("models", status.ModelsHandler, offered),
        Route("providers/{provider}/models", status.OfferedHandler, offered),
        Route("providers/{provider}/key", status.KeyHandler, offered),
        Route("status", status.StatusHandler, known),
        Route("instructions", status.InstructionsHandler, known),
    ]
