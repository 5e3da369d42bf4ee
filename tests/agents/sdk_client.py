"""The official MCP client, of either major, driven by its standard input.

Runs as a file in an environment that has `mcp`: `sdk_client.py URL MODE`, where MODE is `legacy` or
`auto` (which only `mcp>=2` knows). A token in JUPYTER_TOKEN goes with each request; with FORMS the
client can show questions. Each line of input is a request; each line of output is a question
(`asked`, whose answer is the next line of input) or the end of a request: `result` or `failed`.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

URL, MODE = sys.argv[1:]
MAJOR = int(importlib.metadata.version("mcp").partition(".")[0])
TOKEN = os.environ.get("JUPYTER_TOKEN")
HEADERS = {"Authorization": f"token {TOKEN}"} if TOKEN else {}
if MAJOR == 1:
    from mcp import ClientSession, types
    from mcp.client.streamable_http import streamablehttp_client
else:
    import httpx2
    import mcp_types as types
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client


statuses: list[str] = []
"""Statuses of answers, which errors of version 2 do not include."""


async def note(response: Any) -> None:
    statuses.append(f"status {response.status_code}")


HOOKS = {"response": [note]}


def say(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


async def hear() -> Any:
    line = await anyio.to_thread.run_sync(sys.stdin.readline)
    if not line:
        raise EOFError
    return json.loads(line)


async def elicited(context: Any, params: Any) -> Any:
    say(asked=params.message)
    return types.ElicitResult(**await hear())


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Any, str]]:
    """A client for requests, and the version of the protocol that was negotiated."""
    about = types.Implementation(name="sdk", title=f"MCP client {MAJOR}", version="1")
    more = {"elicitation_callback": elicited if "FORMS" in os.environ else None}
    if MAJOR == 1:
        async with (
            streamablehttp_client(URL, headers=HEADERS) as (read, write, _),
            ClientSession(read, write, client_info=about, **more) as session,
        ):
            begun = await session.initialize()
            yield session, str(begun.protocolVersion)
        return
    async with (
        httpx2.AsyncClient(headers=HEADERS, timeout=60, event_hooks=HOOKS) as http,
        Client(
            streamable_http_client(URL, http_client=http), mode=MODE, client_info=about, **more
        ) as client,
    ):
        yield client, client.protocol_version


async def served(client: Any, asked: Mapping[str, Any]) -> Any:
    """The result of one request, as JSON of the protocol."""
    if "call" in asked:
        result = await client.call_tool(asked["call"], asked["input"])
    else:
        result = await client.list_tools()
    return result.model_dump(mode="json", by_alias=True)


async def main() -> None:
    async with connected() as (client, version):
        say(result={"version": version})
        while True:
            try:
                asked = await hear()
            except EOFError:
                return
            say(result=await served(client, asked))


def causes(error: BaseException) -> list[str]:
    """The causes of an error, without the exception groups of tasks."""
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in causes(inner)]
    return [f"{type(error).__name__}: {error}"]


try:
    anyio.run(main)
except Exception as error:  # noqa: BLE001 - any failure goes to the test
    say(failed="; ".join([*causes(error), *statuses]))
