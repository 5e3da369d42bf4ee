"""All routes, in one table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jupyter_server.base.handlers import JupyterHandler

from jupyter_agent.agent.dispatch import Dispatcher
from jupyter_agent.agent.limits import Limits
from jupyter_agent.carriers.tab_link import Tabs
from jupyter_agent.conversations.recovery import RecoveryCopies
from jupyter_agent.conversations.runner import TurnRunner
from jupyter_agent.conversations.wakes import Wakes
from jupyter_agent.mcp.servers import Servers
from jupyter_agent.models.registry import Models
from jupyter_agent.server import (
    chat,
    conversations,
    notebooks,
    status,
    tab,
    tools,
    turns,
    usage,
)
from jupyter_agent.server.openapi import describe
from jupyter_agent.workspace.workspace import Services

ROOT = "api/agent"


@dataclass(frozen=True)
class Route:
    """A path with its handler; `{path}` may hold slashes, every other name is one segment."""

    template: str
    handler: type[JupyterHandler]
    given: Mapping[str, Any] = field(default_factory=dict)
    """What the handler is handed (`initialize`)."""

    def spec(self) -> tuple[str, type[JupyterHandler], dict[str, Any]]:
        """The route as Jupyter takes it, which puts its base URL before it."""
        pieces = re.split(r"\{(\w+)\}", self.template)
        pattern = "".join(
            re.escape(piece) if n % 2 == 0 else ("(.+)" if piece == "path" else "([^/]+)")
            for n, piece in enumerate(pieces)
        )
        return f"/{ROOT}/{pattern}", self.handler, dict(self.given)


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
    mcp: Servers,
    wakes: Wakes,
) -> Sequence[Route]:
    """The table; where two match, the earlier one is meant."""
    talk = {"runner": runner, "services": services, "limits": limits, "ceiling": ceiling}
    kept = done = {"runner": runner, "services": services}
    known = {**done, "mcp": mcp}
    document = {"services": services}
    woken = {"services": services, "wakes": wakes, "limits": limits}
    kept_copies = {"recovery": copies, "services": services}
    calls = {"dispatcher": dispatcher, "services": services, "runner": runner}
    table = [
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
        Route("turns/{turn_id}", turns.TurnHandler, done),
        Route("turns/{turn_id}/changes", turns.ChangesHandler, done),
        Route("turns/{turn_id}/requests", turns.RequestsHandler, done),
        Route("turns/{turn_id}/undo", turns.UndoHandler, done),
        Route("turns/{turn_id}/accept", turns.AcceptHandler, done),
        Route("notebooks/{path}/cells/{cell_id}/move", notebooks.MoveHandler, document),
        Route("notebooks/{path}/cells/{cell_id}/run", notebooks.RunCellHandler, document),
        Route("notebooks/{path}/cells/{cell_id}", notebooks.CellHandler, document),
        Route("notebooks/{path}/cells", notebooks.CellsHandler, document),
        Route("notebooks/{path}/run", notebooks.RunCellsHandler, document),
        Route("notebooks/{path}/verify", notebooks.VerifyHandler, document),
        Route("notebooks/{path}/verified", notebooks.VerifiedHandler, document),
        Route("notebooks/{path}/changes", turns.PendingHandler, done),
        Route("notebooks/{path}/blame", turns.BlameHandler, done),
        Route("notebooks/{path}/kernel", notebooks.KernelHandler, document),
        Route("notebooks/{path}/recovery/{copy_id}", notebooks.CopyHandler, kept_copies),
        Route("notebooks/{path}/recovery", notebooks.CopiesHandler, kept_copies),
        Route("notebooks/{path}", notebooks.NotebookHandler, document),
        Route("runs/{run_id}", notebooks.RunHandler, woken),
        Route("runs/{run_id}/wake", notebooks.WakeHandler, woken),
        Route("runs/{run_id}/interrupt", notebooks.InterruptRunHandler, document),
        Route("tools", tools.ToolsHandler, calls),
        Route("tools/{name}", tools.ToolHandler, calls),
        Route("models", status.ModelsHandler, {"models": models}),
        Route("providers/{provider}/models", status.OfferedHandler, {"models": models}),
        Route("providers/{provider}/key", status.KeyHandler, {"models": models}),
        Route("usage", usage.UsageHandler, {"runner": runner}),
        Route("status", status.StatusHandler, known),
        Route("instructions", status.InstructionsHandler, known),
        Route("tab", tab.TabHandler, {"tabs": tabs}),
    ]
    description: dict[str, Any] = {}
    table.append(Route("openapi.json", status.OpenApiHandler, {"description": description}))
    description.update(describe([(route.template, route.handler) for route in table]))
    return table
