"""G16: a person's typing while the assistant writes into the same notebook."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from tests.bench.bench import Bench
from tests.bench.client import Client, percentile
from tests.bench.figures import Figure, Measured
from tests.bench.model import ask
from tests.ui.page import OpenNotebook
from tests.waiting import eventually

KEYS = 60
KEY_MS = 60
"""Between two keys: 200 words a minute."""
LINES = 2_000
"""More than the model writes in that time."""
SOURCES = ["total = 0", "y = 1"]
"""Few, so that the cell that is written is on the screen."""
WATCH = """path => {
  const content = agentTest.notebook(path).widgets[0].node.querySelector('.cm-content');
  window.benchKeys = [];
  let pressed = [];
  window.addEventListener('keydown', () => { pressed.push(performance.now()); }, true);
  new MutationObserver(() => {
    const starts = pressed;
    pressed = [];
    requestAnimationFrame(() => {
      const painted = new MessageChannel();  // comes after the frame
      painted.port1.onmessage = () => {
        benchKeys.push(...starts.map(start => performance.now() - start));
      };
      painted.port2.postMessage(0);
    });
  }).observe(content, {childList: true, subtree: true, characterData: true});
}"""


def typing(bench: Bench) -> Iterator[Measured]:
    """From a key to the frame that shows it, with the assistant's writing and without."""
    tab = bench.open(bench.lab, SOURCES, WATCH)
    tab.wait_until_linked()
    quiet = _typed(tab)
    stream = bench.client.chat(ask("write", LINES), tab.path, id="typing")
    while b"tool-input-delta" not in stream.readline():
        pass
    reading = threading.Thread(target=stream.read)
    reading.start()
    busy = _typed(tab) + _typed(tab)
    Client(bench.lab).agent("POST", "chat/typing/stop")
    reading.join()
    quiet += _typed(tab)
    for share, name in ((0.5, "median"), (0.95, "95 %")):
        yield Figure(
            what=f"key to paint while the assistant writes, {name}",
            value=percentile(busy, share),
            floors={"without": percentile(quiet, share)},
            goal=1.3,
        )


def _typed(tab: OpenNotebook) -> list[float]:
    """Milliseconds from each key to its frame."""
    tab.page.evaluate("() => { benchKeys = []; }")
    tab.edit("c0")
    tab.page.keyboard.type("x" * KEYS, delay=KEY_MS)
    times: list[float] = eventually(
        lambda: tab.page.evaluate("() => benchKeys"), lambda times: len(times) >= KEYS
    )
    return times
