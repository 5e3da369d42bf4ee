"""Who may do what: the table of permissions, in one place."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, get_args
from unicodedata import normalize

from jupyter_agent.tools.base import Action

Mode: TypeAlias = Literal["read", "ask", "edit", "auto"]
MODES: tuple[Mode, ...] = get_args(Mode)
"""From the strictest to the freest."""
INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
"""The names that assistants agreed on: what stands there goes with every question."""
Verdict: TypeAlias = Literal["run", "ask", "deny"]
_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_INSTRUCTING = {name.lower() for name in INSTRUCTION_FILES}
_ROWS: Mapping[Action, tuple[Verdict, Verdict, Verdict, Verdict]] = {
    # in mode:   read   ask    edit   auto
    "read": ("run", "run", "run", "run"),
    "edit": ("deny", "ask", "run", "run"),
    "delete": ("deny", "ask", "run", "run"),
    "run": ("deny", "ask", "ask", "run"),
    "restart": ("deny", "ask", "ask", "ask"),
    "interrupt": ("deny", "ask", "ask", "ask"),
    "stop": ("deny", "run", "run", "run"),  # an interrupt of what the turn runs itself
}
_FIRST_CHANGE_ELSEWHERE: tuple[Verdict, Verdict, Verdict, Verdict] = ("deny", "ask", "ask", "run")
_REASONS: Mapping[Verdict, str] = {
    "run": "Mode `{mode}` allows `{tool}`.",
    "ask": "Mode `{mode}` asks before `{tool}`.",
    "deny": "Mode `{mode}` forbids `{tool}`; the user can choose a freer mode.",
}


@dataclass(frozen=True, kw_only=True)
class Act:
    """What a call is about to do, as far as permission depends on it."""

    tool: str
    action: Action
    notebook: str | None
    """The notebook or file by its name in rules (`Identity.name`)."""
    path: str | None = None
    """How it is reached, which is another name where links lead to it."""
    folds_case: bool = False
    """Whether these names mean the same in another case."""
    elsewhere: bool = False
    """Whether the notebook is not the turn's own and nothing was changed there in this turn."""

    @property
    def instructs(self) -> bool:
        """Whether it writes what later turns follow (Jupytext makes a notebook of any Markdown)."""
        name = posixpath.basename(self.notebook or "").lower()
        return self.action in ("edit", "delete") and name in _INSTRUCTING


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A verdict for the calls that match; `tool` and `notebook` are shell patterns.

    What holds for all that is in a folder (`exam/*`) holds for listing that folder, too. Through a
    link two names match: of the link, and of what it leads to; only the latter is ever allowed.
    """

    verdict: Literal["deny", "ask", "allow"]
    tool: str = "*"
    notebook: str = "*"

    def matches(self, act: Act) -> bool:
        if not fnmatchcase(act.tool, self.tool):
            return False
        names = {act.notebook, act.notebook if self.verdict == "allow" else act.path}
        return any(self._covers(name or "", act.folds_case) for name in names)

    def _covers(self, name: str, folds_case: bool) -> bool:
        pattern = normalize("NFC", self.notebook).removeprefix("./").removeprefix("/")
        if folds_case:
            name, pattern = name.casefold(), pattern.casefold()
        return fnmatchcase(name, pattern) or fnmatchcase(f"{name}/", pattern)


@dataclass(kw_only=True)
class Policy:
    """What holds in one turn, and what a person allowed in it."""

    mode: Mode = "ask"
    max_mode: Mode = "auto"
    """The administrator's ceiling."""
    allow: frozenset[str] = frozenset()
    """Tools that the caller approved beforehand."""
    rules: Sequence[Rule] = ()
    granted: set[Action] = field(default_factory=set)
    """Actions that a person approved in this turn."""
    touched: set[str] = field(default_factory=set)
    """Notebooks that this turn changed."""

    def edit_freely(self) -> None:
        """What is left of the turn goes on as in mode `edit`, where that is freer."""
        self.mode = max(self.mode, "edit", key=MODES.index)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether a call runs at once, needs a person's answer, or is refused, and why."""

    verdict: Verdict
    reason: str


def decide(act: Act, policy: Policy) -> Decision:
    """What happens to a call that Jupyter's authorizer let pass.

    In this order: the administrator's ceiling, deny rules, ask rules, allow rules, the mode.
    Nothing but a person's answer lets a model write a file of instructions: an injected one would
    go on to speak in every turn.
    """
    if _by_mode(act, policy.max_mode) == "deny":
        return Decision(
            verdict="deny",
            reason=f"The administrator limits this server to mode `{policy.max_mode}`, "
            f"which forbids `{act.tool}`.",
        )
    named = {rule.verdict for rule in policy.rules if rule.matches(act)}
    if "deny" in named:
        return Decision(verdict="deny", reason=f"A rule forbids `{act.tool}` here.")
    if "ask" in named:
        return Decision(verdict="ask", reason=f"A rule asks before `{act.tool}`.")
    mode = min(policy.mode, policy.max_mode, key=MODES.index)
    if act.instructs and _by_mode(act, mode) != "deny":
        return Decision(
            verdict="ask", reason=f"`{act.notebook}` goes with every question; a person decides."
        )
    if "allow" in named or act.tool in policy.allow:
        return Decision(verdict="run", reason=f"`{act.tool}` was allowed beforehand.")
    verdict = _by_mode(act, mode)
    if verdict == "ask" and mode == "auto" and act.action in policy.granted:
        return Decision(verdict="run", reason=f"`{act.action}` was approved in this turn.")
    return Decision(verdict=verdict, reason=_REASONS[verdict].format(mode=mode, tool=act.tool))


def _by_mode(act: Act, mode: Mode) -> Verdict:
    column = MODES.index(mode)
    verdicts = [_ROWS[act.action][column]]
    if act.elsewhere and act.action not in ("read", "stop"):
        verdicts.append(_FIRST_CHANGE_ELSEWHERE[column])
    return max(verdicts, key=_VERDICTS.index)
