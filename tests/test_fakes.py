"""The fake API refuses what the real one refuses, with the same messages."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import (
    FakeAnthropic,
    Refused,
    check_messages,
    check_request,
    in_thread,
    says,
    thinks,
)
from tests.fakes.server import API_KEY

CALL = {"type": "tool_use", "id": "1", "name": "look", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "1", "content": [says("ok")]}
ASKS = {"role": "user", "content": [says("Please.")]}
TOOL = {"name": "look", "description": "", "input_schema": {"type": "object"}}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "at least one message"),
        ([assistant(says("Hi."))], 'first message must use the "user" role'),
        ([user()], "must have non-empty content"),
        ([user(says(""))], "text content blocks must be non-empty"),
        ([user(says(" "))], "must contain non-whitespace text"),
        ([{**ASKS, "model": "x"}], "messages.0.model: Extra inputs are not permitted"),
        ([ASKS, assistant(CALL)], "messages.1: `tool_use` ids were found without"),
        ([ASKS, assistant(CALL), ASKS], "messages.1: `tool_use` ids were found without"),
        ([ASKS, assistant(CALL), user(says("So:"), RESULT)], "`tool_use` ids were found without"),
        ([ASKS, assistant(CALL, CALL), user(RESULT)], "`tool_use` ids must be unique"),
        ([ASKS, assistant(CALL), user(RESULT, RESULT)], "must have a single result"),
        ([ASKS, user(RESULT)], "messages.1.content.0: unexpected `tool_use_id` found"),
        ([ASKS, assistant({**CALL, "input": "x"}), user(RESULT)], "should be a valid dictionary"),
        ([ASKS, assistant({**thinks("a"), "thinking": "b"}, says("c")), ASKS], "Invalid `signa"),
        ([ASKS, assistant(says("I think"))], "does not support assistant message prefill"),
    ],
)
def test_a_history_is_refused(messages: list[Any], words: str) -> None:
    with pytest.raises(Refused) as caught:
        check_messages(messages)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"temperature": 0.2}, "temperature: Extra inputs are not permitted"),
        ({"tools": [TOOL, TOOL]}, "Tool names must be unique"),
        ({"tools": [{**TOOL, "name": "a b"}]}, "tools.0.custom.name"),
        ({"tools": [{**TOOL, "strict": True}]}, "'additionalProperties' must be explicitly set"),
        ({"tools": [{**TOOL, "input_examples": ["x"]}]}, "does not match the input_schema"),
        ({"tools": [{**TOOL, "examples": []}]}, "examples: Extra inputs are not permitted"),
        ({"tools": [], "messages": [ASKS, assistant(CALL), user(RESULT)]}, "must define tools"),
        ({"system": [{**says("a"), "cache_control": {}}] * 5}, "A maximum of 4 blocks"),
    ],
)
def test_a_request_is_refused(change: dict[str, Any], words: str) -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [ASKS], "tools": [TOOL]}
    check_request(body)
    with pytest.raises(Refused) as caught:
        check_request({**body, **change})
    assert words in str(caught.value)


def post(url: str, headers: dict[str, str], body: Any) -> tuple[int, str]:
    asked = urllib.request.Request(
        f"{url}/v1/messages", data=json.dumps(body).encode(), headers=headers
    )
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


HEADERS = {"x-api-key": API_KEY, "anthropic-version": "2026-10-21"}
BODY = {"model": "m", "max_tokens": 9, "stream": True, "messages": [ASKS]}


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ({}, 401, "x-api-key header is required"),
        ({**HEADERS, "x-api-key": "wrong"}, 401, "invalid x-api-key"),
        ({"x-api-key": API_KEY}, 400, "anthropic-version"),
    ],
)
def test_credentials_and_version_are_required(
    headers: dict[str, str], status: int, words: str
) -> None:
    with in_thread(FakeAnthropic([[says("Hi.")]])) as api:
        told, text = post(api.url, headers, BODY)
    assert told == status
    assert words in json.loads(text)["error"]["message"]
    assert api.requests == []
    assert len(api.refusals) == 1


def test_it_serves_scripts_from_a_file_until_they_are_over(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(
        json.dumps([[says("Hi.")], {"status": 529, "error": ["overloaded_error", "-"]}])
    )
    command = [
        sys.executable,
        "-m",
        "tests.fakes",
        "--port",
        "0",
        "--script",
        str(script),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as fake:
        assert fake.stdout is not None
        url = fake.stdout.readline().split()[2]
        answers = [post(url, HEADERS, BODY) for _ in range(3)]
        fake.terminate()
    assert [status for status, _ in answers] == [200, 529, 500]
    assert '"text": "Hi."' in answers[0][1]
    assert "The script is over." in answers[2][1]
