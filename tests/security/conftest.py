"""A real server with a strict fake of a model's service, as the tests of the routes have it."""

from __future__ import annotations

from tests.server.conftest import agent, call, fake, jp_server_config, replies

__all__ = ["agent", "call", "fake", "jp_server_config", "replies"]
