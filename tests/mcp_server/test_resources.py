"""Notebooks as resources, and prompts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .conftest import PATH, Ask, Call, Tool


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], jp_root_dir: Path) -> dict[str, Any]:
    (jp_root_dir / "exam").mkdir()
    rule = {"verdict": "deny", "tool": "*", "notebook": "exam/*"}
    jp_server_config["JupyterAgent"]["rules"] = [rule]
    return jp_server_config


URI = "notebook:///sales%2C%20Q3/first%20look.ipynb"


async def test_open_notebooks_are_resources(ask: Ask, tool: Tool, notebook: Path) -> None:
    assert (await ask("resources/list")).body["result"]["resources"] == []
    await tool("get_notebook_state", {"notebook": PATH})
    found = (await ask("resources/list")).body["result"]
    (resource,) = found["resources"]
    assert resource["uri"] == URI
    assert (resource["name"], resource["title"]) == ("first look.ipynb", PATH)
    assert (found["ttlMs"], found["cacheScope"]) == (0, "private")
    (template,) = (await ask("resources/templates/list")).body["result"]["resourceTemplates"]
    assert template["uriTemplate"] == "notebook:///{+path}"


async def test_what_a_rule_forbids_is_no_resource(ask: Ask, call: Call) -> None:
    made = await call("POST", "notebooks", "exam/key.ipynb", body={"cells": [{"source": "42"}]})
    assert made.status == 201
    assert (await call("GET", "notebooks", "exam/key.ipynb")).status == 200
    assert (await ask("resources/list")).body["result"]["resources"] == []
    refused = await ask("resources/read", {"uri": "notebook:///exam/key.ipynb"})
    assert refused.body["error"]["code"] == -32602
    assert "42" not in refused.text


async def test_a_resource_is_what_models_read(ask: Ask, notebook: Path) -> None:
    whole = (await ask("resources/read", {"uri": URI})).body["result"]
    (content,) = whole["contents"]
    assert (content["uri"], content["mimeType"]) == (URI, "text/plain")
    assert "# Sales" in content["text"]
    (cell,) = (await ask("resources/read", {"uri": f"{URI}#b2"})).body["result"]["contents"]
    assert "x = 1" in cell["text"]
    assert "# Sales" not in cell["text"]


async def test_an_unknown_resource_is_an_error(ask: Ask, notebook: Path) -> None:
    gone = ("notebook:///gone.ipynb", f"{URI}#zz", "file:///etc/passwd", "notebook:///", "nonsense")
    for uri in gone:
        answer = await ask("resources/read", {"uri": uri})
        assert (answer.status, answer.body["error"]["code"]) == (400, -32602), uri


@pytest.mark.full
async def test_prompts_name_the_notebook_and_the_tools(ask: Ask) -> None:
    listed = (await ask("prompts/list")).body["result"]["prompts"]
    assert [each["name"] for each in listed] == ["explain-notebook", "fix-notebook", "make-it-run"]
    given = {"name": "make-it-run", "arguments": {"path": PATH}}
    result = (await ask("prompts/get", given)).body["result"]
    (message,) = result["messages"]
    assert message["role"] == "user"
    assert f"`{PATH}`" in message["content"]["text"]
    assert "verify_notebook" in message["content"]["text"]


async def test_an_unfit_prompt_is_an_error(ask: Ask) -> None:
    nothing = {"name": "make-it-run", "arguments": {}}
    for params in ({"name": "nonsense"}, {"name": "make-it-run"}, nothing):
        answer = await ask("prompts/get", params)
        assert answer.body["error"]["code"] == -32602, params
