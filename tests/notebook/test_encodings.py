"""Text files of many programs and countries are read in their encoding; other files are refused."""

from __future__ import annotations

import io
import pickle
import sys
import zipfile

import pytest
from PIL import Image

from jupyter_agent.text.encodings import Decoded, decode, is_text

FRENCH = "région;coût\nÎle-de-France;12\nProvence-Alpes-Côte d’Azur;3 €\n"
JAPANESE = "地域,売上\n東京,12\n大阪,34\n"


def _zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a.txt", "größe " * 100)
    return file.getvalue()


def _picture(kind: str) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (3, 3)).save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize(
    ("text", "encoding", "told"),
    [
        ("", "utf-8", "utf-8"),
        (FRENCH, "utf-8", "utf-8"),
        (FRENCH, "utf-8-sig", "utf-8"),
        (FRENCH, "utf-16", "utf-16"),
        (JAPANESE, "utf-32", "utf-32"),
        ("größe;1\n", "cp1252", "windows-1252"),
        (FRENCH, "cp1252", "windows-1252"),
        ("José,São Paulo\n", "latin-1", "windows-1252"),
        ("temp (°C)\tµm\n" + "1\t2\n" * 9_000, "latin-1", "windows-1252"),
        (JAPANESE, "shift_jis", "shift_jis"),
        ("x\n" * 9_000 + JAPANESE, "shift_jis", "shift_jis"),
        ("日本語のテキストです。\n", "euc_jp", "euc_jp"),
        ("имя;город\nИван;Москва\n", "cp1251", "windows-1251"),
    ],
)
def test_a_text_is_read_in_its_encoding_which_is_told(text: str, encoding: str, told: str) -> None:
    raw = text.encode(encoding)
    assert decode(raw) == Decoded(text, told)
    assert decode(raw).note == ("" if told == "utf-8" else f"read as {told}")  # type: ignore[union-attr]
    assert is_text(raw)


def test_a_byte_that_the_encoding_lacks_is_no_reason_to_refuse_a_text() -> None:
    assert decode(b"gr\xf6\xdfe \x81\n") == Decoded("größe \ufffd\n", "windows-1252")


def test_without_what_jupyterlab_brings_texts_are_read_as_western(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    read = decode(JAPANESE.encode("shift_jis"))
    assert read is not None
    assert (read.encoding, "12" in read.text) == ("windows-1252", True)


@pytest.mark.parametrize(
    "raw",
    [
        _zipped(),
        *map(_picture, ("PNG", "JPEG", "GIF", "WEBP", "BMP")),
        pickle.dumps({"größe": [1.5, None]}),
        b"PAR1\x15\x04\x15\x80\x80PAR1",
        b"PK\0\0",
        "a\0b".encode("utf-16"),
        b"\xff\xfea",
    ],
)
def test_what_is_no_text_is_not_read(raw: bytes) -> None:
    assert decode(raw) is None
    assert not is_text(raw)
