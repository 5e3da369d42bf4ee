"""At most once: requests with an `Idempotency-Key`, and what one that repeats another gets."""

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
"""Where the web application's settings have our Once."""
_LONGEST_KEY = 255


class Once:
    """The requests with a key, one after the other for each key."""

    def __init__(self, store: IdempotencyStore) -> None:
        self.store = store
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def repeated(
        self, owner: str, key: str, digest: str
    ) -> AsyncIterator[KeyedRequest | None]:
        """The earlier request that this one repeats, where there is one; held until it is answered.

        Raises RequestError 422 where the key was used for something else, 400 for one too long.
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


def digest_of(*asked: Any) -> str:
    """Of a request: equal for equal values, however their JSON was written."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
