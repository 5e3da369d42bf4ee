"""Who may do what, in one table, and which code reaches beyond the language of its kernel."""

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

from jupyter_agent.agent.people import Person
from jupyter_agent.choices import MODES, Mode
from jupyter_agent.tools.base import Action

INSTRUCTION_FILES = ("AGENTS.md", "CLAUDE.md")
"""The names that assistants agreed on: what stands there goes with every question."""
Verdict: TypeAlias = Literal["run", "ask", "deny"]
_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

_MOST_NAMED = 5
"""Addresses that a reason names."""
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
    loads: tuple[str, ...] = ()
    """Addresses of other servers that a page asks as soon as it shows what an edit leaves, and that
    the notebook did not ask before."""
    kernel: str | None = None
    """In which of its lives the notebook's kernel is that would run code, empty while none runs;
    None for what runs nothing there. Of a tool of another server: what that is now, as a hash."""
    leaves_language: bool = False
    """Whether the code that would run has `!` or `%`, which reach beyond the kernel's language."""
    writes: bool = False
    """Whether it changes cells, whatever else it does."""
    like: frozenset[str] = frozenset()
    """Other tools that do the same: what forbids them, or asks before them, holds for it, too."""
    powers: tuple[tuple[str, ...], ...] = ()
    """The names of each tool whose work it does, of which one must be allowed; none: its own."""

    @property
    def names(self) -> frozenset[str]:
        """By which tools' rules it is forbidden, or asked about."""
        return frozenset({self.tool, *self.like, *chain.from_iterable(self.powers)})

    @property
    def instructs(self) -> bool:
        """Whether it writes what later turns follow (Jupytext makes a notebook of any Markdown)."""
        name = posixpath.basename(self.notebook or "").lower()
        writes = self.writes or self.action in ("edit", "delete")
        return writes and name in _INSTRUCTING


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A verdict for the calls that match; all other fields are shell patterns.

    `user` and `group` say whose calls: a turn has only the rules that are about who asked.
    What holds for all that is in a folder (`exam/*`) holds for listing that folder, too. Through a
    link two names match: of the link, and of what it leads to; only the latter is ever allowed.
    """

    verdict: Literal["deny", "ask", "allow"]
    tool: str = "*"
    notebook: str = "*"
    user: str = "*"
    group: str = "*"

    def is_for(self, person: Person) -> bool:
        """Whether it is about what this person asks for."""
        return person.is_among(self.user, self.group)

    def matches(self, act: Act, names: Collection[str] | None = None) -> bool:
        """Whether it is about the call: by the name of its tool, or one of `names` instead."""
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
    """What a person allowed for the rest of a conversation: this tool in this notebook.

    Code runs by it in the kernel that it was said for, until that restarts, and never with `!` or
    `%`; a tool of another server as long as that says the same of it; and no grant lets an edit
    load anything from elsewhere.
    """

    tool: str
    notebook: str
    kernel: str | None = None
    """As `Act.kernel`."""

    def covers(self, act: Act) -> bool:
        return self.concerns(act) and act.kernel == self.kernel and not act.leaves_language

    def concerns(self, act: Act) -> bool:
        """Whether it is about this tool in this notebook, whatever the kernel and the code."""
        return act.tool == self.tool and self.is_for(act)

    def is_for(self, act: Act) -> bool:
        """Whether it is about the notebook of the act."""
        name = act.notebook or ""
        if act.folds_case:
            return name.casefold() == self.notebook.casefold()
        return name == self.notebook


@dataclass(kw_only=True)
class Policy:
    """What holds in one turn, and what a person allowed in it."""

    mode: Mode = "ask"
    max_mode: Mode = "auto"
    """The administrator's ceiling."""
    allow: frozenset[str] = frozenset()
    """Tools that the caller approved beforehand."""
    rules: Sequence[Rule] = ()
    allow_remote_content: bool = False
    """Whether the administrator lets edits load from elsewhere, in mode `auto`."""
    grants: list[Grant] = field(default_factory=list)
    """What a person allowed in this conversation."""
    touched: set[str] = field(default_factory=set)
    """Notebooks that this turn changed."""

    def edit_freely(self) -> None:
        """What is left of the turn goes on as in mode `edit`, where that is freer."""
        self.mode = max(self.mode, "edit", key=MODES.index)

    def grant(self, tool: str, notebook: str, kernel: str | None) -> None:
        """From now on the tool needs no answer in that notebook."""
        same = (tool, notebook)
        self.grants = [each for each in self.grants if (each.tool, each.notebook) != same]
        self.grants.append(Grant(tool=tool, notebook=notebook, kernel=kernel))

    def started(self, act: Act, kernel: str) -> None:
        """The act ran in this kernel: what was granted while none ran is for this one."""
        self.grants = [
            replace(grant, kernel=kernel) if grant.kernel == "" and grant.is_for(act) else grant
            for grant in self.grants
        ]


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether a call runs at once, needs a person's answer, or is refused, and why."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True, kw_only=True)
class Hints:
    """What the table says of all acts of a row, whatever the mode."""

    reads: bool
    """Nothing is changed."""
    destroys: bool
    """It may do away with something that is not simply taken back."""


def hints(action: Action) -> Hints:
    """What may be said of an action beforehand: one that mode `edit` asks about is not taken back
    by undoing a turn; a deleted cell is, but not its place in the kernel's history.
    """
    row = _ROWS[action]
    return Hints(
        reads=row[MODES.index("read")] == "run",
        destroys=action == "delete" or row[MODES.index("edit")] == "ask",
    )


def decide(act: Act, policy: Policy) -> Decision:
    """What happens to a call that Jupyter's authorizer let pass.

    In this order: the administrator's ceiling, deny rules, ask rules, allow rules, the mode.
    Nothing but a person's answer lets a model write a file of instructions: an injected one would
    go on to speak in every turn. The same holds for an edit that makes pages ask another server for
    something, which tells that server whatever stands in the address; in mode `auto` the
    administrator may answer beforehand.
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
    if all(_allowed(names, act, policy) for names in act.powers or ({act.tool},)):
        return Decision(verdict="run", reason=f"`{act.tool}` was allowed beforehand.")
    verdict = _by_mode(act, mode)
    if verdict == "ask" and any(grant.covers(act) for grant in policy.grants):
        return Decision(verdict="run", reason=f"`{act.tool}` was allowed in this conversation.")
    return Decision(verdict=verdict, reason=_REASONS[verdict].format(mode=mode, tool=act.tool))


def _allowed(names: Collection[str], act: Act, policy: Policy) -> bool:
    """Whether one of these tools was allowed beforehand where the call is made."""
    if not policy.allow.isdisjoint(names):
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
"""In kernels other than IPython."""
_FIRST_WORD = re.compile(r"[\s,;/]*+([A-Za-z_]\w*+)(?!\.\w)\s*+(?!=)")
"""A name and whatever follows, but for an assignment or a comparison."""
_HELP = re.compile(r"\?\s*+$", re.M)
_OF_KERNELS = frozenset(
    {"autosave", "clear", "connect_info", "ed", "hist", "less", "man", "more", "qtconsole", "rep"}
)
"""What ipykernel adds, and other names of IPython's own."""


def leaves_language(code: str, language: str = "") -> bool:
    """Whether the code may call the shell or a magic of a kernel of this language, of any if that
    is not known; where it is not certain, it does.
    """
    if language not in ("python", ""):
        return bool(_STARTS.search(code))
    manager = _transformers()
    if manager is None:
        return any(sign in code for sign in "!%") or _is_automagic(code)
    lines = code.splitlines(keepends=True)
    try:
        for transform in manager.cleanup_transforms:  # indents, and prompts that were copied
            lines = transform(lines)
        if any(transform(lines) != lines for transform in manager.line_transforms):
            return True
        changed, _ = manager.do_one_token_transform(lines)  # once: a hostile cell has thousands
    except Exception:  # noqa: BLE001 - whatever another's parser raises of hostile code
        return True
    plain = "".join(lines)
    return bool(changed) or _is_automagic(plain) or _asks_for_help(plain)


def _is_automagic(code: str) -> bool:
    """IPython takes a single line such as `ls -la`, `pip install x` or `sx("ls")` for a magic,
    without any sign.
    """
    if len(code.strip().splitlines()) != 1:
        return False
    first = _FIRST_WORD.match(code)
    if first is None or keyword.iskeyword(first[1]) or hasattr(builtins, first[1]):
        return False
    names = _magics()
    return names is None or first[1] in names or not _is_python(code)


def _asks_for_help(code: str) -> bool:
    """IPython finds `name?` in code that Python refuses, too."""
    return bool(_HELP.search(code)) and not _is_python(code)


def _is_python(code: str) -> bool:
    try:
        ast.parse(code.strip())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


@cache
def _transformers() -> Any:
    """What IPython transforms cells with, or None if the server has no IPython."""
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
    return _OF_KERNELS.union(aliases, *(kind.magics.get("line", ()) for kind in kinds))
