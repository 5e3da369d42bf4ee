"""How an endpoint is reached: headers, query, certificates, proxy and patience."""

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
"""A text as it is, or where it is found: `{"file": path}` or `{"env": name}`."""
WHO_ASKS: Value = {"user": "name"}
"""As the value of a provider's header: the name of the person who asks."""


_SHORTEST_SECRET = 6
"""What is shorter is a placeholder (`none`), and part of ordinary words."""


@dataclass(frozen=True, kw_only=True)
class Network:
    """The way to one endpoint.

    Without a proxy of its own it is that of HTTPS_PROXY and NO_PROXY; without a bundle the CAs are
    those of SSL_CERT_FILE, else the system's.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    user_headers: tuple[str, ...] = ()
    """Names of headers that say who asks."""
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
        """What the client of an SDK is given. Raises ModelError for a bundle that is none."""
        from jupyter_agent.models.bounds import ENCODINGS, bound

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
            options["http_client"] = self._proxied(timeout, hooks)
        else:
            trust = {"verify": self._trusted()} if self.ca_bundle is not None else {}
            # No redirect is followed: the key and the headers would go wherever it points.
            options["http_client"] = sdk.DefaultAsyncHttpxClient(
                timeout=timeout, follow_redirects=False, event_hooks=hooks, **trust
            )
        return options

    def client(self) -> httpx2.AsyncClient:
        """A client for a service that has no SDK: it follows no redirect, and how long a reply may
        take is up to the caller. It takes a moment, so make it in a thread. Raises ModelError.
        """
        import httpx2

        timeout = httpx2.Timeout(None, connect=self.connect_seconds, write=60.0, pool=10.0)
        if self.proxy is not None:
            return self._proxied(timeout, {})
        verify = self._trusted() if self.ca_bundle is not None else httpx2.create_ssl_context()
        return httpx2.AsyncClient(timeout=timeout, follow_redirects=False, verify=verify)

    def headers_for(self, user: str) -> dict[str, str]:
        """The headers that differ by who asks; what is not ASCII in a name is percent-encoded."""
        if not user:
            return {}
        return dict.fromkeys(self.user_headers, quote(user, safe=string.punctuation + " "))

    def mask(self, text: str, key: str = "") -> str:
        """The text without any of the endpoint's secrets."""
        return masked(text, self.long_secrets | _long([key]))

    @property
    def long_secrets(self) -> frozenset[str]:
        """The endpoint's secrets, without placeholders."""
        return _long(self.secrets)

    def _proxied(self, timeout: Any, hooks: Any) -> httpx2.AsyncClient:
        import httpx2

        try:
            proxy = httpx2.Proxy(self.proxy or "", headers=dict(self.proxy_headers))
        except ValueError as error:
            raise _misconfigured(
                f"`proxy` is no address of one ({self.mask(str(error))})"
            ) from None
        # Not of the environment: its proxies would win over the one that is configured.
        verify = self._trusted() if self.ca_bundle else httpx2.create_ssl_context()
        return httpx2.AsyncClient(
            proxy=proxy,
            verify=verify,
            timeout=timeout,
            trust_env=False,
            follow_redirects=False,
            event_hooks=hooks,
        )

    def _trusted(self) -> ssl.SSLContext:
        try:
            return ssl.create_default_context(cafile=self.ca_bundle)
        except OSError as error:  # an ssl.SSLError is one too
            raise _misconfigured(f"`ca_bundle` {self.ca_bundle} cannot be used ({error})") from None


DIRECT = Network()
"""Nothing but what the environment says."""


def reveal(value: Value, environment: Mapping[str, str], what: str) -> str:
    """The text itself. Raises ModelError that names what is missing, never its value."""
    if isinstance(value, str):
        return value
    match dict(value):
        case {"file": path, **rest} if not rest:
            try:
                return Path(path).expanduser().read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise _misconfigured(f"{what}: {path}: {type(error).__name__}") from None
        case {"env": name, **rest} if not rest:
            if name not in environment:
                raise _misconfigured(f"{what}: the environment has no {name}")
            return environment[name].strip()
    raise _misconfigured(f"{what} is a text, {{'file': path}} or {{'env': name}}")


def revealed(
    values: Mapping[str, Value], environment: Mapping[str, str], what: str
) -> dict[str, str]:
    """The texts of all values. Raises ModelError that names the missing one by `what` before its
    name.
    """
    return {name: reveal(value, environment, f"{what}{name}") for name, value in values.items()}


def masked(text: str, secrets: Iterable[str]) -> str:
    """The text with stars for each secret: the longest first, as one may be part of another."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _long(secrets: Iterable[str]) -> frozenset[str]:
    return frozenset(secret for secret in secrets if len(secret) >= _SHORTEST_SECRET)


def _misconfigured(what: str) -> ModelError:
    return ModelError(f"The configuration does not fit: {what}. Mend it.", kind="configuration")
