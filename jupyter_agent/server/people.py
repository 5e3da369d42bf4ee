"""Who asks, and what Jupyter's authorizer allows them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from jupyter_server.auth.identity import IdentityProvider, PasswordIdentityProvider
from jupyter_server.base.handlers import JupyterHandler
from jupyter_server.utils import ensure_async

from jupyter_agent.agent.people import Person

log = logging.getLogger(__name__)
LOCAL_OWNER = "local"


def owner_of(handler: JupyterHandler) -> str:
    """The name under which the user's data are stored.

    Jupyter's own token and password providers make up a random name per browser, so with those all
    requests have one owner; names count only if the provider gives stable ones.
    """
    if type(handler.identity_provider) in (IdentityProvider, PasswordIdentityProvider):
        return LOCAL_OWNER
    return str(handler.current_user.username)


def person_of(handler: JupyterHandler) -> Person:
    """The user who makes the request, with their groups if a single-user server of JupyterHub
    knows them: on another user's server it is the visitor, not the owner.
    """
    model = getattr(handler.current_user, "hub_user", None)
    groups = model.get("groups") if isinstance(model, Mapping) else None
    return Person(name=owner_of(handler), groups=frozenset(map(str, groups or ())))


class Authorizer:
    """Asks Jupyter's authorizer on behalf of one user, also after their request was answered."""

    def __init__(self, handler: JupyterHandler) -> None:
        self._handler = handler

    async def __call__(self, action: str, resource: str) -> bool:
        """Whether the user is allowed to; False if the authorizer fails."""
        handler = self._handler
        try:
            return bool(
                await ensure_async(
                    handler.authorizer.is_authorized(
                        handler, handler.current_user, action, resource
                    )
                )
            )
        except Exception:  # third-party code; whatever it raises must not grant
            log.exception("The authorizer failed on %s:%s; refused", resource, action)
            return False
