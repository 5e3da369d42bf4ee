"""API keys from a file that only its owner can read, the configuration, or the environment."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from pathlib import Path
from urllib.parse import unquote

from jupyter_agent.errors import ModelError
from jupyter_agent.models.network import Value, reveal

SHORTEST_SECRET = 8
"""Characters of a secret: anything shorter is a placeholder or part of ordinary words."""
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|KEY|PASS|PASSPHRASE|PAT|ACCESS_KEY_ID)$"
    r"|API_?KEY$|PASSW(?:OR)?D$|_PWD$|(?:^|_)SECRET",
    re.IGNORECASE,
)
"""Names of environment variables that hold a secret: `GITHUB_TOKEN`, `AWS_SECRET_ACCESS_KEY`."""
_IN_ADDRESS = re.compile(r"://[^\s/@:]*:([^\s/@]+)@")
"""The password in an address, whatever the variable's name: `postgres://me:it@host/db`."""
_CONNECTION_NAME = re.compile(r"(?:^|_)(?:DSN|CONN(?:ECTION)?_?STR(?:ING)?)$", re.IGNORECASE)
"""Names of environment variables whose value contains a secret."""
_IN_CONNECTION = re.compile(
    r"://([^\s/@:]+)@|(?:key|password|pwd|secret|token|signature)\s*=\s*([^;\s]+)", re.IGNORECASE
)
"""The secret in such a value: `https://it@host/1`, `Server=host;Password=it`."""
_ORDINARY = re.compile(r"(?:[A-Za-z]?[a-z]*(?:_[a-z]+)*|\d+)")
_ORDINARY_CHARS = 15


class Keys:
    """The keys by provider. The file overrides the configuration, and that the environment."""

    def __init__(
        self, file: Path, configured: Mapping[str, Value], environment: Mapping[str, str]
    ) -> None:
        self._file = file
        self._configured = configured
        self._environment = environment

    def get(self, provider: str) -> str | None:
        """The provider's key. Raises ModelError if its file cannot be read."""
        key = self._read_file().get(provider) or self._from_configuration(provider)
        return key or self._environment.get(f"{provider.upper().replace('-', '_')}_API_KEY")

    def store(self, provider: str, key: str) -> None:
        """Store a key in the file, effective at once."""
        self._write({**self._read_file(), provider: key})

    def delete(self, provider: str) -> None:
        """Delete a key from the file."""
        self._write({name: key for name, key in self._read_file().items() if name != provider})

    def secrets(self) -> frozenset[str]:
        """All keys and the secrets of the environment. Raises ModelError if one cannot be read."""
        configured = map(self._from_configuration, self._configured)
        keys = {*self._read_file().values(), *configured, *secrets_in(self._environment)}
        return frozenset(key for key in keys if len(key) >= SHORTEST_SECRET)

    def _from_configuration(self, provider: str) -> str:
        value = self._configured.get(provider, "")
        return reveal(value, self._environment, f"the key of {provider}")

    def _read_file(self) -> dict[str, str]:
        try:
            keys = json.loads(self._file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._unusable(type(error).__name__) from error
        if not isinstance(keys, dict) or not all(isinstance(key, str) for key in keys.values()):
            raise self._unusable("it is not an object of strings")
        return keys

    def _unusable(self, why: str) -> ModelError:
        return ModelError(
            f"The key file {self._file.name} cannot be used ({why}). Fix or remove it.",
            kind="authentication",
        )

    def _write(self, keys: Mapping[str, str]) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        new_file = self._file.with_name(f"{self._file.name}.new")
        descriptor = os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)  # a leftover file may have had wider permissions
            json.dump(keys, file, indent=1)
        new_file.replace(self._file)


def secrets_in(environment: Mapping[str, str]) -> frozenset[str]:
    """The values of variables whose names are those of secrets, and each line of such values.

    Paths of files and short words or numbers (`postgres`, `customer_id`) are left out: masking them
    would garble every text and hide nothing.
    """
    parts = {
        part
        for name, value in environment.items()
        for part in _secret_parts(name, value)
        if name.endswith("_API_KEY") or not _is_ordinary(part)
    }
    return frozenset(part for part in parts if len(part) >= SHORTEST_SECRET)


@lru_cache(maxsize=1024)  # asked for each text that is masked
def _secret_parts(name: str, value: str) -> frozenset[str]:
    parts = set[str]()
    for password in _IN_ADDRESS.findall(value):
        parts |= {password, unquote(password)}
    if _CONNECTION_NAME.search(name):
        parts |= set(chain.from_iterable(_IN_CONNECTION.findall(value)))
    if _SECRET_NAME.search(name):
        parts |= {value, *value.splitlines()}
    return frozenset(parts)


def _is_ordinary(value: str) -> bool:
    if len(value) <= _ORDINARY_CHARS and _ORDINARY.fullmatch(value):
        return True
    if value.startswith("-----") and "\n" not in value:  # the first line of a PEM file
        return True
    return os.path.isabs(value) and os.path.exists(value)
