"""An extension of Jupyter's server for the bench: `GET /bench/tasks` is the number of asyncio tasks
that the server has."""

from __future__ import annotations

import asyncio
from typing import Any

from tornado.web import RequestHandler


class _Tasks(RequestHandler):
    def get(self) -> None:
        self.finish(str(len(asyncio.all_tasks())))


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": __name__}]


def _load_jupyter_server_extension(server: Any) -> None:
    server.web_app.add_handlers(".*", [("/bench/tasks", _Tasks)])
