"""`jupyter agent doctor`: checks the installation, its configuration, and a model's answer."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_config_path, jupyter_path

from jupyter_agent import __version__, entry_points
from jupyter_agent.cli.exits import Exit
from jupyter_agent.cli.offline import add_store
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import Console, standard
from jupyter_agent.client.server import Server, ServerRefused
from jupyter_agent.client.servers import anywhere
from jupyter_agent.client.stores import folder_of
from jupyter_agent.legible import quoted
from jupyter_agent.packages import namesake_warning, outdated_warnings

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
"""The name of the server extension."""
_PAGE = "jupyter-agent"
"""The name of the JupyterLab extension."""
_WITHOUT = "none runs; a temporary one answered, which has no rooms"
_QUESTION = "Reply with the single word OK."


@dataclass
class Diagnosis:
    """The findings, in the order of printing."""

    versions: dict[str, str | None] = field(default_factory=dict)
    """Version by package; None if not installed."""
    plugs: list[str] = field(default_factory=list)
    """Plugs of other packages."""
    kernels: list[str] = field(default_factory=list)
    store: str = ""
    """The folder of conversations, copies and keys, which stays after uninstalling."""
    server: str = ""
    status: dict[str, Any] = field(default_factory=dict)
    """As in GET status."""
    models: dict[str, Any] = field(default_factory=dict)
    """As in GET models."""
    configuration: list[str] = field(default_factory=list)
    """Files that configure the assistant."""
    call: dict[str, Any] | None = None
    """The result of the test call."""
    problems: list[str] = field(default_factory=list)
    """What does not work, and how to fix it."""


def add_to(commands: Any) -> None:
    """Adds the command to the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "doctor",
        help="check versions, carriers, keys, policy; with --call, ask a model",
        description="Checks this installation and the running Jupyter server, or a temporary one. "
        "Sends nothing anywhere without --call. Exits with 1 if something does not work.",
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
    """Prints the findings; 1 if something does not work."""
    from jupyter_client.kernelspec import KernelSpecManager  # slow to import

    console, found = standard(), Diagnosis()
    found.versions = {
        "jupyter_agent": __version__,
        "python": sys.version.split()[0],
        **{name: _version(name) for name in _PACKAGES},
    }
    found.store = str(folder_of(given.store))
    found.problems += [*filter(None, [namesake_warning()]), *outdated_warnings(), *_switched_off()]
    for plug, cause in entry_points.of_other_packages():
        found.plugs.append(plug)
        found.problems += [cause] if cause else []
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
        _print(console, found)
    return Exit.FAILED if found.problems else Exit.DONE


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _switched_off() -> Iterator[str]:
    """Jupyter configuration files that switch a part of the assistant off, whoever wrote them, and
    parts that are not installed."""
    decided: set[str] = set()
    for path in _configuration():  # the first file that mentions a part decides
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
        yield f"The panel in {package.parent} has version {built}, the server {__version__}."


def _configuration() -> Iterator[Path]:
    """Jupyter's configuration files, in order of precedence."""
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
    """The object in a JSON file; empty if it is not readable JSON."""
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
    """Asks a model one question and deletes the conversation. Raises ServerRefused."""
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
    """Problems in the server's answers."""
    if found.status and not found.status["carriers"]:
        yield f"Notebooks cannot be edited here: {found.status['notes'][0]}"
    if found.status and not found.status["store"]["ok"]:
        yield str(found.status["store"]["note"])
    for server in found.status.get("mcp_servers", ()):
        if server["state"] == "failed":
            yield f"The MCP server {quoted(server['name'])} is not available: {server['note']}"
    if found.call is not None and found.call["state"] != "done":
        yield f"{found.call['model']} did not answer."


def _print(console: Console, found: Diagnosis) -> None:
    for name, number in found.versions.items():
        console.line(f"{name:<26}{number or 'not installed'}", "plain" if number else "faint")
    console.line(f"{'kernels':<26}{', '.join(found.kernels) or 'none'}")
    for plug in found.plugs:
        console.line(f"{'plug':<26}{plug}")
    if (only := os.environ.get(entry_points.ONLY)) is not None:
        console.line(f"{'only the plugs':<26}{only or 'none'} ({entry_points.ONLY})")
    console.line(f"{'store':<26}{found.store}")
    console.line(f"{'server':<26}{found.server or 'none'}")
    if found.status:
        _print_policy(console, found.status, found.problems)
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


def _print_policy(console: Console, status: Mapping[str, Any], problems: Sequence[str]) -> None:
    policy = status["policy"]
    facts: Sequence[tuple[str, str]] = [
        ("carriers", ", ".join(status["carriers"]) or "none"),
        *(("note", note) for note in status["notes"] if note not in problems),
        ("user", _person(policy)),
        ("most permissive mode", policy["max_mode"]),
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
    """The user that the administrator's policy applies to."""
    groups = ", ".join(map(quoted, policy["groups"]))
    return f"{quoted(policy['user'])} (groups: {groups})" if groups else quoted(policy["user"])
