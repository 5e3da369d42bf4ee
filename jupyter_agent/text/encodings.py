"""Decodes text files whose encoding is unknown."""

from __future__ import annotations

import codecs
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # starts with the UTF-16 mark, so it comes first
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CONTROLS = "[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]"
_NO_TEXT = re.compile(_CONTROLS)
_NO_BYTES = re.compile(_CONTROLS.encode())
_WORD = re.compile(rb"[\x80-\xff]{3}")
"""Three non-ASCII bytes in a row: in western languages such letters usually stand alone."""
_WESTERN = "cp1252"
_OTHERS = (
    "cp932", "euc_jp", "gb18030", "big5", "euc_kr",
    "cp1251", "koi8_r", "cp1253", "cp1255", "cp1256",
)  # fmt: skip
"""Encodings that detection can distinguish from each other and from the western one."""
_NAMES = {"utf-8-sig": "utf-8", "cp932": "shift_jis"}
_SNIFFED = 200
"""Non-ASCII lines that detection samples."""


@dataclass(frozen=True)
class Decoded:
    """The text of a file, and its encoding as far as it could be detected."""

    text: str
    encoding: str = "utf-8"

    @property
    def note(self) -> str:
        """A note on the encoding for the reader; empty for UTF-8."""
        return "" if self.encoding == "utf-8" else f"read as {self.encoding}"


def decode(raw: bytes) -> Decoded | None:
    """Decode the bytes of a file; None for binary data."""
    certain = _certain(raw)
    if certain is not None or not _may_guess_encoding(raw):
        return certain
    encoding = _guess_encoding(raw)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        encoding, text = _WESTERN, raw.decode(_WESTERN, "replace")
    return Decoded(text, _NAMES.get(encoding, re.sub("^cp", "windows-", encoding)))


def is_text(raw: bytes) -> bool:
    """Whether `decode` would return a text. Fast even for large files."""
    return _certain(raw) is not None or _may_guess_encoding(raw)


def _may_guess_encoding(raw: bytes) -> bool:
    return not (_bom_encoding(raw) or _NO_BYTES.search(raw))


def _bom_encoding(raw: bytes) -> str | None:
    """The encoding named by a byte order mark at the start of the file."""
    return next((name for mark, name in _BOMS if raw.startswith(mark)), None)


def _certain(raw: bytes) -> Decoded | None:
    """The text, if its encoding is certain: UTF-8, or named by a byte order mark."""
    encoding = _bom_encoding(raw) or "utf-8"
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError:
        return None
    odd = "\0" in text if encoding.startswith("utf-8") else _NO_TEXT.search(text)
    return None if odd else Decoded(text, _NAMES.get(encoding, encoding))


def _guess_encoding(raw: bytes) -> str:
    """The likeliest encoding. The western one by default, and if `charset_normalizer` is not
    installed (it comes with JupyterLab).
    """
    lines = islice((line for line in raw.splitlines() if not line.isascii()), _SNIFFED)
    sample = b"\n".join(lines)
    if _WORD.search(sample):
        with suppress(ImportError):
            from charset_normalizer import from_bytes

            best = from_bytes(sample, cp_isolation=[_WESTERN, *_OTHERS]).best()
            return best.encoding if best is not None else _WESTERN
    return _WESTERN
