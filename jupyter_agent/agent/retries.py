"""Whether a request to a model that failed is repeated, and after how long."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from jupyter_agent.agent.limits import Limits
from jupyter_agent.errors import ModelError
from jupyter_agent.events import Notice

_MINUTE = 60.0


def pause_before_retry(error: ModelError, attempt: int, limits: Limits) -> float | None:
    """Seconds until the next attempt; None if there should be none."""
    if not error.retryable or asks_too_long(error, limits):
        return None
    if error.kind == "rate_limit":
        pause = next(iter(limits.rate_pauses[attempt - 1 :]), None)
    elif attempt < limits.attempts:
        pause = random.uniform(0.5, 1.0) * 2.0 ** (attempt - 1)
    else:
        pause = None
    return pause if pause is None or error.retry_after is None else error.retry_after


def asks_too_long(error: ModelError, limits: Limits) -> bool:
    """Whether the service wants a longer wait than a turn may have."""
    return error.retry_after is not None and error.retry_after > limits.longest_wait


def too_long(error: ModelError) -> ModelError:
    """For a wait that is too long for a turn: when it will be over."""
    until = _end_of(error.retry_after or 0)
    return ModelError(
        f"{error.message} Ask again after {until:%Y-%m-%d %H:%M} UTC.",
        kind=error.kind,
        request_id=error.request_id,
        said=error.said,
        until=until,
    )


def _end_of(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def retry_notice(error: ModelError, attempt: int, seconds: float) -> Notice:
    """What a person is told before a wait; of a long one also when it ends."""
    facts = {"attempt": attempt, "seconds": round(seconds, 1), "reason": error.kind}
    if error.said:
        facts["said"] = error.said
    when = f"{seconds:.1f} s"
    if seconds > _MINUTE:
        until = _end_of(seconds)
        facts["until"] = until.isoformat()
        when = f"{seconds / _MINUTE:.0f} min, at {until:%H:%M} UTC"
    return Notice(kind="retrying", text=f"{error.message} Trying again in {when}.", facts=facts)
