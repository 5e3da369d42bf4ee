"""What can go wrong at a model service, as plain sentences with the next step."""

from __future__ import annotations

import logging
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from jupyter_agent.errors import ModelError
from jupyter_agent.models.retry_after import wanted_wait

log = logging.getLogger(__name__)

_TRANSIENT = {"overloaded_error", "api_error", "rate_limit_error", "timeout_error"}
"""Error types that may come as an event after status 200, and pass."""
_TOO_LONG = re.compile(
    r"prompt is too long|context (length|window)|maximum context|too many (input )?tokens"
    r"|exceed_context|context_length_exceeded",
    re.IGNORECASE,
)
_UNREADABLE = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError,
)  # fmt: skip
_LONG = "The conversation is too long for this model. Compact it or start a new one."
_SPENT = re.compile(
    r"insufficient[_ ](quota|balance|funds)|current quota|\bcredits?\b|billing|\bspend"
    r"|usage[_ ]limit|\bmonthly\b.{0,30}\blimit",
    re.IGNORECASE,
)
"""Words of a limit of the account, which no waiting lifts."""
_ADDRESS = re.compile(r"https?://\S+")
"""Services name the page of their prices in what they say of a burst, too."""


def api_error(
    service: str,
    model: str,
    *,
    status: int,
    error: object,
    headers: Mapping[str, str],
    mask: Callable[[str], str],
) -> ModelError:
    """The service answered with an error: its status, its JSON body (or text) and its headers."""
    kind, said = _read(error)
    said = mask(said)
    retry_after = wanted_wait(headers, now=datetime.now(UTC))
    detail = f" It said: {said}" if said else ""

    def fault(message: str, kind: str, retryable: bool = False) -> ModelError:
        return ModelError(
            message,
            kind=kind,
            retryable=retryable,
            retry_after=retry_after if retryable else None,
            request_id=headers.get("request-id") or headers.get("x-request-id"),
            said=said,
        )

    if 300 <= status < 400:
        target = urlsplit(headers.get("location", "")).netloc or "another address"
        return fault(
            f"{service} sends requests on to {target}, where your key is not sent unasked. If that "
            "is the right address, set `base_url` to it.",
            "redirect",
        )
    if status == 401:
        return fault(f"{service} does not accept the API key. Set a valid one.", "authentication")
    if status == 403:
        return fault(f"The API key may not use `{model}` at {service}.{detail}", "permission")
    if status == 404:
        return fault(f"{service} has no model `{model}`. Choose another one.", "not_found")
    if status == 413 or (status in (400, 422) and _TOO_LONG.search(f"{kind} {said}")):
        return fault(_LONG, "context_length")
    if status == 402 or (status in (200, 400, 429) and _is_spent(error)):
        # The body decides: a time to wait comes with spent accounts too, and not with each burst.
        return fault(f"The account at {service} is at its limit.{detail}", "billing")
    if status == 429:
        return fault(f"{service} limits the rate of requests.{detail}", "rate_limit", True)
    if kind == "tool_use_failed":  # Groq could not read the model's own call; the next may be right
        return fault(f"{service} could not read the model's call.{detail}", "service", True)
    if kind == "overloaded_error" or status in (503, 529):
        return fault(f"{service} is overloaded.", "overloaded", True)
    if status in (408, 409) or status >= 500 or (status == 200 and kind in _TRANSIENT):
        return fault(f"{service} failed ({kind or status}).{detail}", "service", True)
    return fault(f"{service} refused the request ({status}).{detail}", "invalid_request")


def broken_off(service: str, error: object, mask: Callable[[str], str]) -> ModelError:
    """A stream that began well ended with an error: its JSON, or its text."""
    _, said = _read(error)
    said = mask(said)
    detail = f" It said: {said}" if said else ""
    if _is_spent(error):
        message = f"The account at {service} is at its limit.{detail}"
        return ModelError(message, kind="billing", said=said)
    if _TOO_LONG.search(said):
        return ModelError(_LONG, kind="context_length")
    return ModelError(
        f"{service} gave up in the middle of its reply.{detail}",
        kind="service",
        retryable=True,
        said=said,
    )


def network_error(host: str, error: Exception, mask: Callable[[str], str]) -> ModelError:
    """The service could not be reached, or the connection broke: each cause in its own words."""
    causes = list(_causes(error))
    detail = mask(str(causes[-1]) or type(causes[-1]).__name__)
    if any(type(cause).__name__ == "ProxyError" for cause in causes):
        return ModelError(
            f"The proxy does not let us through to {host} ({detail}). Check `proxy` and "
            "`proxy_headers` of the provider, or HTTPS_PROXY and NO_PROXY.",
            kind="proxy",
            said=detail,
        )
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return ModelError(
            f"The certificate of {host} is not trusted ({detail}). If your network has a CA of its "
            "own, name it in `ca_bundle` of the provider or in SSL_CERT_FILE.",
            kind="tls",
            said=detail,
        )
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return ModelError(
            f"No secure connection to {host} can be made ({detail}). Check whether the address is "
            "one of https and what stands between.",
            kind="tls",
            said=detail,
        )
    if any(isinstance(cause, socket.gaierror) for cause in causes):
        return ModelError(
            f"The name {host} cannot be resolved. Check the network, the address and whether a "
            "proxy is needed.",
            kind="dns",
            retryable=True,
        )
    return ModelError(
        f"The connection to {host} failed ({detail}). "
        "Check the network, the proxy settings and the service's address.",
        kind="network",
        retryable=True,
        said=detail,
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """From what we caught to what began it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def unreadable(error: Exception) -> ModelError:
    """What came is not what the service should send: broken JSON, broken text, a web page."""
    return ModelError(
        f"The model service sent something unreadable ({type(error).__name__}).",
        kind="broken_stream",
        retryable=True,
    )


@contextmanager
def readable() -> Iterator[None]:
    """What is raised over a reply that is not as any service should write it becomes ModelError:
    no reader can foresee all that may be missing, null or of another type.
    """
    try:
        yield
    except _UNREADABLE as error:
        log.warning("A reply of a model could not be read", exc_info=True)
        raise unreadable(error) from error


def _read(error: object) -> tuple[str, str]:
    """Type and message of an error body; services agree on neither the nesting nor the names."""
    if isinstance(error, list) and error:
        return _read(error[0])
    if isinstance(error, Mapping):
        inner = error.get("error", error)
        if isinstance(inner, Mapping):
            kind: Any = inner.get("code") or inner.get("type") or ""
            return str(kind), _clipped(str(inner.get("message") or ""))
        return "", _clipped(str(inner))
    text = str(error or "")
    return "", "" if text.lstrip().startswith("<") else _clipped(text)


def _is_spent(error: object) -> bool:
    """Whether an error body is about the account, in whichever of its fields."""
    kind, said = _read(error)
    inner = error.get("error", error) if isinstance(error, Mapping) else None
    type_ = inner.get("type") if isinstance(inner, Mapping) else ""
    return bool(_SPENT.search(_ADDRESS.sub("", f"{kind} {type_} {said}")))


def _clipped(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:500]}..."
