"""The administrator's settings are accepted, or refused with a sentence that names the fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jupyter_agent.errors import ModelError
from jupyter_agent.extension import JupyterAgent
from jupyter_agent.plugs.mcp.config import servers_of

URL = "https://host/mcp"


def test_servers_are_off_by_default() -> None:
    assert servers_of(JupyterAgent().mcp_servers) == []


def test_both_kinds_are_taken() -> None:
    db, files = servers_of(
        {
            "files": {"url": URL, "headers": {"X-Team": "data"}, "timeout": 5},
            "db": {"command": ["uvx", "mcp-server-sqlite"], "env": {"A": "b"}, "tools": ["read_*"]},
        }
    )
    assert (files.url, files.headers, files.timeout) == (URL, {"X-Team": "data"}, 5)
    assert (db.command, db.env, db.timeout) == (("uvx", "mcp-server-sqlite"), {"A": "b"}, 60.0)
    assert [name for name in ("read_rows", "write_rows") if db.offers(name)] == ["read_rows"]
    assert files.offers("anything")


@pytest.mark.parametrize(
    ("name", "given", "match"),
    [
        ("a b", {"url": URL}, "'a b' is not a valid server name"),
        ("a__b", {"url": URL}, "not a valid server name"),
        ("", {"url": URL}, "not a valid server name"),
        ("x" * 25, {"url": URL}, "not a valid server name"),
        (7, {"url": URL}, "7 is not a valid server name"),
        ("s", "http://host", "mcp_servers.s: it is not a dict, such as"),
        ("s", {}, "either `url` or `command`"),
        ("s", {"url": URL, "command": ["x"]}, "either `url` or `command`"),
        ("s", {"url": URL, "header": {}}, "unknown field `header`. Known fields: url, headers"),
        ("s", {"url": URL, "env": {}}, "`env` cannot be used with `url`"),
        ("s", {"command": ["x"], "headers": {}}, "`headers` cannot be used with `comm"),
        ("s", {"url": "host/mcp"}, "has to start with https://"),
        ("s", {"url": "file:///etc"}, "has to start with https://"),
        ("s", {"url": 7}, "has to start with https://"),
        ("s", {"command": "uvx x"}, "`command` has to be a list of strings"),
        ("s", {"command": []}, "`command` has to name a program"),
        ("s", {"command": [7]}, "`command` has to be a list of strings"),
        ("s", {"url": URL, "tools": "read"}, "`tools` has to be a list of strings"),
        ("s", {"url": URL, "timeout": 0}, "`timeout` has to be a number of seconds above 0"),
        ("s", {"url": URL, "timeout": True}, "`timeout` has to be a number of seconds above 0"),
        (
            "s",
            {"url": URL, "timeout": float("nan")},
            "`timeout` has to be a number of seconds above 0",
        ),
        ("s", {"url": URL, "headers": {"A": 7}}, "`headers` has to be a dict of strings"),
        (
            "s",
            {"url": URL, "headers": {"A": {"enw": "X"}}},
            "`headers` has to be a dict of strings",
        ),
        ("s", {"command": ["x"], "env": ["A=b"]}, "`env` has to be a dict of strings"),
        ("s", {"command": ["x"], "cwd": 7}, "`cwd` has to be a path"),
        ("s", {"url": URL, "proxy": 7}, "`proxy` has to be an address"),
    ],
)
def test_what_does_not_fit_is_named(name: Any, given: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match.replace("[", r"\[")):
        servers_of({name: given})


def test_secrets_are_what_stands_elsewhere_or_says_so(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-a-file\n")
    (server,) = servers_of(
        {
            "s": {
                "url": "https://ada:pass-word-1@host/mcp",
                "headers": {
                    "Authorization": "Bearer tok-12345678",
                    "X-Api-Key": "key-12345678",
                    "X-Team": "analytics",
                    "X-File": {"file": str(tmp_path / "key")},
                },
            }
        }
    )
    assert server.secrets({}) == {
        "Bearer tok-12345678",
        "tok-12345678",
        "key-12345678",
        "from-a-file",
        "pass-word-1",
    }
    lost = {"url": URL, "headers": {"X-File": {"file": str(tmp_path / "gone")}}}
    (server,) = servers_of({"s": lost})
    with pytest.raises(ModelError, match="headers.X-File: .*gone: FileNotFoundError"):
        server.network({})
