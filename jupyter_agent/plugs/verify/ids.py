"""Normalises the ids in HTML pages, which may be a new counter or random number each time.

Parsed with patterns that are not slower for odd pages, as `html.parser` is. Text that they miss,
such as a tag with `>` in a value, stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_TAG = re.compile(r"(</?[a-zA-Z][^<>]*>)")
_ATTRIBUTE = re.compile(r"\s([\w:-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")
_NAMES_IDS = frozenset(
    "for form list headers aria-activedescendant aria-controls aria-describedby aria-details "
    "aria-errormessage aria-flowto aria-labelledby aria-owns".split()
)
"""Attributes whose words are ids: https://html.spec.whatwg.org/multipage/indices.html"""
_LINK = re.compile(r"^#(.+)")
_URL = re.compile(r"url\([\"']?#([^\"')]+)")
_SELECTED = re.compile(r"#([\w-]+)")
_QUOTED = re.compile(r"[\"']#?([\w:.-]+)(?=[\"'])")
_WORD = re.compile(r"(\S+)")
_BLOCKS = re.compile(r"([{};])")


class _Name(str):
    """A piece of a page that may be an id."""


class _Id(_Name):
    """An id that an element of the page declares."""


def number_ids(pages: Sequence[str]) -> Sequence[str]:
    """The pages with numbers in place of their ids, so that pages that only differ in ids become
    equal; unchanged if all have the same ids.

    Replaced are references in attributes such as `for`, links within the page, style selectors, and
    script strings that consist of an id. Ids that a page does not declare stay.
    """
    read = [list(_page(page)) for page in pages]
    ids = [_numbers(pieces) for pieces in read]
    if all(each == ids[0] for each in ids):
        return pages
    return [_rename(pieces, names) for pieces, names in zip(read, ids, strict=True)]


def _numbers(pieces: Sequence[str]) -> dict[str, str]:
    """Id -> number, in the order of declaration."""
    declared = dict.fromkeys(piece for piece in pieces if isinstance(piece, _Id))
    return {name: f"<{number}>" for number, name in enumerate(declared, start=1)}


def _rename(pieces: Sequence[str], names: Mapping[str, str]) -> str:
    return "".join(
        names.get(piece, piece) if isinstance(piece, _Name) else piece for piece in pieces
    )


def _page(page: str) -> Iterator[str]:
    within = ""
    for number, piece in enumerate(_TAG.split(page)):
        name = piece[1:].split(maxsplit=1)[0].rstrip(">").lower() if number % 2 else ""
        if within == "style" and name != "/style":
            yield from _style(piece)
        elif within == "script" and name != "/script":
            yield from _naming(_QUOTED, piece)
        elif name:
            within = name
            yield from _tag(piece)
        else:
            yield piece


def _tag(tag: str) -> Iterator[str]:
    done = 0
    for found in _ATTRIBUTE.finditer(tag):
        start, end = found.span(found.lastindex or 0)
        yield tag[done:start]
        yield from _value(found[1].lower(), tag[start:end])
        done = end
    yield tag[done:]


def _value(name: str, value: str) -> Iterator[str]:
    if name == "id":
        yield _Id(value)
    elif name in _NAMES_IDS:
        yield from _naming(_WORD, value)
    elif name in ("href", "xlink:href"):
        yield from _naming(_LINK, value)
    else:
        yield from _naming(_URL, value)


def _style(text: str) -> Iterator[str]:
    """Selectors are only before a block: inside it, `#` starts a colour."""
    pieces = [*_BLOCKS.split(text), ""]
    for piece, end in zip(pieces[::2], pieces[1::2], strict=True):
        yield from _naming(_SELECTED if end == "{" else _URL, piece)
        yield end


def _naming(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Split the text into matches of the pattern's group, as `_Name`, and the rest."""
    done = 0
    for found in pattern.finditer(text):
        yield text[done : found.start(1)]
        yield _Name(found[1])
        done = found.end(1)
    yield text[done:]
