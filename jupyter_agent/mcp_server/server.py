"""The methods for MCP clients of either era, and their results in the format of MCP."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_agent import __version__
from jupyter_agent.conversations.caller import Caller, Outcome
from jupyter_agent.conversations.client_questions import Form
from jupyter_agent.conversations.clients import Clients
from jupyter_agent.conversations.request import new_id
from jupyter_agent.conversations.undo import UndoneTurn
from jupyter_agent.errors import InvalidInput, ToolError
from jupyter_agent.legible import ModelText, clip, pluralize
from jupyter_agent.mcp_server import prompts, resources
from jupyter_agent.mcp_server.catalogue import BEGIN_TURN, END_TURN, UNDO_TURN, Catalogue
from jupyter_agent.mcp_server.forms import InputRequired, input_required
from jupyter_agent.mcp_server.messages import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SERVER_KEY,
    SESSIONS,
    STATELESS,
)
from jupyter_agent.tools.base import Progress
from jupyter_agent.workspace.workspace import Authorize

MOST_CHARACTERS = 50_000
"""Of the text of one result; clients cut off the end of longer ones."""
_CUT = "\n[... {left} characters cut ...]\n"
_IN_TEXT = {"outputs", "text"}
"""Facts that are already in the text, within its limits."""


def of_outcome(outcome: Outcome) -> dict[str, Any]:
    """The result of a successful call.

    Clients show their model the structured content instead of the blocks if there is any. So it has
    the text, too, and results with pictures have no structured content.
    """
    text = _clip(outcome.text)
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}]
    blocks += [
        {"type": "image", "data": data, "mimeType": media_type}
        for media_type, data in outcome.images
    ]
    blocks += [{"type": "text", "text": news} for news in outcome.news]
    result: dict[str, Any] = {"content": blocks, "isError": False}
    if not outcome.images:
        news = {"news": list(outcome.news)} if outcome.news else {}
        facts = _lean(outcome.facts)
        result["structuredContent"] = {"text": text, **facts, "turn_id": outcome.turn_id, **news}
    return result


def of_text(text: ModelText, facts: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a tool for the turn itself."""
    return {
        "content": [{"type": "text", "text": text}],
        "isError": False,
        "structuredContent": {"text": text, **facts},
    }


def of_error(error: ToolError, text: ModelText) -> dict[str, Any]:
    """The result of a failed call: its text says what to do instead."""
    text = _clip(text)
    facts = _lean(error.facts)
    return {
        "content": [{"type": "text", "text": text}],
        "isError": True,
        "structuredContent": {"text": text, "reason": error.reason, **facts},
    }


def _clip(text: ModelText) -> ModelText:
    return clip(text if text.strip() else ModelText("(no output)"), MOST_CHARACTERS, _CUT, head=0.6)


def _lean(value: Any) -> Any:
    """The same JSON without outputs."""
    if isinstance(value, Mapping):
        return {key: _lean(item) for key, item in value.items() if key not in _IN_TEXT}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_lean(item) for item in value]
    return value


SERVED_SESSIONS = SESSIONS[:2]
"""Versions that start with `initialize`; the first one is offered to clients that request no known
version."""
VERSIONS = (STATELESS, *SERVED_SESSIONS)
ABOUT = {"name": "jupyter_agent", "title": "Jupyter notebooks, live", "version": __version__}
CAPABILITIES: Mapping[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
INSTRUCTIONS = """\
Live Jupyter notebooks: what the user sees in JupyterLab, unsaved typing included, with their \
kernels. For .ipynb files use these tools instead of editing the file. Paths are relative to \
Jupyter's root; read_file lists folders. Start with get_notebook_state. Cells are named by id. \
Prefer edit_cells with old_string: the user may be typing at that moment, and what they write \
stays. Results list cells that became stale: run those that matter. A long run returns a run_id: \
ask again with wait_for_run, never run the cell twice. Some calls need the user's approval: they \
are asked, so make the call; if they decline, do something else or ask them. All you do in a turn \
can be taken back with undo_turn; begin_turn starts another piece of work."""
WAIT_S = 45.0
"""Longest wait in seconds of a call without progress notifications: many clients give up after
60."""
_TTL_MS = {
    "server/discover": 3_600_000,
    "tools/list": 300_000,
    "prompts/list": 3_600_000,
    "resources/templates/list": 3_600_000,
    "resources/list": 0,
    "resources/read": 0,
}
"""How long clients may cache these answers."""
_CALL_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class ProtocolError(Exception):
    """A request that cannot be served: a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


@dataclass(frozen=True, kw_only=True)
class RequestContext:
    """Who sent a request, and how to ask them and report progress while they wait."""

    caller: Caller
    authorize: Authorize
    form: Form | None = None
    progress: Progress | None = None


class McpServer:
    """Answers requests. What belongs to one era only (`initialize`, sessions, the envelope of
    stateless results) is up to the route.
    """

    def __init__(self, clients: Clients, catalogue: Catalogue) -> None:
        self._clients = clients
        self._catalogue = catalogue
        self.phrases = catalogue.phrases
        self._methods: Mapping[
            str, Callable[[Mapping[str, Any], RequestContext], Awaitable[dict[str, Any]]]
        ] = {
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
        }

    async def require_tools(self, names: Sequence[str]) -> None:
        """Raises InvalidInput if a client's address allows a tool that does not exist."""
        await self._clients.host.runner.access.require_tools(names)

    async def answer(
        self, method: str, params: Mapping[str, Any], context: RequestContext
    ) -> dict[str, Any]:
        """The result. Raises ProtocolError, StoreUnavailable, and RequestError if a turn cannot
        start.
        """
        handle = self._methods.get(method)
        if handle is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"Unknown method `{method}`.")
        return await handle(params, context)

    # -- tools

    async def _list_tools(
        self, params: Mapping[str, Any], context: RequestContext
    ) -> dict[str, Any]:
        return {"tools": self._catalogue.describe(notebook=context.caller.options.notebook)}

    async def _call_tool(
        self, params: Mapping[str, Any], context: RequestContext
    ) -> dict[str, Any]:
        name, input = params.get("name"), params.get("arguments")
        input = {} if input is None else input
        if not isinstance(name, str) or not isinstance(input, Mapping):
            raise ProtocolError(INVALID_PARAMS, "A call has a `name` and an object `arguments`.")
        if name not in self._catalogue:
            hint = self._catalogue.hint(name)
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool `{name}`.{hint}")
        try:
            if name in (BEGIN_TURN, END_TURN, UNDO_TURN):
                return await self._turn_tool(name, input, context)
            outcome = await self._clients.call(
                context.caller,
                context.authorize,
                name,
                self._limit_wait(name, input, context),
                call_id=_call_id(params),
                form=context.form,
                progress=context.progress,
            )
        except InputRequired as required:
            return input_required(context.caller.name, required.approval, self.phrases)
        except ToolError as error:
            return of_error(error, self._clients.host.services.redactor.text(error.message))
        return of_outcome(outcome)

    def _limit_wait(
        self, name: str, input: Mapping[str, Any], context: RequestContext
    ) -> Mapping[str, Any]:
        """The input with a `wait` that ends before the client gives up."""
        if context.progress is not None or not self._catalogue.waits(name):
            return input
        wait = input.get("wait", WAIT_S)
        return {**input, "wait": min(wait, WAIT_S)} if isinstance(wait, int | float) else input

    async def _turn_tool(
        self, name: str, input: Mapping[str, Any], context: RequestContext
    ) -> dict[str, Any]:
        if name == BEGIN_TURN:
            goal = input.get("goal")
            if not isinstance(goal, str) or not goal.strip():
                raise InvalidInput("Say in `goal` what the turn is for, in a few words.")
            await self._clients.begin_turn(context.caller, goal)
            return of_text(ModelText("Your next call starts the turn."), {})
        if name == END_TURN:
            ended = await self._clients.end_turn(context.caller)
            said = f"Ended turn `{ended}`." if ended else "No turn was open."
            return of_text(self._clients.host.services.redactor.text(said), {"turn_id": ended})
        turn_id = input.get("turn_id")
        if turn_id is not None and not isinstance(turn_id, str):
            raise InvalidInput("`turn_id` has to be the id of a turn, from an earlier result.")
        undone = await self._clients.undo_turn(context.caller, context.authorize, turn_id)
        return self._undo_result(undone)

    def _undo_result(self, undone: UndoneTurn) -> dict[str, Any]:
        cells = {(change.notebook, change.cell_id) for change in undone.undone}
        changes = pluralize(len(undone.undone), "change")
        lines = [
            f"Taken back: {changes} of {pluralize(len(cells), 'cell')}."
            + (" What ran in a kernel is not undone." if undone.ran else ""),
            *(
                f"- Left unchanged: cell `{each['cell_id']}` of {each['notebook']}: {each['why']}"
                for each in undone.conflicts
            ),
            *undone.remainders,
        ]
        facts = {
            "undone": [
                {"notebook": each.notebook, "cell_id": each.cell_id, "kind": each.kind}
                for each in undone.undone
            ],
            "conflicts": [
                {key: each[key] for key in ("notebook", "cell_id", "why")}
                for each in undone.conflicts
            ],
        }
        redactor = self._clients.host.services.redactor
        return of_text(redactor.text("\n".join(lines)), redactor.mask_all(facts))

    # -- resources and prompts

    async def _list_resources(
        self, params: Mapping[str, Any], context: RequestContext
    ) -> dict[str, Any]:
        opened = await self._clients.readable(context.caller, context.authorize)
        return {"resources": resources.describe(opened)}

    async def _list_templates(
        self, params: Mapping[str, Any], context: RequestContext
    ) -> dict[str, Any]:
        return {"resourceTemplates": resources.TEMPLATES}

    async def _read_resource(
        self, params: Mapping[str, Any], context: RequestContext
    ) -> dict[str, Any]:
        try:
            named = resources.parse(params.get("uri"))
            tool, input = named.call()
            outcome = await self._clients.call(
                context.caller,
                context.authorize,
                tool,
                input,
                call_id=_call_id(params),
                form=None,
            )
        except ValueError as error:
            raise ProtocolError(INVALID_PARAMS, str(error)) from None
        except ToolError as error:
            raise ProtocolError(INVALID_PARAMS, error.message) from None
        return {"contents": resources.contents(params["uri"], outcome.text)}

    async def _list_prompts(
        self, params: Mapping[str, Any], context: RequestContext
    ) -> dict[str, Any]:
        return {"prompts": prompts.describe(self._catalogue)}

    async def _get_prompt(
        self, params: Mapping[str, Any], context: RequestContext
    ) -> dict[str, Any]:
        arguments = params.get("arguments")
        try:
            given = arguments if isinstance(arguments, Mapping) else {}
            return prompts.get(params.get("name"), given, self._catalogue)
        except ValueError as error:
            raise ProtocolError(INVALID_PARAMS, str(error)) from None


def discover_result() -> dict[str, Any]:
    """The result of `server/discover`."""
    return {
        "supportedVersions": list(VERSIONS),
        "capabilities": dict(CAPABILITIES),
        "instructions": INSTRUCTIONS,
    }


def initialize_result(params: Mapping[str, Any]) -> dict[str, Any]:
    """The result of `initialize`: the requested version if we support it."""
    requested = params.get("protocolVersion")
    return {
        "protocolVersion": requested if requested in SERVED_SESSIONS else SERVED_SESSIONS[0],
        "capabilities": dict(CAPABILITIES),
        "serverInfo": ABOUT,
        "instructions": INSTRUCTIONS,
    }


def stateless(method: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """A result in the format of the newer era."""
    cached = {}
    if method in _TTL_MS and "resultType" not in result:
        cached = {"ttlMs": _TTL_MS[method], "cacheScope": "private"}
    return {"resultType": "complete", **result, **cached, "_meta": {SERVER_KEY: ABOUT}}


def _call_id(params: Mapping[str, Any]) -> str:
    """The client's own id of the call, if any."""
    meta = params.get("_meta")
    named = meta.get("claudecode/toolUseId") if isinstance(meta, Mapping) else None
    if isinstance(named, str) and _CALL_ID.fullmatch(named):
        return named
    return new_id("call")
