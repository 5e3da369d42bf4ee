"""What a page loads from elsewhere as soon as it shows a cell.

It is no parser. Between a cell and a browser stand several of them (Markdown, a sanitizer, HTML,
CSS, TeX), which differ, so this looks for whatever any of them could take for something that is
loaded, and would rather name an address too many. Only links that are certainly links, which load
nothing before somebody clicks, are left out. Nothing here takes more than linear time.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jupyter_agent.document.cell import Cell

MOST_SHOWN = 300
"""Characters of an address that has to be read by a person."""
UNKNOWN = "(too much to be checked)"

_QUIET_SCHEMES = {
    "attachment", "data", "blob", "about", "cid", "mailto", "tel", "javascript", "vbscript",
}  # fmt: skip
_ACTIVE = {"iframe", "frame", "embed", "object", "portal", "fencedframe", "base", "meta", "link"}
"""Elements in which `data:` and scripts are documents of their own, which load what they like."""
_LINKS = {
    ("a", "href"), ("area", "href"), ("form", "action"), ("button", "formaction"),
    ("input", "formaction"), ("blockquote", "cite"), ("q", "cite"), ("ins", "cite"),
    ("del", "cite"),
}  # fmt: skip
_WORDS = {
    "title", "alt", "class", "id", "name", "target", "rel", "lang", "role", "value", "placeholder",
    "label", "summary", "property", "itemtype", "itemid", "itemprop", "typeof", "vocab",
}  # fmt: skip
_ADDRESSES = {"src", "href", "xlink:href", "poster", "background", "data", "action", "longdesc"}
"""Attributes whose value is one address."""
_MOST_PLACES = 200
"""In a cell, where so much text follows that has to be looked through."""
_MOST_STEPS = 50_000
"""Attributes that are looked at: where tags overlap, some are looked at more than once."""

_SPACE = re.compile(
    r"[\x00-\x20\x7f\u00a0\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff]+"
)
_SCHEME = re.compile(r"([a-z][a-z0-9+.\-]*):")
_ANYWHERE = re.compile(r"(?:\b(?:https?|ftps?|wss?|file):|[/\\]{2})[^\s\"'`<>();,]*", re.I)
_DATA = re.compile(r"data:[\w/+.;=,%\-]*", re.I)
_QUOTED = re.compile(r"^[ \t]*>[ \t>]*", re.M)
_BLANK = re.compile(r"\n[ \t]*\n")

_CLEAN = r"[^\[\]\\`<>$]*"
_BRACKETS = re.compile(r"!\[|\[|\]\(|\]:|\]")
_LINKED = re.compile(rf"(?<![!\\])\[(?:[^\[\]\\`<>$]|!\[{_CLEAN}\]\([^()\s\\`<>$]*\))*\](?=\()")
_TARGET = re.compile(r"[\s>]*(<[^<>\n]*|[^\s)]*)")
_DEFINED = re.compile(r"[\s>]*(<[^<>\n]*|\S*)")
_LABEL = re.compile(rf"({_CLEAN})\](?:[\s>]*(\[)(?:({_CLEAN})\])?)?")

_TAG = re.compile(r"<([a-zA-Z][^\s/<>]*)")
_ATTRIBUTE = re.compile(r"[\s/]*([^\s/>][^\s/>=]*)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]*)))?")
_MARKUP = re.compile(r"<[^<>]*>")
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})[ \t\n\f]?|(.))")
_UNICODE = re.compile(r"\\unicode(?![a-zA-Z])(?!\{)(.{0,300})", re.S)
_STYLED = re.compile(r"\\(?:mmlToken|style|bbox|cssId|class|data)(?![a-zA-Z])([^$\n]{0,1000})")
_MERMAID = re.compile(r"((?<!`)`{3,}+|(?<!~)~{3,}+)[ \t]*+mermaid", re.I)


def added(before: Iterable[Cell], after: Iterable[Cell]) -> tuple[str, ...]:
    """The addresses that these cells would load once they are as in `after`, each shortened.

    Those of hosts from which the notebook loads something already are not among them.
    """
    cells = {cell.id: cell for cell in before}
    changed = [
        cell for cell in after if cell.id not in cells or cells[cell.id].version != cell.version
    ]
    found = _of(changed)
    if not found:
        return ()
    known = _of(cells.values())
    hosts = set(known.values()) - {""}
    return tuple(
        address
        for address, host in found.items()
        if (host not in hosts if host else address not in known)
    )


def _of(cells: Iterable[Cell]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for cell in cells:
        if cell.type != "code":
            found.update(loads(cell.source))
    return found


def loads(source: str) -> Mapping[str, str]:
    """Address -> its host, lower case, of all that a Markdown or raw cell loads when it is shown.

    The host is empty where the address names none that could be known again.
    """
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    texts = dict.fromkeys([text, _QUOTED.sub("", text)])
    found = {
        _shortened(address): _host(address)
        for each in texts
        for part in (_pictures(each), _elements(each), _tex(each), _mermaid(each))
        for address in part
    }
    return found


# -- addresses


def _remote(address: str) -> bool:
    """Whether a browser that reads it, however it is written, asks another server for it."""
    return any(_leaves(read) for read in _readings(address))


def _readings(address: str) -> Iterator[str]:
    """What it is with entities resolved, and with a backslash as an escape or as a slash."""
    for read in dict.fromkeys([address, html.unescape(address)]):
        plain = _SPACE.sub("", read).strip("<>\"'`").lower()
        yield plain.replace("\\", "/")
        yield re.sub(r"\\(?=[^\w\s])", "", plain).replace("\\", "/")


def _leaves(plain: str) -> bool:
    scheme = _SCHEME.match(plain)
    if scheme is not None:
        return scheme[1] not in _QUIET_SCHEMES
    return plain.startswith("//")


def _host(address: str) -> str:
    """Of an address of the usual form; of another, none: it is then known as a whole."""
    plain = next((read for read in _readings(address) if _leaves(read)), "")
    named = re.fullmatch(r"(?:https?:)?/+([^/?#]+)(?:[/?#].*)?", plain, re.S)
    host = named[1].rpartition("@")[2] if named else ""
    return host if re.fullmatch(r"[a-z0-9.\-]+(:\d+)?", host) else ""


def _shortened(address: str) -> str:
    text = " ".join(address.split()).strip("<>\"'`")
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"


def _anywhere(text: str) -> list[str]:
    """What looks like an address of another server, wherever it stands."""
    plain = _DATA.sub("", html.unescape(text))
    return [match[0] for match in _ANYWHERE.finditer(plain)]


# -- Markdown


def _pictures(text: str) -> Iterator[str]:
    """The addresses of pictures, in the text or by reference."""
    if "![" not in text:
        return
    defined: dict[str, list[str]] = {}  # by label; "" for what may have any
    links = {match.end() - 1 for match in _LINKED.finditer(text)}
    blocks = _BLANK.finditer(text)
    block = next(blocks, None)
    opened, is_picture, closed, picture_in_block = 0, False, True, False
    for match in _BRACKETS.finditer(text):
        while block is not None and block.start() <= match.start():
            picture_in_block, block = False, next(blocks, None)
        sign = match[0]
        if sign in ("![", "["):
            opened, is_picture, closed = match.end(), sign == "![", False
            picture_in_block |= is_picture
            continue
        if sign == "](":
            is_link = match.start() in links
            if (is_picture and not closed) or (picture_in_block and not is_link):
                yield from _if_remote(_TARGET, text, match.end())
        elif sign == "]:":
            label = "" if closed else _label(text[opened : match.start()])
            if text[max(opened - 2, 0) : opened - 1] == "\\":
                label = ""
            defined.setdefault(label, []).extend(_if_remote(_DEFINED, text, match.end()))
        closed = True
    if any(defined.values()):
        yield from _by_reference(text, defined)


def _by_reference(text: str, defined: Mapping[str, Sequence[str]]) -> Iterator[str]:
    every = [address for addresses in defined.values() for address in addresses]
    for start in re.finditer(r"!\[", text):
        match = _LABEL.match(text, start.end())
        labels = [] if match is None else [_label(match[1])]
        if match is not None and match[2]:
            labels.append("" if match[3] is None else _label(match[3]) or labels[0])
        if "" in labels or not labels:
            yield from every
            return
        for label in (*labels, ""):
            yield from defined.get(label, ())


def _label(text: str) -> str:
    """The same for labels that any parser takes for the same; empty if that is not certain."""
    if not text.isascii() or re.search(r"[\[\]\\`<>$&]", text):
        return ""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _if_remote(pattern: re.Pattern[str], text: str, start: int) -> list[str]:
    match = pattern.match(text, start)
    return [match[1]] if match is not None and _remote(match[1]) else []


# -- HTML and CSS


def _elements(text: str) -> Iterator[str]:
    """What elements load; each `<` may be the beginning of one, also within another's attribute."""
    steps = 0
    for tag in _TAG.finditer(text):
        name = tag[1].lower()
        if name.startswith("script"):
            yield _script(text, tag.start())
        position = tag.end()
        while (match := _ATTRIBUTE.match(text, position)) is not None:
            steps += 1 + (match.end() - position) // 50
            if steps > _MOST_STEPS:
                yield UNKNOWN
                return
            position = match.end()
            value = next((group for group in match.groups()[1:] if group is not None), "")
            if value:
                yield from _attribute(name, match[1].lower(), value)
    for part in re.split(r"</style", text, flags=re.I):
        start = re.search(r"<style", part, re.I)
        if start is not None:
            yield from _css(part[start.end() :])


def _script(text: str, start: int) -> str:
    """A script asks for what it likes; it is known again only as a whole."""
    return text[start : start + 1_000].partition("</")[0]


def _attribute(element: str, name: str, value: str) -> Iterable[str]:
    if name == "style":
        return _css(value)
    if (element, name) in _LINKS or name in _WORDS or name.startswith(("xmlns", "aria-", "data-")):
        return ()
    if element.startswith(("http:", "https:")):
        return ()  # an address in angle brackets, which is a link
    if name.startswith("on") and name.isalpha():
        return [f"{name}={value}"]
    if name == "srcdoc":
        return loads(html.unescape(value))
    if element in _ACTIVE and re.match(r"\s*(data|javascript|blob|vbscript)\s*:", value, re.I):
        return [value]
    if name in _ADDRESSES:
        return [value] if _remote(value) else ()
    if name.endswith("srcset"):
        return [part for part in re.split(r"[\s,]+", html.unescape(value)) if _remote(part)]
    return [value] if _remote(value) else _anywhere(value)


def _css(text: str) -> Iterator[str]:
    """Addresses in a style sheet, with escapes resolved; those of `data:` load nothing."""

    def character(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[2] or ""
        code = int(match[1], 16)
        return chr(code) if 0 < code < 0x110000 else "\ufffd"

    for plain in dict.fromkeys([text, html.unescape(text)]):
        for bare in dict.fromkeys([plain, _without_comments(plain)]):
            yield from _anywhere(_ESCAPE.sub(character, bare))
            yield from _anywhere(re.sub(r"[\n\r\t\f\x00]", "", bare))


def _without_comments(text: str) -> str:
    kept, position = [], 0
    while (start := text.find("/*", position)) >= 0:
        kept.append(text[position:start])
        end = text.find("*/", start + 2)
        position = len(text) if end < 0 else end + 2
    return "".join([*kept, text[position:]])


# -- TeX and diagrams


def _tex(text: str) -> Iterator[str]:
    r"""MathJax writes the font of `\unicode[font]` into a style as it is."""
    if "\\" not in text and "&" not in text:
        return
    plain = html.unescape(text)
    for read in dict.fromkeys([text, plain, _MARKUP.sub("", plain)]):
        for match in _UNICODE.finditer(read):
            yield from _anywhere(match[1]) or [match[0]]
        for count, match in enumerate(_STYLED.finditer(read)):
            if count == _MOST_PLACES:
                yield UNKNOWN
                break
            yield from _css(match[1])


def _mermaid(text: str) -> Iterator[str]:
    """Diagrams may hold pictures and styles."""
    for count, match in enumerate(_MERMAID.finditer(text)):
        if count == _MOST_PLACES:
            yield UNKNOWN
            break
        end = re.compile(rf"^[ \t]*{re.escape(match[1])}", re.M).search(text, match.end())
        yield from _anywhere(text[match.end() : end.start() if end else None])
