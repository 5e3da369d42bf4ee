"""Entries of lists in the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


def entries_of(kind: type[T], name: str, given: Sequence[Mapping[str, Any]]) -> list[T]:
    """The entries of the trait `name`. Raises ValueError with the entry and the field that is
    invalid.
    """
    adapter = TypeAdapter(kind)
    entries = []
    for place, fields in enumerate(given):
        try:
            entries.append(adapter.validate_python(fields))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, (name, place, *first["loc"])))
            raise ValueError(f"{where}: {first['msg']}.") from None
    return entries
