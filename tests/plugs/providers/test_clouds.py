"""Claude in a cloud: the SDK's own clients, with the same requests and the same events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tornado.web import RequestHandler

from jupyter_agent.errors import ModelError
from jupyter_agent.models.registry import Models
from tests.fakes import Scripted, says
from tests.fakes.service import http_service

from ...models.conftest import read


@asynccontextmanager
async def vertex(asked: list[Any]) -> AsyncIterator[str]:
    class Predict(RequestHandler):
        def post(self) -> None:
            asked.append((self.request.uri, dict(self.request.headers), self.request.body))
            self.set_header("Content-Type", "text/event-stream")
            for event in Scripted(blocks=[says("Hello.")]).events():
                self.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n")

    async with http_service(("/v1/projects/.*", Predict)) as address:
        yield f"{address}/v1"


def models(path: Path, **provider: Any) -> Models:
    return Models(
        default=None, key_file=path / "keys", providers={"cloud": provider}, environment={}
    )


async def test_vertex_is_asked_in_its_own_way(tmp_path: Path) -> None:
    asked: list[Any] = []
    account = {"project_id": "atlas", "region": "europe-west1", "access_token": "token-01"}
    async with vertex(asked) as url:
        known = models(tmp_path, kind="vertex", base_url=url, account=account)
        assert {"name": "cloud", "models": [], "credentials": True} in known.describe()["providers"]
        model = known.get("cloud:claude-sonnet-5-5")
        await known.look_up(model.id)  # as at the start of a turn
        reply = await read(model)
        await known.close()
    assert reply.text == [says("Hello.")]
    ((address, headers, body),) = asked
    assert address.startswith("/v1/projects/atlas/locations/europe-west1/")
    assert "claude-sonnet-5-5" in address
    assert headers["Authorization"] == "Bearer token-01"
    assert "model" not in json.loads(body)


async def test_a_package_of_the_cloud_that_is_missing_is_named(tmp_path: Path) -> None:
    account = {"aws_region": "eu-west-1", "aws_access_key": "a", "aws_secret_key": "b"}
    known = models(tmp_path, kind="bedrock", base_url="http://127.0.0.1:9", account=account)
    with pytest.raises(ModelError) as caught:
        await read(known.get("cloud:claude"))
    assert caught.value.kind in ("not_installed", "network")  # with boto3 it gets further
    await known.close()


@pytest.mark.parametrize(
    ("kind", "host"),
    [("bedrock", "bedrock-runtime.amazonaws.com"), ("vertex", "aiplatform.googleapis.com")],
)
async def test_a_cloud_is_named_as_who_is_sent_what_and_lists_no_models(
    kind: str, host: str, tmp_path: Path
) -> None:
    known = models(tmp_path, kind=kind, account={})
    assert known.get("cloud:claude").host == host
    with pytest.raises(ModelError, match="does not list its models"):
        await known.list_models("cloud")
    await known.close()


@pytest.mark.parametrize("account", [{}, {"aws_regoin": "eu-west-1"}])
async def test_an_account_that_cannot_be_used_is_a_fault_of_the_configuration(
    account: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    known = models(tmp_path, kind="bedrock", account=account)
    with pytest.raises(ModelError, match="The account of `cloud:claude` cannot be used"):
        await read(known.get("cloud:claude"))
    await known.close()
