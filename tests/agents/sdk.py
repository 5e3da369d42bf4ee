"""Drives `sdk_client.py`, which runs in a separate environment."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("sdk_client.py")


class SdkClient:
    """A client in its own process. `asked` are the questions it has shown."""

    def __init__(
        self, python: Path, url: str, mode: str, *, token: str | None, forms: bool
    ) -> None:
        more = {"FORMS": "yes"} if forms else {}
        if token is not None:
            more["JUPYTER_TOKEN"] = token
        kept = {"PATH": os.environ["PATH"]}
        self._process = subprocess.Popen(
            [python, PROGRAM, url, mode],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**kept, **more},
        )
        self.asked: list[str] = []

    def __enter__(self) -> SdkClient:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()

    def begun(self) -> str:
        """The version of the protocol, once client and server agree on one."""
        return str(self._end()["version"])

    def tools(self) -> list[dict[str, Any]]:
        self._send({})
        found: list[dict[str, Any]] = self._end()["tools"]
        return found

    def call(
        self, tool: str, input: Mapping[str, Any] = {}, *, answer: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The result of a call; `answer` is the person's answer to a question."""
        self._send({"call": tool, "input": dict(input)})
        result: dict[str, Any] = self._end(answer)
        return result

    def failure(self) -> str:
        """Why the client gave up."""
        return str(self._heard()["failed"])

    def _end(self, answer: Mapping[str, Any] | None = None) -> Any:
        while "asked" in (heard := self._heard()):
            self.asked.append(heard["asked"])
            assert answer is not None, f"nobody expects to be asked: {heard}"
            self._send(answer)
        assert "result" in heard, heard
        return heard["result"]

    def _heard(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        raise AssertionError(f"The client has ended: {self._process.communicate()[1]}")

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
