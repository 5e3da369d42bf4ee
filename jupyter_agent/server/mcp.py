"""Other agents: `POST mcp`, one JSON-RPC message each, in both eras of the protocol.

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http
https://modelcontextprotocol.io/specification/2025-11-25/basic/transports
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeGuard, get_args

from tornado import web

from jupyter_agent.agent.options import CallOptions
from jupyter_agent.choices import MODES, Mode, Share, WhileAway
from jupyter_agent.conversations.caller import Caller, display_name
from jupyter_agent.errors import RequestError, StoreUnavailable, ToolError
from jupyter_agent.mcp_server.forms import RepeatedCallForm, StreamedForm, can_show
from jupyter_agent.mcp_server.messages import (
    CAPABILITIES_KEY,
    CLIENT_KEY,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SESSIONS,
    STATELESS,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    RpcMessage,
    error_reply,
    plain_value,
)
from jupyter_agent.mcp_server.server import (
    SERVED_SESSIONS,
    VERSIONS,
    McpServer,
    ProtocolError,
    RequestContext,
    discover_result,
    initialize_result,
    stateless,
)
from jupyter_agent.mcp_server.sessions import Session, Sessions
from jupyter_agent.server.answers.base import MessageAnswer
from jupyter_agent.server.base import MEBIBYTE, STREAM, WHILE_AWAY, AgentHandler, operation
from jupyter_agent.server.mcp_stream import McpQuestions, McpStream
from jupyter_agent.server.people import Authorizer

SESSION_HEADER = "Mcp-Session-Id"
_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}
"""Of errors in the newer era; 200 for all others, and in the earlier era."""
_NAME_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose requests also name their subject in a header -> the parameter with that name."""
_HEARTBEAT_S = 10.0
_JSON = "application/json"


class McpHandler(AgentHandler):
    """`POST mcp`"""

    max_body_bytes = 16 * MEBIBYTE

    def initialize(self, server: McpServer, sessions: Sessions) -> None:
        self.server = server
        self.sessions = sessions
        self._task: asyncio.Task[dict[str, Any]] | None = None
        self._is_stateless = False
        self._stream = McpStream(self)

    async def prepare(self) -> None:  # type: ignore[override]  # as in APIHandler
        """Answers a request without a token with 401, as the protocol wants, before any other
        error."""
        try:
            await super().prepare()
        except web.HTTPError as error:
            if error.status_code == 403 and self.check_host() and self.current_user is None:
                raise web.HTTPError(401) from None
            raise

    @operation(
        "write",
        query={
            "mode": MODES,
            "allow": str,
            "share": get_args(Share),
            "notebook": str,
            "client": str,
            **WHILE_AWAY,
        },
        also=(202,),
        media=(STREAM,),
        gives=MessageAnswer,
        speaks=MessageAnswer,
    )
    async def post(self) -> None:
        """Takes one message of the Model Context Protocol; its tools are those of `GET tools`."""
        self._check_media()
        message = self._message()
        if message is not None:
            try:
                await self._take(message)
            except ProtocolError as error:
                self._refuse_request(message, error)

    def on_connection_close(self) -> None:
        """Cancels the request: in the newer era a client cancels by closing the connection."""
        if self._is_stateless and self._task is not None:
            self._task.cancel()
        super().on_connection_close()

    # -- receiving

    def _check_media(self) -> None:
        """Raises RequestError 415 and 406."""
        kind = self.request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind != _JSON:
            raise RequestError(415, "media_type", f"The Content-Type has to be {_JSON}.")
        if not self._accepts(_JSON):
            message = f"The client has to accept {_JSON} and {STREAM}."
            raise RequestError(406, "not_acceptable", message)

    def _accepts(self, kind: str) -> bool:
        accepted = self.request.headers.get("Accept", "*/*").lower()
        ranges = {each.partition(";")[0].strip() for each in accepted.split(",")}
        return not ranges.isdisjoint({kind, f"{kind.partition('/')[0]}/*", "*/*"})

    def _message(self) -> RpcMessage | None:
        """The message; None if it is invalid, and then it is answered with an error."""
        try:
            value = self.read_json()
        except RequestError as error:
            self.answer(error_reply(None, PARSE_ERROR, error.message), 400)
            return None
        why = _message_error(value)
        if why:
            id = value.get("id") if isinstance(value, dict) else None
            request_id = id if _is_id(id) else None
            self.answer(error_reply(request_id, INVALID_REQUEST, why), 400)
            return None
        return dict(value)

    async def _take(self, message: RpcMessage) -> None:
        if message.get("method") in ("initialize", "server/discover"):
            await self.server.require_tools(self._read_allow())
        if _is_of_newer_era(message, self.request.headers.get("MCP-Protocol-Version")):
            self._is_stateless = True
            await self._take_stateless(message)
        elif message.get("method") == "initialize":
            self._begin_session(message)
        else:
            await self._take_in_session(message, self._session())

    # -- since 2026-07-28: each message is self-contained

    async def _take_stateless(self, message: RpcMessage) -> None:
        if "method" not in message:
            raise ProtocolError(INVALID_REQUEST, "This server has sent no request to answer.")
        if "id" not in message:
            return self._accept()
        method, params = message["method"], message.get("params", {})
        client, capabilities = self._envelope(method, params)
        if method == "server/discover":
            return self._answer_request(message, stateless(method, discover_result()))
        form = RepeatedCallForm(params) if can_show(capabilities) else None
        caller = self._caller(client, self.get_query_argument("client", ""))
        context = self._context(message, caller, form=form)
        result = await self._result(method, params, context)
        if result is not None:
            self._answer_request(message, stateless(method, result))

    def _envelope(self, method: str, params: Mapping[str, Any]) -> tuple[Any, Any]:
        """The client's name and capabilities. Raises ProtocolError."""
        meta = params.get("_meta")
        meta = meta if isinstance(meta, Mapping) else {}
        header_version = self.request.headers.get("MCP-Protocol-Version", STATELESS)
        if VERSION_KEY not in meta and header_version != STATELESS:
            raise _version_error(header_version)
        missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]
        if missing:
            raise ProtocolError(INVALID_PARAMS, f"`_meta` has no {' and no '.join(missing)}.")
        version = meta[VERSION_KEY]
        named = params.get(_NAME_PARAMS[method]) if method in _NAME_PARAMS else None
        expected = [("MCP-Protocol-Version", version), ("Mcp-Method", method)]
        if isinstance(named, str):
            expected.append(("Mcp-Name", named))
        for header, value in expected:
            given = self.request.headers.get(header)
            if header == "Mcp-Name" and given is not None:
                given = plain_value(given)
            if given != value:
                why = f"The header {header} is not what the body says: {value}."
                raise ProtocolError(HEADER_MISMATCH, why)
        if version != STATELESS:
            raise _version_error(version)
        return meta.get(CLIENT_KEY), meta[CAPABILITIES_KEY]

    # -- before: sessions

    def _begin_session(self, message: RpcMessage) -> None:
        if "id" not in message:
            raise ProtocolError(INVALID_REQUEST, "`initialize` is a request: it has an `id`.")
        params = message.get("params", {})
        result = initialize_result(params)
        client, capabilities = params.get("clientInfo"), params.get("capabilities")
        session = self.sessions.begin(
            self.owner,
            result["protocolVersion"],
            client if isinstance(client, Mapping) else {},
            capabilities if isinstance(capabilities, Mapping) else {},
        )
        self.set_header(SESSION_HEADER, session.id)
        self._answer_request(message, result)

    def _session(self) -> Session:
        """Raises RequestError 400 without a session, 404 for an unknown one: a client then starts
        another.
        """
        given = self.request.headers.get(SESSION_HEADER)
        if given is None:
            message = f"Start with `initialize` and send its {SESSION_HEADER}, or with the `_meta` "
            raise RequestError(400, "no_session", f"{message}of {STATELESS}.")
        session = self.sessions.find(self.owner, given)
        if session is None:
            message = "That session is over. Start another with `initialize`."
            raise RequestError(404, "not_found", message)
        version = self.request.headers.get("MCP-Protocol-Version", session.version)
        if version not in SERVED_SESSIONS:
            message = f"This server speaks {', '.join(VERSIONS)}, not {version}."
            raise RequestError(400, "invalid_header", message)
        return session

    async def _take_in_session(self, message: RpcMessage, session: Session) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method is None:
            session.take(message)
            return self._accept()
        if "id" not in message:
            if method == "notifications/cancelled":
                session.cancel(params.get("requestId"))
            return self._accept()
        if method == "ping":
            return self._answer_request(message, {})
        form = None
        if can_show(session.capabilities) and self._accepts(STREAM):
            questions = McpQuestions(session, self._stream)
            form = StreamedForm(_name_of(session.client), questions.ask, self.server.phrases)
        context = self._context(message, self._caller(session.client, session.id), form=form)
        result = await self._result(method, params, context, session=session, id=message["id"])
        if result is not None:
            self._answer_request(message, result)
        elif not self._stream.is_open:
            self._accept()

    # -- answering

    def _caller(self, client: Any, session: str) -> Caller:
        options = CallOptions(
            notebook=self.get_query_argument("notebook", None),
            mode=self._mode(),
            allow=self._read_allow(),
            share=self.choice("share", get_args(Share)),
            while_away=self.choice("while_away", get_args(WhileAway)),
        )
        return Caller(
            person=self.person,
            name=_name_of(client),
            session=session,
            options=options,
        )

    def _read_allow(self) -> list[str]:
        names = ",".join(self.get_query_arguments("allow")).split(",")
        return sorted(set(filter(None, map(str.strip, names))))

    def _mode(self) -> Mode:
        others = tuple(mode for mode in MODES if mode != "ask")
        mode: Mode = self.choice("mode", ("ask", *others))
        return mode

    def _context(self, message: RpcMessage, caller: Caller, *, form: Any) -> RequestContext:
        meta = message.get("params", {}).get("_meta")
        token = meta.get("progressToken") if isinstance(meta, Mapping) else None
        if _is_id(token) and self._accepts(STREAM):
            self._stream.report_progress_as(token)
        progress = self._stream.progress if self._stream.has_progress_token else None
        return RequestContext(
            caller=caller, authorize=Authorizer(self), form=form, progress=progress
        )

    async def _result(
        self,
        method: str,
        params: Mapping[str, Any],
        context: RequestContext,
        *,
        session: Session | None = None,
        id: Any = None,
    ) -> dict[str, Any] | None:
        """The result; None if the client cancelled the request. Raises ProtocolError."""
        self._task = task = asyncio.create_task(self.server.answer(method, params, context))
        if session is not None:
            session.requests[id] = task
        try:
            while not (await asyncio.wait([task], timeout=_HEARTBEAT_S))[0]:
                await self._stream.send_heartbeat()
            return None if task.cancelled() else task.result()
        except asyncio.CancelledError:
            task.cancel()
            raise
        except StoreUnavailable as error:
            raise ProtocolError(INTERNAL_ERROR, error.message) from None
        except (RequestError, ToolError) as error:
            raise ProtocolError(INTERNAL_ERROR, error.message, {"reason": error.reason}) from None
        finally:
            if session is not None:
                session.requests.pop(id, None)

    def _accept(self) -> None:
        self.set_status(202)
        self.finish()

    def _answer_request(self, message: RpcMessage, result: Mapping[str, Any]) -> None:
        self._send({"jsonrpc": "2.0", "id": message["id"], "result": dict(result)}, 200)

    def _refuse_request(self, message: RpcMessage, error: ProtocolError) -> None:
        reply = error_reply(message.get("id"), error.code, error.message, error.data)
        old = not self._is_stateless and error.code not in (INVALID_REQUEST, PARSE_ERROR)
        self._send(reply, 200 if old else _STATUS.get(error.code, 200))

    def _send(self, reply: RpcMessage, status: int) -> None:
        if self._stream.is_open:
            self._stream.end(reply)
        else:
            self.answer(reply, status)


def _version_error(version: Any) -> ProtocolError:
    facts = {"supported": list(VERSIONS), "requested": version}
    return ProtocolError(UNSUPPORTED_VERSION, "Unsupported protocol version", facts)


def _is_of_newer_era(message: RpcMessage, header: str | None) -> bool:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, Mapping) else None
    if isinstance(meta, Mapping) and VERSION_KEY in meta:
        return True
    return header is not None and header not in SESSIONS


def _message_error(value: Any) -> str:
    """Why this is not a JSON-RPC message; empty if it is one."""
    if isinstance(value, list):
        return "Send one message at a time: there are no batches."
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return 'A message is an object with `"jsonrpc": "2.0"`.'
    if "id" in value and not _is_id(value["id"]):
        return "An `id` is a string or a whole number."
    if "method" in value:
        fits = isinstance(value["method"], str) and isinstance(value.get("params", {}), dict)
        return "" if fits else "A request has a string `method` and an object `params`."
    is_reply = "id" in value and ("result" in value) != ("error" in value)
    return "" if is_reply else "A message has a `method`, or is the answer to a request."


def _is_id(value: Any) -> TypeGuard[str | int]:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _name_of(client: Any) -> str:
    """The client's name as people see it."""
    names = (client.get(key) for key in ("title", "name")) if isinstance(client, Mapping) else ()
    for name in names:
        if isinstance(name, str) and (shown := display_name(name)):
            return shown
    return "MCP client"
