"""`POST mcp`: other agents work on live notebooks, with the same permissions, in both eras."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_agent.assistant import Assistant

from .conftest import (
    NEW,
    OLD,
    PATH,
    Ask,
    Begin,
    Call,
    Tool,
    envelope,
    headers,
    message,
    sources,
    text,
)

# -- the newer era


async def test_a_client_discovers_versions_and_what_the_server_can(ask: Ask) -> None:
    answer = await ask("server/discover")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert (answer.body["jsonrpc"], answer.body["id"]) == ("2.0", 1)
    found = answer.body["result"]
    assert found["supportedVersions"] == [NEW, "2025-11-25", "2025-06-18"]
    assert set(found["capabilities"]) == {"tools", "resources", "prompts"}
    assert found["resultType"] == "complete"
    assert found["ttlMs"] > 0
    assert found["cacheScope"] == "private"
    assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "jupyter_agent"
    assert "get_notebook_state" in found["instructions"]


async def test_tools_are_listed_in_a_fixed_order_with_hints_and_schemas(ask: Ask) -> None:
    first = (await ask("tools/list")).body["result"]
    again = (await ask("tools/list")).body["result"]
    assert first == again
    assert (first["resultType"], first["cacheScope"]) == ("complete", "private")
    assert first["ttlMs"] >= 0
    by_name = {each["name"]: each for each in first["tools"]}
    read, edit = by_name["get_notebook_state"], by_name["edit_cells"]
    assert read["annotations"]["readOnlyHint"] is True
    assert read["annotations"]["openWorldHint"] is False
    assert (edit["annotations"]["readOnlyHint"], edit["annotations"]["destructiveHint"]) == (
        False,
        False,
    )
    assert by_name["restart_kernel"]["annotations"]["destructiveHint"] is True
    assert by_name["run_code"]["annotations"]["openWorldHint"] is True
    assert edit["inputSchema"]["required"][0] == "notebook"
    assert "write_plan" not in by_name
    at_one = (await ask("tools/list", notebook=PATH)).body["result"]["tools"]
    (edit,) = [each for each in at_one if each["name"] == "edit_cells"]
    assert edit["inputSchema"]["required"] == ["edits"]


async def test_six_tools_are_loaded_at_once_and_take_at_most_2000_tokens(ask: Ask) -> None:
    listed = (await ask("tools/list")).body["result"]["tools"]
    loaded = [each for each in listed if each.get("_meta", {}).get("anthropic/alwaysLoad")]
    assert len(loaded) == 6
    assert listed[:6] == loaded
    shown = ("name", "description", "inputSchema")
    seen = [{name: each[name] for name in shown} for each in loaded]
    characters_of_a_token = 3  # JSON of schemas; prose has four or more
    assert len(json.dumps(seen)) / characters_of_a_token <= 2_000


async def test_a_call_reads_and_edits_the_live_notebook(tool: Tool, notebook: Path) -> None:
    state = await tool("get_notebook_state", {"notebook": PATH})
    assert "x = 1" in text(state)
    assert state["isError"] is False
    assert state["structuredContent"]["cells"] == 3
    edit = {"cell_id": "b2", "old_string": "x = 1", "new_string": "x = 2"}
    done = await tool("edit_cells", {"notebook": PATH, "edits": [edit]}, mode="edit")
    assert done["isError"] is False, done
    assert done["structuredContent"]["text"] in text(done)
    assert sources(notebook)["b2"] == "x = 2"


async def test_an_error_is_a_result_whose_text_names_the_fix(tool: Tool, notebook: Path) -> None:
    missing = await tool("read_cells", {"notebook": PATH, "cell_ids": ["zz"]})
    assert missing["isError"] is True
    assert "Cells now: a1, b2, c3" in text(missing)
    assert missing["structuredContent"]["reason"] == "cell_not_found"
    unfit = await tool("read_cells", {"notebook": PATH, "cells": ["b2"]})
    assert unfit["structuredContent"]["reason"] == "invalid_input"
    nameless = await tool("get_notebook_state")
    assert "Name its path in `notebook`" in text(nameless)


async def test_pictures_are_image_blocks(tool: Tool, notebook: Path) -> None:
    code = (
        "import base64\nfrom IPython.display import Image, display\n"
        "display(Image(base64.b64decode('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42m"
        "Nk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==')))"
    )
    shown = await tool("run_code", {"notebook": PATH, "code": code}, mode="auto")
    (image,) = [block for block in shown["content"] if block["type"] == "image"]
    assert image["mimeType"] == "image/png"
    assert image["data"]
    assert "structuredContent" not in shown  # or clients would show their model only that


async def test_the_mode_of_the_address_decides(tool: Tool, notebook: Path) -> None:
    edit = {"notebook": PATH, "edits": [{"cell_id": "b2", "source": "y"}]}
    run = {"notebook": PATH, "cell_id": "b2"}
    before = notebook.read_text()
    for mode, name, input, refusal in (
        ("read", "edit_cells", edit, "denied"),
        ("ask", "edit_cells", edit, "needs_approval"),
        ("edit", "run_cell", run, "needs_approval"),
    ):
        await tool("get_notebook_state", {"notebook": PATH}, mode=mode)
        result = await tool(name, input, mode=mode)
        assert result["isError"] is True
        assert (mode, result["structuredContent"]["reason"]) == (mode, refusal)
        assert notebook.read_text() == before


async def test_who_cannot_be_asked_is_told_how_to_continue_which_works(
    tool: Tool, notebook: Path
) -> None:
    run = {"notebook": PATH, "cell_id": "b2"}
    refused = await tool("run_cell", run)
    assert "open the notebook in JupyterLab" in text(refused)
    assert "allow=run_cell" in text(refused)
    done = await tool("run_cell", run, mode="ask", allow="run_cell,edit_cells")
    assert done["isError"] is False, done


@pytest.mark.parametrize("jp_argv", [["--JupyterAgent.max_mode=read"]])
async def test_no_address_is_freer_than_the_administrator(tool: Tool, notebook: Path) -> None:
    run = {"notebook": PATH, "cell_id": "b2"}
    refused = await tool("run_cell", run, mode="auto", allow="run_cell")
    assert refused["structuredContent"]["reason"] == "denied"


# -- strict about the protocol


async def test_without_a_token_it_answers_401(jp_fetch: Any, agent: Assistant) -> None:
    body = json.dumps(message("server/discover", {}))
    for token in ("token wrong", ""):
        sent = {**headers(), "Authorization": token}
        with pytest.raises(HTTPClientError) as caught:
            await jp_fetch("api", "agent", "mcp", method="POST", body=body, headers=sent)
        assert caught.value.code == 401


async def test_the_host_is_checked_as_everywhere(post: Ask) -> None:
    answer = await post(message("server/discover", {}), Host="evil.example")
    assert answer.status == 403


@pytest.mark.parametrize("has_token", [False, True])
async def test_the_origin_is_checked_as_everywhere(
    jp_fetch: Any, jp_serverapp: Any, jp_auth_header: dict[str, str], has_token: bool
) -> None:
    jp_serverapp.web_app.settings["allow_origin"] = ""
    known = jp_auth_header if has_token else {"Authorization": ""}
    sent = {**headers(), **known, "Origin": "https://evil.example"}
    asked = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": {}}
    body = json.dumps(message("initialize", asked))
    fetch = partial(jp_fetch, method="POST", headers=sent, raise_error=False)
    here = await fetch("api", "agent", "mcp", body=body)
    elsewhere = await fetch("api", "agent", "tools", "list_files", body="{}")
    assert here.code == elsewhere.code == (200 if has_token else 404)


async def test_there_is_nothing_but_post(call: Call) -> None:
    for method in ("GET", "DELETE"):
        answer = await call(method, "mcp")
        assert (answer.status, answer.headers["Allow"]) == (405, "POST"), method


async def test_what_is_no_message_is_refused(post: Ask) -> None:
    for body, code in (
        ("{", -32700),
        ([message("ping", {}), message("ping", {}, 2)], -32600),
        ({"id": 1, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": 7}, -32600),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, -32600),
        ({"jsonrpc": "2.0", "id": 1}, -32600),
    ):
        answer = await post(body)
        assert (answer.status, answer.body["error"]["code"]) == (400, code), body
        assert "result" not in answer.body


async def test_other_media_are_refused(post: Ask) -> None:
    assert (await post("{}", Content_Type="text/plain")).status == 415
    assert (await post("{}", Accept="text/html")).status == 406


async def test_headers_say_what_the_body_says(post: Ask) -> None:
    params = {"name": "list_files", "arguments": {}, "_meta": envelope("x", {})}
    right = {"MCP_Protocol_Version": NEW, "Mcp_Method": "tools/call", "Mcp_Name": "list_files"}
    for given in ({}, {"Mcp_Name": "=?base64?bGlzdF9maWxlcw==?="}):
        assert (await post(message("tools/call", params), **{**right, **given})).status == 200
    for given in (
        {"Mcp_Method": "tools/list"},
        {"Mcp_Name": "run_cell"},
        {"Mcp_Name": "=?base64?not base64?="},
        {"MCP_Protocol_Version": "2025-11-25"},
    ):
        answer = await post(message("tools/call", params), **{**right, **given})
        assert (answer.status, answer.body["error"]["code"]) == (400, -32020), given
        assert answer.body["id"] == 1


async def test_another_version_is_refused_with_those_that_there_are(post: Ask) -> None:
    given = {"MCP_Protocol_Version": "1900-01-01", "Mcp_Method": "tools/list"}
    meta = {**envelope("x", {}), "io.modelcontextprotocol/protocolVersion": "1900-01-01"}
    for params in ({"_meta": meta}, {}):  # a client with sessions only has the header
        answer = await post(message("tools/list", params), **given)
        assert (answer.status, answer.body["error"]["code"]) == (400, -32022)
        assert answer.body["error"]["data"]["requested"] == "1900-01-01"
        assert NEW in answer.body["error"]["data"]["supported"]


async def test_a_request_without_its_envelope_is_refused(post: Ask) -> None:
    given = {"MCP_Protocol_Version": NEW, "Mcp_Method": "tools/list"}
    for meta in ({}, {"io.modelcontextprotocol/protocolVersion": NEW}):
        answer = await post(message("tools/list", {"_meta": meta}), **given)
        assert (answer.status, answer.body["error"]["code"]) == (400, -32602)


async def test_an_unknown_method_is_404_with_an_error(ask: Ask) -> None:
    for method in ("ping", "logging/setLevel", "initialize", "nonsense"):
        answer = await ask(method)
        assert (answer.status, answer.body["error"]["code"]) == (404, -32601), method


async def test_an_unknown_tool_is_an_error_of_the_protocol(ask: Ask) -> None:
    answer = await ask("tools/call", {"name": "run_cel", "arguments": {}})
    assert answer.body["error"]["code"] == -32602
    assert "run_cell" in answer.body["error"]["message"]
    for others in ("write_plan", "TodoWrite"):  # our tool, which clients do not get
        answer = await ask("tools/call", {"name": others, "arguments": {}})
        assert answer.body["error"]["message"] == f"Unknown tool `{others}`."
    answer = await ask("tools/call", {"name": "run_cell", "arguments": []})
    assert answer.body["error"]["code"] == -32602


# -- the earlier era


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18"])
async def test_a_session_begins_and_calls_tools(
    session: Begin, notebook: Path, version: str
) -> None:
    ask = await session(version)
    assert (await ask(message("ping", {}, "p"))).body == {"jsonrpc": "2.0", "id": "p", "result": {}}
    listed = (await ask(message("tools/list", {}))).body["result"]
    assert set(listed) == {"tools"}
    params = {"name": "get_notebook_state", "arguments": {"notebook": PATH}}
    result = (await ask(message("tools/call", params))).body["result"]
    assert "x = 1" in text(result)
    assert "resultType" not in result
    unknown = await ask(message("nonsense", {}))
    assert (unknown.status, unknown.body["error"]["code"]) == (200, -32601)


async def test_a_version_that_is_not_served_gets_the_newest_of_sessions(post: Ask) -> None:
    asked = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {}}
    begun = await post(message("initialize", asked))
    assert begun.body["result"]["protocolVersion"] == OLD


async def test_outside_of_a_session_nothing_is_answered(post: Ask) -> None:
    assert (await post(message("tools/list", {}))).status == 400
    gone = await post(message("tools/list", {}), Mcp_Session_Id="made-up")
    assert gone.status == 404


async def test_a_session_keeps_to_a_version_of_sessions(post: Ask) -> None:
    asked = {"protocolVersion": OLD, "capabilities": {}, "clientInfo": {}}
    id = (await post(message("initialize", asked))).headers["Mcp-Session-Id"]
    given = {"Mcp_Session_Id": id, "MCP_Protocol_Version": "2024-11-05"}
    assert (await post(message("tools/list", {}), **given)).status == 400
