"""Requests with an `Idempotency-Key`: each is done at most once; repeats get the same answer."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

from jupyter_agent.conversations.idempotency import IdempotencyStore, KeyedRequest
from jupyter_agent.errors import RequestError

ONCE = "jupyter_agent_once"
"""The key of our Once in the web application's settings."""
_LONGEST_KEY = 255


class Once:
    """Serializes requests with the same key."""

    def __init__(self, store: IdempotencyStore) -> None:
        self.store = store
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def serialize_repeats(
        self, owner: str, key: str, digest: str
    ) -> AsyncIterator[KeyedRequest | None]:
        """The earlier request that this one repeats, or None. Held until that one is answered.

        Raises RequestError 422 if the key was used for another request, 400 if it is too long.
        """
        if len(key) > _LONGEST_KEY:
            message = f"An Idempotency-Key has at most {_LONGEST_KEY} characters."
            raise RequestError(400, "invalid_header", message)
        lock = self._locks.setdefault((owner, key), asyncio.Lock())
        async with lock:
            earlier = await self.store.begin(owner, key, digest)
            if earlier is not None and earlier.digest != digest:
                message = "This Idempotency-Key was used for another request. Send a new one."
                raise RequestError(422, "idempotency_key_reused", message)
            yield earlier


def digest_of(*parts: Any) -> str:
    """A digest of the request: equal for equal values, whatever the spelling of their JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
