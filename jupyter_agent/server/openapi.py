"""OpenAPI 3.1 of all routes, read off the handlers themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from jupyter_server.base.handlers import JupyterHandler

from jupyter_agent import __version__
from jupyter_agent.server.base import METHODS, RouteOperation


def describe(routes: Iterable[tuple[str, type[JupyterHandler]]]) -> dict[str, Any]:
    """The description of (template, handler) pairs, relative to `{base_url}api/agent/`."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {"Error": _ERROR}
    for template, handler in routes:
        operations = {
            name: _operation(template, method, method.operation, schemas)
            for name in METHODS
            if hasattr(method := getattr(handler, name), "operation")
        }
        if operations:
            paths[f"/{template}"] = operations
    return {
        "openapi": "3.1.0",
        "info": {"title": "jupyter_agent", "version": __version__},
        "servers": [{"url": "/api/agent"}],
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
    "properties": {"message": {"type": "string"}, "reason": {"type": "string"}},
    "required": ["message"],
}


def _operation(
    template: str, method: Any, operation: RouteOperation, schemas: dict[str, Any]
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": " ".join((method.__doc__ or "").split()),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"\{(\w+)\}", template)
        ]
        + [{"name": name, "in": "query", "schema": {"type": "string"}} for name in operation.query],
        "responses": {
            str(operation.answers): {"description": "Done"},
            "default": {
                "description": "An error",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
        "x-authorization": f"{operation.resource}:{operation.action}",
    }
    if operation.body is not None:
        schema = operation.body.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[operation.body.__name__] = schema
        reference = {"$ref": f"#/components/schemas/{operation.body.__name__}"}
        described["requestBody"] = {"content": {"application/json": {"schema": reference}}}
    return described
