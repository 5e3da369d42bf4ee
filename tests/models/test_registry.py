"""The available models, the default model, and the storage of keys."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from jupyter_agent.errors import ModelError, RequestError
from jupyter_agent.models import registry
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.facts import FactBook
from jupyter_agent.models.openai import OpenAIModel
from jupyter_agent.models.registry import Models
from jupyter_agent.packages import OPENAI, brought_by, openai_warning
from jupyter_agent.workspace.redactor import Redactor

from .conftest import Chat, read, sequels, serving


def models(path: Path, environment: Mapping[str, str] | None = None, **more: Any) -> Models:
    chosen = {"default": None, "key_file": path / "keys.json", **more}
    return Models(environment=environment or {}, **chosen)


def at(chat: Chat, path: Path, **more: Any) -> Models:
    """Models with a provider `lab` at this server."""
    lab = {"kind": "openai", "base_url": chat.url, "needs_key": False, **more}
    return models(path, providers={"lab": lab}, facts=CONFIGURED)


CONFIGURED = FactBook({"lab:small": {"window": 4096}})


async def window_of(known: Models, name: str) -> int | None:
    """The known window of the model, after two look-ups."""
    known.get(name)
    for _ in range(2):
        await known.look_up(name)
    return known.facts(name).window


def test_the_default_is_what_is_configured_or_the_tour_without_a_key(tmp_path: Path) -> None:
    assert models(tmp_path).get().id == "demo:tour"
    assert models(tmp_path, default="ollama:qwen").get().id == "ollama:qwen"


@pytest.mark.parametrize("where", ["file", "configuration", "environment"])
def test_with_a_key_claude_is_the_default(tmp_path: Path, where: str) -> None:
    environment = {"ANTHROPIC_API_KEY": "sk-1"} if where == "environment" else {}
    providers = {"anthropic": {"api_key": "sk-1"}} if where == "configuration" else {}
    known = models(tmp_path, environment, providers=providers)
    if where == "file":
        known.set_key("anthropic", "sk-1")
    model = known.get()
    assert isinstance(model, AnthropicModel)
    assert model.id == "anthropic:claude-sonnet-5-5"


@pytest.mark.parametrize("name", ["claude", "nobody:model", "anthropic:", "demo:other", ":x"])
def test_a_name_that_means_no_model_is_a_bad_request(tmp_path: Path, name: str) -> None:
    with pytest.raises(RequestError) as caught:
        models(tmp_path).get(name)
    assert (caught.value.status, caught.value.reason) == (400, "unknown_model")


def test_a_missing_key_says_how_to_set_one(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="OPENAI_API_KEY") as caught:
        models(tmp_path).get("openai:gpt")
    assert caught.value.kind == "authentication"


def test_a_key_is_stored_for_its_owner_only_and_effective_at_once(tmp_path: Path) -> None:
    known = models(tmp_path)
    (tmp_path / "keys.json.new").touch(mode=0o666)
    known.set_key("openai", " sk-openai \n")
    file = tmp_path / "keys.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text()) == {"openai": "sk-openai"}
    assert isinstance(known.get("openai:gpt"), OpenAIModel)
    known.delete_key("openai")
    with pytest.raises(ModelError):
        known.get("openai:gpt")


async def test_a_new_key_makes_a_new_client(tmp_path: Path) -> None:
    known = models(tmp_path)
    known.set_key("anthropic", "sk-1")
    first = known.get()
    assert known.get() is first
    known.set_key("anthropic", "sk-2")
    assert known.get() is not first


def test_keys_are_never_described(tmp_path: Path) -> None:
    known = models(tmp_path, {"ANTHROPIC_API_KEY": "sk-secret-123"})
    described = known.describe()
    assert "sk-secret-123" not in json.dumps(described)
    credentials = {entry["name"]: entry["credentials"] for entry in described["providers"]}
    assert credentials == {"anthropic": True, "demo": True, "ollama": True, "openai": False}


def test_keys_are_masked_wherever_they_come_from(tmp_path: Path) -> None:
    known = models(
        tmp_path,
        {"GROQ_API_KEY": "gsk-environment"},
        providers={"openai": {"api_key": "sk-configured"}},
    )
    known.set_key("anthropic", "sk-stored-key")
    text = "gsk-environment sk-configured sk-stored-key none"
    assert Redactor(known.secrets).text(text) == "*** *** *** none"


def test_keys_can_be_switched_off(tmp_path: Path) -> None:
    known = models(tmp_path, allow_keys=False)
    with pytest.raises(RequestError) as caught:
        known.set_key("anthropic", "sk-1")
    assert caught.value.status == 403
    assert not (tmp_path / "keys.json").exists()


@pytest.mark.parametrize(
    ("provider", "key", "status"),
    [("nobody", "sk", 404), ("demo", "sk", 404), ("openai", " ", 400), ("openai", "a\nb", 400)],
)
def test_a_key_that_makes_no_sense_is_refused(
    tmp_path: Path, provider: str, key: str, status: int
) -> None:
    with pytest.raises(RequestError) as caught:
        models(tmp_path).set_key(provider, key)
    assert caught.value.status == status


@pytest.mark.parametrize("text", ["{broken", "[]", '{"anthropic": 5}'])
def test_a_broken_key_file_is_told_and_left_alone(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(ModelError, match=r"keys\.json cannot be used"):
        models(tmp_path).get("anthropic:claude")
    assert (tmp_path / "keys.json").read_text() == text


def test_services_can_be_added_and_a_known_one_changed(tmp_path: Path) -> None:
    known = models(
        tmp_path,
        providers={
            "lab": {"kind": "openai", "base_url": "http://lab:8000/v1", "needs_key": False},
            "red": {"kind": "openai", "base_url": "http://red.test/v1", "needs_key": False},
            "ollama": {"base_url": "http://other:11434/v1"},
        },
    )
    assert known.get("lab:any").host == "lab:8000"
    assert known.get("red:any").host == "red.test"
    assert known.get("ollama:any").host == "other:11434"


def test_the_address_may_come_from_the_environment(tmp_path: Path) -> None:
    environment = {"ANTHROPIC_API_KEY": "sk-1", "ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    assert models(tmp_path, environment).get().host == "127.0.0.1:9"


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("openai", ["temperature"], "are a mapping of fields"),
        ("openai", "temperature=0.2", "are a mapping of fields"),
        ("openai", {3: 1}, "are a mapping of fields"),
        ("anthropic", {"stop": {"END"}}, "`stop` is not JSON"),
        ("openai", {"temperature": float("nan")}, "`temperature` is not JSON"),
        ("openai", {"logit_bias": object()}, "`logit_bias` is not JSON"),
        ("openai", {"metadata": {"when": b"now"}}, "`metadata` is not JSON"),
        ("openai", {"stream": False}, "`stream` is made by the assistant"),
        ("anthropic", {"messages": []}, "`messages` is made by the assistant"),
        ("openai", {"extra_body": {"model": "other"}}, "`model` is made by the assistant"),
        ("openai", {"extra_body": 5}, "`extra_body` is a mapping"),
        ("openai", {"extra_headers": ["X-Team: a"]}, "`extra_headers` is a mapping"),
        ("openai", {"timeout": "long"}, "`timeout` is a number of seconds"),
        ("openai", {"timeout": True}, "`timeout` is a number of seconds"),
        ("openai", {"max_tokens": 1, "max_completion_tokens": 1}, "only one of `max_tokens`"),
        ("demo", {"temperature": 0.2}, "takes no options"),
    ],
)
def test_options_that_cannot_be_sent_are_refused_at_the_start(
    tmp_path: Path, kind: str, options: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=r"^providers\.lab\.options: ") as caught:
        models(tmp_path, providers={"lab": {"kind": kind, "options": options}})
    assert words in str(caught.value)
    assert str(caught.value).endswith(".")


def test_options_may_be_any_json(tmp_path: Path) -> None:
    options = {"temperature": 0, "stop": ("a", "b"), "x": {"y": [None, True]}, "timeout": 2.5}
    providers = {"lab": {"kind": "openai", "needs_key": False, "options": options}, "ollama": {}}
    assert models(tmp_path, providers=providers).get("lab:any").id == "lab:any"


# -- context windows


@pytest.mark.parametrize(
    "name",
    ["max_input_tokens", "context_length", "max_model_len", "context_window", "max_context_length"],
)
async def test_a_window_is_asked_of_the_service_once(tmp_path: Path, name: str) -> None:
    async with serving(Chat(b"")) as chat:
        chat.models = [{"id": "llama", "object": "model", name: 32_768}]
        known = at(chat, tmp_path)
        assert await window_of(known, "lab:llama") == 32_768
        assert known.facts("lab:other").window is None
        await known.close()
    assert chat.addresses == ["/v1/models"]


@pytest.mark.parametrize(
    "options",
    [{"num_ctx": 8192}, {"options": {"num_ctx": 8192}}, {"extra_body": {"num_ctx": 8192}}],
)
async def test_a_window_that_is_sent_is_not_asked_for(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    async with serving(Chat(b"")) as chat:
        known = at(chat, tmp_path, options=options)
        assert await window_of(known, "lab:llama") == 8192
        await known.close()
    assert chat.addresses == []


@pytest.mark.parametrize("dialect", ["openai", "ollama"])
async def test_a_window_that_is_configured_is_not_asked_for_and_wins(
    tmp_path: Path, dialect: str
) -> None:
    async with serving(Chat(b"")) as chat:
        known = at(chat, tmp_path, dialect=dialect, options={"num_ctx": 8192})
        assert await window_of(known, "lab:small") == 4096
        await known.close()
    assert chat.addresses == []


@pytest.mark.parametrize("options", [{}, {"num_ctx": 65_536}, {"options": {"num_ctx": 65_536}}])
async def test_a_window_at_ollama_is_that_with_which_it_loads_the_model_whatever_is_sent(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    async with serving(Chat(b"")) as chat:
        chat.loads = {"qwen": 4_096, "llama:70b": 32_768}
        provider = {"base_url": chat.url, "options": options}
        known = models(tmp_path, providers={"ollama": provider})
        assert await window_of(known, "ollama:qwen") == 4_096
        assert await window_of(known, "ollama:llama:70b") == 32_768
        assert chat.addresses == ["/api/generate", "/api/ps"] * 2
        await known.close()


async def test_a_model_that_ollama_does_not_have_leaves_the_window_unknown(tmp_path: Path) -> None:
    async with serving(Chat(b"")) as chat:
        known = models(tmp_path, providers={"ollama": {"base_url": chat.url}})
        assert await window_of(known, "ollama:qwen") is None
        await known.close()


LISTS = (
    b"<!doctype html><p>Welcome</p>", b"ok", b"null", b"[]", b"", b"{}", b'{"data": null}',
    b'{"data": ["a"]}', b'{"data": {"id": "a"}}', b'{"data": [{"id": 7, "context_length": "x"}]}',
    b'{"data": [{"id": "a", "context_length": true}]}',
    b'{"data": [{"id": "a", "context_length": 1' + b"0" * 400 + b"}]}", b"[" * 200_000,
    b'data: {"data": []}\n\n', b'{"models": [7]}', b'{"models": {"name": "m"}}', b"\xff\xfe",
    b'{"data": [{"id": "a"}], "has_more": true, "last_id": "a"}',
    b'{"data": [], "has_more": "yes", "last_id": 7}',
)  # fmt: skip
"""Answers to `GET models` (and to Ollama's requests) with little or no information."""
FAULTS_OF_LISTS = ("broken_stream", "not_a_model_service", "not_found", "service")


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["anthropic", "openai", "ollama"])
async def test_an_odd_list_of_models_leaves_windows_unknown_and_ends_nothing(
    tmp_path: Path, kind: str
) -> None:
    dialect = {"kind": "openai", "dialect": "ollama"} if kind == "ollama" else {"kind": kind}
    odd = [(200, body) for body in LISTS] + [(status, b"") for status in (204, 404, 500)]
    async with sequels(b"") as service:
        lab = {**dialect, "base_url": service.url, "api_key": "sk-x"}
        for service.status, service.plain in odd:
            known = models(tmp_path, providers={"lab": lab})
            assert await window_of(known, "lab:a") is None, service.plain
            try:
                assert set(await known.list_models("lab")) <= {"a"}, service.plain
            except ModelError as error:
                assert error.kind in FAULTS_OF_LISTS, (service.plain, error.kind)  # noqa: PT017
            await known.close()
        assert await known.try_key("lab", "sk-y") is None
        assert service.asked <= 4 * len(odd)


async def test_a_list_of_models_that_never_comes_is_waited_for_only_so_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_LIST_SECONDS", 0.2)
    monkeypatch.setattr(registry, "_LOOK_UP_SECONDS", 0.2)
    async with sequels(b"") as service:
        service.silent = True
        lab = {"kind": "openai", "base_url": service.url, "needs_key": False}
        known = models(tmp_path, providers={"lab": lab})
        known.get("lab:m")
        await known.look_up("lab:m")
        with pytest.raises(ModelError, match="did not list its models within 0.2 s") as caught:
            await known.list_models("lab")
        assert caught.value.kind == "stalled"
        await known.close()


async def test_a_list_of_models_without_end_is_given_up(tmp_path: Path) -> None:
    pages = [
        json.dumps({"data": [{"id": f"m{n}"}], "has_more": True, "last_id": f"m{n}"}).encode()
        for n in range(1_000)
    ]
    async with sequels(b"{}") as service:
        service.bodies = list(pages)
        lab = {"kind": "anthropic", "base_url": service.url, "needs_key": False}
        known = models(tmp_path, providers={"lab": lab})
        assert await known.list_models("lab") == [f"m{n}" for n in range(20)]
        assert service.asked == 20
        await known.close()


async def test_a_service_that_nobody_reaches_leaves_the_window_unknown(tmp_path: Path) -> None:
    lab = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "needs_key": False}
    known = models(tmp_path, providers={"lab": lab})
    assert await window_of(known, "lab:llama") is None
    await known.close()


@pytest.mark.full
@pytest.mark.parametrize(
    ("environment", "imported"), [({"ANTHROPIC_API_KEY": "k"}, True), ({}, False)]
)
def test_the_sdk_is_imported_beforehand_where_there_is_a_key(
    tmp_path: Path, environment: dict[str, str], imported: bool
) -> None:
    program = (
        "import sys; from pathlib import Path;"
        "from jupyter_agent.models.registry import Models;"
        f"known = Models(default=None, key_file=Path({str(tmp_path / 'keys')!r}),"
        f" environment={environment!r});"
        "assert 'anthropic' not in sys.modules; thread = known.warm(); thread and thread.join();"
        "print('anthropic' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(imported)


@pytest.fixture
def older_openai(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The SDK that another assistant, such as notebook-intelligence, requires through litellm."""
    for name, number, requirement in (
        ("openai", "2.54.0", "anyio"),
        ("litellm", "1.106.2", "openai<3.0.0,>=2.20.0"),
        ("some_assistant", "6.2.0", "litellm>=1.84.0"),
    ):
        folder = tmp_path / "packages" / f"{name}-{number}.dist-info"
        folder.mkdir(parents=True)
        lines = (f"Name: {name}", f"Version: {number}", f"Requires-Dist: {requirement}", "")
        (folder / "METADATA").write_text("\n".join(("Metadata-Version: 2.1", *lines)))
    monkeypatch.syspath_prepend(tmp_path / "packages")
    brought_by.cache_clear()
    yield
    brought_by.cache_clear()


async def test_an_sdk_that_a_neighbour_keeps_older_is_named_with_the_neighbour(
    tmp_path: Path, older_openai: None
) -> None:
    async with serving(Chat(b"")) as chat:
        known = at(chat, tmp_path)
        with pytest.raises(ModelError) as caught:
            await read(known.get("lab:llama"))
        await known.close()
    assert caught.value.kind == "not_installed"
    assert "openai 2.54.0 is installed, brought by" in str(caught.value)
    assert "some-assistant" in str(caught.value)
    assert str(caught.value) == openai_warning()
    assert chat.addresses == []


def test_the_extra_installs_an_sdk_that_can_be_used() -> None:
    (extra,) = (
        one
        for one in map(Requirement, requires("jupyter-live-agent") or ())
        if one.name == "openai" and one.marker and one.marker.evaluate({"extra": "openai"})
    )
    assert extra.specifier.contains(f"{OPENAI}.0")
    assert not extra.specifier.contains(f"{OPENAI - 1}.99")
    assert openai_warning() is None


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "opnai"}, "kind: `opnai` is not a kind"),
        ({"kind": "openai", "dialect": "klingon"}, "dialect: `klingon` is not a dialect"),
    ],
)
def test_a_kind_or_dialect_that_there_is_not_is_refused_at_once(
    tmp_path: Path, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=rf"providers\.lab\.{words}"):
        models(tmp_path, providers={"lab": fields})
