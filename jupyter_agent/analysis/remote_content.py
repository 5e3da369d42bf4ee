"""Finds the remote content that a page loads as soon as it shows a cell.

Several parsers (Markdown, a sanitizer, HTML, CSS, TeX) stand between a cell and a browser, and they
differ. So this does not search for loading constructs. It removes everything that all parsers read
alike: plain links, pictures and tags. If the rest has anything that may load and anything that
looks like an address, the two may belong together, so all these addresses are reported. Everything
takes linear time.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from jupyter_agent.document.cell import Cell

MOST_SHOWN = 300
"""Characters of an address that a person has to read."""

_JOINED = re.compile(r"\n[ \t>]*|[\x00-\x08\x0b-\x1f\x7f\t\xad\u200b-\u200f\u2060-\u2064\ufeff]")
_CODE = re.compile(r"\\([0-9a-fA-F]{1,6})[ \t\n\f]?")
_ADDRESS = re.compile(
    r"(?:(?:\A|[(\"'=<:,;])\s*(?=[/\\]{2})|(?=(?:https?|ftps?|wss?):|//))"
    r"((?:\w+:|[/\\]{2})\S[^\s\"'<>()`]*)",
    re.I,
)
"""TeX ends lines with `\\\\` and divides by `/\\`: these only count where an address may start."""
_HOST = re.compile(r"(?:https?:)?//([a-z0-9.\-]+(?::\d+)?)[/?#]", re.I)
_USER = re.compile(r"^((?:\w+:)?[/\\]*)[^/\\?#]*@")
_NO_NAME = r"(?!/[\w:\-]+=)"  # if it were cut open, an attribute could start there
_CLEAR = re.compile(
    rf"(?:https?:)?//(?:{_NO_NAME}[^\s<>()\[\]|\\\"'`$&]|&(?:amp;)?(?![^&]*;))++", re.I | re.A
)
_DATA = re.compile(r"(?<![\w:/\\])data:image/[\w.+\-]+(?:;[\w=\-]+)*+,[\w+/=%.\-]*", re.I)

_LABEL = r"([^\[\]\\`<>$]*+)"
_CHARACTER = r"[^\s\x00-\x20\x7f-\xa0\ufeff<>()\[\]|\\\"'`$]"
_TARGET = (
    rf"(<(?:{_NO_NAME}{_CHARACTER})++>|(?:{_NO_NAME}{_CHARACTER}|\([\w%.,\-]*\))*+)"
    r"(?:[ \t]+(?:\"[^\"\\`<>$=|\n]*\"|'[^'\\`<>$=|\n]*'))?[ \t]*"
)
_PICTURE = re.compile(rf"!\[{_LABEL}\]\([ \t]*{_TARGET}\)")
_LINK = re.compile(rf"(?<![!\\\]])\[{_LABEL}\]\([ \t]*{_TARGET}\)")
_REFERENCE = re.compile(rf"!\[{_LABEL}\](?:\[{_LABEL}\])?(?![\[(:])")
_DEFINITION = re.compile(rf"^[ >]*\[{_LABEL}\]:[ \t]*{_TARGET}$", re.M)
_AUTOLINK = re.compile(r"<((?:https?:|mailto:)[^\s<>()\"'`\\$]+|[\w.+\-]+@[\w.\-]+)>", re.I)

_VALUE = r"\"[^\"<>\[\]|$\\`\n]*\"|'[^'<>\[\]|$\\`\n]*'|[^\s\"'<>\[\]|$\\`]+"
_NAME = r"(?=\s)[ \t]*\n?[ \t]*([a-zA-Z][\w:\-]*+)"
_TAG = re.compile(
    rf"(?<!\\)</?([a-zA-Z][\w\-]*)((?:{_NAME}(?:=(?:{_VALUE}))?+)*+)(?:[ \t]*>|[ \t]*\n?[ \t]*/>)"
)
_ATTRIBUTE = re.compile(rf"{_NAME}(?:=({_VALUE}))?")
_LINKS = {("a", "href"), ("area", "href"), ("blockquote", "cite"), ("q", "cite")}
_WORDS = {"title", "alt", "xmlns", "xmlns:xlink"}
_GAP = "<>"
"""Replaces a plain element: no tag starts here, and no construct spans it."""
_MARKUP = re.compile(r"<[^<>]*>")
_OPEN_TAG = re.compile(r"<(?=[a-zA-Z])")
_ASSIGNED = re.compile(r"[\s\"'/>][a-zA-Z][\w:\-]+\s*=|=\s*[\"']")
_BROKEN_OUT = re.compile(r"(?:style|src(?:set)?|background|poster)\s*=", re.I)
_ACTIVE = re.compile(
    r"<(?:script|iframe|frame|embed|object|applet|portal|fencedframe|base|meta|link)[^>]{0,100}"
    r"|(?<=[\s\"'/>])(?:srcdoc|on[a-z]{3,})\s*=[^>]{0,100}",
    re.I,
)
"""Documents and programs, which load what they like."""

_FORMULA = re.compile(r"\$|\\[()\[\]]|\\(?:begin|end)|@@")
_QUIET_TEX = re.compile(
    r"\\(?:unicode\{x?[0-9a-fA-F]+\}|(?:class|cssId|require)\{[\w \-]*\}|bbox\[[\w ,.#\-]*\]"
    r"|href\{(?:(?!/[\w:\-]+=)[^\s{}()\\$%<>|\"'`])*+\})"
)
_STYLING = (
    r"(?:unicode|U|mmlToken|style|class|cssId|data|html[a-zA-Z]*|href|url|includegraphics|require"
    r"|bbox|fcolorbox|csname|definecolor|mathtoolsset|setOptions)(?![a-zA-Z])"
)
_DEFINING = (
    r"(?:(?:future)?let|[egx]?def|global|(?:re)?new(?!line)[a-zA-Z]*"
    r"|New[a-zA-Z]*|provide[a-zA-Z]*|Declare[a-zA-Z]*)(?![a-zA-Z])"
)
_STRONG_TEX = re.compile(
    rf"\\(?:{_STYLING}|{_DEFINING})[^\n$]{{0,100}}"
    r"|\\[a-zA-Z]*<(?:[!?]|[a-zA-Z/][^<>]*=\s*[\"'])"  # the name continues after the tag
)
"""TeX that writes styles, attributes or addresses into the page, or defines such commands."""
_IN_TEX = re.compile(r"(?:https?|ftps?|wss?):\S|//\S|[(\"']\s*[/\\]{2}\S|src\s*=", re.I)

_FENCE = re.compile(r"(?:`{3,}|~{3,})([^\n]*)")
_WORD = re.compile(r"[ \t]*(?![\w\-]*(?:vega|geojson|topojson|plotly))[\w.+#\-]*[ \t]*", re.I)
_DIAGRAM = re.compile(r"^```mermaid[ \t]*\n([^~\\&@<$!`]*+)^```[ \t]*$", re.M)
_IN_DIAGRAM = re.compile(
    r"//|:/|#\w*;|%%\{|^---|img|image|icon|url|src|href|click|call|theme|config|import|\w\s*=",
    re.I | re.M,
)
_UNSURE = re.compile(
    r"```|~~~|<(?!/?(?:a|b|br|center|div|font|h\d|i|img|p|span|table|tbody|td|th|tr)\b)", re.I
)
_LINE_END = re.compile(r"\r\n?")
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_UNSEEN = re.compile(
    r"[`$\\|]|@@|\]:|[^\s\[]\[*!\[|\A {0,3}(?:\t| {4})|^ *[>*+\-\d.)][ >*+\-\d.)]*(?:\t| {4})", re.M
)
"""Signs of a formula, code, a definition or an unfinished address in a paragraph."""


def added_addresses(before: Iterable[Cell], after: Iterable[Cell]) -> tuple[str, ...]:
    """The addresses, shortened, that the new and changed cells of `after` may load when shown.

    Hosts from which the notebook certainly loads something already are left out.
    """
    cells = {cell.id: cell for cell in before}
    turned = any(cell.type != "code" and _turns_tex(cell.source) for cell in cells.values())
    found: dict[str, str] = {}
    for cell in after:
        was = cells.get(cell.id)
        if cell.type != "code" and (was is None or was.version != cell.version):
            found.update(loaded_addresses(cell.source))
            formulas = _formulas(cell.source) if turned else ()
            found.update((_shorten(each), "") for each in formulas if "\\" in each)
    if not found:
        return ()
    shown = [cell.source for cell in cells.values() if cell.type == "markdown"]
    known = {host for source in shown if "//" in source for host in _surely(source)}
    return tuple(address for address, host in found.items() if host not in known)


def loaded_addresses(source: str) -> Mapping[str, str]:
    """Everything that a Markdown or raw cell may load when shown: address -> its lower-case host.

    The host is empty if parsers may disagree on it. A construct that may load something without a
    visible address is listed as its own text.
    """
    source = _LINE_END.sub("\n", source)
    rest, found = _without_the_plain(source)
    strong = list(_strong(rest))
    if strong or _may_load(rest, source):
        found.update((address, _host(address)) for address in _addresses(rest))
    found.update(dict.fromkeys(strong, ""))
    return {_shorten(address): host for address, host in found.items()}


def _surely(source: str) -> Iterator[str]:
    """The hosts of pictures that every parser takes for pictures."""
    text = _LINE_END.sub("\n", source)
    for paragraph in _PARAGRAPHS.split(_UNSURE.split(text, maxsplit=1)[0]):
        rest, found = _without_the_plain(paragraph)
        is_plain = "<" not in rest.replace(_GAP, "")
        if not is_plain or ("<" in paragraph and re.search(r"[\[`$\\]", paragraph)):
            return  # the rest may be inside an attribute
        if "![" not in rest and not _UNSEEN.search(paragraph):
            yield from filter(None, found.values())


# -- addresses


def _host(address: str) -> str:
    """The host; empty unless its end is certain: a character that ends an address for one parser is
    part of the userinfo for another.
    """
    match = _HOST.match(address)
    return match[1].lower() if match else ""


def _shorten(address: str) -> str:
    """The start of an address, with the whole host."""
    text = " ".join(address.split())
    if len(text) > MOST_SHOWN:
        text = _USER.sub(r"\1…@", text)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"


def _addresses(text: str) -> Iterator[str]:
    return chain.from_iterable(map(_ADDRESS.findall, _readings(text)))


def _readings(text: str) -> Iterable[str]:
    """The text as parsers see it that resolve entities, line ends, codes or escapes."""
    plain = unicodedata.normalize("NFKC", html.unescape(text.replace(_GAP, "")))
    joined = _JOINED.sub("", plain)
    resolved = html.unescape(_CODE.sub(r"&#x\1;", joined))
    return dict.fromkeys([text, plain, joined, resolved, resolved.replace("\\", "")])


# -- plain content


def _without_the_plain(text: str) -> tuple[str, dict[str, str]]:
    """The text without plain elements that every parser reads alike, and the addresses that every
    parser loads, with their hosts.
    """
    found: dict[str, str] = {}

    def is_plain(address: str) -> bool:
        address = address.strip("<>")
        if _CLEAR.fullmatch(address):
            found[address] = _host(f"{address}/")
            return True
        return _is_quiet(address.partition("?")[0])

    def picture(match: re.Match[str]) -> str:
        return match[1] if is_plain(match[2]) else match[0]

    def link(match: re.Match[str]) -> str:
        return match[1] if _leads_away(match[2]) else match[0]

    def tag(match: re.Match[str]) -> str:
        element, source = match[1].lower(), ""
        if _ACTIVE.match(match[0]):
            return match[0]
        for name, quoted in _ATTRIBUTE.findall(match[2]):
            name, value = name.lower(), quoted.strip("\"'")
            if (element, name) == ("img", "src") and not source:
                source = value
            elif _is_quiet(value) and name != "srcdoc" and not name.startswith("on"):
                continue
            elif "=" not in value and (name in _WORDS or (element, name) in _LINKS):
                continue
            elif (element, name) not in _LINKS or not _CLEAR.fullmatch(value):
                return match[0]
        return _GAP if is_plain(source) else match[0]

    text = _DATA.sub(lambda match: match[0] if _BROKEN_OUT.search(match[0]) else "x", text)
    text = _QUIET_TEX.sub(_GAP, text)
    text = _DIAGRAM.sub(lambda match: match[0] if _IN_DIAGRAM.search(match[1]) else _GAP, text)
    if "<style" not in text.lower():
        text = _TAG.sub(tag, text)
    text = _PICTURE.sub(picture, _AUTOLINK.sub(rf"{_GAP}\1", text))
    return _without_definitions(_LINK.sub(link, text)), found


def _without_definitions(text: str) -> str:
    """The text without the link definitions that no picture refers to."""
    pictures = _REFERENCE.findall(text)
    labels = {_label(each) for labels in pictures for each in labels if each}
    if "" in labels or text.count("![") > len(pictures):
        return text

    def definition(match: re.Match[str]) -> str:
        label = _label(match[1])
        is_of_links = label and label not in labels and _leads_away(match[2])
        return match[1] if is_of_links else match[0]

    return _DEFINITION.sub(definition, text)


def _label(text: str) -> str:
    """A label in a form that is equal if any parser takes two for equal; empty if uncertain."""
    return re.sub(r"[^a-z0-9]", "", text.lower()) if text.isascii() and "&" not in text else ""


def _leads_away(target: str) -> bool:
    """Whether the target is a single clear address, or has nothing that could be loaded."""
    return _CLEAR.match(target.strip("<>")) is not None or _is_quiet(target)


def _is_quiet(value: str) -> bool:
    return next(_addresses(value), None) is None


# -- content that may load


def _strong(text: str) -> Iterator[str]:
    """Constructs that may load without a visible address: they compose one, or are a document."""
    plain = html.unescape(text)
    for reading in dict.fromkeys([text, plain, _MARKUP.sub("", plain)]):
        if _FORMULA.search(reading):
            yield from (match[0] for match in _STRONG_TEX.finditer(reading))
    if "<" in text:
        yield from (match[0] for match in _ACTIVE.finditer(text))
    for fence in _FENCE.finditer(text):
        info = unicodedata.normalize("NFKC", fence[1]).lower()
        if "mermaid" in re.sub(r"[^a-z]", "", info):
            yield fence[0]


def _may_load(text: str, source: str) -> bool:
    """Whether the text could have a picture, a tag or a formula that uses an address."""
    tag = _OPEN_TAG.search(text)
    if "![" in text or (tag and _ASSIGNED.search(text, tag.end())) or "<style" in text.lower():
        return True
    if any(not _WORD.fullmatch(fence[1]) for fence in _FENCE.finditer(text)):
        return True
    plain = html.unescape(text)
    if _FORMULA.search(plain) and re.search("<[!?]", plain):
        return True  # a comment does not end a formula
    return any(map(_writes, _formulas(plain))) or any(map(_breaks_out, _formulas(source)))


def _formulas(text: str) -> Iterator[str]:
    """For each paragraph the text from its first to its last sign of a formula."""
    for paragraph in _PARAGRAPHS.split(text):
        signs = list(_FORMULA.finditer(paragraph))
        if len(signs) > 1:
            yield paragraph[signs[0].end() : signs[-1].start()]


def _writes(formulas: str) -> bool:
    """Whether a command may get an address; any command may be an alias."""
    return "\\" in formulas and any(map(_IN_TEX.search, _readings(formulas)))


def _turns_tex(source: str) -> bool:
    """Whether the source may define a command, of any name, that writes styles. A page has one
    MathJax, so the command would apply to the formulas of all cells.
    """
    plain = html.unescape(source) if "\\" in source else ""
    return bool(re.search(rf"\\{_DEFINING}", plain)) and bool(
        re.search(rf"\\{_STYLING}", plain) or _IN_TEX.search(plain)
    )


def _breaks_out(formulas: str) -> bool:
    """JupyterLab puts formulas back unchanged, with their quotes, even into attributes."""
    return '"' in formulas and _BROKEN_OUT.search(formulas) is not None
