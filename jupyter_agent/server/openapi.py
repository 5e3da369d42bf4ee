"""OpenAPI 3.1 of all routes, generated from the handlers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

from jupyter_server.base.handlers import JupyterHandler
from pydantic import BaseModel, TypeAdapter

from jupyter_agent import __version__
from jupyter_agent.server.base import METHODS, STREAM, QueryValues, RouteOperation

JSON = "application/json"
_REFERENCE = "#/components/schemas/{model}"
_TYPES: Mapping[type, Mapping[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer", "minimum": 1},
    date: {"anyOf": [{"type": "string", "format": "date"}, {"const": ""}]},
}
_TEXT = {"type": "string"}
_MEDIA: Mapping[str, Mapping[str, Any]] = {
    STREAM: {
        "type": "object",
        "description": "Each event; `data` is JSON, or `[DONE]` at the end.",
        "properties": {"id": {"type": "string"}, "data": {"type": "string"}},
    },
    "application/x-ipynb+json": {"type": "object", "required": ["cells", "metadata", "nbformat"]},
}
_LINKS = {
    "turn_id": (("get", "turns/{turn_id}"), ("post", "turns/{turn_id}/undo")),
    "run_id": (("get", "runs/{run_id}"), ("post", "runs/{run_id}/interrupt")),
    "conversation_id": (("get", "conversations/{conversation_id}"),),
}
"""What a client can do with an id in an answer."""


def describe(routes: Iterable[tuple[str, type[JupyterHandler]]]) -> dict[str, Any]:
    """Describes (template, handler) pairs, relative to `{base_url}api/agent/`."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {"Error": _ERROR}
    for template, handler in routes:
        operations = {
            name: _operation(template, name, method, schemas)
            for name in METHODS
            if hasattr(method := getattr(handler, name), "operation")
        }
        if operations:
            paths[f"/{template}"] = operations
    return {
        "openapi": "3.1.0",
        "info": {"title": "jupyter_agent", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "token": {"type": "apiKey", "in": "header", "name": "Authorization"}
            },
        },
    }


_ERROR: dict[str, Any] = {
    "type": "object",
    "properties": {"message": {"type": "string"}, "reason": {"type": ["string", "null"]}},
    "required": ["message"],
}


def goes_beyond_path(template: str) -> bool:
    """Whether more segments follow `{path}`. Then its last segment has a dot, as the names of
    notebooks do, and no later segment has one: so a folder is never taken for a part of the route,
    whatever its name.
    """
    return "{path}" in template and not template.endswith("{path}")


def _path_schema(template: str, name: str) -> dict[str, Any]:
    if not goes_beyond_path(template):
        return {"type": "string"}
    return {"type": "string", "pattern": r"^(.+/)?[^/]*\.[^/]*$" if name == "path" else "^[^/.]+$"}


def _operation(template: str, name: str, method: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    operation: RouteOperation = method.operation
    description: dict[str, Any] = {
        "operationId": _id(name, template),
        "summary": " ".join((method.__doc__ or "").split()),
        "parameters": [
            {"name": each, "in": "path", "required": True, "schema": _path_schema(template, each)}
            for each in re.findall(r"\{(\w+)\}", template)
        ]
        + [
            {"name": each, "in": "query", "schema": _query_schema(values)}
            for each, values in operation.query.items()
        ],
        "responses": dict(_responses(operation, schemas)),
        "x-authorization": f"{operation.resource}:{operation.action}",
    }
    if operation.body is not None:
        schema = _schema(operation.body, schemas, mode="validation")
        fields = schemas[operation.body.__name__]["properties"]
        for each, values in operation.query.items():
            # `AgentHandler.read` accepts them there, too.
            fields.setdefault(each, _query_schema(values))
        description["requestBody"] = {"content": {JSON: {"schema": schema}}}
    if operation.speaks is not None:
        schema = _schema(operation.speaks, schemas, mode="validation")
        description["requestBody"] = {"content": {JSON: {"schema": schema}}, "required": True}
    return description


def _responses(
    operation: RouteOperation, schemas: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    given = _schema(operation.gives, schemas) if operation.gives is not None else None
    for status in (operation.answers, *operation.also):
        response: dict[str, Any] = {"description": "Done"}
        content: dict[str, Any] = {}
        if given is not None and status != 204:
            content[JSON] = {"schema": given}
            if links := dict(_links(operation.gives)):
                response["links"] = links
        if status == operation.answers:
            content |= {media: {"schema": _MEDIA.get(media, _TEXT)} for media in operation.media}
        yield str(status), {**response, **({"content": content} if content else {})}
    error: dict[str, Any] = {"$ref": _REFERENCE.format(model="Error")}
    if operation.speaks is not None:
        error = {"anyOf": [error, _schema(operation.speaks, schemas)]}
    yield "default", {"description": "An error", "content": {JSON: {"schema": error}}}


def _links(gives: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    fields = gives.model_fields if isinstance(gives, type) and issubclass(gives, BaseModel) else {}
    for field, targets in _LINKS.items():
        for method, template in targets if field in fields else ():
            parameters = {field: f"$response.body#/{field}"}
            name = _id(method, template)
            yield name, {"operationId": name, "parameters": parameters}


def _schema(of: Any, schemas: dict[str, Any], *, mode: Any = "serialization") -> dict[str, Any]:
    """A reference to the schema, or the schema itself if unnamed; adds named ones to `schemas`."""
    schema = TypeAdapter(of).json_schema(ref_template=_REFERENCE, mode=mode)
    schemas.update(schema.pop("$defs", {}))
    if not (isinstance(of, type) and issubclass(of, BaseModel)):
        return schema
    schemas[of.__name__] = schema
    return {"$ref": _REFERENCE.format(model=of.__name__)}


def _query_schema(values: QueryValues) -> dict[str, Any]:
    if isinstance(values, tuple):
        return {"type": "string", "enum": list(values)}
    return dict(_TYPES[values])


def _id(method: str, template: str) -> str:
    """Such as `getTurnsTurnId`."""
    return method + "".join(part.title() for part in re.findall(r"[A-Za-z]+", template))
