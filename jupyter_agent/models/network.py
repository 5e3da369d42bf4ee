"""The connection to an endpoint: headers, query, certificates, proxy and timeouts."""

from __future__ import annotations

import ssl
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

from jupyter_agent.errors import ModelError

if TYPE_CHECKING:
    import httpx2

Value: TypeAlias = str | Mapping[str, str]
"""A text, or its source: `{"file": path}` or `{"env": name}`."""
WHO_ASKS: Value = {"user": "name"}
"""Value of a provider's header that stands for the name of the person who asks."""


_SHORTEST_SECRET = 6
"""Characters of a secret: anything shorter is a placeholder (`none`) or part of ordinary words."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """The connection to one endpoint.

    The default proxy is that of HTTPS_PROXY and NO_PROXY; the default CAs are those of
    SSL_CERT_FILE, else the system's.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    user_headers: tuple[str, ...] = ()
    """Names of headers with the name of the person who asks."""
    query: Mapping[str, str] = field(default_factory=dict)
    ca_bundle: str | None = None
    """Path of a file with CA certificates (PEM)."""
    proxy: str | None = None
    proxy_headers: Mapping[str, str] = field(default_factory=dict)
    connect_seconds: float = 10.0
    read_seconds: float = 120.0
    secrets: tuple[str, ...] = ()
    """Values that must never be shown."""

    def client_options(self, sdk: Any) -> dict[str, Any]:
        """Arguments for the client of an SDK. Raises ModelError for an invalid bundle."""
        import httpx2

        from jupyter_agent.models.bounds import ENCODINGS, bound
        from jupyter_agent.models.connections import repeating

        hooks = {"response": [bound]}
        timeout = sdk.Timeout(
            connect=self.connect_seconds, read=self.read_seconds, write=60.0, pool=10.0
        )
        options: dict[str, Any] = {
            "max_retries": 0,
            "timeout": timeout,
            "default_headers": {"Accept-Encoding": ENCODINGS, **self.headers},
            "default_query": dict(self.query),
        }
        if self.proxy is not None:
            kind = repeating(httpx2.AsyncClient)
            options["http_client"] = self._proxy_client(kind, timeout, hooks)
        else:
            verify = self._ssl_context() if self.ca_bundle is not None else True
            # No redirects: the key and the headers would go to any address that one names.
            options["http_client"] = repeating(sdk.DefaultAsyncHttpxClient)(
                timeout=timeout, follow_redirects=False, event_hooks=hooks, verify=verify
            )
        return options

    def client(self) -> httpx2.AsyncClient:
        """A client for a service without an SDK. It follows no redirects and has no timeout for
        reads. Create it in a thread, because that takes a moment. Raises ModelError.
        """
        import httpx2

        timeout = httpx2.Timeout(None, connect=self.connect_seconds, write=60.0, pool=10.0)
        if self.proxy is not None:
            return self._proxy_client(httpx2.AsyncClient, timeout, {})
        verify = self._ssl_context() if self.ca_bundle is not None else httpx2.create_ssl_context()
        return httpx2.AsyncClient(timeout=timeout, follow_redirects=False, verify=verify)

    def headers_for(self, user: str) -> dict[str, str]:
        """The headers with the user's name; non-ASCII characters are percent-encoded."""
        if not user:
            return {}
        return dict.fromkeys(self.user_headers, quote(user, safe=string.punctuation + " "))

    def mask(self, text: str, key: str = "") -> str:
        """The text with the endpoint's secrets masked."""
        return mask_secrets(text, self.long_secrets | _long([key]))

    @property
    def long_secrets(self) -> frozenset[str]:
        """The endpoint's secrets, without placeholders."""
        return _long(self.secrets)

    def _proxy_client(
        self, kind: type[httpx2.AsyncClient], timeout: Any, hooks: Any
    ) -> httpx2.AsyncClient:
        import httpx2

        try:
            proxy = httpx2.Proxy(self.proxy or "", headers=dict(self.proxy_headers))
        except ValueError as error:
            raise _configuration_error(
                f"`proxy` is not the address of a proxy ({self.mask(str(error))})"
            ) from None
        # Without the environment, whose proxies would override the configured one.
        verify = self._ssl_context() if self.ca_bundle else httpx2.create_ssl_context()
        return kind(
            proxy=proxy,
            verify=verify,
            timeout=timeout,
            trust_env=False,
            follow_redirects=False,
            event_hooks=hooks,
        )

    def _ssl_context(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.ca_bundle)
        except OSError as error:  # includes ssl.SSLError
            raise _configuration_error(
                f"`ca_bundle` {self.ca_bundle} cannot be used ({error})"
            ) from None


DIRECT = Network()
"""Only the settings of the environment."""


def reveal(value: Value, environment: Mapping[str, str], what: str) -> str:
    """The text of a value. Raises ModelError that names the missing source, never its content."""
    if isinstance(value, str):
        return value
    match dict(value):
        case {"file": path, **rest} if not rest:
            try:
                return Path(path).expanduser().read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise _configuration_error(f"{what}: {path}: {type(error).__name__}") from None
        case {"env": name, **rest} if not rest:
            if name not in environment:
                raise _configuration_error(f"{what}: the environment has no {name}")
            return environment[name].strip()
    raise _configuration_error(f"{what} is a text, {{'file': path}} or {{'env': name}}")


def reveal_all(
    values: Mapping[str, Value], environment: Mapping[str, str], what: str
) -> dict[str, str]:
    """The texts of all values. Raises ModelError that names the missing one, after `what`."""
    return {name: reveal(value, environment, f"{what}{name}") for name, value in values.items()}


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with `***` for each secret; the longest first, since one may be part of another."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _long(secrets: Iterable[str]) -> frozenset[str]:
    return frozenset(secret for secret in secrets if len(secret) >= _SHORTEST_SECRET)


def _configuration_error(what: str) -> ModelError:
    return ModelError(f"The configuration is invalid: {what}. Fix it.", kind="configuration")
