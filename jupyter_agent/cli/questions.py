"""Approvals on the terminal: exactly what an answer allows, and the answer."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jupyter_agent.cli.terminal import Console, exact
from jupyter_agent.cli.words import Cells, Line, phrase, styled

Approval = Mapping[str, Any]
_NOBODY = "Nobody can be asked any more. Do not try again; say what is left to do."


def settle(
    console: Console, asked: Sequence[Approval], cells: Cells
) -> list[dict[str, Any]] | None:
    """The answers to the approvals of one group, as the route takes them; None where nobody can be
    asked."""
    words = [phrase(each["tool"], each["input"], cells.name) for each in asked]
    console.tell("")
    console.tell(f"{'; '.join(map(exact, words))}?", "strong")
    for approval in asked:
        for text, style in _shown(approval, cells):
            console.tell(f"  {text}", style)
    edits = all("diff" in each or "edits" in each for each in asked)
    more = "e = yes to all edits of this answer, " if edits else ""
    said = console.ask(
        f"[y = yes, {more}a = always in this conversation, n = no, or type what to do instead] "
    )
    if said is None:
        return None
    yes = said.lower() in ("y", "yes", "e", "a") and (edits or said.lower() != "e")
    remember = {"e": "turn", "a": "conversation"}.get(said.lower()) if yes else None
    reason = "" if yes or said.lower() in ("", "n", "no") else said
    return [
        {"id": each["id"], "approved": yes, "reason": reason, "remember": remember}
        for each in asked
    ]


def refusals(asked: Sequence[Approval]) -> list[dict[str, Any]]:
    """The answers where nobody can be asked."""
    return [{"id": each["id"], "approved": False, "reason": _NOBODY} for each in asked]


def way_on(approval: Approval) -> str:
    """How the call can be made without a terminal."""
    if approval.get("loads"):
        return f"`{approval['tool']}` would load from elsewhere; a person has to allow it."
    return (
        f"`{approval['tool']}` needs approval: run this in a terminal, or with "
        f"`--yes {approval['tool']}`."
    )


def _shown(approval: Approval, cells: Cells) -> Iterator[Line]:
    """What would be done, with every character that hides spelt out."""
    if approval.get("server"):
        yield f"sent to {exact(approval['server'])}:", "plain"
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
    if approval.get("kernel"):
        yield f"kernel: {exact(approval['kernel'])}", "faint"
    for system in approval.get("clusters", ()):
        yield f"It may start a job with {exact(system)}.", "warning"
    for address in approval.get("loads", ()):
        yield f"It would load {exact(address)} as soon as it is shown.", "warning"


def _text(text: str) -> Iterator[Line]:
    for line in text.split("\n"):
        yield f"| {exact(line)}", "plain"


def _diff(text: str) -> Iterator[Line]:
    for line in text.split("\n"):
        yield styled(exact(line))
