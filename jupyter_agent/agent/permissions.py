"""Who may do what, in one table, and which code reaches beyond its kernel's language."""

from __future__ import annotations

import ast
import builtins
import keyword
import posixpath
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from itertools import chain
from pkgutil import iter_modules
from typing import Any, Literal, TypeAlias, get_args
from unicodedata import normalize

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as checked_dataclass

from jupyter_agent.agent.people import Person
from jupyter_agent.choices import MODES, Mode
from jupyter_agent.tools.base import Action

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
"""File names that AI assistants agreed on; their text is sent with every question."""
Verdict: TypeAlias = Literal["run", "ask", "deny"]
_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_MOST_NAMED = 5
"""Addresses listed in a reason."""
_INSTRUCTING = {name.lower() for name in INSTRUCTION_FILES}
_ROWS: Mapping[Action, tuple[Verdict, Verdict, Verdict, Verdict]] = {
    # in mode:   read   ask    edit   auto
    "read": ("run", "run", "run", "run"),
    "edit": ("deny", "ask", "run", "run"),
    "delete": ("deny", "ask", "run", "run"),
    "run": ("deny", "ask", "ask", "run"),
    "restart": ("deny", "ask", "ask", "ask"),
    "interrupt": ("deny", "ask", "ask", "ask"),
    "stop": ("deny", "run", "run", "run"),  # interrupts a run of the turn itself
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
    """The path by which it is reached; another name than `notebook` if that is through a link."""
    folds_case: bool = False
    """Whether upper and lower case are the same in these names."""
    elsewhere: bool = False
    """Whether it is not the turn's own notebook and the turn has changed nothing there yet."""
    loads: tuple[str, ...] = ()
    """Addresses on other servers that a page loads as soon as it shows the edited cells, and that
    the notebook did not load before."""
    kernel: str | None = None
    """Which life of the kernel would run the code, empty if no kernel is running; None if the call
    runs nothing there. For an MCP tool, a hash of its current definition."""
    leaves_language: bool = False
    """Whether the code that would run has `!` or `%`, which reach beyond the kernel's language."""
    writes: bool = False
    """Whether it changes cells, whatever else it does."""
    like: frozenset[str] = frozenset()
    """Other tools that do the same; rules that forbid them, or ask before them, also apply."""
    powers: tuple[tuple[str, ...], ...] = ()
    """For each tool whose work it does, the names of which one must be allowed; empty: its own."""

    @property
    def names(self) -> frozenset[str]:
        """The tool names whose deny and ask rules apply."""
        return frozenset({self.tool, *self.like, *chain.from_iterable(self.powers)})

    @property
    def instructs(self) -> bool:
        """Whether it writes a file of instructions, which later turns follow.

        With Jupytext, any Markdown file can be a notebook.
        """
        name = posixpath.basename(self.notebook or "").lower()
        writes = self.writes or self.action in ("edit", "delete")
        return writes and name in _INSTRUCTING


@checked_dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Rule:
    """A verdict for the calls that match; all other fields are shell patterns.

    `user` and `group` say whose calls: a turn only has the rules that apply to who asked.
    A rule for everything in a folder (`exam/*`) also applies to listing that folder. A link matches
    by its own name and by that of its target; a rule that allows only matches the target.
    """

    verdict: Literal["deny", "ask", "allow"]
    tool: str = "*"
    notebook: str = "*"
    user: str = "*"
    group: str = "*"

    def is_for(self, person: Person) -> bool:
        """Whether it applies to this person's calls."""
        return person.is_among(self.user, self.group)

    def matches(self, act: Act, names: Collection[str] | None = None) -> bool:
        """Whether it applies to the call, by the names of its tool or by `names` instead."""
        tools = act.names if names is None else names
        if not any(fnmatchcase(tool, self.tool) for tool in tools):
            return False
        places = {act.notebook, act.notebook if self.verdict == "allow" else act.path}
        return any(self._covers(place or "", act.folds_case) for place in places)

    def _covers(self, name: str, folds_case: bool) -> bool:
        pattern = normalize("NFC", self.notebook).removeprefix("./").removeprefix("/")
        if folds_case:
            name, pattern = name.casefold(), pattern.casefold()
        return fnmatchcase(name, pattern) or fnmatchcase(f"{name}/", pattern)


@dataclass(frozen=True, kw_only=True)
class Grant:
    """A person allowed this tool in this notebook for the rest of a conversation.

    It covers code only in the kernel that it was given for, until that restarts, and never code
    with `!` or `%`; an MCP tool only while its server describes it in the same way. No grant lets
    an edit load anything from another server.
    """

    tool: str
    notebook: str
    kernel: str | None = None
    """See `Act.kernel`."""

    def covers(self, act: Act) -> bool:
        return self.concerns(act) and act.kernel == self.kernel and not act.leaves_language

    def concerns(self, act: Act) -> bool:
        """Whether it is for this tool in this notebook, whatever the kernel and the code."""
        return act.tool == self.tool and self.is_for(act)

    def is_for(self, act: Act) -> bool:
        """Whether it is for the notebook of the act."""
        name = act.notebook or ""
        if act.folds_case:
            return name.casefold() == self.notebook.casefold()
        return name == self.notebook


@dataclass(kw_only=True)
class Policy:
    """The rules of one turn, and what a person has allowed in it."""

    mode: Mode = "ask"
    max_mode: Mode = "auto"
    """The administrator's ceiling."""
    preapproved_tools: frozenset[str] = frozenset()
    """Tools that the caller approved beforehand."""
    rules: Sequence[Rule] = ()
    allow_remote_content: bool = False
    """Whether the administrator lets edits load from other servers, in mode `auto`."""
    standing_grants: list[Grant] = field(default_factory=list)
    """What a person allowed for the rest of this conversation."""
    changed_notebooks: set[str] = field(default_factory=set)
    """Notebooks that this turn has changed."""

    def relax_to_edit(self) -> None:
        """Continue the turn in mode `edit`, unless its mode is already freer."""
        self.mode = max(self.mode, "edit", key=MODES.index)

    def grant(self, tool: str, notebook: str, kernel: str | None) -> None:
        """Let the tool run in that notebook without further questions."""
        same = (tool, notebook)
        others = [each for each in self.standing_grants if (each.tool, each.notebook) != same]
        self.standing_grants = [*others, Grant(tool=tool, notebook=notebook, kernel=kernel)]

    def bind_grants(self, act: Act, kernel: str) -> None:
        """The act ran in this kernel: bind to it the grants given while no kernel was running."""
        self.standing_grants = [
            replace(grant, kernel=kernel) if grant.kernel == "" and grant.is_for(act) else grant
            for grant in self.standing_grants
        ]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether a call runs at once, needs a person's answer, or is refused, and why."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True, kw_only=True)
class Hints:
    """What the table says about an action, whatever the mode."""

    reads: bool
    """It changes nothing."""
    destroys: bool
    """It may destroy something that cannot simply be restored."""


def hints(action: Action) -> Hints:
    """Hints about an action for clients, before any call.

    Undoing a turn does not revert an action that mode `edit` asks about; it does restore a deleted
    cell, but not its place in the kernel's history.
    """
    row = _ROWS[action]
    return Hints(
        reads=row[MODES.index("read")] == "run",
        destroys=action == "delete" or row[MODES.index("edit")] == "ask",
    )


def decide(act: Act, policy: Policy) -> Decision:
    """The decision about a call that Jupyter's authorizer let pass.

    In this order: the administrator's ceiling, deny rules, ask rules, allow rules, the mode.
    Only a person's answer lets a model write a file of instructions: an injected instruction would
    act in every later turn. The same holds for an edit that makes pages load something from another
    server, which sends that server whatever the address contains; in mode `auto` the administrator
    may allow it beforehand.
    """
    if _by_mode(act, policy.max_mode) == "deny":
        return Decision(
            verdict="deny",
            reason=f"The administrator allows no freer mode than `{policy.max_mode}` here, "
            f"which forbids `{act.tool}`.",
        )
    named = {rule.verdict for rule in policy.rules if rule.matches(act)} - {"allow"}
    if "deny" in named:
        return Decision(verdict="deny", reason=f"A rule forbids `{act.tool}` here.")
    if "ask" in named:
        return Decision(verdict="ask", reason=f"A rule asks before `{act.tool}`.")
    mode = min(policy.mode, policy.max_mode, key=MODES.index)
    if act.instructs and _by_mode(act, mode) != "deny":
        return Decision(
            verdict="ask", reason=f"`{act.notebook}` goes with every question; a person decides."
        )
    if act.loads and _by_mode(act, mode) != "deny":
        if mode != "auto" or not policy.allow_remote_content:
            return Decision(verdict="ask", reason=_loading(act.loads))
    if all(_is_preapproved(names, act, policy) for names in act.powers or ({act.tool},)):
        return Decision(verdict="run", reason=f"`{act.tool}` was allowed beforehand.")
    verdict = _by_mode(act, mode)
    if verdict == "ask" and any(grant.covers(act) for grant in policy.standing_grants):
        return Decision(verdict="run", reason=f"`{act.tool}` was allowed in this conversation.")
    return Decision(verdict=verdict, reason=_REASONS[verdict].format(mode=mode, tool=act.tool))


def _is_preapproved(names: Collection[str], act: Act, policy: Policy) -> bool:
    """Whether the caller, or a rule for the act's notebook, allows one of these tools."""
    if not policy.preapproved_tools.isdisjoint(names):
        return True
    return any(rule.verdict == "allow" and rule.matches(act, names) for rule in policy.rules)


def _loading(addresses: Sequence[str]) -> str:
    shown = ", ".join(f"`{address}`" for address in addresses[:_MOST_NAMED])
    more = f" and {len(addresses) - _MOST_NAMED} more" if len(addresses) > _MOST_NAMED else ""
    return f"It would load {shown}{more} as soon as it is shown; a person decides."


def _by_mode(act: Act, mode: Mode) -> Verdict:
    column = MODES.index(mode)
    verdicts = [_ROWS[act.action][column]]
    if act.elsewhere and act.action not in ("read", "stop"):
        verdicts.append(_FIRST_CHANGE_ELSEWHERE[column])
    return max(verdicts, key=_VERDICTS.index)


_STARTS = re.compile(r"^[^\S\n]*+[!%]", re.M)
"""Shell commands and magics in kernels other than IPython."""
_FIRST_WORD = re.compile(r"[\s,;/]*+([A-Za-z_]\w*+)(?!\.\w)\s*+(?!=)")
"""A leading name, unless it is part of an assignment or a comparison."""
_HELP = re.compile(r"\?\s*+$", re.M)
_KERNEL_MAGICS = frozenset(
    {"autosave", "clear", "connect_info", "ed", "hist", "less", "man", "more", "qtconsole", "rep"}
)
"""Magics that ipykernel adds, and other special names of IPython."""


def leaves_language(code: str, language: str = "") -> bool:
    """Whether the code may call the shell or a magic in a kernel of this language, or in any kernel
    if the language is empty. True in doubt.
    """
    if language not in ("python", ""):
        return bool(_STARTS.search(code))
    manager = _transformers()
    if manager is None:
        return any(sign in code for sign in "!%") or _is_automagic(code)
    lines = code.splitlines(keepends=True)
    try:
        for transform in manager.cleanup_transforms:  # removes indents and copied prompts
            lines = transform(lines)
        if any(transform(lines) != lines for transform in manager.line_transforms):
            return True
        changed, _ = manager.do_one_token_transform(lines)  # once: a hostile cell has thousands
    except Exception:  # noqa: BLE001 - IPython's parser may raise anything on hostile code
        return True
    plain = "".join(lines)
    return bool(changed) or _is_automagic(plain) or _asks_for_help(plain)


def _is_automagic(code: str) -> bool:
    """Whether IPython takes the code for a magic without `%`, as with a single line such as
    `ls -la`, `pip install x` or `sx("ls")`.
    """
    if len(code.strip().splitlines()) != 1:
        return False
    first = _FIRST_WORD.match(code)
    if first is None or keyword.iskeyword(first[1]) or hasattr(builtins, first[1]):
        return False
    names = _magics()
    return names is None or first[1] in names or not _is_python(code)


def _asks_for_help(code: str) -> bool:
    """Whether IPython would find a `name?`, which it also does in code that Python refuses."""
    return bool(_HELP.search(code)) and not _is_python(code)


def _is_python(code: str) -> bool:
    try:
        ast.parse(code.strip())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


@cache
def _transformers() -> Any:
    """IPython's transformer of cells, or None if the server has no IPython."""
    try:
        return import_module("IPython.core.inputtransformer2").TransformerManager()
    except ImportError:
        return None


@cache
def _magics() -> frozenset[str] | None:
    """The names of IPython's line magics and aliases, or None if the server has no IPython."""
    try:
        package = import_module("IPython.core.magics")
        for module in iter_modules(package.__path__):
            import_module(f"{package.__name__}.{module.name}")
        kinds = import_module("IPython.core.magic").Magics.__subclasses__()
        aliases = dict(import_module("IPython.core.alias").default_aliases())
    except ImportError:
        return None
    return _KERNEL_MAGICS.union(aliases, *(kind.magics.get("line", ()) for kind in kinds))
