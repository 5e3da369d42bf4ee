"""How long a model service asks us to wait before the next request."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_MINUTE = 60.0
_DAY = 86_400.0
_MAX_CHARS = 64
"""Of a header's value: no number and no moment is longer."""


def wanted_wait(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Seconds; None where the headers do not say.

    `retry-after-ms` and `Retry-After` are about this very request; else it is when the limits are
    reset (`anthropic-ratelimit-*-reset`, `x-ratelimit-reset-*`). Names are lower case. Moments are
    measured by the service's own clock (`Date`) where it tells it, else from `now`.

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
    """The latest reset of the limits that are used up.

    Where none is said to be, the latest of those that count by the minute: a request may need more
    than what is left.
    """
    resets = [reset for reset in _resets(headers, now) if 0 < reset[0] <= _DAY]
    used_up = [seconds for seconds, remaining in resets if remaining == 0]
    if used_up:
        return max(used_up)
    return max((seconds for seconds, _ in resets if seconds <= _MINUTE), default=None)


def _resets(headers: Mapping[str, str], now: datetime) -> Iterator[tuple[float, float | None]]:
    """For each limit the seconds until its reset and how much of it is left."""
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
    """Of a text such as `6m0s`, `20ms`, or a plain number of seconds."""
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
    """A moment without a zone is in UTC, as RFC 9110 has it."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
