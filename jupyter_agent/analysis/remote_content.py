"""What a page loads from elsewhere as soon as it shows a cell.

Between a cell and a browser stand several parsers (Markdown, a sanitizer, HTML, CSS, TeX), which
differ. So this does not look for what loads. It takes out what all of them read alike: plain links,
pictures and tags. In the rest, if anything may load and anything looks like an address, the one may
belong to the other, and all these addresses are named. Nothing takes more than linear time.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from jupyter_agent.document.cell import Cell

MOST_SHOWN = 300
"""Characters of an address that has to be read by a person."""

_JOINED = re.compile(r"\n[ \t>]*|[\x00-\x08\x0b-\x1f\x7f\t\xad\u200b-\u200f\u2060-\u2064\ufeff]")
_CODE = re.compile(r"\\([0-9a-fA-F]{1,6})[ \t\n\f]?")
_ADDRESS = re.compile(
    r"(?:(?:\A|[(\"'=<:,;])\s*(?=[/\\]{2})|(?=(?:https?|ftps?|wss?):|//))"
    r"((?:\w+:|[/\\]{2})\S[^\s\"'<>()`]*)",
    re.I,
)
"""TeX ends lines with `\\\\` and divides by `/\\`: those count only where an address may begin."""
_HOST = re.compile(r"(?:https?:)?//([a-z0-9.\-]+(?::\d+)?)[/?#]", re.I)
_USER = re.compile(r"^((?:\w+:)?[/\\]*)[^/\\?#]*@")
_NO_NAME = r"(?!/[\w:\-]+=)"  # where it is cut open, an attribute could begin there
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
"""Where something plain was: around it nothing is, though no tag begins there."""
_MARKUP = re.compile(r"<[^<>]*>")
_OPEN_TAG = re.compile(r"<(?=[a-zA-Z])")
_ASSIGNED = re.compile(r"[\s\"'/>][a-zA-Z][\w:\-]+\s*=|=\s*[\"']")
_BROKEN_OUT = re.compile(r"(?:style|src(?:set)?|background|poster)\s*=", re.I)
_ACTIVE = re.compile(
    r"<(?:script|iframe|frame|embed|object|applet|portal|fencedframe|base|meta|link)[^>]{0,100}"
    r"|(?<=[\s\"'/>])(?:srcdoc|on[a-z]{3,})\s*=[^>]{0,100}",
    re.I,
)
"""What is a document or a program of its own: it loads what it likes."""

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
"""It writes styles, attributes or addresses into the page, or defines what may."""
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
"""In a paragraph: there may be a formula, code, a definition, an unfinished address."""


def added(before: Iterable[Cell], after: Iterable[Cell]) -> tuple[str, ...]:
    """The addresses that these cells would load once they are as in `after`, each shortened.

    Those of hosts from which the notebook surely loads something already are not among them.
    """
    cells = {cell.id: cell for cell in before}
    turned = any(cell.type != "code" and _turns_tex(cell.source) for cell in cells.values())
    found: dict[str, str] = {}
    for cell in after:
        was = cells.get(cell.id)
        if cell.type != "code" and (was is None or was.version != cell.version):
            found.update(loads(cell.source))
            formulas = _formulas(cell.source) if turned else ()
            found.update((_shortened(each), "") for each in formulas if "\\" in each)
    if not found:
        return ()
    shown = [cell.source for cell in cells.values() if cell.type == "markdown"]
    known = {host for source in shown if "//" in source for host in _surely(source)}
    return tuple(address for address, host in found.items() if host not in known)


def loads(source: str) -> Mapping[str, str]:
    """Address -> its host, lower case, of all that a Markdown or raw cell may load when shown.

    The host is empty where it is not certain for every reader. What may load without an address
    of its own stands for itself.
    """
    source = _LINE_END.sub("\n", source)
    rest, found = _without_the_plain(source)
    strong = list(_strong(rest))
    if strong or _may_load(rest, source):
        found.update((address, _host(address)) for address in _addresses(rest))
    found.update(dict.fromkeys(strong, ""))
    return {_shortened(address): host for address, host in found.items()}


def _surely(source: str) -> Iterator[str]:
    """The hosts of pictures that no reader takes for anything else than pictures."""
    text = _LINE_END.sub("\n", source)
    for paragraph in _PARAGRAPHS.split(_UNSURE.split(text, maxsplit=1)[0]):
        rest, found = _without_the_plain(paragraph)
        is_plain = "<" not in rest.replace(_GAP, "")
        if not is_plain or ("<" in paragraph and re.search(r"[\[`$\\]", paragraph)):
            return  # what follows may be within an attribute
        if "![" not in rest and not _UNSEEN.search(paragraph):
            yield from filter(None, found.values())


# -- addresses


def _host(address: str) -> str:
    """Empty unless its end is certain: what cuts an address off for one is userinfo for others."""
    match = _HOST.match(address)
    return match[1].lower() if match else ""


def _shortened(address: str) -> str:
    """Its beginning, with the whole host."""
    text = " ".join(address.split())
    if len(text) > MOST_SHOWN:
        text = _USER.sub(r"\1…@", text)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"


def _addresses(text: str) -> Iterator[str]:
    return chain.from_iterable(map(_ADDRESS.findall, _readings(text)))


def _readings(text: str) -> Iterable[str]:
    """The text for whoever resolves entities, line ends, codes or escapes."""
    plain = unicodedata.normalize("NFKC", html.unescape(text.replace(_GAP, "")))
    joined = _JOINED.sub("", plain)
    resolved = html.unescape(_CODE.sub(r"&#x\1;", joined))
    return dict.fromkeys([text, plain, joined, resolved, resolved.replace("\\", "")])


# -- what is plain


def _without_the_plain(text: str) -> tuple[str, dict[str, str]]:
    """The text without what loads nothing for any reader, and what loads for each."""
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
    """Without those addresses that no picture refers to."""
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
    """The same for labels that any reader takes for the same; empty if that is not certain."""
    return re.sub(r"[^a-z0-9]", "", text.lower()) if text.isascii() and "&" not in text else ""


def _leads_away(target: str) -> bool:
    """Whether it is one address, or none that could be loaded."""
    return _CLEAR.match(target.strip("<>")) is not None or _is_quiet(target)


def _is_quiet(value: str) -> bool:
    return next(_addresses(value), None) is None


# -- what may load


def _strong(text: str) -> Iterator[str]:
    """What may load without an address that can be seen: it puts one together, or is a document."""
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
    """Whether anything in there could be a picture, a tag or a formula that uses an address."""
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
    """Per paragraph, all from the first sign of a formula to the last."""
    for paragraph in _PARAGRAPHS.split(text):
        signs = list(_FORMULA.finditer(paragraph))
        if len(signs) > 1:
            yield paragraph[signs[0].end() : signs[-1].start()]


def _writes(formulas: str) -> bool:
    """Whether a command may get an address; it may be another name of any."""
    return "\\" in formulas and any(map(_IN_TEX.search, _readings(formulas)))


def _turns_tex(source: str) -> bool:
    """Whether it may define a command, of any name, that writes styles: there is one MathJax, so
    it would hold in the formulas of all cells.
    """
    plain = html.unescape(source) if "\\" in source else ""
    return bool(re.search(rf"\\{_DEFINING}", plain)) and bool(
        re.search(rf"\\{_STYLING}", plain) or _IN_TEX.search(plain)
    )


def _breaks_out(formulas: str) -> bool:
    """JupyterLab puts formulas back as they are, with their quotes, also into attributes."""
    return '"' in formulas and _BROKEN_OUT.search(formulas) is not None
