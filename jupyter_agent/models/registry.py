"""The registry of models: from `provider:model` to a Model."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_agent import entry_points
from jupyter_agent.errors import ModelError, RequestError
from jupyter_agent.models.base import CacheTtl, Model
from jupyter_agent.models.dialect import Dialect
from jupyter_agent.models.endpoint import Options, Service
from jupyter_agent.models.facts import FactBook, Facts
from jupyter_agent.models.keys import Keys
from jupyter_agent.models.kinds import KINDS, Kind, ServiceModel
from jupyter_agent.models.network import Network, Value
from jupyter_agent.models.provider import Provider
from jupyter_agent.tasks import begin

log = logging.getLogger(__name__)

_PLACEHOLDER_KEY = "none"
"""For services without a key, because the SDK requires one."""


_KNOWN: Mapping[str, Provider] = {
    "anthropic": Provider(
        kind="anthropic", models=("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5")
    ),
    "openai": Provider(kind="openai"),
    "ollama": Provider(kind="openai", base_url="http://localhost:11434/v1", needs_key=False),
    "demo": Provider(kind="demo", models=("tour",), needs_key=False),
}
_WITH_KEY = "anthropic:claude-sonnet-5-5"
_WITHOUT_KEY = "demo:tour"
_MOST_NAMES = 1_000
_LOOK_UP_SECONDS = 3.0
"""Longest time that a turn waits for the context window of its model."""
_LIST_SECONDS = 20.0
"""Longest time that a person waits for a list of models; this includes the import of the SDK."""
_LOAD_SECONDS = 120.0
"""As `_LOOK_UP_SECONDS`, if the service has to load the model, as it would for the question."""


class Models:
    """The models of this server.

    `providers` adds services and changes the known ones: by name, the fields of `Provider` and
    `api_key` (or `api_key_file`), e.g. `{"lab": {"kind": "openai", "base_url": "...", "needs_key":
    False}}`. A key, a header or a proxy is a text, `{"file": path}` or `{"env": name}`.
    """

    def __init__(
        self,
        *,
        default: str | None,
        key_file: Path,
        providers: Mapping[str, Mapping[str, Any]] | None = None,
        facts: FactBook | None = None,
        allow_keys: bool = True,
        fallback: str | None = None,
        cache_ttl: CacheTtl = "5m",
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`fallback` answers if a model fails or refuses; `cache_ttl` is for services of kind
        `anthropic`.

        Raises ValueError for an invalid fallback and, with the provider's name, for options that
        cannot be sent.
        """
        configured = {name: dict(fields) for name, fields in (providers or {}).items()}
        keys = {name: _pop_key(fields) for name, fields in configured.items()}
        self._keys = Keys(key_file, keys, environment)
        self._providers = {**_KNOWN}
        self._kinds = dict(KINDS)
        """With the plugs that providers use."""
        for name, fields in configured.items():
            known = _KNOWN.get(name)
            self._providers[name] = Provider(**{**(vars(known) if known else {}), **fields})
            self._check(name, self._providers[name])
        if fallback:
            service, _, model = fallback.partition(":")
            if service not in self._providers or not model:
                raise ValueError(
                    f"fallback_model: `{fallback}` is not a model. Name one as `provider:model`; "
                    f"providers: {', '.join(sorted(self._providers))}."
                )
        self._fallback = fallback
        self._cache_ttl = cache_ttl
        self._facts = facts or FactBook()
        self._configured_default = default
        self._allow_keys = allow_keys
        self._environment = environment
        self._endpoints: dict[str, tuple[tuple[str, Network], ServiceModel]] = {}
        """By `provider:model`: the key and network that it was made with, and the model."""
        self._outdated: list[ServiceModel] = []
        """Made with another key or network; a turn may still use them."""
        self._closing: set[asyncio.Task[None]] = set()
        self._dialects: dict[str, Dialect] = {}
        """Learned dialects by model; they outlive the models' clients."""
        self._windows: dict[str, int] = {}
        """Context windows that services reported, by `provider:model`."""
        self._looked_up: set[str] = set()

    @property
    def default(self) -> str:
        """The configured model, else Anthropic's if there is a key, else the tour."""
        if self._configured_default:
            return self._configured_default
        return _WITH_KEY if self._keys.get("anthropic") else _WITHOUT_KEY

    def get(self, name: str | None = None) -> Model:
        """The model with that name, or the default model; called in the event loop.

        Raises RequestError (400, `unknown_model`) for an unknown name, and ModelError
        (`authentication`) if its key is missing.
        """
        name = name or self.default
        service, _, model = name.partition(":")
        provider = self._providers.get(service)
        if provider is None or not model:
            raise RequestError(
                400,
                "unknown_model",
                f"`{name}` is not a model. Name one as `provider:model`, e.g. `{_WITH_KEY}`; "
                f"providers: {', '.join(sorted(self._providers))}.",
            )
        fixed = self._kinds[provider.kind].models
        if fixed and model not in fixed:
            models = ", ".join(f"`{service}:{each}`" for each in fixed)
            raise RequestError(400, "unknown_model", f"`{name}` is not a model; {models} is.")
        access = (self._key(service, provider), provider.network(self._environment))
        entry = self._endpoints.get(name)
        if entry is None or entry[0] != access:
            if entry is not None:
                self._retire(entry[1])
            self._endpoints[name] = entry = (access, self._make(service, model, *access))
        return entry[1]

    def fallback(self, wanted: str | None, instead_of: str) -> Model | None:
        """The model that answers if another one fails or refuses: `wanted`, by default the
        configured one. None for an empty name, or if it is the same model.

        Raises as `get` for a wanted model; a configured one without a key is skipped.
        """
        name = self._fallback if wanted is None else wanted
        if not name or name == instead_of:
            return None
        try:
            return self.get(name)
        except ModelError as error:
            if wanted is not None:
                raise
            log.warning("The fallback model is skipped: %s", error.message)
            return None

    async def list_models(self, service: str) -> list[str]:
        """The names of a provider's models, requested from the provider now.

        Raises RequestError 404 for an unknown provider, ModelError if the request fails.
        """
        provider = self._providers.get(service)
        if provider is None:
            raise RequestError(404, "unknown_provider", f"`{service}` is not a provider.")
        network = provider.network(self._environment)
        model = self._make(service, "?", self._key(service, provider), network)
        return (await _names(model))[:_MOST_NAMES]

    def facts(self, model: str) -> Facts:
        """The facts about `provider:model`. Its window comes from `model_facts`, else from the
        service after `look_up`, else from the provider's options.
        """
        facts = self._facts.of(model)
        if facts.window is not None:
            return facts
        provider = self._providers.get(model.partition(":")[0])
        window = self._windows.get(model) or (provider.window if provider else None)
        return facts.model_copy(update={"window": window})

    def reads_documents(self, model: str) -> bool:
        """Whether PDF files can be sent to it, by its API or its service's dialect."""
        service = model.partition(":")[0]
        provider = self._providers.get(service)
        if provider is None:
            return False
        can = self._kinds[provider.kind].reads_documents
        if can is not None:
            return can
        return provider.dialect_for(service, self._base_url(service)).documents

    async def look_up(self, model: str) -> None:
        """Request the context windows of the service's models: once, briefly, and only if the
        model's is unknown. A service that loads models on demand is asked once for each model.
        """
        service = model.partition(":")[0]
        _, endpoint = self._endpoints.get(model, (None, None))
        if endpoint is None or self._facts.of(model).window is not None:
            return
        which = model if endpoint.loads else service
        if which in self._looked_up or (not endpoint.loads and self.facts(model).window):
            return
        if not endpoint.loads:  # one that loads may succeed the next time
            self._looked_up.add(which)
        try:
            async with asyncio.timeout(_LOAD_SECONDS if endpoint.loads else _LOOK_UP_SECONDS):
                windows = await endpoint.windows()
        except (ModelError, TimeoutError) as error:
            log.info("The context windows of the models of %s are unknown: %s", service, error)
        except Exception:  # optional information must not make a turn fail
            log.warning("The models of %s could not be listed", service, exc_info=True)
        else:
            self._looked_up.add(which)
            for name, window in windows.items():
                self._windows[f"{service}:{name}"] = window

    def warm(self) -> threading.Thread | None:
        """Import the SDK of the default model, if that can be used, so that the first question does
        not wait seconds for it. Runs in a daemon thread.
        """
        service = self.default.partition(":")[0]
        provider = self._providers.get(service)
        sdk = self._kinds[provider.kind].sdk if provider is not None else None
        if provider is None or sdk is None:
            return None
        if self._needs_key(provider) and not self._has_key(service):
            return None
        thread = threading.Thread(target=_import, args=(sdk,), daemon=True)
        thread.start()
        return thread

    def describe(self) -> dict[str, Any]:
        """The answer of `GET models`; never the value of a key."""
        names = {f"{name}:{model}" for name, one in self._providers.items() for model in one.models}
        facts = {model: self.facts(model) for model in sorted({*names, self.default})}
        return {
            "default": self.default,
            "fallback": self._fallback,
            "windows": {model: each.window for model, each in facts.items() if each.window},
            "images": {
                model: each.images for model, each in facts.items() if each.images is not None
            },
            "documents": {model: self.reads_documents(model) for model in facts},
            "providers": [
                {
                    "name": name,
                    "models": list(provider.models),
                    "credentials": not self._needs_key(provider) or self._has_key(name),
                }
                for name, provider in sorted(self._providers.items())
            ],
        }

    async def try_key(self, provider: str, key: str) -> int | None:
        """The number of models that the provider lists for this key, or None if that fails.

        Raises RequestError as `set_key` does, and 422 if the provider rejects the key.
        """
        key = self._storable_key(provider, key)
        model = self._make(provider, "?", key, self._providers[provider].network(self._environment))
        try:
            return len(await _names(model))
        except ModelError as error:
            if error.kind == "authentication":
                message = f"{provider} rejected this key; it was not stored."
                raise RequestError(422, "key_rejected", message) from error
            return None

    def set_key(self, provider: str, key: str) -> None:
        """Store a key. Raises RequestError if keys are switched off or the key is invalid."""
        self._keys.store(provider, self._storable_key(provider, key))

    def delete_key(self, provider: str) -> None:
        """Delete a stored key; keys of the configuration and the environment stay."""
        self._check_key_change(provider)
        self._keys.delete(provider)

    def secrets(self) -> frozenset[str]:
        """Texts that no model may get: the keys, other secrets of the providers in use, and those
        of the server's environment.
        """
        used = (network.long_secrets for (_, network), _model in self._endpoints.values())
        return self._keys.secrets().union(*used)

    async def close(self) -> None:
        """Close all connections; see `Endpoint.close`."""
        await asyncio.gather(*self._closing)
        for model in [*self._outdated, *(model for _, model in self._endpoints.values())]:
            await _close(model)

    def _key(self, service: str, provider: Provider) -> str:
        if not self._kinds[provider.kind].takes_key:
            return _PLACEHOLDER_KEY
        key = self._keys.get(service)
        if key:
            return key
        if not provider.needs_key:
            return _PLACEHOLDER_KEY
        raise ModelError(
            f"There is no API key for {service}. Store one in the settings of the panel, or set "
            f"{service.upper()}_API_KEY and restart; `demo:tour` works without a key.",
            kind="authentication",
        )

    def _has_key(self, service: str) -> bool:
        try:
            return bool(self._keys.get(service))
        except ModelError:  # reported when the key is needed
            return False

    def _retire(self, model: ServiceModel) -> None:
        """Begin to close the connections of a model whose key or network has changed."""
        self._outdated.append(model)
        begin(_close(model), self._closing)

    def _make(self, name: str, model: str, key: str, network: Network) -> ServiceModel:
        provider = self._providers[name]
        base_url = self._base_url(name)
        service = Service(
            provider=name,
            api_key=key,
            base_url=base_url,
            account=provider.account,
            options=provider.options,
            network=network,
            dialect=provider.dialect_for(name, base_url),
            dialects=self._dialects,
            cache_ttl=self._cache_ttl,
        )
        return self._kinds[provider.kind].make(model, service)

    def _base_url(self, service: str) -> str | None:
        configured = self._providers[service].base_url
        return configured or self._environment.get(f"{service.upper()}_BASE_URL")

    def _needs_key(self, provider: Provider) -> bool:
        return provider.needs_key and self._kinds[provider.kind].takes_key

    def _check(self, name: str, provider: Provider) -> None:
        """Raises ValueError with a sentence for an invalid kind, dialect or options."""
        kind = str(provider.kind)
        if kind not in self._kinds:
            self._kinds[kind] = _plug(name, kind)
        try:
            provider.dialect_for(name, provider.base_url)
        except ValueError as error:
            raise ValueError(f"providers.{name}.dialect: {error}") from None
        try:
            Options(provider.options)
            if provider.options and not self._kinds[provider.kind].takes_options:
                raise ValueError(f"The kind `{provider.kind}` takes no options.")
        except ValueError as error:
            raise ValueError(f"providers.{name}.options: {error}") from None

    def _storable_key(self, provider: str, key: str) -> str:
        self._check_key_change(provider)
        if not self._kinds[self._providers[provider].kind].takes_key:
            message = f"`{provider}` is not a provider with a key."
            raise RequestError(404, "unknown_provider", message)
        if not key.strip() or not key.strip().isprintable():
            raise RequestError(400, "invalid_key", "The key is empty or has control characters.")
        return key.strip()

    def _check_key_change(self, provider: str) -> None:
        if not self._allow_keys:
            raise RequestError(403, "keys_disabled", "The administrator switched keys off here.")
        if provider not in self._providers:
            raise RequestError(404, "unknown_provider", f"`{provider}` is not a provider.")


async def _names(model: ServiceModel) -> list[str]:
    """The models of a service; closes the connection afterwards. Raises ModelError."""
    try:
        async with asyncio.timeout(_LIST_SECONDS):
            return await model.names()
    except TimeoutError:
        raise ModelError(
            f"{model.host} did not list its models within {_LIST_SECONDS:g} s.",
            kind="stalled",
            retryable=True,
        ) from None
    finally:
        await model.close()


async def _close(model: ServiceModel) -> None:
    try:
        await model.close()
    except Exception:  # of a plug
        log.warning("The connections of %s could not be closed.", model.id, exc_info=True)


def _import(sdk: str) -> None:
    with suppress(ImportError):  # reported when the SDK is needed
        importlib.import_module(sdk)


def _plug(provider: str, kind: str) -> Kind:
    """The kind that a package adds. Raises ValueError if none does, or if it cannot be loaded."""
    plugs = entry_points.find("models")
    only = os.environ.get(entry_points.ONLY)
    left_out = "" if only is None else f" {entry_points.ONLY}={only!r} leaves out all other plugs."
    if kind not in plugs:
        raise ValueError(
            f"providers.{provider}.kind: `{kind}` is not a kind. It is one of "
            f"{', '.join(sorted({*KINDS, *plugs}))}; most services speak `openai`.{left_out}"
        )
    try:
        return entry_points.load(plugs[kind], Kind)
    except entry_points.UnusablePlug as error:
        raise ValueError(f"providers.{provider}.kind: {error}") from error


def _pop_key(fields: dict[str, Any]) -> Value:
    """Remove the key from a provider's configuration and return it."""
    key: Value = fields.pop("api_key", "")
    file = fields.pop("api_key_file", None)
    return key or ({"file": file} if file else "")
