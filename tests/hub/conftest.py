"""A real JupyterHub: hub, configurable-http-proxy, a culler and a server for each user.

`bash .ci/hub` installs the requirements and runs these tests; elsewhere they are not collected.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.programs import free_port
from tests.ui.conftest import browser, chromium, jp_asyncio_loop, jp_server_cleanup, playwright
from tests.waiting import eventually

__all__ = ["browser", "chromium", "jp_asyncio_loop", "jp_server_cleanup", "playwright"]

if find_spec("jupyterhub") is None:
    collect_ignore_glob = ["test_*.py"]

EXAMPLE = Path(__file__).parents[2] / "jupyter_agent" / "examples" / "coffee.ipynb"
CULLED_AFTER = 8
"""Seconds without activity."""
CONFIG = """
import os, sys
hub, proxy, api, culled_after, token, home = {arguments!r}
c.JupyterHub.bind_url = f"http://127.0.0.1:{{proxy}}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{{hub}}"
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{{api}}"
c.JupyterHub.db_url = f"sqlite:///{{home}}/hub.sqlite"
c.JupyterHub.cookie_secret_file = f"{{home}}/cookie_secret"
c.JupyterHub.pid_file = f"{{home}}/pid"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = f"{{home}}/{{{{username}}}}"
c.Spawner.cmd = [sys.executable, "-m", "jupyterhub.singleuser"]
c.Spawner.args = ["--allow-root", "--JupyterAgent.default_model=demo:tour"]
c.Spawner.environment = {{
    "JUPYTERHUB_ACTIVITY_INTERVAL": "1",
    "JUPYTER_CONFIG_PATH": f"{{home}}/etc",  # as /etc/jupyter of an image
    "JUPYTER_PREFER_ENV_PATH": "0",
}}
c.Authenticator.admin_users = {{"root"}}
c.JupyterHub.load_groups = {{
    "students": {{"users": ["sam"]}},
    "teachers": {{"users": ["tess", "root"]}},
    "guests": {{"users": ["gus"]}},
}}
c.LocalProcessSpawner.interrupt_timeout = 1  # which a server without a terminal ignores
c.Spawner.start_timeout = c.Spawner.http_timeout = 120
c.JupyterHub.last_activity_interval = 1
c.JupyterHub.services = [
    {{"name": "tests", "api_token": token}},
    {{
        "name": "culler",
        "command": [sys.executable, "-m", "jupyterhub_idle_culler",
                    f"--timeout={{culled_after}}", "--cull-every=1"],
    }},
]
c.JupyterHub.load_roles = [
    {{"name": "tests", "services": ["tests"],
      "scopes": ["admin:users", "admin:servers", "admin:groups", "tokens", "access:servers"]}},
    {{"name": "culler", "services": ["culler"],
      "scopes": ["list:users", "read:users:activity", "read:servers", "delete:servers"]}},
]
"""


SERVER_CONFIG = """
c.JupyterAgent.allowances = [
    {"group": "students", "max_mode": "read", "models": ["demo:*"]},
    {"group": "teachers", "monthly_token_budget": 5_000_000},
    {"group": "guests", "monthly_cost_budget": 0},
]
c.JupyterAgent.rules = [{"verdict": "deny", "tool": "delete_cell", "group": "students"}]
"""


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, errors too."""

    status: int
    body: Any


@dataclass(frozen=True)
class Hub:
    """A running hub, from outside."""

    url: str
    token: str
    """Of a service with all permissions."""
    homes: Path

    def ask(self, method: str, path: str, token: str | None = None, body: Any = None) -> Answer:
        """A request through the proxy."""
        request = urllib.request.Request(
            f"{self.url}/{path}",
            method=method,
            headers={"Authorization": f"token {token or self.token}"},
            data=None if body is None else json.dumps(body).encode(),
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return Answer(answer.status, json.loads(text) if text else None)
        except urllib.error.HTTPError as error:
            return Answer(error.code, error.read())

    def start(self, name: str) -> str:
        """Starts a server for a user with the example notebook in it; returns the user's token."""
        home = self.homes / name
        home.mkdir(exist_ok=True)
        (home / "coffee.ipynb").write_bytes(EXAMPLE.read_bytes())
        self.ask("POST", f"hub/api/users/{name}")
        begin = partial(self.ask, "POST", f"hub/api/users/{name}/server")
        eventually(begin, lambda answer: answer.status in (201, 202))  # 400: one is still stopping
        eventually(lambda: self.runs(name), bool, timeout=120)
        return self.token_of(name)

    def token_of(self, name: str) -> str:
        """A new token with all the user's permissions."""
        made = self.ask("POST", f"hub/api/users/{name}/tokens", body={"note": "tests"})
        token: str = made.body["token"]
        return token

    def runs(self, name: str) -> bool:
        """Whether the user has a server that is ready."""
        servers = self.ask("GET", f"hub/api/users/{name}").body["servers"]
        return bool(servers.get("", {}).get("ready"))

    def stop(self, name: str) -> None:
        """Ends a user's server."""
        self.ask("DELETE", f"hub/api/users/{name}/server")
        eventually(lambda: not self.runs(name), bool)


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One for all tests, whose culler never acts in time."""
    with running(tmp_path_factory.mktemp("hub"), culled_after=3600) as hub:
        yield hub


@pytest.fixture
def culling_hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub whose culler is fast."""
    with running(tmp_path, culled_after=CULLED_AFTER) as hub:
        yield hub


@contextmanager
def running(home: Path, culled_after: int) -> Iterator[Hub]:
    """A hub with its proxy and its culler."""
    token = secrets.token_hex(16)
    ports = [free_port() for _ in range(3)]
    (home / "etc").mkdir()
    (home / "etc" / "jupyter_server_config.py").write_text(SERVER_CONFIG)
    config = home / "jupyterhub_config.py"
    config.write_text(CONFIG.format(arguments=(*ports, culled_after, token, str(home))))
    log = (home / "log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterhub", "--config", str(config)],
        cwd=home,
        env={**os.environ, "CONFIGPROXY_AUTH_TOKEN": secrets.token_hex(16), "HOME": str(home)},
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    hub = Hub(f"http://127.0.0.1:{ports[1]}", token, home)

    def answers() -> bool:
        assert process.poll() is None, (home / "log").read_text()
        try:
            return hub.ask("GET", "hub/api").status == 200
        except (urllib.error.URLError, ConnectionError):
            return False

    eventually(answers, bool)
    yield hub
    process.terminate()
    process.wait(60)
    log.close()
