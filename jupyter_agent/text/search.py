"""Searches a notebook for a text or a regular expression.

Expression and text may be hostile, and Python's `re` can take years while it blocks the whole
process. So expressions are matched in a separate process that is killed after a time limit.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from jupyter_agent.document.cell import Cell
from jupyter_agent.errors import InvalidInput, ToolError
from jupyter_agent.legible import clip
from jupyter_agent.text.fence import NO_FENCE, Fence
from jupyter_agent.text.notebook import ShownCell, head, hidden, readable
from jupyter_agent.text.outputs import output_text, plain

SECONDS = 1.0
"""How long matching may take, not counting the start of the process."""
_START_SECONDS = 20.0
_MATCHER = Path(__file__).with_name("matcher.py")
_HITS = 100
_SEARCHED_CHARS = 400
"""Characters of each line that are searched."""
_SHOWN_CHARS = 160
_OUTPUT_CHARS = 1_000_000
"""Characters of each cell's outputs that are searched."""


@dataclass(frozen=True)
class _Line:
    cell: Cell
    mark: str
    number: int
    text: str

    def render(self, fence: Fence) -> str:
        return f"{self.mark}{self.number}: {fence.inside(plain(self.text[:_SHOWN_CHARS]))}"


async def search(
    cells: Sequence[ShownCell], query: str, *, regex: bool = False, fence: Fence = NO_FENCE
) -> str:
    """Lines of sources and outputs that match the query, ignoring case, under their cell's head.

    Raises InvalidInput for an invalid expression, ToolError if it takes too long.
    """
    if not query:
        raise InvalidInput("What to search for? `query` is empty.")
    lines = await asyncio.to_thread(_all_lines, cells, fence)
    if regex:
        places = await _matching(query, [line.text[:_SEARCHED_CHARS] for line in lines])
        found = [lines[place] for place in places]
    else:
        found = await asyncio.to_thread(_containing, query, lines)
    if not found:
        return f"Nothing in the notebook matches {clip(repr(query), _SEARCHED_CHARS)}."
    shown: list[str] = []
    for _, group in groupby(found[:_HITS], key=lambda line: line.cell.index):
        of_cell = list(group)
        shown += [head(of_cell[0].cell, fence=fence), *(line.render(fence) for line in of_cell)]
    if len(found) > _HITS:
        shown.append(f"... more than {_HITS} lines: search for something narrower ...")
    return "\n".join(shown)


def _all_lines(cells: Sequence[Cell], fence: Fence) -> list[_Line]:
    return [line for cell in cells if not hidden(cell) for line in _lines(cell, fence)]


def _lines(cell: Cell, fence: Fence) -> Iterator[_Line]:
    shown = output_text(cell.outputs, limit=_OUTPUT_CHARS, rows=None, mask=fence.mask)
    for text, mark in ((fence.mask(readable(cell.source)), ""), (shown, "-> ")):
        for number, line in enumerate(text.split("\n"), start=1):
            yield _Line(cell, mark, number, line)


def _containing(query: str, lines: Sequence[_Line]) -> list[_Line]:
    contains = re.compile(re.escape(query), re.IGNORECASE).search
    found = (line for line in lines if contains(line.text[:_SEARCHED_CHARS]))
    return list(islice(found, _HITS + 1))


async def _matching(expression: str, lines: Sequence[str]) -> list[int]:
    """Indexes of the first lines that match. Raises InvalidInput, ToolError."""
    request = {"expression": expression, "lines": lines, "most": _HITS + 1}
    answer = await _ask_matcher(await asyncio.to_thread(lambda: json.dumps(request).encode()))
    if "error" in answer:
        raise InvalidInput(f"`{expression}` is not a regular expression: {answer['error']}.")
    found: list[int] = answer["found"]
    return found


async def _ask_matcher(request: bytes) -> Any:
    """The answer of a new process, which has ended when this returns, raises or is cancelled."""
    try:
        # Threads and pipes: Jupyter's event loop on Windows does not support subprocesses.
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_MATCHER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError as error:
        raise ToolError(f"No expression can be searched for ({error}); use plain text.") from error
    sent = asyncio.Event()
    on_sent = partial(asyncio.get_running_loop().call_soon_threadsafe, sent.set)
    exchange = asyncio.create_task(asyncio.to_thread(_exchange, process, request, on_sent))
    try:
        async with asyncio.timeout(_START_SECONDS):
            await sent.wait()
        async with asyncio.timeout(SECONDS):
            return json.loads(await asyncio.shield(exchange))
    except TimeoutError:
        raise ToolError(
            f"The expression took longer than {SECONDS:g} s. Use a simpler one, or plain text."
        ) from None
    except ValueError as error:  # it died: out of memory, or killed by someone else
        raise ToolError("The expression could not be matched; use plain text.") from error
    finally:
        process.kill()
        await asyncio.wait([exchange])


def _exchange(
    process: subprocess.Popen[bytes], request: bytes, on_sent: Callable[[], object]
) -> bytes:
    """Send the request and return the answer; empty once the process was killed.

    `on_sent` is called when the process has read the request, or never will.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError), process:
        try:
            process.stdin.write(request)
            process.stdin.close()
            process.stdout.readline()
        finally:
            on_sent()
        return process.stdout.read()
    return b""
