"""`jupyter agent doctor`: is everything there, who switched what off, and does a model answer?"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_config_path, jupyter_path

from jupyter_agent import __version__
from jupyter_agent.cli.exits import Exit
from jupyter_agent.cli.offline import add_store
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import Console, standard
from jupyter_agent.client.servers import Server, ServerRefused, anywhere
from jupyter_agent.client.stores import folder_of
from jupyter_agent.legible import quoted
from jupyter_agent.packages import namesake, outdated

EXAMPLES = """\
  jupyter agent doctor
  jupyter agent doctor --call                       # asks the default model for one word
  jupyter agent doctor --call openai:gpt-5.5 --json
"""
_PACKAGES = (
    "jupyter_server", "jupyterlab", "notebook", "jupyter_collaboration", "jupyter_server_documents",
    "ipykernel", "pycrdt", "anthropic", "openai",
)  # fmt: skip
_OWN = "jupyter_agent"
"""The name of the part in the server."""
_PAGE = "jupyter-agent"
"""The name of the part in the browser."""
_WITHOUT = "none runs; this is told by one of our own, which has no rooms"
_QUESTION = "Reply with the single word OK."


@dataclass
class Diagnosis:
    """The findings, in the order in which they are printed."""

    versions: dict[str, str | None] = field(default_factory=dict)
    """By package; None for one that is not installed."""
    kernels: list[str] = field(default_factory=list)
    store: str = ""
    """The folder of conversations, copies and keys: what an uninstallation leaves."""
    server: str = ""
    status: dict[str, Any] = field(default_factory=dict)
    """As GET status."""
    models: dict[str, Any] = field(default_factory=dict)
    """As GET models."""
    configuration: list[str] = field(default_factory=list)
    """Files that name the assistant."""
    call: dict[str, Any] | None = None
    """How the test call went."""
    problems: list[str] = field(default_factory=list)
    """What does not work, with the way to mend it."""


def add_to(commands: Any) -> None:
    """The command, for the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "doctor",
        help="check versions, carriers, keys, policy; with --call, ask a model",
        description="Looks at this installation and at the Jupyter server that runs, or one of its "
        "own. Sends nothing anywhere without --call. Ends with 1 where something does not work.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "--call",
        nargs="?",
        const="",
        metavar="PROVIDER:MODEL",
        help="ask a model (default: the default one) for one word",
    )
    parser.add_argument("--json", action="store_true", help="print all findings")
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Prints what was found; 1 where something does not work."""
    from jupyter_client.kernelspec import KernelSpecManager  # for which others need not wait

    console, found = standard(), Diagnosis()
    found.versions = {
        "jupyter_agent": __version__,
        "python": sys.version.split()[0],
        **{name: _version(name) for name in _PACKAGES},
    }
    found.store = str(folder_of(given.store))
    found.problems += [*filter(None, [namesake()]), *outdated(), *_switched_off()]
    found.kernels = sorted(KernelSpecManager().find_kernel_specs())
    if not found.kernels:
        found.problems.append("No kernel is installed: `pip install ipykernel`.")
    found.configuration = [str(path) for path in _configuration() if _names_us(path)]
    try:
        with anywhere(given.store) as server, console.working() as working:
            found.server = _WITHOUT if server.own else server.url
            found.status = server.ask("GET", "status")
            found.models = server.ask("GET", "models")
            if given.call is not None:
                working.on(f"Asking {given.call or found.models['default']}")
                found.call = _call(server, given.call or found.models["default"])
    except ServerRefused as error:
        found.problems.append(str(error))
    found.problems += _faults(found)
    if given.json:
        console.json(asdict(found))
    else:
        _tell(console, found)
    return Exit.FAILED if found.problems else Exit.DONE


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _switched_off() -> Iterator[str]:
    """Files of Jupyter's configuration that switch a part of the assistant off, whoever wrote them,
    and parts that are not installed."""
    decided: set[str] = set()
    for path in _configuration():  # the first that says something of a part decides
        content = _json(path)
        extensions = _at(content, "ServerApp", "jpserver_extensions")
        off = {_OWN: extensions[_OWN] is False} if _OWN in extensions else {}
        pages = _at(content, "disabledExtensions")
        off |= {name: bool(pages[name]) for name in pages if name.partition(":")[0] == _PAGE}
        for name in off.keys() - decided:
            decided.add(name)
            if off[name]:
                kind = "server extension" if name == _OWN else "labextension"
                yield f"{path} switches {name} off: `jupyter {kind} enable {name}`."
    found = [Path(folder, _PAGE, "package.json") for folder in jupyter_path("labextensions")]
    package = next((path for path in found if path.is_file()), None)
    if package is None and _version("jupyterlab"):
        yield "The panel is not installed for JupyterLab: install jupyter_agent again."
    elif package is not None and (built := _json(package).get("version")) != __version__:
        yield f"The panel in {package.parent} is of version {built}, this is {__version__}."


def _configuration() -> Iterator[Path]:
    """Jupyter's files of configuration, those that win first."""
    for folder in map(Path, jupyter_config_path()):
        for pattern in (
            "jupyter_server_config.*",
            "jupyter_server_config.d/*.json",
            "jupyter_agent_config.*",
            "labconfig/page_config.json",
            "labconfig/page_config.d/*.json",
        ):
            yield from sorted(folder.glob(pattern))


def _names_us(path: Path) -> bool:
    try:
        return "JupyterAgent" in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _json(path: Path) -> dict[str, Any]:
    """Empty where it is none, or cannot be read."""
    if path.suffix != ".json":
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _at(content: Any, *names: str) -> Mapping[str, Any]:
    for name in names:
        content = content.get(name) if isinstance(content, Mapping) else None
    return content if isinstance(content, Mapping) else {}


def _call(server: Server, model: str) -> dict[str, Any]:
    """One question to a model; its conversation is deleted again. Raises ServerRefused."""
    started = time.monotonic()
    conversation = f"doctor-{secrets.token_hex(8)}"
    body = {
        "id": conversation,
        "messages": [{"role": "user", "content": _QUESTION}],
        "mode": "read",
        "model": model,
        "max_steps": 1,
        "stream": False,
    }
    turn = server.ask("POST", "chat", body)
    server.ask("DELETE", f"conversations/{conversation}")
    said = [part["text"] for part in turn["message"]["parts"] if part["type"] == "text"]
    return {
        "model": model,
        "state": turn["state"],
        "seconds": round(time.monotonic() - started, 1),
        "usage": turn["usage"],
        "text": "\n".join(said),
    }


def _faults(found: Diagnosis) -> Iterator[str]:
    """What the server's answers say that does not work."""
    if found.status and not found.status["carriers"]:
        yield f"Notebooks cannot be edited here: {found.status['notes'][0]}"
    if found.status and not found.status["store"]["ok"]:
        yield str(found.status["store"]["note"])
    for server in found.status.get("mcp_servers", ()):
        if server["state"] == "failed":
            yield f"The MCP server {quoted(server['name'])} is not there: {server['note']}"
    if found.call is not None and found.call["state"] != "done":
        yield f"{found.call['model']} did not answer."


def _tell(console: Console, found: Diagnosis) -> None:
    for name, number in found.versions.items():
        console.line(f"{name:<26}{number or 'not installed'}", "plain" if number else "faint")
    console.line(f"{'kernels':<26}{', '.join(found.kernels) or 'none'}")
    console.line(f"{'store':<26}{found.store}")
    console.line(f"{'server':<26}{found.server or 'none'}")
    if found.status:
        _tell_policy(console, found.status, found.problems)
    for provider in found.models.get("providers", ()):
        key = "ready" if provider["credentials"] else "no key"
        console.line(f"{'provider ' + provider['name']:<26}{key}")
    if found.models:
        console.line(f"{'default model':<26}{found.models['default']}")
    for path in found.configuration:
        console.line(f"{'configured in':<26}{path}")
    if (call := found.call) is not None:
        console.line(f"{'call ' + call['model']:<26}{call['state']}, {call['seconds']} s")
        console.line(f"{'':<26}{' '.join(call['text'].split())[:200]}", "faint")
    for problem in found.problems:
        console.line(f"! {problem}", "warning")
    if not found.problems:
        console.line("Everything works." if found.call else "No problem found.", "strong")


def _tell_policy(console: Console, status: Mapping[str, Any], problems: Sequence[str]) -> None:
    policy = status["policy"]
    facts: Sequence[tuple[str, str]] = [
        ("carriers", ", ".join(status["carriers"]) or "none"),
        *(("note", note) for note in status["notes"] if note not in problems),
        ("asked as", _person(policy)),
        ("freest mode", policy["max_mode"]),
        ("models allowed", ", ".join(policy["models"]) or "none"),
        ("models see at most", status["share"]),
        *(
            ("rule", f"{rule['verdict']} {rule['tool']} in {rule['notebook']}")
            for rule in policy["rules"]
        ),
        ("edits that load", "allowed in auto" if policy["allow_remote_content"] else "asked about"),
    ]
    for name, value in facts:
        console.line(f"{name:<26}{value}")


def _person(policy: Mapping[str, Any]) -> str:
    """Whom the administrator's policy is about."""
    groups = ", ".join(map(quoted, policy["groups"]))
    return f"{quoted(policy['user'])} (groups: {groups})" if groups else quoted(policy["user"])
