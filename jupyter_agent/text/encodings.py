"""The text of a file that programs of many countries may have written."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins as that of UTF-16 does
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = "[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]"
_NO_TEXT = re.compile(_CONTROLS)
_NO_BYTES = re.compile(_CONTROLS.encode())
_WORD = re.compile(rb"[\x80-\xff]{3}")
"""Letters beyond ASCII, which stand alone in western languages."""
_WESTERN = "cp1252"
_OTHERS = (
    "cp932", "euc_jp", "gb18030", "big5", "euc_kr",
    "cp1251", "koi8_r", "cp1253", "cp1255", "cp1256",
)  # fmt: skip
"""Encodings that can be told from each other and from the western one."""
_NAMES = {"utf-8-sig": "utf-8", "cp932": "shift_jis"}
_SNIFFED = 200
"""Lines by which an encoding is told."""


@dataclass(frozen=True)
class Decoded:
    """The text of a file, and the encoding that it is in as far as that can be told."""

    text: str
    encoding: str = "utf-8"

    @property
    def note(self) -> str:
        """What a reader is told of the encoding; empty for UTF-8."""
        return "" if self.encoding == "utf-8" else f"read as {self.encoding}"


def decoded(raw: bytes) -> Decoded | None:
    """The text of a file; None for one that is no text."""
    certain = _certain(raw)
    if certain is not None or not _may_be_guessed(raw):
        return certain
    encoding = _guessed(raw)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        encoding, text = _WESTERN, raw.decode(_WESTERN, "replace")
    return Decoded(text, _NAMES.get(encoding, re.sub("^cp", "windows-", encoding)))


def is_text(raw: bytes) -> bool:
    """Whether `decoded` gives a text. Quick, also for much."""
    return _certain(raw) is not None or _may_be_guessed(raw)


def _may_be_guessed(raw: bytes) -> bool:
    return not (_marked(raw) or _NO_BYTES.search(raw))


def _marked(raw: bytes) -> str | None:
    """The encoding that a file says itself, by the mark at its beginning."""
    return next((name for mark, name in _BOMS if raw.startswith(mark)), None)


def _certain(raw: bytes) -> Decoded | None:
    """A text whose encoding is certain."""
    encoding = _marked(raw) or "utf-8"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        return None
    odd = "\0" in text if encoding.startswith("utf-8") else _NO_TEXT.search(text)
    return None if odd else Decoded(text, _NAMES.get(encoding, encoding))


def _guessed(raw: bytes) -> str:
    """The likeliest encoding: the western one where letters say nothing else, or where what tells
    the others from it is not installed: it comes with JupyterLab.
    """
    lines = islice((line for line in raw.splitlines() if not line.isascii()), _SNIFFED)
    sample = b"\n".join(lines)
    if _WORD.search(sample):
        with suppress(ImportError):
            from charset_normalizer import from_bytes

            best = from_bytes(sample, cp_isolation=[_WESTERN, *_OTHERS]).best()
            return best.encoding if best is not None else _WESTERN
    return _WESTERN
