"""Endpoints behind a corporate network; each possible error has its own message."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.errors import ModelError, RequestError
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.network import Network
from jupyter_agent.models.openai import OpenAIModel
from jupyter_agent.models.registry import Models
from jupyter_agent.workspace.redactor import Redactor
from tests.fakes import FakeAnthropic, Scripted, says

from .conftest import Chat, read, recording, request, serving
from .corporate import Authority, make_authority, proxy

VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


def known(path: Path, environment: dict[str, str] | None = None, **provider: Any) -> Models:
    """Models with a provider `lab`."""
    return Models(
        default=None,
        key_file=path / "keys.json",
        providers={"lab": {"kind": "anthropic", "api_key": "sk-lab-0123", **provider}},
        environment=environment or {},
    )


async def fault_of(model: Any) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await read(model)
    await model.close()
    return caught.value


class Faraway:
    """The fake behind TLS with a certificate of the private CA."""

    def __init__(self, api: FakeAnthropic) -> None:
        self.api = api
        self.host = api.url.removeprefix("https://")

    def model(self, **network: Any) -> AnthropicModel:
        return AnthropicModel(
            "claude",
            Service(
                provider="anthropic",
                api_key=self.api.api_key,
                base_url=self.api.url,
                network=Network(**network),
            ),
        )


@pytest.fixture
def replies() -> list[Any]:
    return [[says("Hello from afar.")]]


@pytest.fixture
def faraway(jp_asyncio_loop: Any, authority: Authority, replies: list[Any]) -> Any:
    api = FakeAnthropic(replies, tls=authority.server())
    jp_asyncio_loop.run_until_complete(api.__aenter__())
    yield Faraway(api)
    jp_asyncio_loop.run_until_complete(api.__aexit__(None, None, None))


# -- connections that work


async def test_a_private_ca_behind_a_proxy_that_wants_a_header_and_wins_over_the_environment(
    faraway: Faraway, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    async with proxy() as gate:
        model = faraway.model(
            ca_bundle=authority.bundle, proxy=gate.url, proxy_headers={"X-Team": "atlas-secret"}
        )
        reply = await read(model)
        await model.close()
    assert reply.text == [says("Hello from afar.")]
    assert gate.tunnels == [faraway.host]


async def test_the_environment_names_proxy_and_ca(
    faraway: Faraway, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", authority.bundle)
    async with proxy() as gate:
        monkeypatch.setenv("HTTPS_PROXY", gate.url)
        error = await fault_of(faraway.model())
        assert (error.kind, gate.refused) == ("proxy", 1)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        model = faraway.model()
        reply = await read(model)
        await model.close()
    assert reply.complete
    assert gate.tunnels == []


async def test_headers_and_query_go_with_each_request(tmp_path: Path) -> None:
    (tmp_path / "team").write_text("atlas-secret\n")
    async with serving(Chat(recording("openai/text.txt"))) as chat:
        models = known(
            tmp_path,
            {"AZURE_KEY": "azure-secret"},
            kind="openai",
            base_url=chat.url,
            headers={
                "api-key": {"env": "AZURE_KEY"},
                "X-Team": {"file": str(tmp_path / "team")},
                "X-Plain": "yes",
            },
            query={"api-version": "2026-10-01"},
        )
        await read(models.get("lab:gpt"))
        assert Redactor(models.secrets).text("azure-secret atlas-secret yes") == "*** *** yes"
        await models.close()
    (headers,) = chat.received
    assert (headers["Api-Key"], headers["X-Team"]) == ("azure-secret", "atlas-secret")
    assert headers["X-Plain"] == "yes"
    assert chat.addresses == ["/v1/chat/completions?api-version=2026-10-01"]


async def test_who_asks_goes_with_chat_completions_beside_headers_of_options(
    tmp_path: Path,
) -> None:
    async with serving(Chat(recording("openai/text.txt"))) as chat:
        models = known(
            tmp_path,
            kind="openai",
            base_url=chat.url,
            headers={"X-Asked-By": {"user": "name"}},
            options={"extra_headers": {"X-Course": "statistics"}},
        )
        await read(models.get("lab:gpt"), request(user="ada.lovelace"))
        await read(models.get("lab:gpt"), request())
        await models.close()
    first, second = chat.received
    assert (first["X-Asked-By"], first["X-Course"]) == ("ada.lovelace", "statistics")
    assert "X-Asked-By" not in second
    assert Redactor(models.secrets).text("ada.lovelace") == "ada.lovelace"


async def test_a_secret_that_changed_makes_a_new_client(tmp_path: Path) -> None:
    secret = tmp_path / "team"
    secret.write_text("atlas")
    models = known(tmp_path, headers={"X-Team": {"file": str(secret)}})
    first = models.get("lab:m")
    assert models.get("lab:m") is first
    secret.write_text("borea")
    assert models.get("lab:m") is not first


def test_a_key_may_be_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-of-file-01\n")
    models = known(tmp_path, api_key="", api_key_file=str(tmp_path / "key"))
    assert isinstance(models.get("lab:m"), AnthropicModel)
    assert Redactor(models.secrets).text("sk-of-file-01") == "***"


# -- connections that do not work


async def test_an_untrusted_certificate(faraway: Faraway) -> None:
    error = await fault_of(faraway.model())
    assert error.kind == "tls"
    assert error.message.startswith(f"The certificate of {faraway.host} is not trusted (")
    assert "ca_bundle" in error.message
    assert "SSL_CERT_FILE" in error.message
    assert not error.retryable


@pytest.mark.full
async def test_an_address_that_speaks_no_tls() -> None:
    async with FakeAnthropic([]) as api:
        address = api.url.replace("http://", "https://")
        error = await fault_of(
            AnthropicModel(
                "claude", Service(provider="anthropic", api_key="sk-0123456", base_url=address)
            )
        )
    assert error.kind == "tls"
    assert "No secure connection" in error.message


async def test_a_proxy_that_refuses(faraway: Faraway, authority: Authority) -> None:
    async with proxy() as gate:
        address = gate.url.replace("http://", "http://me:pass-word@")
        error = await fault_of(
            faraway.model(
                ca_bundle=authority.bundle,
                proxy=address,
                proxy_headers={"X-Team": "wrong-secret"},
                secrets=("pass-word", "wrong-secret"),
            )
        )
    assert error.kind == "proxy"
    assert "407" in error.message
    assert "proxy_headers" in error.message
    assert "pass-word" not in error.message
    assert "wrong-secret" not in error.message
    assert not error.retryable


async def test_a_name_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)  # no name server is asked
    error = await fault_of(
        AnthropicModel(
            "claude",
            Service(provider="anthropic", api_key="sk-0123456", base_url="https://models.invalid"),
        )
    )
    assert error.kind == "dns"
    assert error.message.startswith("The name models.invalid cannot be resolved.")
    assert error.retryable


async def test_a_redirect_is_told_and_no_key_goes_there() -> None:
    async with serving(Chat(b"")) as elsewhere:
        headers = {"Location": f"{elsewhere.url}/chat/completions"}
        host = elsewhere.url.removeprefix("http://").partition("/")[0]
        redirect = Scripted(status=307, headers=headers)
        async with (
            serving(Chat(b"", status=307, headers=headers)) as chat,
            FakeAnthropic([redirect], api_key="sk-0123456") as api,
        ):
            for model in (
                AnthropicModel(
                    "claude", Service(provider="anthropic", api_key="sk-0123456", base_url=api.url)
                ),
                OpenAIModel(
                    "gpt", Service(provider="openai", api_key="sk-0123456", base_url=chat.url)
                ),
            ):
                error = await fault_of(model)
                assert (error.kind, error.retryable) == ("redirect", False)
                assert host in error.message
        assert elsewhere.addresses == []


async def test_a_key_that_is_not_accepted(faraway: Faraway, authority: Authority) -> None:
    model = faraway.model(ca_bundle=authority.bundle)
    faraway.api.api_key = "sk-another-0123"
    error = await fault_of(model)
    assert error.kind == "authentication"
    assert error.message == "Anthropic does not accept the API key. Set a valid one."


async def test_an_echoed_secret_is_masked() -> None:
    body = json.dumps({"error": {"message": "no access for team atlas-secret"}}).encode()
    async with serving(Chat(body, status=403)) as chat:
        network = Network(headers={"X-Team": "atlas-secret"}, secrets=("atlas-secret",))
        model = OpenAIModel(
            "gpt", Service(provider="openai", api_key="none", base_url=chat.url, network=network)
        )
        error = await fault_of(model)
    assert "no access for team ***" in error.message


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        (
            {"headers": {"X-Team": {"env": "TEAM"}}},
            "the header X-Team: the environment has no TEAM",
        ),
        (
            {"headers": {"X-Team": {"file": "/nowhere"}}},
            "the header X-Team: /nowhere: FileNotFound",
        ),
        ({"headers": {"X-Team": {"vault": "x"}}}, "the header X-Team is a text, {'file': path}"),
        ({"api_key": {"env": "LAB"}}, "the key of lab: the environment has no LAB"),
        ({"proxy": {"file": "/nowhere"}}, "the proxy: /nowhere: FileNotFoundError"),
    ],
)
def test_a_value_that_is_not_there_is_named(
    tmp_path: Path, provider: dict[str, Any], words: str
) -> None:
    models = known(tmp_path, **provider)
    assert isinstance(models.describe(), dict)
    with pytest.raises(ModelError) as caught:
        models.get("lab:m")
    assert caught.value.kind == "configuration"
    assert words in caught.value.message


@pytest.mark.parametrize("bundle", ["/nowhere/ca.pem", __file__])
async def test_a_bundle_that_is_none_is_named(bundle: str) -> None:
    error = await fault_of(
        AnthropicModel(
            "claude",
            Service(provider="anthropic", api_key="sk-0123456", network=Network(ca_bundle=bundle)),
        )
    )
    assert error.kind == "configuration"
    assert f"`ca_bundle` {bundle} cannot be used" in error.message


# -- the models of a provider


async def test_a_provider_is_asked_for_its_models_only_when_somebody_asks(tmp_path: Path) -> None:
    async with serving(Chat(b"")) as chat, FakeAnthropic([], api_key="sk-lab-0123") as api:
        models = known(tmp_path, base_url=api.url)
        other = known(tmp_path, kind="openai", base_url=chat.url)
        models.describe(), other.describe()
        assert chat.addresses == []
        assert await models.list_models("lab") == ["claude-sonnet-5-5", "claude-haiku-5-5"]
        assert await other.list_models("lab") == ["llama"]
        assert chat.addresses == ["/v1/models"]


async def test_a_provider_that_cannot_be_asked_says_why(tmp_path: Path) -> None:
    models = known(tmp_path, base_url="http://127.0.0.1:9")
    with pytest.raises(ModelError, match="127.0.0.1:9"):
        await models.list_models("lab")
    with pytest.raises(RequestError, match="`moon` is not a provider"):
        await models.list_models("moon")
    assert await models.list_models("demo") == ["tour"]
