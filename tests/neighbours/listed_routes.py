"""A server extension: `GET listed-routes` lists all routes of the server in order, and who answers
`?path=`. It is copied beside the server, which imports it as `listed_routes`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerApp
from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.routing import PathMatches, Router, RuleRouter
from tornado.web import Application, authenticated


class RoutesHandler(APIHandler):
    """Patterns, or with `path` the module whose handler answers a GET of it."""

    @authenticated
    async def get(self) -> None:
        asked = self.get_query_argument("path", "")
        if not asked:
            self.finish({"patterns": [*_patterns(self.application)]})
            return
        headers = HTTPHeaders({"Host": "localhost", "Cookie": ""})
        request = HTTPServerRequest(
            "GET", asked, headers=headers, connection=self.request.connection
        )
        found: Any = self.application.find_handler(request)
        self.finish({"module": found.handler_class.__module__})


def _patterns(router: Router) -> Iterator[str]:
    rules = router.rules if isinstance(router, RuleRouter) else []
    if isinstance(router, Application):  # the others are below their hosts
        rules = [*router.default_router.rules, *router.wildcard_router.rules]
    for rule in rules:
        if isinstance(rule.matcher, PathMatches):
            yield rule.matcher.regex.pattern
        if isinstance(rule.target, Router):
            yield from _patterns(rule.target)


def _load_jupyter_server_extension(server: ServerApp) -> None:
    base: str = server.web_app.settings["base_url"]
    routes = [(f"{base}listed-routes", RoutesHandler)]
    server.web_app.add_handlers(".*$", routes)  # type: ignore[no-untyped-call]


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "listed_routes"}]
