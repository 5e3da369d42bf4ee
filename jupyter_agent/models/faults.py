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
from urllib.parse import urlsplit

from jupyter_agent.errors import ModelError
from jupyter_agent.legible import as_sentence

log = logging.getLogger(__name__)

_TRANSIENT = {"overloaded_error", "api_error", "rate_limit_error", "timeout_error"}
"""Transient error types that may come as an event after status 200."""
_TOO_LONG = re.compile(
    r"(prompt|input) is too long|context[ _](length|window|size|limit)|maximum (context|prompt)"
    r"|too many (input )?tokens|exceed_context|prompt exceeds|token count.{0,60}exceeds"
    r"|exceeded model token limit|range of input length|`inputs` tokens",
    re.IGNORECASE,
)
"""Words of services whose model cannot read so much at once."""
_BAD_KEY = re.compile(
    r"api[ _]key (is )?(not (valid|found)|invalid|expired)|incorrect api key", re.IGNORECASE
)
"""Words with which Gemini and Grok refuse a key, with status 400."""
_NO_TOOLS = re.compile(
    r"not support (tools|tool use|function calling)|support tool use", re.IGNORECASE
)
_NO_PAGE = re.compile(
    r"|(404 )?(page |resource )?not found\.?|invalid url\b.*", re.IGNORECASE | re.DOTALL
)
"""The message of a server that does not know the address; one without the model says more."""
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
    code, said = _read(error)
    said = mask(said)
    pause = wanted_wait(headers, now=datetime.now(UTC))
    if pause is None:
        pause = _wait_in(error)
    if 300 <= status < 400:
        target = urlsplit(headers.get("location", "")).netloc or "another address"
        kind, retryable = "redirect", False
        message = (
            f"{service} redirects to {target}, and your key is not sent to another address. If "
            "that is the right address, set `base_url` to it."
        )
    else:
        kind, retryable, message = _judge(service, model, status, error, code, said)
    return ModelError(
        message,
        kind=kind,
        retryable=retryable,
        retry_after=min(pause, _LONGEST_WAIT) if retryable and pause is not None else None,
        request_id=headers.get("request-id") or headers.get("x-request-id"),
        said=said,
    )


def _judge(
    service: str, model: str, status: int, error: object, code: str, said: str
) -> tuple[str, bool, str]:
    """The kind of an error, whether another try may help, and its message."""
    detail = f" It said: {as_sentence(said)}" if said else ""
    refused = status in (200, 400, 404, 422)  # 200 for an error within a stream
    too_long = _TOO_LONG.search(f"{code} {_type_of(error)} {said}")
    if status == 401 or (status == 400 and _BAD_KEY.search(said)):
        return "authentication", False, f"{service} does not accept the API key. Set a valid one."
    if status == 403:
        return "permission", False, f"The API key may not use `{model}` at {service}.{detail}"
    if refused and _NO_TOOLS.search(said):
        why = f"`{model}` at {service} cannot use tools, which the assistant needs."
        return "no_tools", False, f"{why} Choose another model.{detail}"
    no_model = code == "model_not_found"
    if status == 404 and not no_model and _NO_PAGE.fullmatch(said or code):
        why = f"{service} has nothing at this address (404). Check `base_url` of the provider"
        return "not_a_model_service", False, f"{why}: often it ends with `/v1`."
    if status == 404 or (refused and no_model):
        message = f"{service} has no model `{model}`. Choose another one.{detail}"
        return "not_found", False, message
    if status == 413 or (too_long and (refused or status == 500)):  # 500 of local servers
        return "context_length", False, f"{_LONG}{detail}"
    if status == 402 or (status in (200, 400, 429) and _is_spent(error)):
        # The body decides: spent accounts can also have a time to wait, and bursts can lack it.
        return "billing", False, f"The account at {service} is at its limit.{detail}"
    if status == 429:
        return "rate_limit", True, f"{service} limits the rate of requests.{detail}"
    if code == "tool_use_failed":  # Groq could not parse the model's call; another try may work
        return "service", True, f"{service} could not read the model's call.{detail}"
    if code == "overloaded_error" or status in (503, 529):
        return "overloaded", True, f"{service} is overloaded."
    if status in (408, 409) or status >= 500 or (status == 200 and code in _TRANSIENT):
        return "service", True, f"{service} failed ({code or status}).{detail}"
    shown = "" if status == 200 else f" ({status})"
    return "invalid_request", False, f"{service} refused the request{shown}.{detail}"


def stream_error(service: str, error: object, mask: Callable[[str], str]) -> ModelError:
    """The error for a stream that ended with this JSON or text after status 200."""
    code, said = _read(error)
    said = mask(said)
    detail = f" It said: {as_sentence(said)}" if said else ""
    if _is_spent(error):
        message = f"The account at {service} is at its limit.{detail}"
        return ModelError(message, kind="billing", said=said)
    if _TOO_LONG.search(f"{code} {_type_of(error)} {said}"):
        return ModelError(f"{_LONG}{detail}", kind="context_length", said=said)
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


def _inner(error: object) -> object:
    """An error body without what services put around it."""
    if isinstance(error, list) and error:
        return _inner(error[0])
    return error.get("error", error) if isinstance(error, Mapping) else error


def _read(error: object) -> tuple[str, str]:
    """Code or type, and message, of an error body; services differ in its nesting and names."""
    inner = _inner(error)
    if isinstance(inner, Mapping):
        said = inner.get("message") or inner.get("detail")
        return str(inner.get("code") or inner.get("type") or ""), _clip(str(said or ""))
    text = str(inner or "")
    return "", "" if text.lstrip().startswith("<") else _clip(text.strip())


def _type_of(error: object) -> str:
    inner = _inner(error)
    return str(inner.get("type") or "") if isinstance(inner, Mapping) else ""


def _is_spent(error: object) -> bool:
    """Whether any field of an error body is about the limits of the account."""
    if _wait_in(error) is not None:
        return False
    code, said = _read(error)
    return bool(_SPENT.search(_ADDRESS.sub("", f"{code} {_type_of(error)} {said}")))


def _wait_in(error: object) -> float | None:
    """Seconds to wait according to the body of Google's error. It uses the words of a spent account
    for limits per minute, too. None for a limit per day, which waiting so long does not lift.

    https://cloud.google.com/apis/design/errors#retry_info
    """
    inner = _inner(error)
    details = inner.get("details") if isinstance(inner, Mapping) else None
    if not isinstance(details, list) or "PerDay" in str(details):
        return None
    delays = (each.get("retryDelay") for each in details if isinstance(each, Mapping))
    return next((_duration(delay) for delay in delays if isinstance(delay, str)), None)


def _clip(text: str) -> str:
    return text if len(text) <= 500 else f"{text[:500]}..."


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_MINUTE = 60.0
_DAY = 86_400.0
_LONGEST_WAIT = 366 * _DAY
"""Seconds; a service that asks for more has a fault, and no date may be so far away."""
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
