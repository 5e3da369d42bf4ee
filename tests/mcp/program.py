"""An MCP server on standard input and output, well-behaved or not, depending on its arguments.

`program.py ERA LOG`: writes received messages to the file LOG, one per line.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

ERA, LOG = sys.argv[1], Path(sys.argv[2])
NAMES = (
    "echo environment never die flood huge wrong twice unasked child asks progress change silent "
    "stubborn unreadable"
).split()
READS = {"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}
FOREVER = "import threading; threading.Event().wait()"
changed = False


def send(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(asked: dict[str, Any], result: Any) -> None:
    more = {"resultType": "complete"} if ERA == "new" else {}
    send({"jsonrpc": "2.0", "id": asked["id"], "result": {**more, **result}})


def say(asked: dict[str, Any], said: str) -> None:
    answer(asked, {"content": [{"type": "text", "text": said}]})


def notify(method: str, **params: Any) -> None:
    send({"jsonrpc": "2.0", "method": method, "params": params})


def tools() -> list[dict[str, Any]]:
    plain = [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]
    return [*plain, {**READS, "annotations": {"readOnlyHint": not changed}}]


def receive() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    with LOG.open("a") as log:
        log.write(line)
    received: dict[str, Any] = json.loads(line)
    return received


def call(asked: dict[str, Any]) -> None:
    global changed
    name, given = asked["params"]["name"], asked["params"]["arguments"]
    match name:
        case "echo" | "look":
            say(asked, json.dumps(given))
        case "environment":
            say(asked, json.dumps(dict(os.environ)))
        case "never":
            pass
        case "die":
            os._exit(3)
        case "flood":
            for n in range(20_000):
                sys.stderr.write(f"line {n} " + "x" * 100 + "\n")
            sys.stderr.flush()
            say(asked, "flooded")
        case "huge":
            if sys.platform == "linux":  # more at once than is read at once
                fcntl.fcntl(sys.stdout, fcntl.F_SETPIPE_SZ, 2**20)
            sys.stdout.write("x" * (32 * 2**20))
            sys.stdout.flush()
        case "wrong":
            for line in ("{", "[1, 2]", '"text"', "\x00\x1b[31m", '{"id": NaN}', "[" * 5000):
                sys.stdout.write(f"{line}\n")
            say(asked, "right after all")
        case "unreadable":
            result = {"content": [], "structuredContent": {"n": float("nan")}}
            if "deep" in given:
                result = {"content": json.loads("[" * 100 + "]" * 100)}
            answer(asked, result)
        case "twice":
            for said in ("first", "second"):
                say(asked, said)
        case "unasked":
            for id in (None, "x", 999, True, [1]):
                send({"jsonrpc": "2.0", "id": id, "result": {"content": []}})
            say(asked, "asked")
        case "child":
            child = subprocess.Popen([sys.executable, "-c", FOREVER])
            say(asked, str(child.pid))
        case "asks":
            send({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": {}})
            send({"jsonrpc": "2.0", "id": 2, "method": "sampling/createMessage", "params": {}})
            send({"jsonrpc": "2.0", "id": 3, "method": "ping"})
            said = sorted((receive() for _ in range(3)), key=lambda reply: str(reply["id"]))
            say(asked, json.dumps(said))
        case "progress":
            for n in range(given["signs"]):
                other = receive()
                notify("notifications/progress", progressToken=token_of(asked), progress=n)
                call(other)
            say(asked, "arrived")
        case "change":
            changed = True
            notify("notifications/tools/list_changed")
            say(asked, "changed")
        case "silent":
            sys.stdin.close()
            threading.Event().wait()
        case "stubborn":
            import signal

            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            say(asked, str(os.getpid()))
            threading.Event().wait()


def token_of(asked: dict[str, Any]) -> Any:
    return asked["params"]["_meta"]["progressToken"]


def main() -> None:
    while True:
        asked = receive()
        method = asked.get("method")
        if "id" not in asked or method is None:
            continue
        if method == "server/discover" and ERA == "new":
            answer(asked, {"supportedVersions": ["2026-07-28"], "capabilities": {}})
        elif method == "server/discover" and ERA == "deaf":
            pass
        elif method == "initialize" and ERA != "new":
            info = {"name": "program", "version": "1"}
            version = asked["params"]["protocolVersion"]
            answer(asked, {"protocolVersion": version, "capabilities": {}, "serverInfo": info})
        elif method == "tools/list":
            answer(asked, {"tools": tools()})
        elif method == "tools/call":
            call(asked)
        else:
            error = {"code": -32601, "message": "Method not found"}
            send({"jsonrpc": "2.0", "id": asked["id"], "error": error})


main()
