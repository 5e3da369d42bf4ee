"""What an administrator has sent in every request of a provider."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jupyter_agent.models.dialect import LIMITS

_OURS = ("model", "messages", "system", "tools", "stream")
_OF_THE_SDK = ("extra_body", "extra_headers", "extra_query", "timeout")
"""What is no field of the request's JSON but an argument of both SDKs."""


class Options:
    """Fields of the request's JSON, and arguments of the SDK."""

    def __init__(self, configured: Mapping[str, Any]) -> None:
        """Raises ValueError with a sentence for what cannot be sent."""
        if not isinstance(configured, Mapping) or not all(isinstance(n, str) for n in configured):
            raise ValueError("Options are a mapping of fields to what is sent in them.")
        self._request = {n: value for n, value in configured.items() if n in _OF_THE_SDK}
        _check_request(self._request)
        fields = {n: value for n, value in configured.items() if n not in _OF_THE_SDK}
        self.fields = {**fields, **self._request.pop("extra_body", {})}
        """What is sent; None leaves a field of ours out."""
        _check_fields(self.fields)

    def take_limit(self) -> tuple[str, Any] | None:
        """Takes the limit of a reply out of the fields: its name and value, where there is one."""
        for name in LIMITS:
            if name in self.fields:
                return name, self.fields.pop(name)
        return None

    def over(
        self,
        ours: Mapping[str, Any],
        *,
        unknown: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The arguments of a request: what is configured wins over ours, over what is ours but
        `unknown` to the SDK, and over `headers` of this request."""
        kept = {n: value for n, value in ours.items() if n not in self.fields}
        # Not as arguments: the SDKs know by far not each field that a service takes.
        sent = {
            n: value for n, value in {**(unknown or {}), **self.fields}.items() if value is not None
        }
        request = dict(self._request)
        if headers:
            request["extra_headers"] = {**headers, **request.get("extra_headers", {})}
        return {**kept, **request, "extra_body": sent}


def _check_request(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name == "timeout":
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError("`timeout` is a number of seconds.")
        elif not isinstance(value, Mapping):
            raise ValueError(f"`{name}` is a mapping.")


def _check_fields(fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if name in _OURS:
            raise ValueError(f"`{name}` is made by the assistant for each request; leave it out.")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError(f"`{name}` is no JSON ({error}).") from None
    if all(name in fields for name in LIMITS):
        raise ValueError(f"A service takes only one of {' and '.join(f'`{n}`' for n in LIMITS)}.")
