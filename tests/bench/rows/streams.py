"""G8, G9, G11 and G12: a turn's stream, from its first byte to Stop."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from statistics import median

from anthropic import Anthropic
from anthropic.types import RawMessageStreamEvent

from tests.bench.bench import Bench
from tests.bench.client import Client, ms, percentile
from tests.bench.figures import Curve, Figure, Measured
from tests.bench.model import ask
from tests.ui.conftest import write_notebook
from tests.waiting import eventually

PATH = "streams.ipynb"
WORDS = 8_000
PACED = 400
TIMES = 40
STOPS = 10
SLEEPING = """\
import time
try:
    print("sleeping", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted at", time.time())"""


class Sdk:
    """The official SDK alone, which reads the raw stream of the same model."""

    def __init__(self, bench: Bench) -> None:
        self._client = Anthropic(**bench.model, max_retries=0)

    def read(self, question: str) -> None:
        """Read all events."""
        for _ in self._events(question):
            pass

    def _events(self, question: str) -> Iterator[RawMessageStreamEvent]:
        return self._client.messages.create(
            model="claude-sonnet-5-5",
            max_tokens=8_000,
            messages=[{"role": "user", "content": question}],
            tools=[{"name": "create_cells", "input_schema": {"type": "object"}}],
            stream=True,
        )

    def delays(self, question: str) -> Iterator[float]:
        """Of the times in the deltas, until they were read."""
        for event in self._events(question):
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                yield from _since(event.delta.text)


def relay(bench: Bench) -> Iterator[Measured]:
    """A model's events to one of our clients, and to the SDK."""
    write_notebook(bench.lab, PATH, ["x = 1"])
    sdk = Sdk(bench)
    ours, floor = [], []
    for _ in range(5):
        short = ms(sdk.read, ask("words"))
        floor.append(ms(sdk.read, ask("words", WORDS)) - short)
        short = ms(_read, bench, ask("words"))
        ours.append(ms(_read, bench, ask("words", WORDS)) - short)
    yield Figure(
        what="relay of an event of the model, flat out",
        value=median(ours) * 1000 / WORDS,
        unit="µs",
        floors={"SDK": median(floor) * 1000 / WORDS},
        goal=2,
    )
    alone, relayed = [], []
    for _ in range(3):
        alone += sdk.delays(ask("times", PACED))
        relayed += _delays(bench.client.chat(ask("times", PACED), PATH))
    assert len(alone) == len(relayed), "some events are missing"
    for share, name, goal in ((0.5, "median", 0.2), (0.95, "95 %", None)):
        yield Figure(
            what=f"delay of an event of the model, one each 5 ms, {name}",
            value=percentile(relayed, share),
            floors={"SDK": percentile(alone, share)},
            judged="added",
            goal=goal,
        )


def inputs(bench: Bench) -> Iterator[Measured]:
    """A call with a large input, from the question to the call."""
    sdk = Sdk(bench)
    ours: dict[int, float] = {}
    floor: dict[int, float] = {}
    for size in (1, 100, 10_000, 100_000, 200_000, 400_000):
        write_notebook(bench.lab, PATH, ["x = 1"])
        question = ask("input", size)
        ours[size] = median(_until_call(bench, question) for _ in range(3))
        floor[size] = median(ms(sdk.read, question) for _ in range(3))
    base = ours[1], floor[1]
    for size in (200_000, 400_000):
        yield Figure(
            what=f"input of a tool of {size // 1000} kB",
            value=ours[size] - base[0],
            floors={"SDK": floor[size] - base[1]},
            goal=2,
        )
    yield Curve(
        what="question to call, by the size of its input",
        size="characters",
        lines={"ours": ours, "SDK": floor},
    )


def first_byte(bench: Bench) -> Iterator[Measured]:
    """The first byte after `POST chat`, which comes when the turn is stored."""
    write_notebook(bench.lab, PATH, ["x = 1"])
    client, ours, status = bench.client, [], []
    for _ in range(TIMES):
        status.append(ms(client.call, "GET", "api/status"))
        start = time.perf_counter()
        answer = client.chat(ask("words"), PATH)
        answer.read(1)
        ours.append((time.perf_counter() - start) * 1000)
        answer.read()
    yield Figure(
        what="first byte after `POST chat`, with the turn stored",
        value=median(ours),
        floors={"status request": median(status)},
        goal=2,
    )


def stop(bench: Bench) -> Iterator[Measured]:
    """Stop, until the stream has ended and until the kernel is interrupted."""
    write_notebook(bench.lab, PATH, ["x = 1", SLEEPING])
    ends, interrupts = [], []
    for number in range(STOPS):
        conversation = f"stop{number}"
        stream = Client(bench.lab).chat(ask("endless"), PATH, id=conversation)
        stream.read(2_000)
        ends.append(_stopped(bench, conversation, stream)[1])
        conversation = f"interrupt{number}"
        stream = Client(bench.lab).chat(ask("run", 1), PATH, id=conversation)
        eventually(lambda: _output(bench), lambda text: text.endswith("sleeping\n"))
        began, _ = _stopped(bench, conversation, stream)
        text = eventually(lambda: _output(bench), lambda text: "interrupted at" in text)
        interrupts.append(float(text.split("interrupted at")[1]) * 1000 - began)
    yield Figure(
        what="Stop until the stream has ended", value=median(ends), judged="value", goal=200
    )
    yield Figure(
        what="Stop until the kernel is interrupted",
        value=median(interrupts),
        judged="value",
        goal=50,
    )


def _read(bench: Bench, question: str) -> None:
    bench.client.chat(question, PATH).read()


def _until_call(bench: Bench, question: str) -> float:
    start = time.perf_counter()
    answer = Client(bench.lab).chat(question, PATH)
    for line in answer:
        if b'"tool-input-available"' in line:
            took = (time.perf_counter() - start) * 1000
            answer.read()
            return took
    raise AssertionError("the stream ended without the call")


def _delays(answer: http.client.HTTPResponse) -> Iterator[float]:
    for line in answer:
        if b'"text-delta"' in line:
            yield from _since(json.loads(line.removeprefix(b"data: "))["delta"])


def _since(times: str) -> Iterator[float]:
    """Milliseconds since each of these times."""
    now = time.time()
    yield from ((now - float(sent)) * 1000 for sent in times.split())


def _stopped(
    bench: Bench, conversation: str, stream: http.client.HTTPResponse
) -> tuple[float, float]:
    """When Stop was sent, in milliseconds since 1970, and how long the stream lasted then."""
    ended: list[float] = []

    def read() -> None:
        stream.read()
        ended.append(time.time() * 1000)

    reading = threading.Thread(target=read)
    reading.start()
    began = time.time() * 1000
    bench.client.agent("POST", f"chat/{conversation}/stop")
    reading.join()
    return began, ended[0] - began


def _output(bench: Bench) -> str:
    """What the cell has printed."""
    cells = bench.client.agent("GET", f"notebooks/{PATH}")["cells"]
    return "".join(output.get("text", "") for output in cells[1].get("outputs", ()))
