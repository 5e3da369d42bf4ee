"""Configuration files of other agents: adds or removes an entry, and leaves the rest as it is."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.S)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])", re.S)
_SPACE = re.compile(r"\s*")
_INDENT = re.compile(r"\n([ \t]+)\S")


class Unfit(Exception):
    """The file cannot be changed safely; the message says why."""


def read(file: Path) -> str:
    """The text of a file; empty if there is no file. Raises Unfit."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise Unfit(f"{file} cannot be read: {error}.") from None


def write(file: Path, text: str) -> None:
    """Replaces a file, or removes it if the text is empty. Its kind of line ends stays. Raises
    Unfit.
    """
    real = Path(os.path.realpath(file))  # a link to a dotfiles repository stays a link
    try:
        if not text:
            real.unlink(missing_ok=True)
            return
        real.parent.mkdir(parents=True, exist_ok=True)
        end = "\r\n" if real.exists() and b"\r\n" in real.read_bytes() else "\n"
        handle, name = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        try:
            with open(handle, "w", encoding="utf-8", newline=end) as temporary:
                temporary.write(text)
            if real.exists():
                shutil.copymode(real, name)
            os.replace(name, real)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise Unfit(f"{file} cannot be written: {error}.") from None


class JsonFile:
    """JSON, also with comments and trailing commas."""

    def values(self, text: str) -> dict[str, Any]:
        """The content of the file. Raises Unfit."""
        try:
            values = json.loads(_plain(text)) if text.strip() else {}
        except ValueError as error:
            raise Unfit(f"It is not valid JSON: {error}.") from None
        if not isinstance(values, dict):
            raise Unfit("It is not a JSON object.")
        return values

    def lines(self, path: Sequence[str], entry: Mapping[str, Any]) -> str:
        """The entry as text to paste."""
        return json.dumps(_nest(path, entry), indent=2, ensure_ascii=False)

    def put(self, text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
        """The text with the entry. Raises Unfit."""
        if not text.strip():
            return self.lines(path, entry) + "\n"
        indent = found[1] if (found := _INDENT.search(text)) else "  "
        plain = _plain(text)
        start = _skip(plain, 0)
        for depth, key in enumerate(path):
            members = _members(plain, start)
            if key not in members:
                value: Any = _nest(path[depth + 1 :], entry)
                return _insert(text, plain, start, key, value, indent, depth + 1)
            _, start, end = members[key]
            if depth < len(path) - 1 and plain[start] != "{":
                raise Unfit(f"Its `{key}` is not an object.")
        return text[:start] + _dump(entry, indent, len(path)) + text[end:]

    def take(self, text: str, path: Sequence[str]) -> str:
        """The text without the entry and without objects left empty by it. Raises Unfit."""
        values: Any = self.values(text)
        for key in path[:-1]:
            values = values[key]
        if len(path) > 1 and len(values) == 1:
            return self.take(text, path[:-1])
        plain = _plain(text)
        start = _skip(plain, 0)
        for key in path[:-1]:
            start = _members(plain, start)[key][1]
        members = _members(plain, start)
        begin, _, end = members[path[-1]]
        names = list(members)
        at, comma = names.index(path[-1]), _skip(plain, end)
        if at + 1 < len(names):
            return text[:begin] + text[comma + 1 :].lstrip()
        if at == 0:
            return text[:begin].rstrip() + text[end:]
        if (trailing := _trailing(text, end)) is not None:
            return text[:begin].rstrip() + text[trailing + 1 :]
        before = members[names[at - 1]][2]
        comma = _skip(plain, before)
        between = text[before:comma] + text[comma + 1 : begin].rstrip()
        return text[:before] + between + text[end:]


def _plain(text: str) -> str:
    """Strict JSON with every character in its place: comments and trailing commas become
    spaces."""
    return _TRAILING_COMMA.sub(_blank, _without_comments(text))


def _without_comments(text: str) -> str:
    return _COMMENT.sub(_blank, text)


def _blank(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])


def _skip(plain: str, at: int) -> int:
    found = _SPACE.match(plain, at)
    assert found is not None
    return found.end()


def _members(plain: str, start: int) -> dict[str, tuple[int, int, int]]:
    """For each key of the object at `start`: where the key starts, and the value starts and
    ends."""
    decoder, members = json.JSONDecoder(), {}
    at = _skip(plain, start + 1)
    while plain[at] != "}":
        key, end = decoder.raw_decode(plain, at)
        value = _skip(plain, _skip(plain, end) + 1)
        _, end = decoder.raw_decode(plain, value)
        members[key] = (at, value, end)
        at = _skip(plain, end)
        if plain[at] == ",":
            at = _skip(plain, at + 1)
    return members


def _insert(
    text: str, plain: str, start: int, key: str, value: Any, indent: str, depth: int
) -> str:
    """The text with one more member at the end of the object at `start`."""
    member = f"\n{indent * depth}{json.dumps(key)}: {_dump(value, indent, depth)}"
    members = _members(plain, start)
    if not members:
        rest = text[start + 1 :].lstrip()
        return f"{text[: start + 1]}{member}\n{indent * (depth - 1)}{rest}"
    end = max(end for _, _, end in members.values())
    last = _trailing(text, end)
    after = end if last is None else last + 1
    line = text.find("\n", after)
    if line < 0 or plain[after:line].strip():  # the object ends on this line
        line = after
    head = text[:end] + "," if last is None else text[:after]
    return f"{head}{text[after:line]}{member}{'' if last is None else ','}{text[line:]}"


def _trailing(text: str, end: int) -> int | None:
    """The position of a comma after the last member, which ends at `end`; None without a comma."""
    at = _skip(without := _without_comments(text), end)
    return at if without[at] == "," else None


def _dump(value: Any, indent: str, depth: int) -> str:
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text.replace("\n", "\n" + indent * depth)


def _nest(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


class TomlFile:
    """TOML, with the entry as a table at the end of the file."""

    def values(self, text: str) -> dict[str, Any]:
        """The content of the file. Raises Unfit."""
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise Unfit(f"It is not valid TOML: {error}.") from None

    def lines(self, path: Sequence[str], entry: Mapping[str, Any]) -> str:
        """The entry as text to paste."""
        pairs = [f"{key} = {json.dumps(value)}" for key, value in entry.items()]
        return "\n".join([f"[{'.'.join(path)}]", *pairs])

    def put(self, text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
        """The text with the entry. Raises Unfit."""
        if path[-1] in self.values(text).get(path[0], {}):
            text = self.take(text, path)
        before = f"{text.rstrip()}\n\n" if text.strip() else ""
        return f"{before}{self.lines(path, entry)}\n"

    def take(self, text: str, path: Sequence[str]) -> str:
        """The text without the table and its subtables. Raises Unfit."""
        name = r"\s*\.\s*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in path)
        head = re.compile(rf"^[ \t]*\[\s*{name}\s*(?:\.[^\]]*)?\][^\n]*\n?", re.M)
        while (found := head.search(text)) is not None:
            after = re.compile(r"^[ \t]*(?:\[|#)", re.M).search(text, found.end())
            text = text[: found.start()] + (text[after.start() :] if after else "")
        return f"{text.rstrip()}\n" if text.strip() else ""
