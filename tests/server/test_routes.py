"""Every route is described, authenticated and authorized; bad input gets a clear answer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema.validators import validator_for
from jupyter_server.auth import Authorizer

from jupyter_agent.assistant import Assistant
from jupyter_agent.server.openapi import METHODS
from tests.fakes.script import FakeReply

from .conftest import PATH, Call, ask


def filled(template: str) -> str:
    """A path of that route, for a notebook that does not exist."""
    return re.sub(r"\{\w+\}", "x", template.replace("{path}", "x.ipynb"))


def all_operations(agent: Assistant) -> list[tuple[str, str]]:
    """(method, path with made-up names) of every route of the running application."""
    return [
        (method, filled(route.template))
        for route in agent.routes
        for method in METHODS
        if method.upper() in route.handler.SUPPORTED_METHODS
        and hasattr(getattr(route.handler, method), "operation")
        or (method == "get" and route.template == "tab")
    ]


async def test_every_method_of_every_route_is_guarded(agent: Assistant) -> None:
    for route in agent.routes:
        for method in METHODS:
            defined = vars(route.handler).get(method)
            if defined is not None and route.template != "tab":
                assert hasattr(defined, "operation"), f"{method} {route.template}"


class Nobody(Authorizer):
    """Denies everything."""

    def is_authorized(self, handler: Any, user: Any, action: str, resource: str) -> bool:
        return False


async def test_no_route_answers_where_the_authorizer_refuses(
    agent: Assistant, jp_serverapp: Any, call: Call
) -> None:
    jp_serverapp.web_app.settings["authorizer"] = Nobody(parent=jp_serverapp)
    for method, path in all_operations(agent):
        answer = await call(method.upper(), *path.split("/"))
        assert answer.status == 403, f"{method} {path}"


@pytest.mark.full
async def test_every_route_is_described_and_answers_through_the_description(
    agent: Assistant, call: Call, replies: list[FakeReply]
) -> None:
    description = (await call("GET", "openapi.json")).body
    assert description["openapi"] == "3.1.0"
    assert description["servers"] == [{"url": "/a%40b/api/agent"}]  # with Jupyter's prefix
    described = [
        (method, path) for path, methods in description["paths"].items() for method in methods
    ]
    assert sorted(described) == sorted(
        (method, f"/{route.template}")
        for route in agent.routes
        for method in METHODS
        if hasattr(getattr(route.handler, method), "operation")
    )
    for method, path in described:
        schema = description["paths"][path][method]
        assert schema["summary"], f"{method} {path}"
        answer = await call(method.upper(), *filled(path).strip("/").split("/"))
        assert answer.status < 500, f"{method} {path}"
        if answer.status >= 400:
            assert set(answer.body) >= {"message", "reason"}, f"{method} {path}"


async def test_what_a_query_may_say_a_body_may_say_as_well(agent: Assistant, call: Call) -> None:
    taken = 0
    for method, path in all_operations(agent):
        route = next(r for r in agent.routes if filled(r.template) == path)
        known = getattr(getattr(route.handler, method), "operation", None)
        if known is None or known.body is None or "while_away" not in known.query:
            continue
        taken += 1
        for query, body, fits in (
            ("later", None, False),
            (None, "later", False),
            ("wait", "write", False),
            ("write", None, True),
            (None, "write", True),
            ("write", "write", True),
        ):
            answer = await call(
                method.upper(),
                *path.split("/"),
                params={"while_away": query} if query else {},
                body={"while_away": body} if body else {},
            )
            assert ("`while_away`" not in answer.text) == fits, f"{method} {path}"
    assert taken == 8


async def test_a_parameter_that_a_route_does_not_know_is_refused_before_anything_is_done(
    agent: Assistant, call: Call, notebook: Path, jp_serverapp: Any
) -> None:
    token = jp_serverapp.identity_provider.token
    before = notebook.read_bytes()
    asked = 0
    for method, path in all_operations(agent):
        route = next(r for r in agent.routes if filled(r.template) == path)
        if not hasattr(getattr(route.handler, method, None), "operation"):
            continue
        asked += 1
        for query, fits in (
            ({"bye": "Me"}, False),
            ({"token": token, "_xsrf": "x", "_": "1", "1712345678901": ""}, True),
        ):
            if fits and method != "get":
                continue  # it would take effect
            answer = await call(method.upper(), *path.split("/"), params=query)
            refused = "query parameter `bye`" in answer.text
            assert refused is not fits, f"{method} {path}: {answer.text}"
            assert fits or (answer.status, answer.body["reason"]) == (400, "invalid_query")
    assert asked > 60
    cells = ("notebooks", PATH, "cells")
    assert (await call("POST", *cells, body={}, params={"bye": "Me"})).status == 400
    assert notebook.read_bytes() == before


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        ("{", 400, "JSON object"),
        ("[]", 400, "JSON object"),
        ('{"messages": []}', 400, "no user message"),
        ('{"messages": [{"role": "user", "parts": []}]}', 400, "neither text nor file"),
        ('{"messages": "x"}', 400, "`messages`"),
        ('{"a":' * 70 + "1" + "}" * 70, 400, "nested"),
        (ask("hi", model="nobody:x"), 400, "is not a model"),
        (ask("hi", model="nonsense"), 400, "is not a model"),
        (ask("hi", mode="yolo"), 400, "`mode`"),
        (ask("hi", max_steps=0), 400, "`max_steps`"),
        (ask("hi", id="no spaces, please"), 400, "`id`"),
    ],
)
async def test_a_bad_question_is_refused_with_the_field(
    call: Call, body: Any, status: int, says: str
) -> None:
    answer = await call("POST", "chat", body=body)
    assert answer.status == status
    assert says in answer.body["message"]
    assert "Traceback" not in answer.text
    assert (await call("GET", "status")).status == 200


@pytest.mark.full
@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("GET", ["notebooks", "missing.ipynb"], None, 404, "missing.ipynb"),
        ("GET", ["notebooks", PATH, "cells", "zz"], None, 404, "Cells now: a1, b2, c3"),
        ("PATCH", ["notebooks", PATH, "cells", "b2"], {}, 400, "`source`"),
        ("PATCH", ["notebooks", PATH, "cells", "b2"], {"sauce": "x"}, 400, "`sauce`"),
        ("PATCH", ["notebooks", PATH, "cells", "b2"], {"source": 1}, 400, "`source`"),
        ("PATCH", ["notebooks", PATH, "cells", "b2"], {"new_string": "y"}, 400, "`old_string`"),
        ("PATCH", ["notebooks", PATH, "cells", "b2"], {"old_string": "x"}, 400, "`new_string`"),
        (
            "PATCH",
            ["notebooks", PATH, "cells", "b2"],
            {"type": "raw", "new_string": "y"},
            400,
            "`old_string`",
        ),
        (
            "PATCH",
            ["notebooks", PATH, "cells", "b2"],
            {"source": "y", "old_string": "x", "new_string": "z"},
            400,
            "not both",
        ),
        ("POST", ["notebooks", PATH, "cells", "a1", "run"], {}, 400, "markdown"),
        ("POST", ["notebooks", "made.ipynb"], {"cells": [{"type": "code"}]}, 400, "`cells.0"),
        ("POST", ["notebooks", "made.ipynb"], {"cells": [{"source": 1}]}, 400, "`cells.0"),
        ("POST", ["notebooks", PATH, "kernel"], {"action": "restart", "name": "r"}, 400, "`name`"),
        ("POST", ["turns", "t_0", "undo"], {"cell": []}, 400, "`cell`"),
        ("POST", ["turns", "t_0", "undo"], {"cells": [{"cell_id": "b2"}]}, 400, "`cells.0"),
        ("POST", ["notebooks", PATH], {}, 409, "first look.ipynb"),
        ("POST", ["tools", "launch_rocket"], {}, 404, "GET tools"),
        ("GET", ["turns", "t_0"], None, 404, "t_0"),
        ("GET", ["runs", "r_0"], None, 404, "r_0"),
        ("GET", ["conversations", "c_0"], None, 404, "c_0"),
        ("GET", ["conversations"], None, 200, ""),
        ("PUT", ["providers", "nobody", "key"], {"key": "k"}, 404, "nobody"),
    ],
)
async def test_bad_input_gets_a_clear_error(
    call: Call,
    notebook: Path,
    method: str,
    path: list[str],
    body: Any,
    status: int,
    says: str,
) -> None:
    answer = await call(method, *path, body=body)
    assert answer.status == status
    if status >= 400:
        assert says in answer.body["message"]
        assert answer.body["reason"]
    assert "Traceback" not in answer.text


async def test_the_tools_are_cheap_in_every_prompt(call: Call) -> None:
    answer = await call("GET", "tools")
    asked = ("name", "description", "input_schema", "input_examples", "strict")
    specs = [{key: tool[key] for key in asked if key in tool} for tool in answer.body]
    assert len(json.dumps(specs, ensure_ascii=False).encode()) <= 11_900
    by_name = {tool["name"]: tool for tool in answer.body}
    assert by_name["edit_cells"]["effect"] == "edit"
    assert by_name["edit_cells"]["former_names"] == ["update_cell"]
    assert set(by_name["edit_cells"]["input_schema"]["properties"]) == {"notebook", "edits", "run"}


async def test_the_description_leads_from_each_answer_to_what_can_be_done_with_it(
    call: Call,
) -> None:
    described = (await call("GET", "openapi.json")).body
    operations = [each for methods in described["paths"].values() for each in methods.values()]
    ids = [each["operationId"] for each in operations]
    assert len(set(ids)) == len(ids)
    responses = [response for each in operations for response in each["responses"].values()]
    links = [link for response in responses for link in response.get("links", {}).values()]
    assert {link["operationId"] for link in links} >= {"postTurnsTurnIdUndo", "getRunsRunId"}
    assert {link["operationId"] for link in links} <= set(ids)
    references = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(described))
    assert set(references) <= described["components"]["schemas"].keys()
    without = [
        each["operationId"]
        for each in operations
        if not any("content" in each["responses"].get(str(code), {}) for code in (200, 201))
    ]
    assert all("204" in described_by(operations, name)["responses"] for name in without)
    (outputs,) = [
        parameter
        for parameter in described["paths"]["/runs/{run_id}"]["get"]["parameters"]
        if parameter["name"] == "outputs"
    ]
    assert outputs["schema"]["enum"] == ["full", "none", "text"]


def described_by(operations: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [each for each in operations if each["operationId"] == name]
    return found


@pytest.mark.full
async def test_answers_are_as_they_are_described(call: Call, notebook: Path) -> None:
    described = (await call("GET", "openapi.json")).body
    edits = {"edits": [{"cell_id": "b2", "source": "x = 2"}, {"op": "delete", "cell_id": "a1"}]}
    asked: list[tuple[str, str, list[str], Any, dict[str, str]]] = [
        ("post", "/notebooks/{path}/edits", ["notebooks", PATH, "edits"], edits, {"by": "Me"}),
        ("post", "/notebooks/{path}/run", ["notebooks", PATH, "run"], {}, {}),
        ("post", "/notebooks/{path}/verify", ["notebooks", PATH, "verify"], {}, {}),
        ("get", "/notebooks/{path}", ["notebooks", PATH], None, {}),
        ("get", "/notebooks/{path}/blame", ["notebooks", PATH, "blame"], None, {}),
        ("get", "/notebooks/{path}/changes", ["notebooks", PATH, "changes"], None, {}),
        ("get", "/notebooks/{path}/recovery", ["notebooks", PATH, "recovery"], None, {}),
        ("post", "/notebooks/{path}/clear", ["notebooks", PATH, "clear"], {}, {}),
        ("get", "/runs", ["runs"], None, {}),
        ("get", "/turns", ["turns"], None, {}),
        ("get", "/conversations", ["conversations"], None, {}),
        ("get", "/usage", ["usage"], None, {}),
        ("get", "/status", ["status"], None, {}),
        ("get", "/models", ["models"], None, {}),
        ("get", "/tools", ["tools"], None, {}),
    ]
    for method, template, path, body, params in asked:
        answer = await call(method.upper(), *path, body=body, params=params)
        responses = described["paths"][template][method]["responses"]
        schema = responses[str(answer.status)]["content"]["application/json"]["schema"]
        whole = {**schema, "components": described["components"]}
        validator_for(whole)(whole).validate(answer.body)
    for turn in (await call("GET", "turns")).body["turns"]:
        answer = await call("GET", "turns", turn["id"])
        whole = {
            "$ref": "#/components/schemas/TurnAnswer",
            "components": described["components"],
        }
        validator_for(whole)(whole).validate(answer.body)


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (["notebooks", PATH], {"format": "pdf"}),
        (["notebooks", PATH], {"budget": "1.5"}),
        (["runs"], {"state": "odd"}),
        (["turns"], {"page": "0"}),
        (["turns"], {"page": "73609324987010850816"}),
        (["conversations"], {"page": "9" * 5_000}),
    ],
)
async def test_a_word_that_a_query_may_not_have_is_refused(
    call: Call, notebook: Path, path: list[str], query: dict[str, str]
) -> None:
    answer = await call("GET", *path, params=query)
    assert (answer.status, answer.body["reason"]) == (400, "invalid_query")
