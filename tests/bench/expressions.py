"""Growth of our regular expressions with hostile text: `python -m tests.bench.expressions`.

Searches for every pattern in the package, however it is written, in texts of repeated pieces:
characters of the pattern, spaces, brackets, and pairs of them, ended by something that does not
match. Prints those whose time more than triples when the text is twice as long (linear: 2,
quadratic: 4), with the worst text and the milliseconds for the longer one.
"""

from __future__ import annotations

import ast
import re
import signal
import time
from collections import deque
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import FrameType
from typing import NoReturn

import jupyter_agent

PACKAGE = Path(jupyter_agent.__file__).parent
SHORT, LONG = 4_000, 8_000
"""Characters."""
PATIENCE = 2.0
"""Seconds for one search."""
FEWEST = 0.002
"""Seconds below which growth is noise."""
FUNCTIONS = {
    "compile",
    "search",
    "match",
    "fullmatch",
    "sub",
    "subn",
    "split",
    "findall",
    "finditer",
}


def patterns() -> Iterator[tuple[str, str, int]]:
    """Place, text and flags of each; patterns composed at run time only as far as they are written
    down.
    """
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr in FUNCTIONS
                and node.args
            ):
                where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                written = ast.unparse(node)
                for text in _texts(node.args[0]):
                    flags = re.MULTILINE * ("re.M" in written) | re.DOTALL * ("re.S" in written)
                    yield where, text, flags | re.IGNORECASE * ("re.I" in written)


def _texts(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
        yield "".join(map(str, parts))


def pieces(pattern: str) -> list[str]:
    """The repeated parts of hostile texts."""
    own = dict.fromkeys(re.sub(r"\\.|[\[\](){}?*+|^$]", "", pattern)[:40])
    common = dict.fromkeys(" \t\na0<[(\"'`\\/-=:;,.$&!{#%\x1b")
    single = [*own, *(each for each in common if each not in own)][:40]
    return single + ["".join(pair) for pair in product(single[:14], repeat=2)]


def seconds(pattern: re.Pattern[str], text: str) -> float:
    """The time to search all of a text; infinite if it was given up."""
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    begin = time.perf_counter()
    try:
        deque(pattern.finditer(text), maxlen=0)
    except TimeoutError:
        return float("inf")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return time.perf_counter() - begin


def _give_up(number: int, frame: FrameType | None) -> NoReturn:
    raise TimeoutError


def main() -> None:
    signal.signal(signal.SIGALRM, _give_up)
    seen = 0
    for where, text, flags in patterns():
        pattern = re.compile(text, flags)
        seen += 1
        worst = (0.0, 0.0, "")
        for piece in pieces(text):
            for head, tail in (("", "\x00"), (text[:1].strip("\\([^"), "\x00")):
                long = head + piece * (LONG // len(piece)) + tail
                took = seconds(pattern, long)
                if took < FEWEST:
                    continue
                short = head + piece * (SHORT // len(piece)) + tail
                ratio = took / max(seconds(pattern, short), 1e-6)
                if ratio > 3 and took > worst[0]:
                    worst = (took, ratio, repr(head + piece))
        if worst[0]:
            took, ratio, piece = worst
            print(f"{where}: {ratio:.1f} x, {took * 1000:.0f} ms, {piece}: {text[:70]!r}")  # noqa: T201
    print(f"{seen} expressions looked at")  # noqa: T201


if __name__ == "__main__":
    main()
