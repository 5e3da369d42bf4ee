"""Several users of one server."""

from __future__ import annotations

from typing import Any

from jupyter_server.auth import IdentityProvider, User


class HubUser(User):
    """A user as on a single-user server of JupyterHub, with the hub's data about them."""

    def __init__(self, name: str, groups: list[str]) -> None:
        self.hub_user = {"kind": "user", "name": name, "groups": groups}
        super().__init__(username=name)


class Named(IdentityProvider):
    """Users from one header, and their groups from another, as named by a hub."""

    def get_user(self, handler: Any) -> User | None:
        headers = handler.request.headers
        name, groups = headers.get("X-User"), headers.get("X-Groups", "").split()
        return HubUser(name, groups) if name else None

    def is_token_authenticated(self, handler: Any) -> bool:
        return True  # a script, not a page: no cookie that a foreign page could use
