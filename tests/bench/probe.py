"""`python -m tests.bench.probe URL TOKEN`: asks for a server's status until its input is closed.

A request is due each 50 ms, and its time counts from when it was due, so that those that had to
wait for a slow one are slow, too. Prints a line when it begins and all milliseconds at the end.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from urllib.parse import urlsplit

PROBE_S = 0.05
"""Longer than a busy server takes for one, or they would queue without end."""


def probe(url: str, token: str, over: threading.Event) -> list[float]:
    """Milliseconds from when each request was due to its answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=600)
    headers = {"Authorization": f"token {token}"}
    due = time.perf_counter()
    times = []
    while not over.wait(max(0, due - time.perf_counter())):
        connection.request("GET", "/api/status", headers=headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        times.append((time.perf_counter() - due) * 1000)
        due += PROBE_S
    return times


def main() -> None:
    over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait, daemon=True).start()
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    sys.stdout.write(json.dumps(probe(sys.argv[1], sys.argv[2], over)))


if __name__ == "__main__":
    main()
