"""Descriptions of a server's tools, made fit for models: named, bounded, and without anything for
which a model service would refuse the whole request.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_agent.legible import clip, legible, tool_name
from jupyter_agent.plugs.mcp.client import header_params
from jupyter_agent.tools.sources import PREFIX

MOST_OF_A_NAME = 64
"""Characters that every service accepts: letters, digits, `_` and `-`."""
_MOST_OF_A_TOOL = 256
"""Characters of a tool's name on its server; the specification allows 128."""
_HASH = 8
MOST_TOOLS = 100
"""Of all servers together: with our own tools they stay below 128, OpenAI's limit."""
_MOST_TOGETHER = 100_000
"""Characters of all descriptions and schemas of one server: some 25,000 tokens."""
_MOST_OF_A_TEXT = 2_000
_MOST_OF_A_HINT = 500
"""Of the description of one parameter."""
_MOST_OF_A_SCHEMA = 20_000
_DEEPEST = 8
_MOST_CHOICES = 200
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_TYPES = {"string", "number", "integer", "boolean", "object", "array", "null"}
_NUMBERS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "minLength", "maxLength", "minItems", "maxItems",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A tool of a server, as offered to models."""

    server: str
    tool: str
    """Its name on the server."""
    name: str
    """Its name here: `mcp__server__tool`, of at most 64 characters."""
    description: str
    schema: Mapping[str, Any]
    reads: bool
    """Whether the server declares it read-only."""
    definition: str
    """A hash of the server's whole definition: approvals are bound to it."""
    headers: Mapping[tuple[str, ...], str]
    """Arguments that are also sent as headers."""


def offers(server: str, listed: Sequence[Mapping[str, Any]]) -> tuple[list[Offer], list[str]]:
    """The tools to offer from a server's list, and why others are left out."""
    by_name: dict[str, Offer] = {}
    left_out: list[str] = []
    size = 0
    for described in listed:
        tool = described.get("name")
        if not isinstance(tool, str) or not 0 < len(tool) <= _MOST_OF_A_TOOL:
            left_out.append("a tool without a name, or with one that is too long")
            continue
        offer = _offer(server, tool, described)
        shown = legible(clip(tool, MOST_OF_A_NAME, "[...]"))
        if isinstance(offer, str):
            left_out.append(f"`{shown}` ({offer})")
        elif offer.name in by_name:
            left_out.append(f"`{shown}` (its name is used twice)")
        elif len(by_name) >= MOST_TOOLS or size > _MOST_TOGETHER:
            left_out.append(f"`{shown}` (too many tools: choose with `tools`)")
        else:
            by_name[offer.name] = offer
            size += len(offer.description) + len(json.dumps(offer.schema))
    return [by_name[name] for name in sorted(by_name)], left_out


def name_of(server: str, tool: str) -> str:
    """The name here of a server's tool; it does not depend on other tools."""
    plain = tool_name(tool)
    name = f"{PREFIX}{server}__{plain}"
    if plain == tool and len(name) <= MOST_OF_A_NAME:
        return name
    digest = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]
    return f"{name[: MOST_OF_A_NAME - _HASH - 1]}_{digest}"


def _offer(server: str, tool: str, described: Mapping[str, Any]) -> Offer | str:
    """The offer, or why the tool cannot be offered."""
    execution = described.get("execution")
    if isinstance(execution, Mapping) and execution.get("taskSupport") == "required":
        return "it only supports tasks"
    given = described.get("inputSchema")
    try:
        whole = json.dumps(described, sort_keys=True)
        schema = _object(given if isinstance(given, Mapping) else {})
    except (ValueError, RecursionError) as error:
        return str(error) if isinstance(error, UnfitSchema) else "its schema is too deep"
    if len(json.dumps(schema)) > _MOST_OF_A_SCHEMA:
        schema = _without_words(schema)
    if len(json.dumps(schema)) > _MOST_OF_A_SCHEMA:
        return "its schema is too large"
    annotations = described.get("annotations")
    description = described.get("description")
    text = legible(description).strip() if isinstance(description, str) else ""
    return Offer(
        server=server,
        tool=tool,
        name=name_of(server, tool),
        description=clip(
            f"From the MCP server `{server}`: {text or legible(tool)}", _MOST_OF_A_TEXT, " [...]"
        ),
        schema=schema,
        reads=isinstance(annotations, Mapping) and annotations.get("readOnlyHint") is True,
        definition=hashlib.sha256(whole.encode()).hexdigest(),
        headers=header_params(given),
    )


class UnfitSchema(ValueError):
    """A schema that cannot be offered."""


def _object(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an input: always an object, without alternatives at the top level, which
    services refuse."""
    parts = {
        f"#/{place}/{name}": part
        for place in ("$defs", "definitions")
        if isinstance(schema.get(place), Mapping)
        for name, part in schema[place].items()
    }
    clean = {**_Cleaner(parts).clean(schema, 0), "type": "object"}
    for key in ("anyOf", "oneOf", "allOf", "enum", "const", "items"):
        clean.pop(key, None)
    return {**clean, "properties": clean.get("properties", {})}


class _Cleaner:
    """Builds a schema from keywords that every service supports, each with a valid value.

    The rest (patterns, conditions) is checked by the server itself.
    """

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self._parts = parts
        self._left = 2_000
        """Schemas still to build: a limit for references to references."""

    def clean(self, schema: Any, depth: int) -> dict[str, Any]:
        """Raises UnfitSchema if it is too large, or a parameter's name is invalid for services."""
        self._left -= 1
        if self._left < 0:
            raise UnfitSchema("its schema is too large")
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return {}
        if isinstance(reference := schema.get("$ref"), str):
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            part = self._parts.get(reference)
            return self.clean({**(part if isinstance(part, Mapping) else {}), **rest}, depth + 1)
        return dict(self._keywords(schema, depth))

    def _keywords(self, schema: Mapping[str, Any], depth: int) -> Iterator[tuple[str, Any]]:
        if kind := _kind(schema.get("type")):
            yield "type", kind
        if isinstance(text := schema.get("description"), str):
            yield "description", clip(legible(text), _MOST_OF_A_HINT, " [...]")
        properties = schema.get("properties")
        if isinstance(properties, Mapping):
            for name in properties:
                if not isinstance(name, str) or not _KEY.fullmatch(name):
                    raise UnfitSchema("one of its parameters has an invalid name")
            yield "properties", {k: self.clean(v, depth + 1) for k, v in properties.items()}
            required = schema.get("required")
            if isinstance(required, list):
                yield "required", [name for name in properties if name in required]
        if "items" in schema or kind == "array":
            yield "items", self.clean(schema.get("items"), depth + 1)
        if isinstance(more := schema.get("additionalProperties"), bool):
            yield "additionalProperties", more
        elif isinstance(more, Mapping):
            yield "additionalProperties", self.clean(more, depth + 1)
        for key in ("anyOf", "oneOf", "allOf"):
            options = schema.get(key)
            if isinstance(options, list) and options:
                yield key, [self.clean(each, depth + 1) for each in options[:_MOST_CHOICES]]
        choices = schema.get("enum")
        if isinstance(choices, list) and (fit := [each for each in choices if _is_scalar(each)]):
            yield "enum", list(dict.fromkeys(fit))[:_MOST_CHOICES]
        for key in ("const", "default"):
            if key in schema and _is_scalar(schema[key]):
                yield key, schema[key]
        for key in _NUMBERS:
            number = schema.get(key)
            if isinstance(number, int | float) and not isinstance(number, bool):
                if not key.endswith(("Length", "Items")) or (type(number) is int and number >= 0):
                    yield key, number


def _kind(given: Any) -> str | list[str] | None:
    if isinstance(given, str):
        return given if given in _TYPES else None
    if isinstance(given, list):
        return list(dict.fromkeys(e for e in given if isinstance(e, str) and e in _TYPES)) or None
    return None


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _without_words(schema: Any) -> Any:
    """The schema without descriptions; a parameter of that name stays."""
    if isinstance(schema, list):
        return [_without_words(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_words(each) for name, each in value.items()}
        if key == "properties"
        else _without_words(value)
        for key, value in schema.items()
        if key != "description"
    }
