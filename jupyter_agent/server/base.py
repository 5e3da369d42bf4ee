"""The base of all handlers: authorization, typed bodies, and errors as JSON."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, cast, get_args

from jupyter_server.base.handlers import APIHandler, JupyterHandler
from pydantic import BaseModel, ValidationError
from tornado import web
from tornado.http1connection import HTTP1Connection

from jupyter_agent import foreign
from jupyter_agent.agent.people import Person
from jupyter_agent.choices import WhileAway
from jupyter_agent.errors import (
    ModelError,
    RequestError,
    StoreUnavailable,
    ToolError,
    stopping_error,
)
from jupyter_agent.legible import quoted
from jupyter_agent.server.in_flight import InFlightRequests
from jupyter_agent.server.once import ONCE, Once, digest_of
from jupyter_agent.server.people import LOCAL_OWNER, Authorizer, owner_of, person_of

log = logging.getLogger(__name__)

STATUS = {
    "cell_not_found": 404,
    "not_found": 404,
    "changed": 409,
    "not_once": 409,
    "not_read": 409,
    "locked": 409,
    "exists": 409,
    "busy": 409,
    "unreadable_notebook": 422,
    "kernel_unavailable": 503,
    "no_recovery_copy": 503,
    "not_confirmed": 504,
    "denied": 403,
    "needs_approval": 403,
}
"""HTTP status for a ToolError's `reason`; 400 for all others."""

_MAYBE_DONE = (500, 504)
"""Statuses after which the request may have taken effect."""

METHODS = ("get", "post", "put", "patch", "delete")
_MOST_DIGITS = 9
"""Of a number in a query: far above any real value, and below the limits of SQLite and Python."""
MEBIBYTE = 1 << 20
_MOST_DROPPED = 512 * MEBIBYTE
"""Bytes of a body that is too large for its route; Jupyter itself takes as many."""
ADMIN = "agent:admin"
"""The authorizer's resource for what all users of a server share: its keys."""

Method = TypeVar("Method", bound=Callable[..., Awaitable[None]])
AuthAction: TypeAlias = Literal["read", "write", "execute"]


QueryValues: TypeAlias = tuple[str, ...] | type
"""The allowed words of a query parameter, or its type."""

WHILE_AWAY: Mapping[str, QueryValues] = {"while_away": get_args(WhileAway)}
"""The query parameter of every route that edits notebooks; the others accept it."""
_OF_JUPYTER = ("token", "_xsrf", "_")
"""Query parameters for Jupyter itself; `_` and names of digits get past a browser's cache."""
STREAM = "text/event-stream"
REQUESTS = "jupyter_agent_requests"
"""The key of the InFlightRequests in the web application's settings."""


@dataclass(frozen=True, kw_only=True)
class RouteOperation:
    """The facts about a handler's method for `openapi.json` and the test of all routes."""

    action: AuthAction
    resource: str
    body: type[BaseModel] | None
    query: Mapping[str, QueryValues]
    """The allowed values of each query parameter."""
    answers: int
    also: tuple[int, ...]
    """Other statuses of success."""
    media: tuple[str, ...]
    """Other media types of the answer than JSON."""
    gives: Any
    """The type of a JSON answer; None if the answer is not JSON."""
    speaks: type[BaseModel] | None
    """The type of the body, and of errors, on a route that speaks another protocol."""


def operation(
    action: AuthAction,
    resource: str = "agent",
    *,
    body: type[BaseModel] | None = None,
    query: tuple[str, ...] | Mapping[str, QueryValues] = (),
    answers: int = 200,
    also: tuple[int, ...] = (),
    media: tuple[str, ...] = (),
    gives: Any = None,
    speaks: type[BaseModel] | None = None,
) -> Callable[[Method], Method]:
    """Makes a method a route: authenticated, authorized, with a parsed body and errors as JSON."""

    values = query if isinstance(query, Mapping) else dict.fromkeys(query, str)

    def wrap(method: Method) -> Method:
        @web.authenticated
        @wraps(method)
        async def handle(self: AgentHandler, *args: str) -> None:
            async def do() -> None:
                if body is None:
                    self.check_query(values)
                    await method(self, *args)
                else:
                    await method(self, *args, self.read(body, values))

            if self._headers_written:  # the body is too large
                self.finish()
                return
            requests = self.requests
            with _answering_errors(self):
                if requests.closed:
                    raise stopping_error()
                with requests.track(self.give_up):
                    await self.require(action, resource)
                    await self.ready()
                    if self.idempotency_key and not self.joins_repeated:
                        await self.do_once(self.idempotency_key, do)
                    else:
                        await do()

        description = RouteOperation(
            action=action,
            resource=resource,
            body=body,
            query=values,
            answers=answers,
            also=also,
            media=media,
            gives=gives,
            speaks=speaks,
        )
        setattr(handle, "operation", description)  # noqa: B010 - functions declare no attributes
        return cast(Method, handle)

    return wrap


@contextmanager
def _answering_errors(handler: AgentHandler) -> Iterator[None]:
    """Answers known exceptions with an error response."""
    try:
        yield
    except RequestError as error:
        handler.refuse(error.status, error.reason, error.message, **error.facts)
    except ToolError as error:
        status = STATUS.get(error.reason, 400)
        handler.refuse(status, error.reason, error.message, **error.facts)
    except ModelError as error:
        handler.refuse(400, error.kind, error.message)
    except StoreUnavailable as error:
        handler.refuse(503, "store_unavailable", error.message)


def page_of(handler: JupyterHandler, client: str | None) -> str | None:
    """The id that a page load gave itself, within its user's own: no other user can name it."""
    return None if client is None else f"{owner_of(handler)}/{client}"


def limit_body(handler: JupyterHandler, most: int) -> None:
    """Closes the connection if a request's body has more than `most` bytes. Call it in `prepare`,
    before any of the body is read.
    """
    cast(HTTP1Connection, handler.request.connection).set_max_body_size(most)


@web.stream_request_body
class AgentHandler(APIHandler):
    """Base of all routes under `api/agent`.

    A body is only read once its sender is authenticated, and never beyond the route's limit.
    """

    auth_resource = "agent"
    max_body_bytes = MEBIBYTE
    """The largest body the route accepts."""
    joins_repeated = False
    """Whether the route itself answers repeated requests."""
    _final_answer: tuple[int, str] | None = None
    """Status and JSON of the answer, once sent."""

    async def prepare(self) -> None:  # type: ignore[override]  # as in APIHandler
        await super().prepare()
        self._body = bytearray()
        is_known = self.current_user is not None
        if not is_known and self.request.method != "OPTIONS":  # a browser's CORS preflight
            raise web.HTTPError(403)
        given = self.request.headers.get("Content-Length", "0")
        length = int(given) if re.fullmatch("[0-9]{1,18}", given) else 0
        limit_body(self, max(self.max_body_bytes, min(length, _MOST_DROPPED)) if is_known else 0)
        if not self._finished and length > self.max_body_bytes:
            await self._refuse_length(length)

    async def _refuse_length(self, length: int) -> None:
        """Answers at once, and ends the answer after the body, which is dropped: if the connection
        were closed before, a client that is still sending would not see the answer.
        """
        most = self.max_body_bytes
        message = f"The body has {length:,} bytes; this route takes {most:,}. Send less at once."
        text = json.dumps({"message": message, "reason": "too_large"})
        self.set_status(413)
        self.set_header("Content-Type", "application/json")
        self.set_header("Content-Length", len(text))
        self.write(text)
        await self.flush()

    def data_received(self, chunk: bytes) -> None:
        """Collects one more piece of the body."""
        if not self._headers_written:
            self._body += chunk

    @property
    def requests(self) -> InFlightRequests:
        """All requests that are being answered."""
        requests: InFlightRequests = self.settings[REQUESTS]
        return requests

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answers an unsupported method with the supported ones."""
        if status_code != 405:
            super().write_error(status_code, **kwargs)
            return
        methods = [name for name in METHODS if hasattr(getattr(self, name), "operation")]
        allowed = ", ".join(methods).upper()
        self.set_header("Allow", allowed)
        message = f"This route does not answer `{self.request.method}`; use {allowed}."
        self.refuse(405, "method_not_allowed", message)

    def give_up(self) -> None:
        """Ends the answer because the server stops; a started stream just ends."""
        if self._headers_written:
            return
        error = stopping_error()
        self.refuse(error.status, error.reason, error.message)

    @property
    def idempotency_key(self) -> str | None:
        """The key under which a POST is done only once, however often it is sent."""
        key = self.request.headers.get("Idempotency-Key")
        return key if key and self.request.method == "POST" else None

    async def do_once(self, key: str, do: Callable[[], Awaitable[None]]) -> None:
        """Handles the request, or repeats its stored answer.

        Raises RequestError 422 if the key was used for another request, 409 if the outcome of the
        first one is unknown.
        """
        once: Once = self.settings[ONCE]
        digest = digest_of(self.request.method, self.request.uri, self._body.decode("latin-1"))
        async with once.serialize_repeats(self.owner, key, digest) as earlier:
            if earlier is None:
                with _answering_errors(self):
                    await do()
                await self._keep_answer(once, key)
            elif earlier.status is None:
                message = (
                    "The server stopped while it did this; whether it took effect is unknown. "
                    "Look first, then send it with a new Idempotency-Key."
                )
                raise RequestError(409, "outcome_unknown", message)
            else:
                self._finish(earlier.status, earlier.answer)

    async def _keep_answer(self, once: Once, key: str) -> None:
        status, text = self._final_answer or (500, "")
        if status < 400 or status in _MAYBE_DONE:
            await once.store.end(self.owner, key, status, text)
        else:
            await once.store.forget(self.owner, key)

    @property
    def owner(self) -> str:
        """The owner of the data that this request creates and may see."""
        return owner_of(self)

    @property
    def person(self) -> Person:
        """The user who makes this request."""
        return person_of(self)

    async def ready(self) -> None:
        """Waits until what this route needs is loaded."""

    async def require(self, action: str, resource: str) -> None:
        """Raises RequestError 403 unless the user may do `action` on `resource`."""
        if not await Authorizer(self)(action, resource):
            raise RequestError(403, "denied", f"You are not allowed to {action} {resource}.")

    async def require_admin(self) -> None:
        """Raises RequestError 403 unless the user may change what all users share. The only user
        of a server always may.
        """
        if self.owner != LOCAL_OWNER:
            await self.require("write", ADMIN)

    def read_json(self) -> Any:
        """The body as JSON; `{}` if it is empty. Raises RequestError 400."""
        try:
            text = self._body.decode("utf-8-sig") or "{}"
            self._body.clear()  # the authorizer keeps this request, for as long as a turn lasts
            value = foreign.parse(text, constants=True)
            if "\\ud" in text.lower():  # a lone surrogate, which JSON can spell but no text holds
                value = foreign.printable(value)
        except ValueError as error:
            why = "send it in UTF-8, not compressed" if isinstance(error, UnicodeError) else error
            message = f"The body has to be a JSON object: {why}."
            raise RequestError(400, "invalid_body", message) from None
        return value

    def read(self, model: type[BaseModel], query: Mapping[str, QueryValues]) -> BaseModel:
        """The body as `model`. The parameters in `query` may be in the query or in the body, even
        those that are fields of the body. Raises RequestError 400 that names the field.
        """
        value = self.read_json()
        if not isinstance(value, dict):
            raise RequestError(400, "invalid_body", "The body has to be a JSON object.")
        for name in query:
            given = self.get_query_argument(name, None)
            if given is not None and value.setdefault(name, given) != given:
                self._bad_query(name, "the same in the query and in the body")
            if name in value and name not in model.model_fields:
                if not isinstance(word := value.pop(name), str | bool):
                    self._bad_query(name, "text")
                word = word if isinstance(word, str) else json.dumps(word)
                self.request.query_arguments[name] = [word.encode()]
        self.check_query(query)
        try:
            return model.model_validate(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(map(str, first["loc"])) or "body"
            message = f"The field `{field}` does not fit: {first['msg']}."
            raise RequestError(400, "invalid_body", message) from None

    def answer(self, value: Any, status: int = 200) -> None:
        """Finishes the request with a JSON answer."""
        self._finish(status, foreign.json_text(value))

    def answer_nothing(self) -> None:
        """Finishes a successful request without an answer: 204."""
        self._finish(204, "")

    def _finish(self, status: int, text: str) -> None:
        self._final_answer = (status, text)
        self.set_status(status)
        if not text:
            self.finish()
            return
        self.set_header("Content-Type", "application/json")
        self.finish(text)

    def store_answer_for_repeats(self, value: Any) -> None:
        """Stores the answer for repeats of this request, which is itself answered with a stream."""
        if self.idempotency_key:
            self._final_answer = (200, foreign.json_text(value))

    def refuse(self, status: int, reason: str, message: str, **facts: Any) -> None:
        """Finishes the request with an error in Jupyter's form."""
        self.answer({"message": message, "reason": reason, **facts}, status)

    def number(self, name: str, default: int, *, least: int = 1) -> int:
        """A whole number from the query."""
        text = self.get_query_argument(name, str(default))
        if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) < least:
            self._bad_query(name, f"a whole number from {least} to {10**_MOST_DIGITS - 1:,}")
        return int(text)

    def choice(self, name: str, allowed: tuple[str, ...]) -> Any:
        """One of the allowed words from the query; the first is the default."""
        value = self.get_query_argument(name, allowed[0])
        if value not in allowed:
            self._bad_query(name, f"one of {', '.join(allowed)}")
        return value

    def check_query(self, values: Mapping[str, QueryValues]) -> None:
        """Raises RequestError 400 for a parameter that is not one of these (or `while_away`, or
        Jupyter's own), and for a word that one does not allow, even if the answer does not depend
        on it: a typo should not go unnoticed.
        """
        known = {**WHILE_AWAY, **values}
        for name in self.request.query_arguments:
            if name not in (*known, *_OF_JUPYTER) and not name.isdecimal():  # as JupyterLab's time
                takes = ", ".join(f"`{each}`" for each in known)
                message = f"This route has no query parameter `{quoted(name)}`; it has {takes}."
                raise RequestError(400, "invalid_query", message)
        for name, allowed in known.items():
            if isinstance(allowed, tuple) and self.get_query_argument(name, None) is not None:
                self.choice(name, allowed)

    def _bad_query(self, name: str, wanted: str) -> NoReturn:
        raise RequestError(400, "invalid_query", f"`{name}` has to be {wanted}.")
