"""Servers behind a URL: both eras, strictly, and failures on the way."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest

from jupyter_agent.plugs.mcp.messages import McpError
from tests.waiting import until

from .conftest import Clock, at, call, said, servers
from .fake import META, NEW, OLD, Exchange, Fake, serving, text

pytestmark = pytest.mark.plugs
ERAS = pytest.mark.parametrize("era", ["new", "old"])


def only(era: str, **more: Any) -> Fake:
    return Fake(new=era == "new", old=era == "old", **more)


def doing(does: Any, era: str = "", **more: Any) -> Fake:
    """A server of one era, or both, with a tool `work` of this behaviour or result."""
    fake = only(era) if era else Fake()
    fake.add("work", does, **more)
    return fake


async def never(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
    await asyncio.Event().wait()


async def test_the_newer_era_is_tried_first_and_each_request_says_all() -> None:
    fake = Fake()
    fake.add("greet", text("Hello"))
    async with at(fake) as made:
        assert said(await call(made, "greet", name="Ada")) == "Hello"
        assert made.describe()[0].version == NEW
    assert fake.methods() == ["server/discover", "tools/list", "tools/call"]
    assert fake.calls()[0]["arguments"] == {"name": "Ada"}
    assert fake.headers[-1]["Mcp-Name"] == "greet"
    told = {"protocolVersion", "clientCapabilities", "clientInfo"}
    assert fake.calls()[0]["_meta"].keys() == {f"{META}{key}" for key in told} | {"progressToken"}


async def test_where_it_is_not_spoken_a_session_is_begun_and_ended() -> None:
    fake = only("old")
    fake.add("greet", text("Hello"))
    async with at(fake) as made:
        assert said(await call(made, "greet")) == "Hello"
        assert made.describe()[0].version == OLD
    assert fake.methods() == [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
    ]
    assert {each.get("Mcp-Session-Id") for each in fake.headers[2:]} == {"session-1"}
    assert fake.ended == ["session-1"]


async def test_an_older_version_that_the_server_chooses_is_spoken() -> None:
    fake = only("old")
    fake.version = "2025-06-18"
    async with at(fake) as made:
        assert made.describe()[0].version == "2025-06-18"


async def test_a_version_that_nobody_knows_is_told() -> None:
    fake = only("old")
    fake.version = "1999-01-01"
    async with serving(fake), servers({"s": {"url": fake.url}}) as made:
        assert await made.fetch_offers() == []
        assert made.faults() == ["MCP server `s`: no MCP version in common."]


@ERAS
async def test_all_pages_of_tools_are_read(era: str) -> None:
    fake = only(era)
    fake.page_size = 2
    for n in range(5):
        fake.add(f"t{n}", text("."))
    async with at(fake) as made:
        assert [offer.tool for offer in await made.fetch_offers()] == ["t0", "t1", "t2", "t3", "t4"]


@ERAS
async def test_a_list_without_an_end_is_read_to_a_bound(era: str) -> None:
    fake = only(era)
    fake.add("t", text("."))
    pages = iter(range(10_000))
    fake.page = lambda cursor: {"tools": fake.tools, "nextCursor": str(next(pages))}  # type: ignore[method-assign]
    async with at(fake) as made:
        assert [offer.tool for offer in await made.fetch_offers()] == ["t"]
    assert fake.methods().count("tools/list") == 20


@ERAS
async def test_a_stream_with_progress_is_followed_to_its_answer(era: str) -> None:
    async def works(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
        for n in range(3):
            await exchange.progress(n)
        await exchange.say("no message", event="noise")
        return text("worked")

    async with at(doing(works, era)) as made:
        assert said(await call(made, "work")) == "worked"


async def test_of_all_servers_together_models_get_what_they_can_take() -> None:
    one, other = Fake(), Fake()
    for n in range(70):
        one.add(f"t{n}", text("."))
        other.add(f"t{n}", text("."))
    async with serving(one), serving(other):
        async with servers({"a": {"url": one.url}, "b": {"url": other.url}}) as made:
            names = [offer.name for offer in await made.fetch_offers()]
            assert len(set(names)) == len(names) == 100
            assert made.faults() == [
                "40 tools of MCP servers are left out: models take 100 of them. "
                "Choose with `tools` in `mcp_servers`."
            ]


async def test_signs_of_progress_keep_a_call_alive_beyond_its_timeout(clock: Clock) -> None:
    async def works(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
        for n in range(3):
            await exchange.progress(n)
            await exchange.say({"jsonrpc": "2.0", "id": f"q{n}", "method": "ping", "params": {}})
            await until(lambda: len(fake.answers()) > n)  # noqa: B023  read in this turn of it
            clock.skip(20)
        return text("worked")

    fake = doing(works, "old")
    async with at(fake, timeout=30) as made:
        assert said(await call(made, "work")) == "worked"


@ERAS
async def test_a_server_that_never_answers_is_given_up(era: str) -> None:
    async with at(doing(never, era), timeout=0.5) as made:
        with pytest.raises(McpError, match=r"within 0\.5 s; whether it carried out"):
            await call(made, "work")


@ERAS
async def test_a_cancelled_call_is_cancelled_there_too(era: str) -> None:
    fake = doing(never, era)
    async with at(fake) as made:
        calling = asyncio.create_task(call(made, "work"))
        await fake.began.wait()
        calling.cancel()
        await asyncio.wait([calling])
        async with asyncio.timeout(30):
            await (fake.left if era == "new" else fake.cancelled).wait()
        told = [each for each in fake.received if each.get("method") == "notifications/cancelled"]
        number = next(each["id"] for each in fake.received if each.get("method") == "tools/call")
        assert [each["params"]["requestId"] for each in told] == ([] if era == "new" else [number])


async def test_a_session_that_ended_is_begun_again_and_the_call_repeated() -> None:
    fake = only("old")
    fake.add("greet", text("Hello"))
    async with at(fake) as made:
        fake.sessions.clear()
        assert said(await call(made, "greet")) == "Hello"
    assert fake.methods()[-4:] == [
        "tools/call",
        "initialize",
        "notifications/initialized",
        "tools/call",
    ]
    assert fake.ended == ["session-2"]


async def test_a_session_that_ended_is_begun_again_once_for_all_calls() -> None:
    fake = only("old")
    fake.add("greet", text("Hello"))
    async with at(fake) as made:
        offer = await made.current("s", "greet")
        assert offer is not None
        fake.sessions.clear()
        results = await asyncio.gather(*(made.call(offer, {"n": n}) for n in range(5)))
        assert [said(result) for result in results] == ["Hello"] * 5
    assert fake.methods().count("initialize") == 2
    assert len(fake.ended) == 1


async def test_a_session_whose_answers_are_all_streams_is_begun_again() -> None:
    """As a server of the official SDK answers."""
    fake = only("old")
    fake.add("greet", text("Hello"))

    def streams(exchange: Exchange, reply: Mapping[str, Any], id: Any = ...) -> None:
        exchange.set_header("Content-Type", "text/event-stream")
        message = {"jsonrpc": "2.0", "id": exchange.message["id"], **reply}
        exchange.finish(f"event: message\r\ndata: {json.dumps(message)}\r\n\r\n")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Exchange, "_finish_with", streams)
        async with at(fake) as made:
            assert said(await call(made, "greet")) == "Hello"
            fake.sessions.clear()
            assert said(await call(made, "greet")) == "Hello"
    assert fake.ended == ["session-2"]


@pytest.mark.full
async def test_a_stream_that_was_closed_early_is_asked_for_again() -> None:
    async def closes(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
        await exchange.say("", id="e1")
        exchange.finish()

    fake = doing(closes, "old")
    async with at(fake) as made:
        number = 4  # after discover, initialize, tools/list
        done = {"jsonrpc": "2.0", "id": number, "result": text("worked")}
        other = {"jsonrpc": "2.0", "id": 77, "result": text("somebody else's")}
        fake.rest = [[("e2", other)], [("e3", done)]]
        assert said(await call(made, "work")) == "worked"
    assert fake.resumed == ["e1", "e2"]


@ERAS
async def test_a_call_that_was_turned_away_for_now_is_tried_again(era: str) -> None:
    fake = only(era)
    fake.add("greet", text("Hello"))
    async with at(fake) as made:
        fake.statuses = [(429, {"Retry-After": "0"}), (503, {"Retry-After": "0"})]
        assert said(await call(made, "greet")) == "Hello"
        fake.statuses = [(429, {"Retry-After": "0"})] * 3
        with pytest.raises(McpError, match="HTTP status 429"):
            await call(made, "greet")
        fake.statuses = [(503, {"Retry-After": "3600"})]
        with pytest.raises(McpError, match="HTTP status 503"):
            await call(made, "greet")


@ERAS
@pytest.mark.parametrize("status", [500, 502, 504])
async def test_a_call_that_may_have_been_done_is_not_repeated(era: str, status: int) -> None:
    fake = only(era)
    fake.add("greet", text("Hello"))
    async with at(fake) as made:
        fake.statuses = [(status, {})]
        with pytest.raises(McpError, match=f"HTTP status {status}"):
            await call(made, "greet")
    assert fake.methods().count("tools/call") == 1


async def test_a_refused_token_is_told_and_a_right_one_is_sent() -> None:
    fake = Fake(token="tok-12345678")
    fake.add("greet", text("Hello"))
    async with serving(fake), servers({"s": {"url": fake.url}}) as made:
        assert await made.fetch_offers() == []
        (fault,) = made.faults()
        assert "rejected our credentials (HTTP status 401): see its `headers`" in fault
    assert fake.methods() == ["server/discover"]
    given = {"headers": {"Authorization": {"env": "FAKE_AUTH"}}}
    environment = {"FAKE_AUTH": "Bearer tok-12345678"}
    async with (
        serving(fake),
        servers({"s": {"url": fake.url, **given}}, environment=environment) as made,
    ):
        assert [offer.tool for offer in await made.fetch_offers()] == ["greet"]
        assert {"tok-12345678", "Bearer tok-12345678"} <= made.secrets()


async def test_a_redirect_is_not_followed() -> None:
    fake, thief = Fake(), Fake()
    async with serving(thief), serving(fake), servers({"s": {"url": fake.url}}) as made:
        fake.statuses = [(307, {"Location": thief.url})] * 2
        assert await made.fetch_offers() == []
        assert "redirects, which is not followed" in made.faults()[0]
    assert thief.headers == []


async def test_a_redirect_within_the_server_is_not_followed_either() -> None:
    fake = Fake()
    async with serving(fake), servers({"s": {"url": fake.url}}) as made:
        fake.statuses = [(308, {"Location": "/mcp"})] * 2
        assert await made.fetch_offers() == []
        assert "redirects, which is not followed" in made.faults()[0]
    assert len(fake.received) == 2


@pytest.mark.full
async def test_nobody_there_is_told() -> None:
    async with serving(Fake()) as fake:
        url = fake.url
    async with servers({"s": {"url": url}}) as made:
        assert await made.fetch_offers() == []
        assert made.faults()[0].startswith("MCP server `s`: it cannot be reached (")


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (b"", "invalid JSON"),
        (b"{", "invalid JSON"),
        (b"[]", "invalid MCP message"),
        (b"[" * 100_000, "invalid JSON"),
        (b'{"jsonrpc": "2.0", "id": NaN}', "invalid JSON"),
        (b"\xff\xfe", "invalid JSON"),
        (b'{"jsonrpc": "2.0", "id": 999, "result": {}}', "came instead of an MCP answer"),
        (b'{"jsonrpc": "2.0", "id": true, "result": {}}', "came instead of an MCP answer"),
        (b'{"jsonrpc": "2.0", "id": 3}', "neither a result nor an error"),
        (b'{"jsonrpc": "2.0", "id": 3, "result": 7}', "neither a result nor an error"),
        (b'{"jsonrpc": "2.0", "id": 3, "error": {"message": "\\u001b[31mno\\nno"}}', "^no no$"),
        (b"[" + b" " * 9 * 2**20, "larger than 8 MiB"),
    ],
)
async def test_what_is_no_answer_fails_the_call_and_nothing_else(answer: bytes, match: str) -> None:
    async def odd(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
        return answer

    await fails_alone(odd, match)


async def fails_alone(odd: Any, match: str) -> None:
    """Asserts that this one call fails and is not repeated."""
    fake = doing(odd)
    fake.add("greet", text("Hello"))
    async with at(fake) as made:
        with pytest.raises(McpError, match=match):
            await call(made, "work")
        assert said(await call(made, "greet")) == "Hello"
    assert len(fake.calls()) == 2


@pytest.mark.parametrize(
    ("status", "body", "match"),
    [
        (400, {"jsonrpc": "2.0", "id": 3, "error": {"code": -32602, "message": "odd"}}, "^odd$"),
        (404, {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "odd"}}, "^odd$"),
        (500, {"detail": "odd"}, "HTTP status 500"),
    ],
)
async def test_a_reason_that_comes_with_a_status_is_told(
    status: int, body: dict[str, Any], match: str
) -> None:
    async def odd(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
        exchange.set_status(status)
        return json.dumps(body).encode()

    await fails_alone(odd, match)


async def ends_early(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
    await exchange.progress(1)
    exchange.finish()


async def shows_a_page(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
    exchange.set_header("Content-Type", "text/html; charset=utf-8")
    exchange.finish("<html>Log in</html>")


async def packs(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
    assert exchange.request.headers["Accept-Encoding"] == "identity"
    exchange.set_header("Content-Encoding", "gzip")
    return b"\x1f\x8b"


async def writes_on(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
    exchange.set_header("Content-Type", "text/event-stream")
    while not exchange.fake.left.is_set():
        exchange.write(f"data: {'x' * 2**20}\n")
        await asyncio.wait([asyncio.ensure_future(exchange.flush())])


async def never_gets_to_the_point(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
    while not exchange.fake.left.is_set():
        await exchange.say("x" * 2**20, event="noise")


async def asks_and_asks(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
    asked = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(1000)]
    exchange.set_header("Content-Type", "text/event-stream")
    exchange.write("".join(f"data: {json.dumps(each)}\n\n" for each in asked))
    await exchange.flush()
    await exchange.say({"jsonrpc": "2.0", "id": exchange.message["id"], "result": text("asked")})
    exchange.finish()


async def test_more_questions_than_are_answered_at_once_are_dropped() -> None:
    fake = doing(asks_and_asks, "old")
    async with at(fake) as made:
        assert said(await call(made, "work")) == "asked"
        assert said(await call(made, "work")) == "asked"
        await until(lambda: len(fake.answers()) >= 8)
    assert len(fake.answers()) < 500


@pytest.mark.parametrize(
    ("does", "match"),
    [
        pytest.param(never_gets_to_the_point, "larger than", marks=pytest.mark.full),
        (ends_early, "was incomplete"),
        (shows_a_page, "a web page came"),
        (packs, "unexpected Content-Encoding"),
        (writes_on, "larger than 8 MiB"),
    ],
)
async def test_a_stream_that_is_none_or_never_ends_is_given_up(does: Any, match: str) -> None:
    await fails_alone(does, match)


@pytest.mark.parametrize("surrogate", ["\\ud800", "\\uDFFF"])
async def test_half_a_character_is_replaced(surrogate: str) -> None:
    async def odd(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
        number = exchange.message["id"]
        reply = {"jsonrpc": "2.0", "id": number, "result": text("a<half>b")}
        return json.dumps(reply).replace("<half>", surrogate).encode()

    async with at(doing(odd)) as made:
        assert said(await call(made, "work")) == "a\N{REPLACEMENT CHARACTER}b"


async def test_questions_of_a_session_are_declined() -> None:
    async def asks(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
        for id, method in enumerate(["elicitation/create", "sampling/createMessage", "ping"]):
            await exchange.say({"jsonrpc": "2.0", "id": f"q{id}", "method": method, "params": {}})
        await until(lambda: len(fake.answers()) == 3)
        return text("asked")

    fake = doing(asks, "old")
    async with at(fake) as made:
        assert said(await call(made, "work")) == "asked"
    answers = fake.answers()
    assert answers["q0"]["result"] == {"action": "decline"}
    assert answers["q1"]["error"]["code"] == -32601
    assert answers["q2"]["result"] == {}


async def test_questions_of_the_newer_era_are_declined_with_the_servers_state() -> None:
    async def asks(exchange: Exchange, arguments: Mapping[str, Any]) -> Any:
        params = exchange.message["params"]
        if "inputResponses" not in params:
            form = {"method": "elicitation/create", "params": {"message": "Sure?"}}
            asked = {"inputRequests": {"sure": form}, "requestState": "st"}
            return {"resultType": "input_required", **asked}
        return text(f"{params['inputResponses']['sure']['action']}, {params['requestState']}")

    fake = doing(asks, "new")
    async with at(fake) as made:
        assert said(await call(made, "work", n=1)) == "decline, st"
    assert [each["arguments"] for each in fake.calls()] == [{"n": 1}, {"n": 1}]


@pytest.mark.parametrize(
    ("result", "match"),
    [
        (
            {"resultType": "input_required", "inputRequests": {"m": {"method": "roots/list"}}},
            "requested something unsupported",
        ),
        ({"resultType": "input_required", "requestState": "again"}, "keeps asking"),
        ({"resultType": "task", "task": {}}, "unsupported type of result"),
    ],
)
async def test_what_we_do_not_give_ends_the_call(result: dict[str, Any], match: str) -> None:
    fake = doing(result, "new")
    async with at(fake) as made:
        with pytest.raises(McpError, match=match):
            await call(made, "work")
    assert fake.methods().count("tools/call") <= 5


async def test_arguments_that_are_wanted_as_headers_are_sent_so() -> None:
    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}},
            "bad": {"type": "string", "x-mcp-header": "X\r\nEvil: 1"},
        },
    }
    fake = doing(text("."), "new", inputSchema=schema)
    async with at(fake) as made:
        await call(made, "work", region="Köln", deep={"on": True}, bad="x")
    sent = fake.headers[-1]
    encoded = base64.b64encode("Köln".encode()).decode()
    assert sent["Mcp-Param-Region"] == f"=?base64?{encoded}?="
    assert sent["Mcp-Param-On"] == "true"
    assert "Evil" not in sent


async def test_a_name_that_is_no_header_is_sent_as_one() -> None:
    name = "größe\r\nEvil: 1"
    fake = only("new")
    fake.add(name, text("."))
    async with serving(fake), servers({"s": {"url": fake.url}}) as made:
        (offer,) = await made.fetch_offers()
        with pytest.raises(McpError, match="Mcp-Name: =[?]base64[?]"):  # a message of this fake
            await made.call(offer, {})
    assert "Evil" not in fake.headers[-1]


async def test_a_server_that_is_slow_to_start_does_not_hold_up_the_question() -> None:
    fake = Fake()
    fake.add("greet", text("Hello"))
    gate = asyncio.Event()

    async with serving(fake), servers({"s": {"url": fake.url}}, patience=0.2) as made:

        async def held(exchange: Exchange, method: str, params: Any) -> None:
            await gate.wait()
            await answer(exchange, method, params)

        answer = Exchange._answer
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Exchange, "_answer", held)
            assert await made.fetch_offers() == []
            assert made.faults() == ["MCP server `s`: still starting."]
            gate.set()
            async with asyncio.timeout(30):
                while not await made.fetch_offers():
                    pass
        assert made.faults() == []
