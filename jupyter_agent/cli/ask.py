"""`jupyter agent ask`: a question about a notebook, with a streamed answer and approvals."""

from __future__ import annotations

import argparse
import io
import json
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jupyter_agent.cli.answer import AnswerPrinter
from jupyter_agent.cli.exits import Exit
from jupyter_agent.cli.offline import add_store
from jupyter_agent.cli.parsers import add_command
from jupyter_agent.cli.terminal import Console, Working, exact, read_input, standard
from jupyter_agent.cli.words import Cells, Line, style_diff_line
from jupyter_agent.client.chat import Chat
from jupyter_agent.client.servers import existing, serving
from jupyter_agent.words import Phrasebook, fill

Approval = Mapping[str, Any]
_NOBODY = "No one can answer questions any more. Do not try again; say what remains to be done."


def settle(
    console: Console, approvals: Sequence[Approval], cells: Cells, phrases: Phrasebook
) -> list[dict[str, Any]] | None:
    """The answers to the approvals of one group, as the route takes them; None if no one can
    answer."""
    words = [phrases.todo(each["tool"], each["input"], cells.name) for each in approvals]
    console.tell("")
    console.tell(f"{'; '.join(map(exact, words))}?", "strong")
    for approval in approvals:
        for text, style in _approval_lines(approval, cells):
            console.tell(f"  {text}", style)
    edits = all("diff" in each or "edits" in each for each in approvals)
    more = "e = yes to all edits of this answer, " if edits else ""
    reply = console.ask(
        f"[y = yes, {more}a = always in this conversation, n = no, or type what to do instead] "
    )
    if reply is None:
        return None
    yes = reply.lower() in ("y", "yes", "e", "a") and (edits or reply.lower() != "e")
    remember = {"e": "turn", "a": "conversation"}.get(reply.lower()) if yes else None
    reason = "" if yes or reply.lower() in ("", "n", "no") else reply
    return [
        {"id": each["id"], "approved": yes, "reason": reason, "remember": remember}
        for each in approvals
    ]


def refusals(approvals: Sequence[Approval]) -> list[dict[str, Any]]:
    """The answers if no one can be asked."""
    return [{"id": each["id"], "approved": False, "reason": _NOBODY} for each in approvals]


def approval_hint(approval: Approval) -> str:
    """How to allow the call without a terminal."""
    if approval.get("loads"):
        return f"`{approval['tool']}` would load from elsewhere; a person has to allow it."
    return (
        f"`{approval['tool']}` needs approval: run this in a terminal, or with "
        f"`--yes {approval['tool']}`."
    )


def _approval_lines(approval: Approval, cells: Cells) -> Iterator[Line]:
    """What the call would do, with every invisible character spelled out."""
    for fact in approval.get("facts", ()):
        yield fill(fact, exact), "warning"
    if approval.get("server"):
        yield from _text(json.dumps(approval["input"], indent=1, ensure_ascii=False))
    for each in approval.get("edits", ()):
        place = cells.name(each["cell_id"]) if each["cell_id"] else "new cell"
        yield f"{exact(place)}, {each['cell_type']}:", "faint"
        yield from _diff(each["diff"])
    if approval.get("diff") is not None and not approval.get("edits"):
        yield from _diff(approval["diff"])
    if approval.get("code") is not None and not approval.get("cells"):
        yield from _text(approval["code"])
    for each in approval.get("cells", ()):
        yield f"{exact(cells.name(each['cell_id']))} would run:", "faint"
        yield from _text(each["code"])
    for address in approval.get("loads", ()):
        yield f"It would load {exact(address)} as soon as it is shown.", "warning"


def _text(text: str) -> Iterator[Line]:
    for line in text.split("\n"):
        yield f"| {exact(line)}", "plain"


def _diff(text: str) -> Iterator[Line]:
    for line in text.split("\n"):
        yield style_diff_line(exact(line))


MODES = ("read", "ask", "edit", "auto")
EXAMPLES = """\
  jupyter agent ask sales.ipynb "Why does cell 4 fail?" --mode read
  jupyter agent ask sales.ipynb "Fix the errors" --mode edit --yes run_cells
  git diff | jupyter agent ask sales.ipynb - --json > answer.json

exit codes: 0 done, 1 failed, 2 usage, 3 something was not allowed, 4 a limit was hit,
5 the model failed, 130 stopped
"""


def add_to(commands: Any) -> None:
    """The command, for the parser of `jupyter agent`."""
    parser = add_command(
        commands,
        "ask",
        help="ask for something in a notebook and watch it happen",
        description="Asks the Jupyter server that serves the notebook, or starts one for this "
        "answer. What needs approval is asked here, with the exact code or diff; without a "
        "terminal it is refused. Ctrl-C stops the answer.",
        examples=EXAMPLES,
    )
    parser.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    parser.add_argument(
        "prompt", nargs="?", metavar="PROMPT", help="what you want; `-`: from standard input"
    )
    parser.add_argument(
        "--mode",
        choices=MODES,
        default="ask",
        help="read: changes nothing; ask: approve each change and run (default); edit: edits "
        "freely, asks before running; auto: edits and runs without asking",
    )
    parser.add_argument("--model", metavar="PROVIDER:MODEL", help="see `jupyter agent models`")
    parser.add_argument("--max-steps", type=_positive, metavar="N", help="model calls at most")
    parser.add_argument(
        "--yes",
        action="append",
        default=[],
        metavar="TOOL",
        help="approve this tool beforehand, e.g. run_cells; may be given several times",
    )
    parser.add_argument("--conversation", metavar="ID", help="ask in an earlier conversation")
    parser.add_argument(
        "--json", action="store_true", help="print the turn as POST chat with `stream: false`"
    )
    add_store(parser)
    parser.set_defaults(command=run)


def run(given: argparse.Namespace) -> int:
    """Asks, prints the answer, and returns how it ended."""
    console = standard()
    notebook = existing(given.notebook)
    prompt = _prompt(given.prompt)
    if not prompt:
        console.tell(
            "Say what you want: `jupyter agent ask NOTEBOOK PROMPT`, or `-` to read it from "
            "standard input."
        )
        return Exit.USAGE
    with serving(notebook, given.store) as server:
        tools = server.ask("GET", "tools")
        if given.conversation:  # an unknown id would begin a new one
            server.ask("GET", f"conversations/{quote(given.conversation, '')}")
        body = {
            "id": given.conversation or f"cli-{secrets.token_hex(8)}",
            "messages": [{"role": "user", "content": prompt}],
            "notebook": server.path(notebook),
            "mode": given.mode,
            "allow": given.yes,
            **({"model": given.model} if given.model else {}),
            **({"max_steps": given.max_steps} if given.max_steps else {}),
        }
        shown = Console(io.StringIO(), sys.stderr, {}) if given.json else console
        if not shown.is_interactive:
            body["on_approval"] = "decline"
        cells = server.ask("GET", f"{server.route(notebook)}?outputs=none")["cells"]
        with shown.working() as working:
            chat = Chat(server, body)
            named = Cells([cell["id"] for cell in cells])
            asking = _TerminalTurn(chat, shown, working, named, Phrasebook(tools))
            asking.follow()
        if given.json:
            console.json(chat.outcome())
        console.end_line()
        for hint in asking.hints():
            console.tell(hint, "warning")
        return asking.answer.exit_code


class _TerminalTurn:
    """One turn at the terminal."""

    def __init__(
        self, chat: Chat, console: Console, working: Working, cells: Cells, phrases: Phrasebook
    ) -> None:
        self._chat = chat
        self._console = console
        self._working = working
        self._cells = cells
        self._phrases = phrases
        self._refused: dict[str, Mapping[str, Any]] = {}
        self._stopping = False
        self.answer = AnswerPrinter(console, working, cells, phrases, chat.outputs_of)

    def follow(self) -> None:
        """Shows the answer to its end; Ctrl-C stops the turn and shows what it did until then.

        Raises KeyboardInterrupt on a second Ctrl-C, ServerRefused if the question cannot be asked.
        """
        while True:
            try:
                for chunk in self._chunks():
                    self._take(chunk)
                break
            except KeyboardInterrupt:
                if self._stopping:
                    raise
                self._stopping = True
                self._working.on("")
                self._console.tell("Stopping...")
                self._chat.stop()
        self._working.on("")
        for line in self.answer.summary():
            self._console.line(line, "faint")

    def hints(self) -> Iterator[str]:
        """How to allow the calls that were refused because no one could be asked."""
        return map(approval_hint, self._refused.values())

    def _chunks(self) -> Iterator[Mapping[str, Any]]:
        """Chunks not seen yet: repeating the request joins the turn."""
        self._working.on("Asking")
        return self._chat.chunks()

    def _take(self, chunk: Mapping[str, Any]) -> None:
        self.answer.show(chunk)
        if self._stopping and chunk["type"] == "start":  # Ctrl-C came before the turn started
            self._chat.stop()
        if chunk["type"] == "data-notice" and chunk["data"]["kind"] == "approval":
            if self._chat.attended:
                self._settle()
            else:
                self._refuse(chunk["data"]["approval"])

    def _refuse(self, approval: Mapping[str, Any]) -> None:
        """Shows what the server declines because no one is there to answer."""
        settle(self._console, [approval], self._cells, self._phrases)
        self._refused[approval["tool"]] = approval

    def _settle(self) -> None:
        """Asks the open questions, or refuses them if the person has gone."""
        groups = self._chat.questions()
        self._working.on("")
        for group in groups:
            self._reply(group)

    def _reply(self, approvals: Sequence[Mapping[str, Any]]) -> None:
        replies = settle(self._console, approvals, self._cells, self._phrases)
        if replies is None:
            replies = refusals(approvals)
            self._refused.update({each["tool"]: each for each in approvals})
        if not self._chat.reply(replies):
            self._console.tell("That was answered elsewhere, or is over.")


def _prompt(given: str | None) -> str:
    is_piped = sys.stdin is not None and not sys.stdin.isatty()
    if given == "-" or (given is None and is_piped):
        given = read_input()
    return (given or "").strip()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number above 0")
    return int(text)
