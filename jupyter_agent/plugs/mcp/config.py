"""The administrator's list of MCP servers, checked when Jupyter starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

from jupyter_agent.models.keys import SHORTEST_SECRET, secrets_in
from jupyter_agent.models.network import Network, Value, reveal, reveal_all
from jupyter_agent.tools.sources import UnusableOptions

_NAME = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")
_MOST_OF_A_NAME = 24
_INHERITED = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TEMP", "TERM", "TMP",
    "TMPDIR", "TZ", "USER",
    "APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROGRAMFILES",
    "SYSTEMDRIVE", "SYSTEMROOT", "USERNAME", "USERPROFILE",
)  # fmt: skip
"""What a program needs to start: a server gets no key or token that was not meant for it."""
_OF_URL = ("headers", "ca_bundle", "proxy", "proxy_headers")
_OF_COMMAND = ("env", "cwd")
_EXAMPLE = '{"url": "https://host/mcp"} or {"command": ["program", "argument"]}'


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """One server: a `url`, or a `command` that we start."""

    name: str
    url: str | None = None
    headers: Mapping[str, Value] = field(default_factory=dict)
    ca_bundle: str | None = None
    proxy: Value | None = None
    proxy_headers: Mapping[str, Value] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    env: Mapping[str, Value] = field(default_factory=dict)
    cwd: str | None = None
    tools: tuple[str, ...] | None = None
    """Patterns of the tools to offer; None: all."""
    timeout: float = 60.0
    """Seconds for which a call may be silent."""

    def offers(self, tool: str) -> bool:
        """Whether a tool of that name may be offered."""
        return self.tools is None or any(fnmatchcase(tool, each) for each in self.tools)

    def network(self, environment: Mapping[str, str]) -> Network:
        """Network settings for the `url`. Raises ModelError that names a missing value."""
        proxy = (
            None
            if self.proxy is None
            else reveal(self.proxy, environment, self._trait_path("proxy"))
        )
        headers = self._reveal("headers", environment)
        proxy_headers = self._reveal("proxy_headers", environment)
        passwords = [urlsplit(proxy or "").password, urlsplit(self.url or "").password]
        return Network(
            headers=headers,
            ca_bundle=self.ca_bundle,
            proxy=proxy,
            proxy_headers=proxy_headers,
            secrets=tuple(
                [
                    *_secrets(self.headers, headers),
                    *_secrets(self.proxy_headers, proxy_headers),
                    *filter(None, passwords),
                ]
            ),
        )

    def environment(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The environment of the `command`. Raises ModelError that names a missing value."""
        inherited = {name: environment[name] for name in _INHERITED if name in environment}
        return {**inherited, **self._reveal("env", environment)}

    def secrets(self, environment: Mapping[str, str]) -> frozenset[str]:
        """Values that must not reach a model. Raises ModelError as above."""
        found = {
            *self.network(environment).secrets,
            *_secrets(self.env, self._reveal("env", environment)),
        }
        return frozenset(secret for secret in found if len(secret) >= SHORTEST_SECRET)

    def _reveal(self, named: str, environment: Mapping[str, str]) -> dict[str, str]:
        return reveal_all(getattr(self, named), environment, self._trait_path(f"{named}."))

    def _trait_path(self, named: str) -> str:
        return f"mcp_servers.{self.name}.{named}"


def servers_of(configured: Mapping[str, Any]) -> list[ServerConfig]:
    """The servers in the trait `mcp_servers`. Raises UnusableOptions."""
    return [_server(name, given) for name, given in sorted(configured.items())]


def _server(name: Any, given: Any) -> ServerConfig:
    if not (isinstance(name, str) and _NAME.fullmatch(name) and len(name) <= _MOST_OF_A_NAME):
        raise UnusableOptions(
            f"mcp_servers: {name!r} is not a valid server name. It is part of its tools' names: "
            f"at most {_MOST_OF_A_NAME} letters and digits, with single `-` or `_` between them."
        )
    if not isinstance(given, Mapping):
        raise _wrong(name, f"it is not a dict, such as {_EXAMPLE}")
    field_names = [each.name for each in fields(ServerConfig) if each.name != "name"]
    for unknown in given.keys() - set(field_names):
        raise _wrong(name, f"unknown field `{unknown}`. Known fields: {', '.join(field_names)}")
    if ("url" in given) == ("command" in given):
        raise _wrong(name, f"it needs either `url` or `command`, such as {_EXAMPLE}")
    kind, others = ("url", _OF_COMMAND) if "url" in given else ("command", _OF_URL)
    for other in others:
        if other in given:
            raise _wrong(name, f"`{other}` cannot be used with `{kind}`")
    server = dict(given)
    if kind == "url":
        parts = urlsplit(given["url"]) if isinstance(given["url"], str) else None
        if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
            raise _wrong(name, "`url` has to start with https:// or http://")
    else:
        server["command"] = _texts(name, "command", given["command"])
        if not server["command"] or not server["command"][0]:
            raise _wrong(
                name, '`command` has to name a program, such as ["uvx", "mcp-server-sqlite"]'
            )
    if given.get("tools") is not None:
        server["tools"] = _texts(name, "tools", given["tools"])
    for field_name in ("headers", "proxy_headers", "env"):
        _check_values(name, field_name, given.get(field_name, {}))
    for field_name in ("ca_bundle", "cwd"):
        if not isinstance(given.get(field_name), str | None):
            raise _wrong(name, f"`{field_name}` has to be a path")
    if (proxy := given.get("proxy")) is not None and not _is_value(proxy):
        raise _wrong(name, "`proxy` has to be an address, {'file': path} or {'env': name}")
    timeout = given.get("timeout", ServerConfig.timeout)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise _wrong(name, "`timeout` has to be a number of seconds above 0")
    return ServerConfig(name=name, **server)


def _texts(name: str, field_name: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        raise _wrong(name, f"`{field_name}` has to be a list of strings")
    return tuple(given)


def _check_values(name: str, field_name: str, given: Any) -> None:
    fits = isinstance(given, Mapping) and all(
        isinstance(key, str) and _is_value(value) for key, value in given.items()
    )
    if not fits:
        raise _wrong(
            name,
            f"`{field_name}` has to be a dict of strings or, for secrets stored elsewhere, of "
            "{'env': name} or {'file': path}",
        )


def _is_value(given: Any) -> bool:
    return isinstance(given, str) or (
        isinstance(given, Mapping)
        and len(given) == 1
        and next(iter(given)) in ("env", "file")
        and all(isinstance(value, str) for value in given.values())
    )


def _wrong(name: str, why: str) -> UnusableOptions:
    return UnusableOptions(f"mcp_servers.{name}: {why}.")


def _secrets(given: Mapping[str, Value], found: Mapping[str, str]) -> set[str]:
    """Values stored elsewhere, those of `Authorization`, and those with names of secrets; each also
    without the scheme before it (`Bearer`)."""
    named = {name.upper().replace("-", "_"): value for name, value in found.items()}
    told = {
        *(found[name] for name, value in given.items() if not isinstance(value, str)),
        *(value for name, value in named.items() if name.endswith("AUTHORIZATION")),
        *secrets_in(named),
    }
    return told | {value.partition(" ")[2].strip() for value in told if " " in value.strip()}
