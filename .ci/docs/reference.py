"""Pages of the reference and schemas of events, made from the code when the site is built (a hook
of MkDocs).

What lies outside of the site is linked to in the repository.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from jupyter_agent.client.servers import own

ROOT = Path(__file__).parents[2]
SETTINGS = ROOT / "labextension" / "schema" / "plugin.json"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages, and the schemas at the addresses that are their ids."""
    pages = {
        "traits": traits(),
        "settings": settings(),
        "routes": routes(),
        "tools": tools(),
        "commands": commands(),
        "events": events(),
    }
    for name, text in pages.items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    for schema in schemas():
        text = json.dumps(schema, indent=2)
        files.append(File.generated(config, _place(schema["$id"], config), content=text))
    return files


def on_post_build(config: MkDocsConfig) -> None:
    """Raises PluginError where the site has no schema at the address that is its id."""
    for schema in schemas():
        file = Path(config.site_dir, _place(schema["$id"], config))
        if not file.is_file() or json.loads(file.read_text(encoding="utf-8")) != schema:
            raise PluginError(f"{schema['$id']} is not what the site has in {file}")


def schemas() -> list[Any]:
    """Of the events in Jupyter's event stream."""
    from jupyter_agent.server.announce import NEWS

    return [NEWS]


def _place(address: str, config: MkDocsConfig) -> str:
    """The file of the site at an address. Raises PluginError for an address of another site."""
    if not config.site_url or not address.startswith(config.site_url):
        raise PluginError(f"{address} is not below site_url, {config.site_url}")
    return address.removeprefix(config.site_url)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links out of `docs/` lead to the repository; the drawing is left out, because showing it
    would load a program from another site."""
    markdown = re.sub(r"```mermaid\n.*?```\n", "", markdown, flags=re.S)
    if "/" in page.file.src_uri:  # a page in a folder of the site: its `../` stays within
        return markdown
    return re.sub(r"\]\(\.\./", f"]({config.extra['repository']}/blob/main/", markdown)


def traits() -> str:
    """Of the server's configuration."""
    from jupyter_agent.extension import JupyterAgent

    rows = [
        (f"`c.JupyterAgent.{name}`", type(trait).__name__, _code(_default(trait)), trait.help)
        for name, trait in sorted(JupyterAgent.class_own_traits(config=True).items())
    ]
    return (
        "# All traits\n\n"
        "For `jupyter_server_config.py`, or as options: `jupyter lab --JupyterAgent.NAME=VALUE`. "
        "[Configuration](../configuration.md) has examples.\n\n"
        + _table(("trait", "type", "default", "meaning"), rows)
    )


def _default(trait: Any) -> str:
    return "" if trait.name == "store_dir" else repr(trait.default())


def settings() -> str:
    """Of the panel."""
    schema = json.loads(SETTINGS.read_text(encoding="utf-8"))
    rows = [
        (f"`{name}`", _code(json.dumps(one.get("default"))), one.get("description", ""))
        for name, one in schema["properties"].items()
    ]
    return (
        "# All settings\n\n"
        f"{schema['description']} In JupyterLab: Settings, Settings Editor, {schema['title']}.\n\n"
        + _table(("setting", "default", "meaning"), rows)
    )


def routes() -> str:
    """As a server describes them."""
    with tempfile.TemporaryDirectory() as folder, own(Path(folder), Path(folder)) as server:
        described = server.ask("GET", "openapi.json")
    parts = ["# All routes\n\nBelow `{base_url}api/agent`, as `GET openapi.json` describes them.\n"]
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            parts.append(f"\n## {method.upper()} {path}\n\n{_escaped(operation['summary'])}\n")
            queries = [one["name"] for one in operation["parameters"] if one["in"] == "query"]
            if queries:
                parts.append("\nQuery: " + ", ".join(f"`{name}`" for name in queries) + "\n")
            body = operation.get("requestBody")
            if body is not None:
                schema = next(iter(body["content"].values()))["schema"]
                parts.append("\n" + _fields(_resolved(schema, described), "body") + "\n")
    return "".join(parts)


def _resolved(schema: Mapping[str, Any], described: Mapping[str, Any]) -> Mapping[str, Any]:
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    found: Mapping[str, Any] = described["components"]["schemas"].get(name, schema)
    return found


def tools() -> str:
    """As models see them."""
    from jupyter_agent.tools import toolbox

    parts = ["# All tools\n\nThe description and input of each, as models get them.\n"]
    for tool in toolbox().tools:
        defined = tool.spec()
        parts.append(f"\n## {defined['name']}\n\n{_escaped(defined['description'])}\n")
        parts.append(f"\nEffect: {tool.effect}.\n\n{_fields(defined['input_schema'], 'input')}\n")
    return "".join(parts)


def _fields(schema: Mapping[str, Any], title: str) -> str:
    required = schema.get("required", ())
    rows = [
        (f"`{name}`" + (" (required)" if name in required else ""), _kind(one),
         one.get("description", ""))
        for name, one in schema.get("properties", {}).items()
    ]  # fmt: skip
    return _table((title, "type", "meaning"), rows) if rows else "No input."


def _kind(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "$ref" in schema:
        return f"`{schema['$ref'].rpartition('/')[2]}`"
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def commands() -> str:
    """As `--help` prints them."""
    from jupyter_agent.cli.commands import parser

    os.environ["COLUMNS"] = "96"  # as wide as the page
    whole = parser()
    parts = [f"# All commands\n\n```text\n{whole.format_help()}```\n"]
    (subparsers,) = (
        action for action in whole._actions if isinstance(action, argparse._SubParsersAction)
    )
    for name, command in subparsers.choices.items():
        parts.append(f"\n## jupyter agent {name}\n\n```text\n{command.format_help()}```\n")
    return "".join(parts)


def events() -> str:
    """The facts of a turn's stream."""
    from jupyter_agent.events import Event

    parts = [
        "# All events\n\nWhat a turn tells, in order. On the wire a field is spelled as in the UI "
        "message stream of the AI SDK, see [HTTP API](../api.md).\n"
    ]
    for event in get_args(Event):
        fields = {field.name: field for field in dataclasses.fields(event)}
        kind = fields.pop("type").default
        about = _escaped(" ".join((inspect.getdoc(event) or "").split()))
        parts.append(f"\n## {kind}\n\n{about}\n\n")
        said = _docstrings(inspect.getsource(event))
        rows = [
            (f"`{name}`", _code(str(field.type)), said.get(name, ""))
            for name, field in fields.items()
        ]
        parts.append((_table(("field", "type", "meaning"), rows) if rows else "No fields.") + "\n")
    return "".join(parts)


def _docstrings(source: str) -> dict[str, str]:
    """What stands below each field."""
    found = re.findall(r'^    (\w+): [^\n]*\n    """(.*?)"""', source, re.M | re.S)
    return {name: " ".join(text.split()) for name, text in found}


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    if not any(row[-1] for row in rows):  # nothing is said of any
        head, rows = head[:-1], [row[:-1] for row in rows]
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(_escaped(text).split())


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("|", r"\|")
