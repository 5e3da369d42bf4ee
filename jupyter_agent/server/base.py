"""What every handler shares: who may do it, a typed body, and errors as JSON."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, cast, get_args

from jupyter_server.auth.identity import IdentityProvider, PasswordIdentityProvider
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.utils import ensure_async
from pydantic import BaseModel, ValidationError
from tornado import web
from tornado.http1connection import HTTP1Connection

from jupyter_agent import foreign
from jupyter_agent.agent.people import Person
from jupyter_agent.choices import WhileAway
from jupyter_agent.errors import ModelError, RequestError, StoreUnavailable, ToolError
from jupyter_agent.server.once import ONCE, Once, digest_of
from jupyter_agent.tasks import begin

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
    "not_confirmed": 504,
    "denied": 403,
    "needs_approval": 403,
}
"""The status that belongs to a ToolError's `reason`; 400 for all others."""

_MAYBE_DONE = (500, 504)
"""Statuses after which something may have been done."""

METHODS = ("get", "post", "put", "patch", "delete")
_MOST_DIGITS = 9
"""Of a number in a query: SQLite and Python have limits of their own, far beyond what is there."""
MEBIBYTE = 1 << 20
LOCAL_OWNER = "local"
ADMIN = "agent:admin"
"""What Jupyter's authorizer is asked about what belongs to all users of a server: its keys."""

Method = TypeVar("Method", bound=Callable[..., Awaitable[None]])
AuthAction: TypeAlias = Literal["read", "write", "execute"]


QueryValues: TypeAlias = tuple[str, ...] | type
"""The words that a parameter of a query may be, or the type of it."""

WHILE_AWAY: Mapping[str, QueryValues] = {"while_away": get_args(WhileAway)}
"""What every route may be told by which notebooks are edited."""
STREAM = "text/event-stream"
REQUESTS = "jupyter_agent_requests"
"""Where the web application's settings have our Requests."""
_GRACE = 0.2
"""Seconds in which a request that has its answer now, as its turn was stopped, can send it."""
_LONGEST_END = 4.0
"""Seconds for which a request that is cancelled is waited for: a fresh kernel takes one to end."""


class Requests:
    """The requests that are being answered.

    None of them outlives the server: a task that never ends keeps AnyIO's worker threads, and with
    them the process.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self.closed = False

    @property
    def count(self) -> int:
        """How many are being answered now."""
        return len(self._tasks)

    @contextmanager
    def answering(self, stopped: Callable[[], None]) -> Iterator[None]:
        """For a request, in its task; where the server stops meanwhile, `stopped` ends it."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if not self.closed:
                raise
            task.uncancel()
            stopped()
        finally:
            self._tasks.discard(task)

    def go_on(self, work: Coroutine[Any, Any, None]) -> None:
        """Has the rest of a request be done after its answer."""
        begin(work, self._tasks)

    async def close(self) -> None:
        """Cancels those that wait, and returns when they have ended; later ones are refused."""
        self.closed = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_GRACE)
        waiting = set(self._tasks)
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting, timeout=_LONGEST_END)


@dataclass(frozen=True, kw_only=True)
class RouteOperation:
    """What `openapi.json` and the test of all routes know of a handler's method."""

    action: AuthAction
    resource: str
    body: type[BaseModel] | None
    query: Mapping[str, QueryValues]
    """What each parameter of the query may be."""
    answers: int
    also: tuple[int, ...]
    """Other statuses of what was done."""
    media: tuple[str, ...]
    """Other types of the answer than JSON."""
    gives: Any
    """The type of the answer, where it is JSON; None where it is not."""
    speaks: type[BaseModel] | None
    """What the body is, and errors may be, where another protocol says that."""


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
    """Makes a method a route: authenticated, authorized, its body read, our errors as JSON."""

    values = query if isinstance(query, Mapping) else dict.fromkeys(query, str)

    def wrap(method: Method) -> Method:
        @web.authenticated
        @wraps(method)
        async def guarded(self: AgentHandler, *args: str) -> None:
            async def do() -> None:
                if body is None:
                    self.check_query(values)
                    await method(self, *args)
                else:
                    await method(self, *args, self.read(body, values))

            requests = self.requests
            with _refusing(self):
                if requests.closed:
                    raise _stopping()
                with requests.answering(self.give_up):
                    await self.require(action, resource)
                    await self.ready()
                    if self.idempotency_key and not self.joins_repeated:
                        await self.do_once(self.idempotency_key, do)
                    else:
                        await do()

        known = RouteOperation(
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
        setattr(guarded, "operation", known)  # noqa: B010 - functions declare no attributes
        return cast(Method, guarded)

    return wrap


@contextmanager
def _refusing(handler: AgentHandler) -> Iterator[None]:
    """Answers with our errors."""
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


def _stopping() -> RequestError:
    return RequestError(503, "stopping", "The server is stopping. Ask again when it is back.")


def owner_of(handler: JupyterHandler) -> str:
    """The name that separates what belongs to whom.

    Jupyter's own token and password providers make up a random name per browser, so there all
    requests are one owner's; names count only where the provider gives stable ones.
    """
    if type(handler.identity_provider) in (IdentityProvider, PasswordIdentityProvider):
        return LOCAL_OWNER
    return str(handler.current_user.username)


def person_of(handler: JupyterHandler) -> Person:
    """Who makes the request, with their groups where a single-user server of JupyterHub says so:
    also on somebody else's server it is who asks, and not its owner.
    """
    model = getattr(handler.current_user, "hub_user", None)
    groups = model.get("groups") if isinstance(model, Mapping) else None
    return Person(name=owner_of(handler), groups=frozenset(map(str, groups or ())))


def page_of(handler: JupyterHandler, client: str | None) -> str | None:
    """A page load by the id that it gave itself, as its user's own: nobody else can name it."""
    return None if client is None else f"{owner_of(handler)}/{client}"


class Authorizer:
    """Asks Jupyter's authorizer as one user, also after that user's request is answered."""

    def __init__(self, handler: JupyterHandler) -> None:
        self._handler = handler

    async def __call__(self, action: str, resource: str) -> bool:
        """Whether the user may; an authorizer that fails refuses."""
        handler = self._handler
        try:
            return bool(
                await ensure_async(
                    handler.authorizer.is_authorized(
                        handler, handler.current_user, action, resource
                    )
                )
            )
        except Exception:  # third-party code; whatever it raises must not grant
            log.exception("The authorizer failed on %s:%s; refused", resource, action)
            return False


def limit_body(handler: JupyterHandler, most: int) -> None:
    """Has the connection closed where a request's body has more bytes than that; to be called in
    `prepare`, before any of it was read.
    """
    cast(HTTP1Connection, handler.request.connection).set_max_body_size(most)


@web.stream_request_body
class AgentHandler(APIHandler):
    """Base of all routes under `api/agent`.

    A body is taken only once its sender is known, and no more of it than the route has use for.
    """

    auth_resource = "agent"
    max_body_bytes = MEBIBYTE
    """The largest body that the route takes."""
    joins_repeated = False
    """Whether the route itself knows what to answer to a request that is repeated."""
    _answered: tuple[int, str] | None = None
    """Status and JSON, once the request was answered."""

    async def prepare(self) -> None:  # type: ignore[override]  # as in APIHandler
        await super().prepare()
        self._body = bytearray()
        known = self.current_user is not None
        if not known and self.request.method != "OPTIONS":  # what browsers ask of strangers' pages
            raise web.HTTPError(403)
        limit_body(self, self.max_body_bytes if known else 0)
        length = self.request.headers.get("Content-Length", "0")
        if not self._finished and length.isdecimal() and int(length) > self.max_body_bytes:
            message = f"The body has {length} bytes; this route takes {self.max_body_bytes}."
            self.refuse(413, "too_large", message)

    def data_received(self, chunk: bytes) -> None:
        """One more piece of the body."""
        self._body += chunk

    @property
    def requests(self) -> Requests:
        """All that are being answered."""
        found: Requests = self.settings[REQUESTS]
        return found

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answers a method that the route does not have with those that it has."""
        if status_code != 405:
            super().write_error(status_code, **kwargs)
            return
        methods = [name for name in METHODS if hasattr(getattr(self, name), "operation")]
        allowed = ", ".join(methods).upper()
        self.set_header("Allow", allowed)
        message = f"This route does not answer `{self.request.method}`; use {allowed}."
        self.refuse(405, "method_not_allowed", message)

    def give_up(self) -> None:
        """Ends the answer because the server stops; a stream that has begun just ends."""
        if self._headers_written:
            return
        error = _stopping()
        self.refuse(error.status, error.reason, error.message)

    @property
    def idempotency_key(self) -> str | None:
        """What says that a POST is to be done once, however often it is sent."""
        key = self.request.headers.get("Idempotency-Key")
        return key if key and self.request.method == "POST" else None

    async def do_once(self, key: str, do: Callable[[], Awaitable[None]]) -> None:
        """Does what is asked for, or repeats the answer that it had.

        Raises RequestError 422 where the key was used for something else, 409 where nobody knows
        what became of it.
        """
        once: Once = self.settings[ONCE]
        digest = digest_of(self.request.method, self.request.uri, self._body.decode("latin-1"))
        async with once.repeated(self.owner, key, digest) as earlier:
            if earlier is None:
                with _refusing(self):
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
        status, text = self._answered or (500, "")
        if status < 400 or status in _MAYBE_DONE:
            await once.store.end(self.owner, key, status, text)
        else:
            await once.store.forget(self.owner, key)

    @property
    def owner(self) -> str:
        """The owner of what this request makes and may see."""
        return owner_of(self)

    @property
    def person(self) -> Person:
        """Who makes this request."""
        return person_of(self)

    async def ready(self) -> None:
        """Waits for what this route rests on."""

    async def require(self, action: str, resource: str) -> None:
        """Raises RequestError 403 unless the user may do `action` on `resource`."""
        if not await Authorizer(self)(action, resource):
            raise RequestError(403, "denied", f"You are not allowed to {action} {resource}.")

    async def require_admin(self) -> None:
        """Raises RequestError 403 unless the user may change what belongs to all users: the only
        one may, who has everything here.
        """
        if self.owner != LOCAL_OWNER:
            await self.require("write", ADMIN)

    def read_json(self) -> Any:
        """The body as JSON; `{}` where it is empty. Raises RequestError 400."""
        try:
            text = self._body.decode("utf-8") or "{}"
            self._body.clear()  # a turn outlives its request, and keeps that for the authorizer
            value = foreign.parse(text, constants=True)
            if "\\ud" in text.lower():  # half a character, as JSON can spell it, is text nowhere
                value = foreign.printable(value)
        except ValueError as error:
            message = f"The body has to be a JSON object: {error}."
            raise RequestError(400, "invalid_body", message) from None
        return value

    def read(self, model: type[BaseModel], query: Mapping[str, QueryValues]) -> BaseModel:
        """The body as `model`; what the `query` may say, the body may say as well, and a field of
        the body by that name the query. Raises RequestError 400 that names the field.
        """
        value = self.read_json()
        if not isinstance(value, dict):
            raise RequestError(400, "invalid_body", "The body has to be a JSON object.")
        for name in query:
            said = self.get_query_argument(name, None)
            if said is not None and value.setdefault(name, said) != said:
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
        """Finishes the request with JSON."""
        self._finish(status, json.dumps(value))

    def answer_nothing(self) -> None:
        """Finishes a request that was done and has nothing to tell: 204."""
        self._finish(204, "")

    def _finish(self, status: int, text: str) -> None:
        self._answered = (status, text)
        self.set_status(status)
        if not text:
            self.finish()
            return
        self.set_header("Content-Type", "application/json")
        self.finish(text)

    def repeat_with(self, value: Any) -> None:
        """Says what a request that repeats this one is answered, where this one has a stream."""
        if self.idempotency_key:
            self._answered = (200, json.dumps(value))

    def refuse(self, status: int, reason: str, message: str, **facts: Any) -> None:
        """Finishes the request with an error in Jupyter's form."""
        self.answer({"message": message, "reason": reason, **facts}, status)

    def number(self, name: str, default: int, *, least: int = 1) -> int:
        """A whole number of the query."""
        text = self.get_query_argument(name, str(default))
        if not text.isdecimal() or len(text) > _MOST_DIGITS or int(text) < least:
            self._bad_query(name, f"a whole number from {least} to {10**_MOST_DIGITS - 1:,}")
        return int(text)

    def choice(self, name: str, allowed: tuple[str, ...]) -> Any:
        """One of the allowed words of the query; the first is the default."""
        value = self.get_query_argument(name, allowed[0])
        if value not in allowed:
            self._bad_query(name, f"one of {', '.join(allowed)}")
        return value

    def check_query(self, values: Mapping[str, QueryValues]) -> None:
        """Raises RequestError 400 for a word that the query may not have, also where the answer
        would not depend on it: a typo is not to be found out later.
        """
        for name, allowed in values.items():
            if isinstance(allowed, tuple) and self.get_query_argument(name, None) is not None:
                self.choice(name, allowed)

    def _bad_query(self, name: str, wanted: str) -> NoReturn:
        raise RequestError(400, "invalid_query", f"`{name}` has to be {wanted}.")
