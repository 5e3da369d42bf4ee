"""The time that a service asks us to wait, in all formats that services use."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx2
import pytest

from jupyter_agent.agent.loop import with_end_of_wait
from jupyter_agent.models.faults import api_error, wanted_wait

NOW = datetime(2026, 11, 22, 10, 0, 0, tzinfo=UTC)
OTHER_CLOCK = {"date": "Sun, 22 Nov 2026 09:00:00 GMT"}


def wait(headers: dict[str, str]) -> float | None:
    return wanted_wait(httpx2.Headers(headers), now=NOW)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        # Seconds
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": " 1.5 "}, 1.5),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "3600"}, 3600.0),
        ({"retry-after-ms": "800"}, 0.8),
        ({"retry-after-ms": "800", "Retry-After": "1"}, 0.8),
        ({"retry-after-ms": "soon", "Retry-After": "1"}, 1.0),
        # A date, in the three forms of RFC 9110, by the service's own clock if it sends one
        ({"Retry-After": "Sun, 22 Nov 2026 10:00:30 GMT"}, 30.0),
        ({"Retry-After": "Sunday, 22-Nov-26 10:00:30 GMT"}, 30.0),
        ({"Retry-After": "Sun Nov 22 10:00:30 2026"}, 30.0),
        ({"Retry-After": "Sun, 22 Nov 2026 09:59:00 GMT"}, 0.0),
        ({"Retry-After": "Sun, 22 Nov 2026 09:00:30 GMT", **OTHER_CLOCK}, 30.0),
        # Without a time to wait
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": ""}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "Sun, 99 Nov 2026 10:00:30 GMT"}, None),
        ({"Retry-After": "Sun, 22 Nov 99999999999999999999 10:00:30 GMT"}, None),
        ({"Retry-After": "Mon, 01 Jan 0001 00:00:00 +2359"}, 0.0),
        ({"retry-after-ms": "1e999"}, None),
        # Anthropic's limits, each with a time
        ({"anthropic-ratelimit-requests-reset": "2026-11-22T10:00:12Z"}, 12.0),
        ({"anthropic-ratelimit-tokens-reset": "2026-11-22T11:00:12.5+01:00"}, 12.5),
        ({"anthropic-ratelimit-tokens-reset": "2026-11-22T09:00:12Z", **OTHER_CLOCK}, 12.0),
        (
            {
                "anthropic-ratelimit-requests-remaining": "49",
                "anthropic-ratelimit-requests-reset": "2026-11-22T10:00:50Z",
                "anthropic-ratelimit-input-tokens-remaining": "0",
                "anthropic-ratelimit-input-tokens-reset": "2026-11-22T10:00:20Z",
                "anthropic-ratelimit-output-tokens-remaining": "0",
                "anthropic-ratelimit-output-tokens-reset": "2026-11-22T10:00:25Z",
            },
            25.0,
        ),
        (
            {
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-11-22T10:05:00Z",
            },
            300.0,
        ),
        ({"anthropic-ratelimit-requests-reset": "2026-11-22T09:59:00Z"}, None),
        ({"anthropic-ratelimit-requests-reset": "2026-11-29T10:00:00Z"}, None),
        ({"anthropic-ratelimit-requests-reset": "tomorrow"}, None),
        ({"anthropic-ratelimit-requests-remaining": "0"}, None),
        # OpenAI's limits, each with a duration
        ({"x-ratelimit-reset-requests": "1s"}, 1.0),
        ({"x-ratelimit-reset-requests": "20ms"}, 0.02),
        ({"x-ratelimit-reset-tokens": "0m59.56s"}, 59.56),
        ({"x-ratelimit-reset-tokens": "12"}, 12.0),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}, 360.0),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1h2m3s"}, 3723.0),
        ({"x-ratelimit-reset-requests": "20ms", "x-ratelimit-reset-tokens": "6s"}, 6.0),
        # A daily limit that is not used up says nothing about a burst
        ({"x-ratelimit-reset-requests": "23h59m", "x-ratelimit-reset-tokens": "6s"}, 6.0),
        ({"x-ratelimit-reset-requests": "23h59m"}, None),
        ({"x-ratelimit-reset-requests": "1795348800"}, None),
        ({"x-ratelimit-reset-requests": "1 s"}, None),
        ({"x-ratelimit-reset-requests": "s"}, None),
        ({"x-ratelimit-reset-requests": "1" * 60_000}, None),
        ({"x-ratelimit-reset-requests": ""}, None),
        # Headers about this request come first
        ({"Retry-After": "2", "x-ratelimit-reset-tokens": "6s"}, 2.0),
        ({"Retry-After": "soon", "x-ratelimit-reset-tokens": "6s"}, 6.0),
    ],
)
def test_a_wait_is_read_however_it_is_said(headers: dict[str, str], seconds: float | None) -> None:
    assert wait(headers) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("headers", "delay"),
    [({"retry-after": "1e300"}, "7s"), ({}, "99999999999s"), ({}, "9" * 400 + "s")],
)
def test_a_wait_of_more_than_a_year_is_one_of_a_year(headers: dict[str, str], delay: str) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}]
    body = {"error": {"message": "Later.", "details": details}}
    error = api_error("Lab", "m", status=429, error=body, headers=headers, mask=str)
    until = with_end_of_wait(error).until
    assert until is not None
    assert 365 <= (until - datetime.now(UTC)).days <= 366
