"""Finds the marks of the dialect that crept into our texts.

`python -m tests.language [PATH ...]` prints each mark with its place, or those below these paths.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
_PRODUCT = ROOT / "jupyter_agent"
_PANEL = ROOT / "labextension"
FOLDERS = ("jupyter_agent", "labextension/src", "labextension/test", "tests")

_PLAIN_AFTER_NO = "longer|more|such|one|way|other|less"
MARKS: Mapping[str, str] = {
    r"(?:is|are|was|were|be|been|being|it) told": "gets, learns, sees, reads",
    r"anew": "again",
    r"(?:go|goes|going|went|gone) on(?! to\b)": "continues",
    r"where (?:it|they|none|nothing|nobody|no)": "if, when, in which; or name the place",
    r"none (?:where|when)": "None if; empty when",
    r"(?:is|are|was|were) (?-i:none)": "there is no ...",
    r"(?-i:w)hat (?:is|are|was|were)": "a noun: the outputs, the text, the state",
    r"meanwhile": "since then, in the meantime",
    r"(?:tells?|told|speaks?|spoken|says?|said|hears?|heard) of": "mentions, reports, says about",
    r"likewise": "also, the same for",
    r"of (?:theirs|ours|yours|mine|hers)": "their, our, your",
    r"(?:till|lest|whereby|thereof|wherein|whither|hence|thereby|wherefrom|wherewith)": "until, so",
    r"in vain": "without success",
    r"a second time": "again, twice",
    rf"(?<!there\x20)(?:is|are|was|were) no (?!(?:{_PLAIN_AFTER_NO})\b)[a-z]+": "is not a",
    r"at work": "working, running",
    r"(?:has|have|had|with|knows?|says?|gives?|makes?|needs?|keeps?) none": "has no ...",
    r"so (?:is|are|does|do|has|have)": "too, also",
    r"that is (?:one|none)": "name it",
    r"(?:comes?|came|becomes?|became) of": "happens to, results from",
    r"asked (?:of|after)": "asked for, requested",
}
"""A pattern between words -> what to write instead."""
_MARK = re.compile(rf"\b(?:{'|'.join(MARKS)})\b".replace(" ", r"\s+"), re.I)
"""Except for "What is ...?", which is a plain question."""

_PARTICIPLES = frozenset(
    "told shown left known found taken gone said kept held seen made given sent met written begun"
    " done lost set cut built brought caught drawn grown heard led spent won anew aside alone apart"
    " away beside together here where why how what soon under over within without onto".split()
)
_FUNCTION = re.compile(r"\s*(?:async )?def (\w+)\(")
_NOUNS = frozenset("feed need embed speed seed breed".split())


@dataclass(frozen=True)
class Text:
    """A piece of text in a file."""

    path: Path
    line: int
    """Of its start, from 1."""
    words: str

    def marks(self) -> Iterator[str]:
        """Each mark in the text, as `path:line: mark`."""
        for found in _MARK.finditer(self.words):
            line = self.line + self.words.count("\n", 0, found.start())
            mark = " ".join(found[0].split())
            yield f"{self.path.relative_to(ROOT)}:{line}: {mark}"


def for_users() -> Iterator[Text]:
    """Messages, prompts, help, the panel, the documentation and public docstrings."""
    for path in _sources(_PRODUCT, ".py"):
        strings, docs = _of_python(path)
        yield from strings
        if path.is_relative_to(_PRODUCT / "client") or path.is_relative_to(_PRODUCT / "tools"):
            yield from docs
    for path in _sources(_PANEL / "src", ".ts", ".tsx"):
        yield from _of_typescript(path)[0]
    pages = [*ROOT.glob("*.md"), *_PRODUCT.glob("cli/*.md"), *(ROOT / "docs").glob("*.md")]
    for path in [*pages, *(_PANEL / "schema").glob("*.json")]:
        yield Text(path, 1, path.read_text(encoding="utf-8"))


def for_developers(folder: str) -> Iterator[Text]:
    """The docstrings and comments below a folder of the repository."""
    for path in _sources(ROOT / folder, ".py"):
        yield from _of_python(path)[1]
    for path in _sources(ROOT / folder, ".ts", ".tsx"):
        yield from _of_typescript(path)[1]


def functions_named_by_participles() -> Iterator[str]:
    """Functions of the product whose name says when and not what, as `path:line: name`."""
    for path in _sources(_PRODUCT, ".py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if found := _FUNCTION.match(line):
                name = found[1].strip("_")
                ends = name.endswith("ed") and "_" not in name and name not in _NOUNS
                if name in _PARTICIPLES or ends:
                    yield f"{path.relative_to(ROOT)}:{number}: {found[1]}"


def _sources(folder: Path, *suffixes: str) -> Sequence[Path]:
    """The files below a folder, except the built panel."""
    built = _PRODUCT / "labextension"
    paths = (path for path in folder.rglob("*") if path.suffix in suffixes)
    return sorted(path for path in paths if not path.is_relative_to(built))


@cache
def _of_python(path: Path) -> tuple[list[Text], list[Text]]:
    """The strings of a file, and its docstrings and comments."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    documents = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
    strings, docs = [], []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = Text(path, node.lineno, node.value)
            (docs if node in documents else strings).append(text)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            docs.append(Text(path, token.start[0], token.string))
    return strings, docs


_COMMENT = re.compile(
    r"""(?P<code>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`)"""
    r"""|(?P<comment>//[^\n]*|/\*.*?\*/)""",
    re.DOTALL,
)


def _of_typescript(path: Path) -> tuple[list[Text], list[Text]]:
    """The code of a file with its strings, and its comments."""
    source = path.read_text(encoding="utf-8")
    comments = [
        Text(path, source.count("\n", 0, found.start()) + 1, found["comment"].replace("\n *", "\n"))
        for found in _COMMENT.finditer(source)
        if found["comment"]
    ]
    code = _COMMENT.sub(
        lambda found: "\n" * found[0].count("\n") if found["comment"] else found[0], source
    )
    return [Text(path, 1, code)], comments


def _main(paths: Sequence[str]) -> None:
    texts = [*for_users(), *(text for folder in FOLDERS for text in for_developers(folder))]
    places = {mark for text in texts for mark in text.marks()} | {*functions_named_by_participles()}
    for place in sorted(places):
        if not paths or place.startswith(tuple(paths)):
            sys.stdout.write(f"{place}\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
