"""A real server with a strict fake model service, as for the tests of the routes."""

from __future__ import annotations

from tests.server.conftest import agent, call, fake, jp_server_config, replies

__all__ = ["agent", "call", "fake", "jp_server_config", "replies"]
