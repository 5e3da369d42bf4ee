"""Errors of model services, as plain sentences that say what to do next."""

from __future__ import annotations

import logging
import math
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from jupyter_agent.errors import ModelError

log = logging.getLogger(__name__)

_TRANSIENT = {"overloaded_error", "api_error", "rate_limit_error", "timeout_error"}
"""Transient error types that may come as an event after status 200."""
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
"""Words for limits of the account, which waiting does not lift."""
_ADDRESS = re.compile(r"https?://\S+")
"""Removed before the search: messages about the rate of requests may link to a billing page."""


def api_error(
    service: str,
    model: str,
    *,
    status: int,
    error: object,
    headers: Mapping[str, str],
    mask: Callable[[str], str],
) -> ModelError:
    """The error for a response with this status, JSON body (or text) and headers."""
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
            f"{service} redirects to {target}, and your key is not sent to another address. If "
            "that is the right address, set `base_url` to it.",
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
        # The body decides: spent accounts can also have a time to wait, and bursts can lack it.
        return fault(f"The account at {service} is at its limit.{detail}", "billing")
    if status == 429:
        return fault(f"{service} limits the rate of requests.{detail}", "rate_limit", True)
    if kind == "tool_use_failed":  # Groq could not parse the model's call; another try may work
        return fault(f"{service} could not read the model's call.{detail}", "service", True)
    if kind == "overloaded_error" or status in (503, 529):
        return fault(f"{service} is overloaded.", "overloaded", True)
    if status in (408, 409) or status >= 500 or (status == 200 and kind in _TRANSIENT):
        return fault(f"{service} failed ({kind or status}).{detail}", "service", True)
    return fault(f"{service} refused the request ({status}).{detail}", "invalid_request")


def stream_error(service: str, error: object, mask: Callable[[str], str]) -> ModelError:
    """The error for a stream that ended with this JSON or text after status 200."""
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
    """The error for a service that cannot be reached, or a broken connection, by its cause."""
    causes = list(_causes(error))
    detail = mask(str(causes[-1]) or type(causes[-1]).__name__)
    if any(type(cause).__name__ == "ProxyError" for cause in causes):
        return ModelError(
            f"The proxy refuses the connection to {host} ({detail}). Check `proxy` and "
            "`proxy_headers` of the provider, or HTTPS_PROXY and NO_PROXY.",
            kind="proxy",
            said=detail,
        )
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in causes):
        return ModelError(
            f"The certificate of {host} is not trusted ({detail}). If your network has its own CA, "
            "name it in `ca_bundle` of the provider or in SSL_CERT_FILE.",
            kind="tls",
            said=detail,
        )
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        return ModelError(
            f"No secure connection to {host} can be made ({detail}). Check whether the address "
            "supports https, and check proxies and firewalls on the way.",
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
    """The exception and its causes, down to the first."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def unreadable(error: Exception) -> ModelError:
    """The error for an invalid response: broken JSON, broken text, an unexpected type."""
    return ModelError(
        f"The model service sent something unreadable ({type(error).__name__}).",
        kind="broken_stream",
        retryable=True,
    )


@contextmanager
def catch_unreadable() -> Iterator[None]:
    """Turn exceptions over a malformed reply into ModelError, since fields of a reply may always be
    missing, null or of another type.
    """
    try:
        yield
    except _UNREADABLE as error:
        log.warning("A reply of a model could not be read", exc_info=True)
        raise unreadable(error) from error


def _read(error: object) -> tuple[str, str]:
    """Type and message of an error body; services differ in its nesting and names."""
    if isinstance(error, list) and error:
        return _read(error[0])
    if isinstance(error, Mapping):
        inner = error.get("error", error)
        if isinstance(inner, Mapping):
            kind: Any = inner.get("code") or inner.get("type") or ""
            return str(kind), _clip(str(inner.get("message") or ""))
        return "", _clip(str(inner))
    text = str(error or "")
    return "", "" if text.lstrip().startswith("<") else _clip(text)


def _is_spent(error: object) -> bool:
    """Whether any field of an error body is about the limits of the account."""
    kind, said = _read(error)
    inner = error.get("error", error) if isinstance(error, Mapping) else None
    type_ = inner.get("type") if isinstance(inner, Mapping) else ""
    return bool(_SPENT.search(_ADDRESS.sub("", f"{kind} {type_} {said}")))


def _clip(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:500]}..."


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_MINUTE = 60.0
_DAY = 86_400.0
_MAX_CHARS = 64
"""Characters of a header's value: numbers and times are never longer."""


def wanted_wait(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Seconds to wait; None if the headers do not say.

    Taken from `retry-after-ms` or `Retry-After`, else from the time when the limits are reset
    (`anthropic-ratelimit-*-reset`, `x-ratelimit-reset-*`). Names are lower case. Times are compared
    to the service's own clock (`Date`) if it sends one, else to `now`.

    Sources: RFC 9110, 10.2.3; https://docs.claude.com/en/api/rate-limits;
    https://platform.openai.com/docs/guides/rate-limits; the retries of both SDKs.
    """
    headers = {name: value for name, value in headers.items() if len(value) <= _MAX_CHARS}
    now = _http_date(headers.get("date", "")) or now
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    said = headers.get("retry-after", "")
    seconds = _number(said)
    if seconds is not None:
        return seconds
    moment = _http_date(said)
    if moment is not None:
        return max(0.0, (moment - now).total_seconds())
    return _until_reset(headers, now)


def _until_reset(headers: Mapping[str, str], now: datetime) -> float | None:
    """Seconds until the latest reset of the limits that are used up.

    If no limit is known to be used up, until the latest reset within a minute: the request may need
    more than a limit has left.
    """
    resets = [reset for reset in _resets(headers, now) if 0 < reset[0] <= _DAY]
    used_up = [seconds for seconds, remaining in resets if remaining == 0]
    if used_up:
        return max(used_up)
    return max((seconds for seconds, _ in resets if seconds <= _MINUTE), default=None)


def _resets(headers: Mapping[str, str], now: datetime) -> Iterator[tuple[float, float | None]]:
    """For each limit the seconds until its reset, and how much of it is left."""
    for name, value in headers.items():
        if name.startswith("anthropic-ratelimit-") and name.endswith("-reset"):
            moment = _timestamp(value)
            seconds = (moment - now).total_seconds() if moment else None
        elif name.startswith("x-ratelimit-reset-"):
            seconds = _duration(value)
        else:
            continue
        if seconds is not None:
            yield seconds, _number(headers.get(name.replace("-reset", "-remaining"), ""))


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None


def _duration(text: str) -> float | None:
    """Seconds from a text such as `6m0s`, `20ms`, or a plain number of seconds."""
    if _DURATION.sub("", text):
        return _number(text)
    parts = _DURATION.findall(text)
    return sum(float(number) * _UNITS[unit] for number, unit in parts) if parts else None


def _http_date(text: str) -> datetime | None:
    try:
        return _in_utc(parsedate_to_datetime(text))
    except (ValueError, OverflowError):
        return None


def _timestamp(text: str) -> datetime | None:
    try:
        return _in_utc(datetime.fromisoformat(text))
    except ValueError:
        return None


def _in_utc(moment: datetime) -> datetime:
    """A time without a zone is in UTC, according to RFC 9110."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
