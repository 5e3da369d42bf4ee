"""A stranger's server: it records visits, and a browser's reports about a page's policy."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REPORTS = "/report"
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-eval'; script-src-attr 'none'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "connect-src 'self' ws:; frame-src 'none'; object-src 'none'; form-action 'none'; "
    "base-uri 'none'"
)
"""The policy is not enforced, so the page behaves as it would without it."""


class Stranger(ThreadingHTTPServer):
    """Counts connections of lured visitors; the browser's reports do not count."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Visit)
        self.host = f"127.0.0.1:{self.server_port}"
        self.visits: list[str] = []
        self.reports: list[tuple[str, str]] = []
        """Directive and what it was about."""

    @property
    def policy(self) -> str:
        return f"{POLICY}; report-uri http://{self.host}{REPORTS}"


class _Visit(BaseHTTPRequestHandler):
    server: Stranger

    def do_GET(self) -> None:
        self.server.visits.append(self.path)
        self._end()

    do_HEAD = do_OPTIONS = do_GET

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == REPORTS:
            report = json.loads(body)["csp-report"]
            about = (report["effective-directive"], report["blocked-uri"])
            self.server.reports.append(about)
            self._end()
        else:
            self.do_GET()

    def _end(self) -> None:
        self.send_response(204)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """The visits are the log."""


@contextmanager
def stranger() -> Iterator[Stranger]:
    """Runs until the block ends."""
    with Stranger() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
