"""Pairs of stored and fresh outputs, each with its correct verdict."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from jupyter_agent.document.cell import Output

TODAY = f"{datetime.now(UTC) - timedelta(minutes=30):%Y-%m-%d}"
"""Half an hour before the comparison, possibly on the day before."""
WHITE = (255, 255, 255)
Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Pair:
    """Stored outputs, those of a fresh run, and those of a second one."""

    name: str
    truth: str
    stored: Sequence[Output]
    fresh: Sequence[Output]
    again: Sequence[Output]
    source: str = ""
    anew: bool = False
    """Whether something differs in every run, which the verdict has to say."""


def stream(text: str, name: str = "stdout") -> Output:
    return {"output_type": "stream", "name": name, "text": text}


def display(**data: Any) -> Output:
    named = {kind.replace("__", "/"): value for kind, value in data.items()}
    return {"output_type": "display_data", "data": named, "metadata": {}}


def bundle(kind: str, value: Any) -> Output:
    return {"output_type": "display_data", "data": {kind: value}, "metadata": {}}


def png(
    paint: Callable[[int, int], Colour], width: int = 160, height: int = 120, note: bytes = b""
) -> str:
    """A PNG in base64; `note` is text in the file that is not visible."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        )

    rows = b"".join(
        b"\0" + bytes(value for x in range(width) for value in paint(x, y)) for y in range(height)
    )
    parts = [chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))]
    parts += [chunk(b"tEXt", b"Software\0" + note)] if note else []
    parts += [chunk(b"IDAT", zlib.compress(rows, 1 if note else 9)), chunk(b"IEND", b"")]
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode()


def line(
    slope: float, colour: Colour = (31, 119, 180), shift: int = 0
) -> Callable[[int, int], Colour]:
    """A line plot."""

    def paint(x: int, y: int) -> Colour:
        on = 16 < x < 150 and abs((x - 16) * slope + 10 + shift - (119 - y)) <= 1.5
        return colour if on else WHITE

    return paint


def bars(*heights: int, colour: Colour = (31, 119, 180)) -> Callable[[int, int], Colour]:
    """A bar chart."""

    def paint(x: int, y: int) -> Colour:
        place, within = divmod(x, 160 // len(heights))
        high = place < len(heights) and 119 - y < heights[place]
        return colour if high and within > 4 else WHITE

    return paint


def blank(x: int, y: int) -> Colour:
    return WHITE


def drawn(paint: Callable[[int, int], Colour], **more: Any) -> list[Output]:
    data = {"image/png": png(paint, **more), "text/plain": "<Figure size 160x120 with 1 Axes>"}
    return [{"output_type": "display_data", "data": data, "metadata": {}}]


def svg(points: str, ident: str = "a") -> list[Output]:
    return [
        bundle(
            "image/svg+xml",
            f'<svg width="10pt" height="9pt">\n<clipPath id="p{ident}"/>\n'
            f'<path d="{points}" clip-path="url(#p{ident})"/>\n</svg>',
        )
    ]


def plotly(y: Any, title: str = "t", **layout: Any) -> list[Output]:
    figure = {
        "data": [{"type": "scatter", "x": [1, 2, 3], "y": y}],
        "layout": {"title": {"text": title}, **layout},
    }
    return [bundle("application/vnd.plotly.v1+json", figure)]


def vega(values: list[float], mark: str = "bar") -> list[Output]:
    data = {"values": [{"a": place, "b": value} for place, value in enumerate(values)]}
    return [bundle("application/vnd.vegalite.v5+json", {"mark": mark, "data": data})]


def packed(*values: float) -> dict[str, str]:
    """An array in the format of plotly 6."""
    return {
        "dtype": "f8",
        "bdata": base64.b64encode(struct.pack(f"<{len(values)}d", *values)).decode(),
    }


def frame(*rows: tuple[Any, ...]) -> list[Output]:
    body = "".join(
        f"<tr><th>{place}</th>{''.join(f'<td>{item}</td>' for item in row)}</tr>"
        for place, row in enumerate(rows)
    )
    page = (
        '<div><style scoped>.dataframe tbody tr th { color: red }</style><table border="1" '
        f'class="dataframe"><thead><tr><th></th><th>a</th></tr></thead><tbody>{body}</tbody></table></div>'
    )
    return [display(text__html=page, text__plain="\n".join(map(str, rows)))]


CARD = """\
<style>#{a} {{ color: #fade00; }} @media print {{ #{a}.card > b {{ color: red }} }}</style>
<div id="{a}" class="card"><input id="{b}" aria-labelledby="{c} {a}" type="checkbox">
<label for="{b}" id="{c}">Model</label><a href="#{d}">{text}</a></div>
<script>fold('{a}'); $("#{b}");</script>"""
"""HTML like that of scikit-learn and pandas styles, with a counter in its ids."""


def card(a: str, b: str, c: str, d: str | None = None, text: str = "1 &lt; 2") -> list[Output]:
    page = CARD.format(a=a, b=b, c=c, d=d or c, text=text)
    return [display(text__html=page, text__plain="Model()")]


def widget(model_id: str) -> Output:
    return bundle("application/vnd.jupyter.widget-view+json", {"model_id": model_id})


def text(
    name: str, truth: str, stored: str, fresh: str, again: str | None = None, **more: Any
) -> Pair:
    again = fresh if again is None else again
    return Pair(name, truth, *([stream(each)] for each in (stored, fresh, again)), **more)


def shown(
    name: str,
    truth: str,
    stored: Sequence[Output],
    fresh: Sequence[Output],
    again: Sequence[Output] | None = None,
    **more: Any,
) -> Pair:
    return Pair(name, truth, stored, fresh, fresh if again is None else again, **more)


KERAS = "313/313 ━━━━━━━━━━━━━━━━━━━━ {took} {step}/step - accuracy: 0.87 - loss: {loss}\n"
TQDM = "100%|██████████| 100/100 [00:0{s}<00:00, {rate}it/s]"
TIMED = "import time\nt = time.perf_counter()\nwork()\nprint(time.perf_counter() - t)"

PAIRS = [
    # -- results that changed
    text("accuracy of two digits", "differs", "accuracy 0.91", "accuracy 0.92"),
    text("shape", "differs", "(100, 3)", "(101, 3)"),
    text("whole number", "differs", "100000001", "100000002"),
    text("sign", "differs", "-1.0", "1.0"),
    text("version", "differs", "version 1.2.3", "version 1.2.4"),
    text("date in the data", "differs", "2020-01-01", "2020-01-02"),
    text("decade", "differs", "born in the 1980s", "born in the 1990s"),
    text(
        "checksum",
        "differs",
        "d41d8cd98f00b204e9800998ecf8427e",
        "0cc175b9c0f1b6a831c399e269772661",
    ),
    text("hexadecimal value", "differs", "0xdeadbeef", "0xcafebabe"),
    text("small p", "differs", "p = 1e-9", "p = 9e-9"),
    text("not a number", "differs", "nan", "0.5"),
    text("hours worked", "differs", "worked 12 hours", "worked 40 hours"),
    text("mean delay", "differs", "mean delay: 5 minutes", "mean delay: 45 minutes"),
    text("lap times", "differs", "lap 1: 61.2 s", "lap 1: 75.9 s"),
    text("text histogram", "differs", "A ██████ 6\nB ███ 3", "A ███ 3\nB ██████ 6"),
    text("bars of text alone", "differs", "A ██████", "A ███"),
    text("table with percents and bars", "differs", "50%|a|\n50%|b|", "40%|a|\n60%|b|"),
    text(
        "loss at a progress bar",
        "differs",
        KERAS.format(took="2s", step="5ms", loss=0.5),
        KERAS.format(took="1s", step="4ms", loss=9.5),
        KERAS.format(took="1s", step="3ms", loss=9.5),
    ),
    text("items processed", "differs", "process 5 items", "process 9 items"),
    text("port in a setting", "differs", "url = localhost:8080", "url = localhost:9090"),
    text("temporary path that is fixed", "differs", "wrote /tmp/a.csv", "wrote /tmp/b.csv"),
    text("large whole number", "differs", "total 140234987650000", "total 139999912345678"),
    text("indentation of YAML", "differs", "a:\n  b: 1\n  c: 2", "a:\n  b: 1\nc: 2"),
    text("blank line", "differs", "a\n\nb", "a\nb"),
    text("line at the end", "differs", "a\nb", "a"),
    text("more lines", "differs", "a", "a\nb"),
    text("value in a dict", "differs", "{'a': 1}", "{'a': 2}"),
    text("member of a set", "differs", "found {'a', 'b'}", "found {'c', 'a'}", "found {'a', 'c'}"),
    text(
        "result beside a volatile time",
        "differs",
        "rmse 0.5 at 10:00:01",
        "rmse 0.7 at 11:00:02",
        "rmse 0.7 at 11:00:09",
    ),
    text("result beside an address", "differs", "<A at 0x7f3a2b> 1", "<A at 0x7f3a2c> 2"),
    text(
        "value beside a random one in a dict",
        "differs",
        "{'id': 'x1', 'n': 3}",
        "{'id': 'q7', 'n': 4}",
        "{'id': 'k2', 'n': 4}",
    ),
    text("order of a list", "differs", "[1, 2, 3]", "[3, 1, 2]"),
    text("days", "differs", "Timedelta 3 days", "Timedelta 4 days"),
    text("clock in a timetable", "differs", "departs 10:15", "departs 10:45"),
    text("long line", "differs", "[" * 5_000 + "1.00001", "[" * 5_000 + "1.20002"),
    text("count of threads' lines", "differs", "ready\na\nb", "go\na\nb\nb", "go\nb\na"),
    shown("stream of another name", "differs", [stream("a")], [stream("a", "stderr")]),
    shown("other data, same kind of plot", "differs", drawn(line(0.4)), drawn(line(0.8))),
    shown("a line became bars", "differs", drawn(line(0.5)), drawn(bars(20, 60, 90))),
    shown("a blank canvas", "differs", drawn(line(0.5)), drawn(blank)),
    shown("bars in another order", "differs", drawn(bars(20, 60, 90)), drawn(bars(90, 20, 60))),
    shown(
        "colour of the same brightness",
        "differs",
        drawn(bars(60, 90, colour=(200, 60, 60))),
        drawn(bars(60, 90, colour=(60, 124, 88))),
    ),
    shown("size", "differs", drawn(blank), drawn(blank, width=200)),
    shown(
        "result below a volatile title",
        "differs",
        drawn(bars(20, 60)),
        drawn(bars(60, 20)),
        drawn(lambda x, y: (9, 9, 9) if y < 8 and x < 30 else bars(60, 20)(x, y)),
    ),
    shown("picture gone", "differs", drawn(blank), [display(text__plain="x")]),
    shown("SVG of other data", "differs", svg("M 0 0 L 5 5"), svg("M 0 0 L 5 9")),
    shown(
        "SVG of other data, other ids",
        "differs",
        svg("M 0 0 L 5 5", "1a"),
        svg("M 0 0 L 5 9", "2b"),
        svg("M 0 0 L 5 9", "3c"),
    ),
    shown(
        "JPEG of other bytes",
        "differs",
        [bundle("image/jpeg", "/9j/4AAQ")],
        [bundle("image/jpeg", "/9j/4AAR")],
    ),
    shown("plotly of other data", "differs", plotly([1, 2, 3]), plotly([3, 1, 2])),
    shown("plotly title", "differs", plotly([1, 2, 3]), plotly([1, 2, 3], "u")),
    shown("plotly, packed", "differs", plotly(packed(1, 2, 3)), plotly(packed(1, 2, 4))),
    shown("Vega of other data", "differs", vega([1, 2, 3]), vega([3, 1, 2])),
    shown("Vega with another mark", "differs", vega([1, 2]), vega([1, 2], "line")),
    shown(
        "JSON",
        "differs",
        [bundle("application/json", {"a": [1]})],
        [bundle("application/json", {"a": [2]})],
    ),
    shown("data frame", "differs", frame((1, "x"), (2, "y")), frame((1, "x"), (3, "y"))),
    shown(
        "script in a page",
        "differs",
        [
            display(
                text__html="<div></div><script>draw([1, 2])</script>", text__plain="<HTML object>"
            )
        ],
        [
            display(
                text__html="<div></div><script>draw([2, 1])</script>", text__plain="<HTML object>"
            )
        ],
    ),
    shown("page, other ids", "differs", card("a", "b", "c"), card("d", "e", "f", text="1 &lt; 3")),
    shown("link to another part", "differs", card("a", "b", "c"), card("d", "e", "f", "e")),
    shown("link to another page", "differs", card("a", "b", "c", "x"), card("d", "e", "f", "y")),
    shown("link out of the page", "differs", card("a", "b", "c"), card("d", "e", "f", "c")),
    shown("two parts of one id", "differs", card("a", "b", "c"), card("d", "d", "f")),
    shown(
        "colour that is an id, too",
        "differs",
        card("a", "b", "fade00"),
        [
            display(
                text__html=CARD.format(a="a", b="b", c="c", d="c", text="1 &lt; 2").replace(
                    "#fade00", "#c"
                ),
                text__plain="Model()",
            )
        ],
    ),
    shown("missing result", "differs", [display(text__plain="1")], []),
    shown("new result", "differs", [], [display(text__plain="1")]),
    shown(
        "no error any more",
        "differs",
        [{"output_type": "error", "ename": "E", "evalue": "x", "traceback": []}],
        [],
    ),
    # -- results that are close
    text("accuracy in the fourth digit", "close", "accuracy 0.9123", "accuracy 0.9129"),
    text("total", "close", "total 12345.67", "total 12351.20"),
    text("fewer digits", "close", "0.66667", "0.6666666666666666"),
    text("noise around zero", "close", "[ 1.  -2.5e-17]", "[1. 3e-18]"),
    text("order of a dict", "close", "{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
    shown("plotly, close", "close", plotly([1.0, 2.0, 3.0]), plotly([1.0, 2.0001, 3.0])),
    shown(
        "a colour a touch off",
        "close",
        drawn(bars(60, 90)),
        drawn(bars(60, 90, colour=(33, 120, 180))),
    ),
    # -- the same
    text("nothing", "same", "", ""),
    text("rounding", "same", "x = 0.30000000000000004", "x = 0.3"),
    text("padding of columns", "same", "a   b\n1   2", "a b\n1 2\n"),
    text("set", "same", "{'a', 'b', 'c'}", "{'c', 'a', 'b'}"),
    text("set in a line", "same", "found {'a', 'b'} here", "found {'b', 'a'} here"),
    text("address of an object", "same", "<a.B object at 0x7f3a>", "<a.B object at 0x10f4>"),
    text(
        "id()", "same", "id 140234987650000", "id 139999912345678", "id 139999912340000", anew=True
    ),
    text(
        "uuid",
        "same",
        "run 2c1f6f0e-8f0a-4c7e-9f4e-0d6a1c3b5e7f",
        "run 7d444840-9dc0-41d1-b245-5ffdce74fad2",
        "run 11111840-9dc0-41d1-b245-5ffdce74fad2",
        anew=True,
    ),
    text("duration", "same", "took 1.2 s", "took 98 ms", "took 97 ms", anew=True),
    text(
        "duration that is the same twice by chance",
        "same",
        "took 1.2 s",
        "took 0.1 s",
        source=TIMED,
        anew=True,
    ),
    text(
        "%time",
        "same",
        "CPU times: user 3 s, sys: 0 ns, total: 3 s\nWall time: 3 s\n7",
        "CPU times: user 2 µs, sys: 1 µs, total: 3 µs\nWall time: 5 min 2 s\n7",
        source="%time f()",
        anew=True,
    ),
    text(
        "%timeit",
        "same",
        "1.2 µs ± 3 ns per loop (mean ± std. dev. of 7 runs, 100 loops each)",
        "12 ms ± 1 µs per loop (mean ± std. dev. of 7 runs, 10 loops each)",
        source="%timeit f()",
        anew=True,
    ),
    text("tqdm", "same", TQDM.format(s=7, rate=13.2), TQDM.format(s=5, rate=19.8), anew=True),
    text(
        "keras",
        "same",
        KERAS.format(took="2s", step="5ms", loss=0.5),
        KERAS.format(took="1s", step="4ms", loss=0.5),
        anew=True,
    ),
    text(
        "temporary file",
        "same",
        "/tmp/tmpa1b2/model.bin",
        "/tmp/tmpzz/model.bin",
        "/tmp/tmpq/model.bin",
        anew=True,
    ),
    text(
        "process and port",
        "same",
        "pid 4711 at localhost:8888",
        "pid 99 at localhost:5005",
        "pid 98 at localhost:5006",
        anew=True,
    ),
    text(
        "log",
        "same",
        "2020-01-01 10:00:00,123 INFO",
        f"{TODAY} 10:00:05,456 INFO",
        f"{TODAY} 10:00:09,456 INFO",
        anew=True,
    ),
    text(
        "ctime",
        "same",
        "Fri Nov 20 10:00:01 2020",
        "Mon Nov 23 01:10:23 2026",
        "Mon Nov 23 01:10:29 2026",
        anew=True,
    ),
    text("today", "same", "today is 2020-01-01", f"today is {TODAY}", anew=True),
    text("time.time()", "same", "1500000000.25", "1800000000.25", "1800000003.5", anew=True),
    text("unseeded", "same", "[0.1, 0.2]", "[0.3, 0.4]", "[0.5, 0.6]", anew=True),
    text(
        "lines of threads",
        "same",
        "ready\na\nb\ndone",
        "ready\nb\na\ndone",
        "ready\na\nb\ndone",
        anew=True,
    ),
    text(
        "lines that come as they like",
        "same",
        "ready\n.\n.\ndone",
        "ready\n.\ndone",
        "ready\n.\n.\n.\n.\ndone",
        anew=True,
    ),
    text(
        "random value in a dict",
        "same",
        "{'id': 'x1', 'n': 4}",
        "{'id': 'q7', 'n': 4}",
        "{'id': 'k2', 'n': 4}",
        anew=True,
    ),
    text("hours worked, the same", "same", "worked 12 hours", "worked 12 hours"),
    shown(
        "place of a warning",
        "same",
        [
            stream(
                "/home/ada/.venv/lib/python3.11/site-packages/lib.py:12: UserWarning: old\n",
                "stderr",
            )
        ],
        [stream("/opt/conda/lib/python3.12/lib.py:99: UserWarning: old\n", "stderr")],
    ),
    shown(
        "warning of the cell",
        "same",
        [stream("/tmp/ipykernel_7/1234.py:1: UserWarning: old\n", "stderr")],
        [stream("/var/x/ipykernel_9/1234.py:1: UserWarning: old\n", "stderr")],
    ),
    shown(
        "how streams are cut",
        "same",
        [stream("a\n"), display(text__plain="1"), stream("b\n"), stream("c\n", "stderr")],
        [stream("c\n", "stderr"), stream("a\nb\n"), display(text__plain="1")],
    ),
    shown(
        "picture of another writer",
        "same",
        drawn(line(0.5)),
        drawn(line(0.5), note=b"Matplotlib 3.9"),
    ),
    shown(
        "unseeded picture", "same", drawn(line(0.4)), drawn(line(0.8)), drawn(line(0.6)), anew=True
    ),
    shown(
        "SVG with ids",
        "same",
        svg("M 0 0 L 5 5", "1a"),
        svg("M 0 0 L 5 5", "2b"),
        svg("M 0 0 L 5 5", "3c"),
    ),
    shown("page whose ids count on", "same", card("c-1", "i-1", "l-1"), card("c-2", "i-4", "l-2")),
    shown(
        "page with ids of chance",
        "same",
        card("Tf3", "T7a", "T0c"),
        card("T11", "T9e", "Tab"),
        card("T5d", "T20", "T1f"),
    ),
    shown("page whose ids are exchanged", "same", card("a", "b", "c"), card("b", "a", "c")),
    shown("plotly, last digit", "same", plotly([0.1 + 0.2, 2, 3]), plotly([0.3, 2, 3])),
    shown("plotly, packed or not", "same", plotly([1.0, 2.0, 3.0]), plotly(packed(1, 2, 3))),
    shown(
        "plotly with a random id",
        "same",
        plotly([1, 2, 3], uid="a"),
        plotly([1, 2, 3], uid="b"),
        plotly([1, 2, 3], uid="c"),
        anew=True,
    ),
    shown(
        "Vega written otherwise",
        "same",
        vega([1, 2]),
        [
            bundle(
                "application/vnd.vegalite.v5+json",
                json.loads(
                    json.dumps(
                        vega([1.0, 2.0])[0]["data"]["application/vnd.vegalite.v5+json"],
                        sort_keys=True,
                    )
                ),
            )
        ],
    ),
    shown("data frame", "same", frame((1, "x")), frame((1, "x"))),
    shown(
        "data frame of another pandas",
        "same",
        frame((1, "x")),
        [
            display(
                text__html=frame((1, "x"))[0]["data"]["text/html"].replace("red", "blue"),
                text__plain="(1, 'x')",
            )
        ],
    ),
    shown("widget", "same", [widget("aa")], [widget("bb")], anew=True),
    shown(
        "frames of an error",
        "same",
        [{"output_type": "error", "ename": "E", "evalue": "x", "traceback": ["frame 1"]}],
        [{"output_type": "error", "ename": "E", "evalue": "x", "traceback": ["frame 2"]}],
    ),
]
