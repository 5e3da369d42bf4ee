"""A service of models as it is configured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from jupyter_agent.models.dialect import Dialect, preset
from jupyter_agent.models.network import WHO_ASKS, Network, Value, reveal, reveal_all


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A service with models."""

    kind: str
    """The API it speaks, one of `KINDS` or of a plug; `openai` is chat completions."""
    account: Mapping[str, Any] = field(default_factory=dict)
    """For a kind that has accounts, such as a cloud."""
    models: Sequence[str] = ()
    """Names to offer; other names can be used, too."""
    base_url: str | None = None
    needs_key: bool = True
    supports_tool_choice: bool = True
    """False for servers of kind `openai` that do not accept `tool_choice`."""
    dialect: str | None = None
    """For kind `openai`: the service that it behaves like, e.g. `mistral`; by default that of its
    address or name."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Fields of every request, e.g. `temperature`; they override ours."""
    headers: Mapping[str, Value] = field(default_factory=dict)
    """A value can also be `{"user": "name"}`, for the name of the person who asks."""
    query: Mapping[str, str] = field(default_factory=dict)
    """Added to each address, e.g. Azure's `api-version`."""
    ca_bundle: str | None = None
    proxy: Value | None = None
    proxy_headers: Mapping[str, Value] = field(default_factory=dict)
    connect_seconds: float = Network.connect_seconds
    read_seconds: float = Network.read_seconds

    @property
    def window(self) -> int | None:
        """The configured context window, for services that accept one in requests."""
        body = self.options.get("extra_body")
        fields = {**self.options, **(body if isinstance(body, Mapping) else {})}
        inner = fields.get("options")
        size = fields.get("num_ctx") or (inner.get("num_ctx") if isinstance(inner, Mapping) else 0)
        return size if isinstance(size, int) and size > 0 else None

    def dialect_for(self, name: str, base_url: str | None) -> Dialect:
        """The service's dialect. Raises ValueError for an unknown `dialect`."""
        base = preset(self.dialect, provider=name, base_url=base_url)
        return replace(base, tool_choice=base.tool_choice and self.supports_tool_choice)

    def network(self, environment: Mapping[str, str]) -> Network:
        """The connection to the service. Raises ModelError if a value is missing."""
        fixed = {name: value for name, value in self.headers.items() if value != WHO_ASKS}
        headers = reveal_all(fixed, environment, "the header ")
        proxy_headers = reveal_all(self.proxy_headers, environment, "the proxy's header ")
        proxy = None if self.proxy is None else reveal(self.proxy, environment, "the proxy")
        values = {**fixed, **self.proxy_headers}
        texts = {**headers, **proxy_headers}
        secrets = [texts[name] for name, value in values.items() if not isinstance(value, str)]
        if proxy and (password := urlsplit(proxy).password):
            secrets.append(password)
        return Network(
            headers=headers,
            user_headers=tuple(name for name in self.headers if name not in fixed),
            query=self.query,
            ca_bundle=self.ca_bundle,
            proxy=proxy,
            proxy_headers=proxy_headers,
            connect_seconds=self.connect_seconds,
            read_seconds=self.read_seconds,
            secrets=tuple(secrets),
        )
