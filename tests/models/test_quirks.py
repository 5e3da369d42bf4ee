"""Odd replies of services that people really use: each is understood, or reported correctly.

From the contract's list of dialects, the documentation of the APIs and public issues. The
services' own strictness (what they refuse) is in `tests.fakes.dialects`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from jupyter_agent.agent.limits import Limits, Window
from jupyter_agent.agent.loop import pause_before_retry
from jupyter_agent.agent.reply import Reply
from jupyter_agent.errors import ModelError
from jupyter_agent.events import Notice, Usage
from jupyter_agent.models.anthropic import AnthropicModel
from jupyter_agent.models.base import ServerTool
from jupyter_agent.models.dialect import Dialect, learn_tools
from jupyter_agent.models.endpoint import Service
from jupyter_agent.models.network import Network
from jupyter_agent.models.openai import OpenAIModel
from jupyter_agent.plugs.providers.responses import ResponsesModel
from tests.fakes import FakeAnthropic, Scripted, says
from tests.fakes.dialects import PORTAL
from tests.fakes.server import API_KEY

from .conftest import Chat, read, read_and_close, request, sequels, serving

Json = dict[str, Any]
ALL: tuple[ServerTool, ...] = ("web_search", "web_fetch", "code_execution")
DONE = b"data: [DONE]\n\n"


def sse(*written: Any, done: bytes = DONE) -> bytes:
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in written) + done


def delta(finish: str | None = None, **fields: Any) -> Json:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(*made: Json, finish: str | None = None) -> Json:
    return delta(finish, tool_calls=list(made))


def of(name: str | None = None, arguments: Any = ..., **more: Any) -> Json:
    function = {} if name is None else {"name": name}
    if arguments is not ...:
        function["arguments"] = arguments
    return {**more, "function": function}


def whole(finish: str | None = "stop", **message: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    return json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def gemini(delay: str, quota: str) -> bytes:
    """Gemini's answer to too many requests."""
    message = "You exceeded your current quota, please check your plan and billing details."
    types = "type.googleapis.com/google.rpc."
    details = [
        {"@type": f"{types}QuotaFailure", "violations": [{"quotaId": quota}]},
        {"@type": f"{types}RetryInfo", "retryDelay": delay},
    ]
    error = {"code": 429, "message": message, "status": "RESOURCE_EXHAUSTED", "details": details}
    return json.dumps([{"error": error}]).encode()


@dataclass(frozen=True, kw_only=True)
class Understood:
    """The expected result of a reply."""

    text: str = ""
    thinking: str = ""
    calls: Sequence[tuple[str, Json]] = ()
    stop: str = ""
    usage: tuple[int, int, int] | None = None
    """Input, cached, output."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Words in its message."""

    kind: str
    retryable: bool = False
    words: str = ""
    wait: float | None = None


@dataclass(frozen=True)
class Quirk:
    id: str
    body: bytes
    means: Understood | Fault
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


HI = Understood(text="Hi.", stop="end_turn")
ONE = ("look", {"n": 1})
TWO = ("look", {"n": 2})
CALL = Understood(calls=[ONE], stop="tool_use")
CALLS = Understood(calls=[ONE, TWO])
ONE_CALL = Understood(calls=[ONE])
NO_INPUT = Understood(calls=[("look", {})])
THOUGHT = Understood(text="Hi.", thinking="Hm.")
STOP = delta("stop")
BROKEN = Fault(kind="broken_stream", retryable=True)
A = {"index": 0, "id": "a", "type": "function"}
B = {"index": 1, "id": "b", "type": "function"}
PLAIN = sse(delta(content="Hi."), STOP)
UMLAUT = sse(delta(content="Grüße 🚀."), STOP).replace(b"\\u00fc", "ü".encode()).replace(
    b"\\u00df", "ß".encode()
)  # fmt: skip

STREAMS = [
    # How it ends
    Quirk("done-without-a-reason", sse(delta(content="Hi.")), HI),
    Quirk("done-without-a-reason-after-a-call", sse(call(of("look", '{"n": 1}', **A))), CALL),
    Quirk("stop-though-there-are-calls", sse(call(of("look", '{"n": 1}', **A)), STOP), ONE_CALL),
    Quirk("a-reason-and-no-done", sse(delta(content="Hi."), STOP, done=b""), HI),
    Quirk("neither-reason-nor-done", sse(delta(content="Hi."), done=b""), BROKEN),
    Quirk("the-word-null-as-a-reason", sse(delta("null", content="Hi."), done=b""), BROKEN),
    Quirk("nothing-but-done", sse(), Understood(stop="end_turn")),
    *(
        Quirk(
            f"the-reason-{reason}",
            sse(delta(content="Hi"), delta(reason)),
            Fault(kind="service", retryable=True, words=reason),
        )
        for reason in ("error", "abort", "insufficient_system_resource",
                       "function_call_filter: MALFORMED_FUNCTION_CALL")
    ),
    Quirk("the-reason-model_length", sse(delta(content="Hi"), delta("model_length")),
          Understood(text="Hi", stop="model_context_window_exceeded")),
    Quirk("more-after-done", PLAIN + sse(delta(content="Again.")), HI),
    Quirk("an-empty-body", b"", BROKEN),
    Quirk("random-bytes", bytes(range(128, 256)) * 9, BROKEN),
    # What a chunk has
    Quirk(
        "usage-in-a-chunk-without-choices",
        sse(
            delta(content="Hi."), STOP, {"choices": [], "usage": {"prompt_tokens": 7,
            "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}}},
        ),
        Understood(text="Hi.", stop="end_turn", usage=(2, 5, 2)),
    ),
    Quirk(
        "cached-tokens-that-the-prompt-leaves-out",
        sse(
            delta(content="Hi."), STOP, {"choices": [], "usage": {"prompt_tokens": 100,
            "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5000}}},
        ),
        Understood(text="Hi.", stop="end_turn", usage=(100, 5000, 2)),
    ),
    Quirk(
        "counts-that-are-none",
        sse(
            delta(content="Hi."), STOP, {"choices": [], "usage": {"prompt_tokens": -100,
            "completion_tokens": 10**30, "prompt_tokens_details": {"cached_tokens": True}}},
        ),
        Understood(text="Hi.", stop="end_turn", usage=(0, 0, 0)),
    ),
    Quirk(
        "a-first-chunk-without-choices",
        sse({"choices": [], "prompt_filter_results": []}, delta(content="Hi."), STOP),
        HI,
    ),
    Quirk("a-chunk-that-is-null", sse(None, delta(content="Hi."), None, STOP), HI),
    Quirk("choices-are-null", sse({"choices": None}, delta(content="Hi."), STOP), HI),
    Quirk("content-is-null", sse(delta(content=None), delta(content="Hi."), STOP), HI),
    Quirk(
        "a-delta-that-is-null",
        sse({"choices": [{"index": 0, "delta": None}]}, delta(content="Hi."), STOP),
        HI,
    ),
    Quirk(
        "usage-of-groq",
        sse(
            delta(content="Hi."),
            {**STOP, "x_groq": {"usage": {"prompt_tokens": 7, "completion_tokens": 2}}},
        ),
        Understood(text="Hi.", usage=(7, 0, 2)),
    ),
    Quirk(
        "cached-tokens-of-deepseek",
        sse(
            delta(content="Hi."),
            {**STOP, "usage": {"prompt_tokens": 7, "completion_tokens": 2,
            "prompt_cache_hit_tokens": 5, "prompt_cache_miss_tokens": 2}},
        ),
        Understood(text="Hi.", usage=(2, 5, 2)),
    ),
    # Calls
    Quirk(
        "a-name-in-the-second-chunk",
        sse(call(of(None, "", **A)), call(of("look", '{"n": 1}', index=0)), STOP),
        ONE_CALL,
    ),
    Quirk(
        "a-name-in-two-pieces",
        sse(call(of("lo", **A)), call(of("ok", index=0)), call(of(None, '{"n": 1}', index=0))),
        ONE_CALL,
    ),
    Quirk(
        "a-name-in-each-chunk",
        sse(
            call(of("look", "", **A)), call(of("look", '{"n"', **A)),
            call(of("look", ": 1}", **A)), STOP,
        ),
        ONE_CALL,
    ),
    Quirk(
        "an-id-in-each-chunk",
        sse(call(of("look", '{"n"', **A)), call(of(None, ": 1}", **A)), STOP),
        ONE_CALL,
    ),
    Quirk(
        "a-call-without-a-name",
        sse(call(of(None, '{"n": 1}', **A)), STOP),
        Understood(calls=[("", {"n": 1})]),
    ),
    Quirk("input-as-an-object", sse(call(of("look", {"n": 1}, **A)), STOP), ONE_CALL),
    Quirk("input-is-an-empty-text", sse(call(of("look", "", **A)), STOP), NO_INPUT),
    Quirk("input-is-null", sse(call(of("look", None, **A)), STOP), NO_INPUT),
    Quirk("input-is-missing", sse(call(of("look", **A)), STOP), NO_INPUT),
    Quirk(
        "no-index",
        sse(call(of("look", '{"n": 1}', id="a"), of("look", '{"n": 2}', id="b")), STOP),
        CALLS,
    ),
    Quirk(
        "no-index-in-chunk-after-chunk",
        sse(
            call(of("look", '{"n"', id="a")), call(of(None, ": 1}")),
            call(of("look", '{"n"', id="b")), call(of(None, ": 2}")), STOP,
        ),
        CALLS,
    ),
    Quirk(
        "always-index-0",
        sse(
            call(of("look", '{"n": 1}', **A)),
            call(of("look", '{"n": 2}', **{**B, "index": 0})), STOP,
        ),
        CALLS,
    ),
    Quirk(
        "parallel-calls-in-turns",
        sse(
            call(of("look", '{"n"', **A)), call(of("look", '{"n"', **B)),
            call(of(None, ": 1}", index=0)), call(of(None, ": 2}", index=1)), STOP,
        ),
        CALLS,
    ),
    Quirk(
        "no-ids",
        sse(call(of("look", '{"n": 1}', index=0)), call(of("look", '{"n": 2}', index=1)), STOP),
        CALLS,
    ),
    Quirk(
        "empty-ids-and-one-index",
        sse(
            call(of("look", '{"n": 1}', index=0, id="")),
            call(of("look", '{"n": 2}', index=0, id="")), STOP,
        ),
        CALLS,
    ),
    Quirk(
        "the-same-id-twice",
        sse(
            call(of("look", '{"n": 1}', **A)),
            call(of("look", '{"n": 2}', **{**A, "index": 1})), STOP,
        ),
        CALLS,
    ),
    Quirk(
        "an-empty-id-in-later-chunks",
        sse(call(of("look", '{"n"', **A)), call(of(None, ": 1}", index=0, id="")), STOP),
        ONE_CALL,
    ),
    Quirk(
        "another-id-in-each-chunk",
        sse(
            call(of("look", "", **A)), call(of(None, '{"n"', index=0, id="b")),
            call(of(None, ": 1}", index=0, id="c")), STOP,
        ),
        ONE_CALL,
    ),
    Quirk(
        "another-id-in-each-chunk-and-some-are-empty",
        sse(
            call(of("look", "", **A)), call(of(None, "", index=0, id="b")),
            call(of(None, '{"n": 1}', index=0, id="c")), call(of(None, "", index=0, id="d")), STOP,
        ),
        ONE_CALL,
    ),
    Quirk(
        "input-at-another-index",
        sse(
            call(of("look", '{"n": 1}', **A)), call(of("look", '{"n"', **{**B, "index": 0})),
            call(of(None, ": 2}", index=1)), STOP,
        ),
        CALLS,
    ),
    Quirk(
        "a-piece-of-a-call-with-nothing",
        sse(call(of("look", '{"n": 1}', **A)), call({"index": 1}), STOP),
        ONE_CALL,
    ),
    Quirk(
        "the-function-call-of-old-servers",
        sse(
            delta(function_call={"name": "look", "arguments": '{"n"'}),
            delta(function_call={"arguments": ": 1}"}), delta("function_call"),
        ),
        CALL,
    ),
    # No stream
    Quirk("one-json", whole(content="Hi."), Understood(text="Hi.", usage=(7, 0, 2))),
    Quirk(
        "one-json-with-calls",
        whole("tool_calls", content=None, tool_calls=[of("look", '{"n": 1}', id="a")]),
        CALL,
    ),
    Quirk("one-json-without-a-reason", whole(None, content="Hi."), HI),
    Quirk(
        "a-message-in-place-of-deltas",
        sse({"choices": [{"index": 0, "message": {"content": "Hi."}, "finish_reason": "stop"}]}),
        HI,
    ),
    Quirk(
        "a-message-beside-a-delta-that-is-null",
        sse({"choices": [{"delta": None, "message": {"content": "Hi."}}]}, STOP),
        HI,
    ),
    Quirk(
        "a-message-besides-deltas",
        sse(
            {"choices": [{"delta": {"content": "Hi"}, "message": {"content": "Hi"}}]},
            {"choices": [{"delta": {"content": "."}, "message": {"content": "Hi."}}]},
            {"choices": [{"delta": {}, "message": {"content": "Hi."}, "finish_reason": "stop"}]},
        ),
        HI,
    ),
    Quirk(
        "a-web-page",
        PORTAL,
        Fault(kind="not_a_model_service", words="it sent a web page"),
        headers={"Content-Type": "text/html"},
    ),
    Quirk(
        "a-web-page-that-says-it-is-a-stream",
        b"\n" + PORTAL,
        Fault(kind="not_a_model_service", words="it sent a web page"),
    ),
    # Thinking
    Quirk(
        "reasoning-content",
        sse(delta(reasoning_content="Hm."), delta(content="Hi."), STOP),
        THOUGHT,
    ),
    Quirk("reasoning", sse(delta(reasoning="Hm."), delta(content="Hi."), STOP), THOUGHT),
    Quirk(
        "reasoning-under-both-names",
        sse(delta(reasoning="Hm.", reasoning_content="Hm."), delta(content="Hi."), STOP),
        THOUGHT,
    ),
    Quirk(
        "reasoning-details-only",
        sse(
            delta(reasoning_details=[{"type": "reasoning.text", "text": "Hm."}]),
            delta(content="Hi."), STOP,
        ),
        THOUGHT,
    ),
    Quirk("thinking-in-tags", sse(delta(content="<think>\nHm.\n</think>\n\nHi."), STOP), THOUGHT),
    Quirk(
        "thinking-in-tags-letter-by-letter",
        sse(*(delta(content=letter) for letter in "\n<think>Hm. 1 < 2</think>\nHi."), STOP),
        Understood(text="Hi.", thinking="Hm. 1 < 2"),
    ),
    Quirk(
        "thinking-in-tags-before-a-call",
        sse(delta(content="<think>Hm.</think>"), call(of("look", '{"n": 1}', **A)), STOP),
        Understood(thinking="Hm.", calls=[ONE]),
    ),
    Quirk(
        "tags-that-are-spoken-of",
        sse(delta(content="Use <think>a</think>"), delta(content=" and <b."), STOP),
        Understood(text="Use <think>a</think> and <b."),
    ),
    Quirk(
        "a-text-that-begins-like-a-tag", sse(delta(content="<thin"), STOP), Understood(text="<thin")
    ),
    Quirk(
        "parts-of-mistral",
        sse(
            delta(content=[{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]),
            delta(content=[{"type": "text", "text": "Hi."}]), STOP,
        ),
        THOUGHT,
    ),
    Quirk(
        "parts-in-one-json",
        whole(content=[{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Hi."}]),
        THOUGHT,
    ),
    # Bytes
    Quirk("lines-that-end-in-cr-lf", PLAIN.replace(b"\n", b"\r\n"), HI),
    Quirk("lines-that-end-in-cr", PLAIN.replace(b"\n", b"\r"), HI),
    Quirk("a-byte-order-mark", b"\xef\xbb\xbf" + PLAIN, HI),
    Quirk("no-space-after-the-colon", PLAIN.replace(b"data: ", b"data:"), HI),
    Quirk("comments", b": PROCESSING\n\n" + PLAIN.replace(b"\n\n", b"\n\n: ping\n\n"), HI),
    Quirk("names-of-events-and-ids", PLAIN.replace(b"data: {", b"event: x\nid: 1\ndata: {"), HI),
    Quirk("letters-of-several-bytes", UMLAUT, Understood(text="Grüße 🚀.")),
    Quirk(
        "a-line-separator-within-a-text",
        sse(delta(content="a-b"), STOP).replace(b"a-b", "a\u2028b".encode()),
        Understood(text="a\u2028b"),
    ),
    # Errors
    Quirk(
        "an-error-within-the-stream",
        sse(delta(content="Hi"), {"error": {"message": "Died.", "type": "server_error"}}),
        Fault(kind="service", retryable=True, words="It said: Died."),
    ),
    Quirk(
        "an-error-in-place-of-a-stream",
        json.dumps({"error": {"message": "Died.", "code": 500}}).encode(),
        Fault(kind="service", retryable=True, words="Died"),
    ),
    Quirk(
        "an-error-of-mistral-in-a-stream",
        sse({"object": "error", "message": "Died.", "type": "internal_server_error"}),
        Fault(kind="service", retryable=True, words="Died"),
    ),
    Quirk(
        "a-full-window-told-in-a-stream",
        sse({"error": {"message": "The number of tokens to keep from the initial prompt is "
                       "greater than the context length"}}),
        Fault(kind="context_length"),
    ),
    Quirk(
        "an-account-that-is-spent-told-with-a-wait",
        json.dumps({"error": {"message": "You exceeded your current quota.", "type":
                              "insufficient_quota", "code": "insufficient_quota"}}).encode(),
        Fault(kind="billing"), 429, {"Retry-After": "5"},
    ),
    Quirk(
        "a-burst-without-a-wait",
        b'{"message":"Rate limit exceeded","type":"rate_limited","code":"1300"}',
        Fault(kind="rate_limit", retryable=True, wait=2.0), 429,
    ),
    Quirk(
        "a-wait-in-milliseconds", b'{"error": {"message": "Slow down."}}',
        Fault(kind="rate_limit", retryable=True, wait=0.8), 429, {"retry-after-ms": "800"},
    ),
    Quirk(
        "a-wait-as-a-date", b'{"error": {"message": "Slow down."}}',
        Fault(kind="rate_limit", retryable=True, wait=30.0), 429,
        {"Retry-After": "Sun, 22 Nov 2026 10:00:30 GMT", "Date": "Sun, 22 Nov 2026 10:00:00 GMT"},
    ),
    Quirk(
        "a-call-that-groq-could-not-read",
        b'{"error": {"message": "Failed to call a function.", "type": "invalid_request_error", '
        b'"code": "tool_use_failed", "failed_generation": "<function=look>"}}',
        Fault(kind="service", retryable=True, words="Failed to call"), 400,
    ),
    Quirk(
        "an-error-of-gemini-in-a-list",
        b'[{"error": {"code": 400, "message": "API key expired.", "status": "INVALID"}}]',
        Fault(kind="authentication", words="Set a valid one"), 400,
    ),
    Quirk(
        "a-limit-per-minute-of-gemini-in-the-words-of-a-spent-account",
        gemini("34.07s", "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"),
        Fault(kind="rate_limit", retryable=True, wait=34.07), 429,
    ),
    Quirk(
        "a-limit-per-day-of-gemini",
        gemini("34.07s", "GenerateRequestsPerDayPerProjectPerModel-FreeTier"),
        Fault(kind="billing", words="current quota"), 429,
    ),
]  # fmt: skip

REFUSALS: Sequence[tuple[str, int, str, str]] = [
    # The kind, the status, the message of the service, the words that help
    *(
        ("context_length", status, message, "It said")
        for status, message in [
            (400, "prompt is too long: 210000 tokens > 200000 maximum"),
            (400, "input length and `max_tokens` exceed context limit: 195000 + 16000 > 200000"),
            (400, "Input is too long for requested model."),
            (400, "The input token count (1200000) exceeds the maximum number of tokens allowed."),
            (400, "the request exceeds the available context size, try increasing it"),
            (400, "This model's maximum prompt length is 131072 but the request contains 537812."),
            (400, "Invalid request: Your request exceeded model token limit: 131072"),
            (400, "Prompt exceeds max length"),
            (400, "prompt token count of 140000 exceeds the limit of 128000"),
            (400, "InvalidParameter: Range of input length should be [1, 129024]"),
            (422, "`inputs` tokens + `max_new_tokens` must be <= 8193."),
            (413, "Request too large on tokens per minute (TPM): Limit 6000, Requested 8123."),
            (500, "Context size has been exceeded."),
        ]
    ),
    ("not_found", 404, 'model "m" not found, try pulling it first', "try pulling it first"),
    ("not_found", 404, "No models loaded. Use the `lms load` command.", "lms load"),
    ("not_found", 404, "No endpoints found matching your data policy.", "your data policy"),
    ("not_a_model_service", 404, "Not Found", "`base_url`"),
    ("not_a_model_service", 404, "404 page not found", "`base_url`"),
    ("not_a_model_service", 404, "Resource not found", "`base_url`"),
    ("not_a_model_service", 404, "Invalid URL (POST /chat/completions)", "`base_url`"),
    ("not_a_model_service", 404, "", "`base_url`"),
    ("no_tools", 400, "library/gemma:2b does not support tools", "another model"),
    ("no_tools", 404, "No endpoints found that support tool use. To learn more", "another model"),
    ("authentication", 400, "Incorrect API key provided: xx***yy.", "Set a valid one"),
    ("authentication", 400, "API key not valid. Please pass a valid API key.", "Set a valid one"),
    ("authentication", 400, "API Key not found. Please pass a valid API key.", "Set a valid one"),
    ("invalid_request", 400, "image exceeds the limit of 5 MB", "5 MB"),
]


@pytest.mark.parametrize(("kind", "status", "message", "words"), REFUSALS)
async def test_a_refusal_says_what_helps(kind: str, status: int, message: str, words: str) -> None:
    for body in ({"error": {"message": message}}, {"detail": message}, message):
        written = body if isinstance(body, str) else json.dumps(body)
        async with serving(Chat(written.encode(), status=status)) as chat:
            model = OpenAIModel("m", Service(api_key="sk-x", base_url=chat.url, provider="lab"))
            check(await read_and_close(model), Fault(kind=kind, words=words))


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("context_length", 400, {"message": "Too much.", "type": "exceed_context_size_error"}),
        ("not_found", 404, {"message": "Not Found", "code": "model_not_found"}),
        ("not_found", 400, {"message": "No such one.", "code": "model_not_found"}),
    ],
)
async def test_a_refusal_is_known_by_its_code_or_type(kind: str, status: int, error: Json) -> None:
    async with serving(Chat(json.dumps({"error": error}).encode(), status=status)) as chat:
        model = OpenAIModel("m", Service(api_key="sk-x", base_url=chat.url, provider="lab"))
        check(await read_and_close(model), Fault(kind=kind))


def understood(reply: Reply) -> Json:
    usage = reply.usage
    kinds = ("text", "thinking")
    written = {
        kind: "".join(block[kind] for block in reply.content if block["type"] == kind).strip()
        for kind in kinds
    }
    return {
        **written,
        "calls": [(made.name, dict(made.input)) for made in reply.calls],
        "stop": reply.stop_reason,
        "usage": (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens),
    }


def check(made: Reply | ModelError, means: Understood | Fault) -> None:
    if isinstance(means, Fault):
        if isinstance(made, Reply):
            assert not made.complete
            assert means == BROKEN
            return
        assert (made.kind, made.retryable) == (means.kind, means.retryable), made.message
        assert means.words in made.message
        if means.wait is not None:
            assert pause_before_retry(made, 1, Limits()) == pytest.approx(means.wait)
        return
    assert isinstance(made, Reply), made
    assert made.complete
    assert len({one.id for one in made.calls}) == len(made.calls)
    wanted = {name: value for name, value in vars(means).items() if value or name in WORDS}
    got = understood(made)
    assert {name: got[name] for name in wanted} == wanted


WORDS = ("text", "thinking")


@pytest.mark.parametrize("quirk", STREAMS, ids=lambda quirk: quirk.id)
async def test_a_reply_is_understood_or_told_as_what_it_is(quirk: Quirk) -> None:
    async with serving(Chat(quirk.body, status=quirk.status, headers=dict(quirk.headers))) as chat:
        model = OpenAIModel("m", Service(api_key="sk-x", base_url=chat.url, provider="lab"))
        check(await read_and_close(model), quirk.means)


@pytest.mark.parametrize("then", ["cut", "stay open"])
@pytest.mark.parametrize(
    ("body", "means"),
    [
        (PLAIN.removesuffix(DONE), HI),
        (sse(delta(), call(of("look", '{"n": 1}', **A), finish="tool_calls"), done=b""), CALL),
        (sse(delta(content="Hi."), done=b""), None),
        (sse(delta("stop", content="Hi"), delta("stop", content="."), done=b""), None),
    ],
    ids=["text", "call", "no-reason", "a-reason-in-each-chunk"],
)
async def test_a_reply_with_its_reason_is_complete_whatever_becomes_of_its_stream(
    then: Literal["cut", "stay open"],
    body: bytes,
    means: Understood | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("jupyter_agent.models.lines._USAGE_S", 0.2)
    async with serving(Chat(body)) as chat:
        chat.then = then
        network = Network(read_seconds=1.0)
        service = Service(api_key="sk-x", base_url=chat.url, provider="lab", network=network)
        made = await read_and_close(OpenAIModel("m", service))
        if means is None:
            assert isinstance(made, ModelError)
            assert made.retryable
        else:
            check(made, means)


async def test_a_reply_that_a_service_ends_with_a_failure_is_paid_for() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 70, "completion_tokens": 20}}
    async with serving(Chat(sse(delta(content="Hi"), delta("error"), usage))) as chat:
        model = OpenAIModel("m", Service(api_key="sk-x", base_url=chat.url, provider="lab"))
        reply = Reply(1, Limits())
        with pytest.raises(ModelError):
            await read(model, into=reply)
        await model.close()
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (70, 20)


# -- Anthropic


def events(*written: Json) -> bytes:
    return b"".join(
        f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in written
    )


def start(id: str) -> Json:
    usage = {"input_tokens": 7, "output_tokens": 1}
    message = {"id": id, "type": "message", "role": "assistant", "content": [], "model": "m"}
    return {"type": "message_start", "message": {**message, "stop_reason": None, "usage": usage}}


def said(text: str) -> list[Json]:
    begun = {"type": "content_block_start", "index": 0, "content_block": says("")}
    piece = {"type": "text_delta", "text": text}
    return [begun, {"type": "content_block_delta", "index": 0, "delta": piece}]


END: list[Json] = [
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]
MESSAGE = {**start("m")["message"], "content": [says("Hi.")], "stop_reason": "end_turn"}

MESSAGES = [
    Quirk(
        "a-full-window-told-in-a-stream",
        events(start("m"), {"type": "error", "error": {"message": "prompt is too long: 9 > 8"}}),
        Fault(kind="context_length", words="9 > 8"),
    ),
    Quirk(
        "a-refusal-told-in-a-stream",
        events(start("m"), {"type": "error", "error": {"message": "Bad field."}}),
        Fault(kind="invalid_request", words="Anthropic refused the request. It said: Bad field."),
    ),
    Quirk("the-same-start-twice", events(start("m"), start("m"), *said("Hi."), *END), HI),
    Quirk(
        "another-reply-starts-in-the-middle",
        events(start("m"), *said("Ho"), start("n"), *said("Hi."), *END),
        HI,
    ),
    Quirk(
        "one-message-as-json",
        json.dumps(MESSAGE).encode(),
        HI,
        headers={"Content-Type": "application/json"},
    ),
    Quirk(
        "a-web-page",
        PORTAL,
        Fault(kind="not_a_model_service", words="it sent a web page"),
        headers={"Content-Type": "text/html"},
    ),
]


@pytest.mark.parametrize("quirk", MESSAGES, ids=lambda quirk: quirk.id)
async def test_a_message_is_understood_or_told_as_what_it_is(quirk: Quirk) -> None:
    reply = Scripted(body=quirk.body, headers=quirk.headers)
    async with FakeAnthropic([reply]) as api:
        model = AnthropicModel(
            "m", Service(provider="anthropic", api_key=API_KEY, base_url=api.url)
        )
        check(await read_and_close(model), quirk.means)


@pytest.mark.parametrize("then", ["wait", "ping"])
async def test_a_message_with_its_reason_is_complete_though_its_stream_stays_open(
    then: Literal["wait", "ping"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jupyter_agent.models.lines._USAGE_S", 0.2)
    held = Scripted(blocks=[says("Hi.")], stop_after=5, then=then, gate=asyncio.Event())
    async with FakeAnthropic([held]) as api:
        service = Service(provider="anthropic", api_key=API_KEY, base_url=api.url)
        made = await read_and_close(AnthropicModel("m", service))
        assert isinstance(made, Reply)
        made.end()
        check(made, HI)


def test_a_service_that_reports_too_few_tokens_does_not_make_the_window_endless() -> None:
    window = Window(1_000)
    asked = request({"role": "user", "content": [says("word " * 2_000)]})
    window.calibrate(asked, Usage(input_tokens=1))
    assert window.is_full(asked)


# -- refusals


@pytest.mark.parametrize(
    ("said", "lacks"),
    [
        (
            "tools.1: Input tag 'web_fetch_20250910' found using 'type' does not match any of the "
            "expected tags: 'bash_20250124', 'code_execution_20250825', 'web_search_20250305'",
            {"web_fetch"},
        ),
        ("tools.2.type: Input should be 'custom', 'web_search_20250305'", {"code_execution"}),
        ("'m' does not support tool types: web_fetch_20250910.", {"web_fetch"}),
        ("Tool 'web_search' is not supported with m.", {"web_search"}),
        ("Invalid value: 'web_fetch'. Supported values are: 'function', 'web_search'.",
         {"web_fetch"}),
        ("Supported tools: web_search, code_interpreter", {"web_fetch"}),
        ("web_search, web_fetch and code_execution are not available", set(ALL)),
        ("'loc': ('tools', 0), 'msg': \"Input should be 'function'\", 'input': 'web_search'",
         {"web_search"}),
        ("Invalid tool type: must be one of ['function'], got 'web_search'", {"web_search"}),
        ("Tool type must be 'function', not web_search.", {"web_search"}),
        ("model must be one of [gpt-5] to use web_search", {"web_search"}),
        ("messages.1.content.2: unexpected `tool_use_id` found in `code_execution_tool_result`",
         set()),
        ("Item 'ws_1' of type 'web_search_call' was provided without 'reasoning'", set()),
        ("tools.7.custom.name: String should match", set()),
        ("max_tokens: must be less than 4096", set()),
    ],
)  # fmt: skip
def test_only_the_tool_that_a_refusal_names_is_left_out(said: str, lacks: set[str]) -> None:
    assert learn_tools(Dialect(), said, ALL).no_server_tools == lacks


ABOUT_A_PICTURE = (
    "messages.0.content.1.image.source.base64.data: The image was specified using the image/png "
    "media type, but does not appear to be a valid png image",
    "Could not process image",
    "At least one of the image dimensions exceed max allowed size: 8000 pixels",
    "image exceeds 5 MB maximum: 5316852 bytes > 5242880 bytes",
    "You uploaded an unsupported image. Please make sure your image is valid.",
    "Unable to process input image.",
)


def pixel(data: str) -> Json:
    source = {"type": "base64", "media_type": "image/png", "data": data}
    return {"type": "image", "source": source}


PIXEL = pixel("AAAA")
MODELS: Mapping[str, Callable[..., Any]] = {
    "anthropic": AnthropicModel,
    "openai": OpenAIModel,
    "openai-responses": ResponsesModel,
}
FINE: Mapping[str, Json] = {
    "anthropic": {"type": "message", "content": [says("Hi.")]},
    "openai": json.loads(whole(content="Hi.")),
    "openai-responses": {
        "object": "response",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "Hi."}]}],
    },
}


@pytest.mark.parametrize("kind", MODELS)
async def test_a_refusal_that_names_a_picture_is_answered_without_pictures(kind: str) -> None:
    """The service does not say which one is wrong, so this set is not sent together again."""
    block = {"type": "tool_result", "tool_use_id": "aB3dE6gH9", "content": [says("Seen."), PIXEL]}
    call = {"type": "tool_use", "id": "aB3dE6gH9", "name": "look", "input": {}}
    asked = request(
        {"role": "user", "content": [says("Please."), PIXEL]},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [block]},
    )
    async with sequels(json.dumps(FINE[kind]).encode()) as service:
        dialects: dict[str, Dialect] = {}
        lab = Service(provider="lab", api_key="sk-x", base_url=service.url, dialects=dialects)
        for n, said in enumerate(ABOUT_A_PICTURE):
            service.refusals, service.requests = [said], []
            model = MODELS[kind](f"m{n}", lab)
            reply = Reply(1, Limits())
            events = [each async for event in model.stream(asked) for each in reply.feed(event)]
            assert reply.text == [says("Hi.")]
            (notice,) = [event for event in events if isinstance(event, Notice)]
            assert (notice.kind, notice.facts["count"]) == ("pictures-left-out", 1), said
            await read(model, asked)
            first, *others = ["AAAA" in json.dumps(body) for body in service.requests]
            assert (first, others) == (True, [False, False]), said
            await model.close()
        asked_with = (("ab", True, "", 1), ("a", False, "a", 0), ("abc", False, "c", 1))
        for pictures, refused, seen, notices in asked_with:
            blocks = [pixel(f"{each}" * 4) for each in pictures]
            asked_for = request({"role": "user", "content": [says("Please."), *blocks]})
            service.refusals, service.requests = [ABOUT_A_PICTURE[1]] * refused, []
            model = MODELS[kind]("all", lab)
            reply = Reply(1, Limits())
            told = [each async for event in model.stream(asked_for) for each in reply.feed(event)]
            assert sum(isinstance(each, Notice) for each in told) == notices
            sent = json.dumps(service.requests[-1])
            assert [each for each in "abc" if each * 4 in sent] == list(seen)
            await model.close()
        model = MODELS[kind]("other", lab)
        service.refusals, service.requests = ["top_k: must be less than 5"], []
        with pytest.raises(ModelError, match="top_k"):
            await read(model, asked)
        assert len(service.requests) == 1
        await model.close()


def test_there_are_as_many_quirks_as_the_contract_counts() -> None:
    assert len(STREAMS) + len(MESSAGES) + 1 == 93
