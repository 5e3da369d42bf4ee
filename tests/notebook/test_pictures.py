"""Pictures for models are small enough for them."""

from __future__ import annotations

import base64
import io
import random
import struct
import sys
import zlib
from typing import Any

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from jupyter_agent.text import images
from jupyter_agent.text.images import describe_picture, pick_last, pixels, prepare_pictures


def encoded(width: int, height: int, kind: str = "png", mode: str = "RGB") -> str:
    file = io.BytesIO()
    Image.new(mode, (width, height)).save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


def test_small_pictures_stay_as_they_are() -> None:
    small = ("image/png", encoded(1568, 10))
    assert prepare_pictures([small]) == [small]


@pytest.mark.parametrize(
    ("kind", "mode"), [("png", "RGB"), ("png", "P"), ("png", "RGBA"), ("jpeg", "RGB")]
)
def test_large_ones_are_made_smaller_in_their_shape(kind: str, mode: str) -> None:
    ((media, data),) = prepare_pictures([(f"image/{kind}", encoded(3200, 1600, kind, mode))])
    assert media == f"image/{kind}"
    assert pixels(media, data) == (1568, 784)
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (1568, 784)


def test_one_that_stays_too_many_bytes_becomes_a_jpeg() -> None:
    noise = Image.frombytes("RGB", (1700, 1700), random.Random(7).randbytes(3 * 1700 * 1700))
    file = io.BytesIO()
    noise.save(file, "png")
    ((media, data),) = prepare_pictures([("image/png", base64.b64encode(file.getvalue()).decode())])
    assert media == "image/jpeg"
    assert len(data) < 5_000_000


def test_without_pillow_large_ones_are_left_out_and_said_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large, small = encoded(9000, 300), encoded(10, 10)
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert prepare_pictures([("image/png", large), ("image/png", small)]) == [("image/png", small)]
    assert describe_picture("image/png", large).endswith(", too large to be shown>")
    assert "too large" not in describe_picture("image/png", small)
    pictures = [("image/png", each) for each in (large, small, small)]
    assert pick_last(pictures, 3)[1] == "(3 pictures, counted from above. Attached: 2, 3.)"
    none = "(1 picture, counted from above. None is attached.)"
    assert pick_last(pictures[:1], 3) == ([], none)


def test_which_of_several_are_attached_is_said() -> None:
    pictures = [("image/png", encoded(10, number)) for number in range(1, 6)]
    assert pick_last(pictures, 5) == (pictures, "")
    assert pick_last(pictures, 2) == (
        pictures[3:],
        "(5 pictures, counted from above. Attached: 4, 5.)",
    )


@pytest.fixture(params=["with-pillow", "without"])
def pillow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether it is installed; the test itself always needs it."""
    there = request.param == "with-pillow"
    monkeypatch.setattr(images, "_has_pillow", lambda: there)
    return there


def based(file: bytes) -> str:
    return base64.b64encode(file).decode()


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp"])
def test_the_type_is_that_of_the_bytes(pillow: bool, kind: str) -> None:
    picture = encoded(40, 30, kind)
    for called in ("image/png", "image/jpeg", "image/webp"):
        assert prepare_pictures([(called, picture)]) == [(f"image/{kind}", picture)]
        assert pixels(called, picture) == (40, 30)


WEBP = {"VP8X": (40, 30, "RGBA", {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0"}),
        "VP8L": (400, 300, "RGB", {"lossless": True})}  # fmt: skip


@pytest.mark.parametrize("form", WEBP)
def test_each_form_of_webp_tells_its_size(form: str) -> None:
    width, height, mode, more = WEBP[form]
    file = io.BytesIO()
    Image.new(mode, (width, height)).save(file, "webp", **more)
    assert form.encode() in file.getvalue()[:16]
    assert pixels("image/webp", based(file.getvalue())) == (width, height)


NO_PICTURES = {
    "empty": b"",
    "a-page": b"<!doctype html><html><body>Not found</body></html>",
    "text": b"no picture",
    "another-kind": b"BM" + bytes(60),
    "only-its-name": b"\x89PNG\r\n\x1a\n",
    "no-pixels": base64.b64decode(encoded(10, 10)).replace(b"\0\0\0\x0a", bytes(4)),
    **{
        f"half-a-{kind}": base64.b64decode(encoded(640, 480, kind))[: 90 if kind == "gif" else -80]
        for kind in ("png", "jpeg", "gif", "webp")
    },
}


@pytest.mark.parametrize("name", NO_PICTURES)
def test_what_is_no_whole_picture_is_left_out(pillow: bool, name: str) -> None:
    for called in ("image/png", "image/jpeg"):
        assert prepare_pictures([(called, based(NO_PICTURES[name]))]) == []
    assert prepare_pictures([("image/png", "%%%")]) == []


def test_a_picture_whose_bytes_are_damaged_in_the_middle_raises_nothing(pillow: bool) -> None:
    dice = random.Random(17)
    noise = Image.frombytes("RGB", (60, 40), dice.randbytes(7200))
    for kind in ("png", "jpeg", "gif", "webp"):
        file = io.BytesIO()
        noise.save(file, kind)
        for _ in range(60):
            damaged = bytearray(file.getvalue())
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            prepare_pictures(
                [(f"image/{kind}", based(bytes(damaged[: dice.randrange(len(damaged))])))]
            )
            prepare_pictures([(f"image/{kind}", based(bytes(damaged)))])


def test_a_photo_that_was_taken_upright_is_sent_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for width, kind in ((40, "jpeg"), (3200, "jpeg"), (40, "png"), (3200, "webp")):
        file = io.BytesIO()
        Image.new("RGB", (width, width // 2)).save(file, kind, exif=exif)
        ((media, data),) = prepare_pictures([(f"image/{kind}", based(file.getvalue()))])
        now = pixels(media, data)
        assert now is not None
        assert now[0] * 2 == now[1], (kind, now)


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp"])
def test_nothing_but_the_picture_is_sent(pillow: bool, kind: str) -> None:
    exif, noted = Image.Exif(), PngInfo()
    exif[0x010E] = "sk-ant-canary"
    noted.add_text("Comment", "sk-ant-canary")
    noted.add_itxt("Author", "sk-ant-canary", zip=False)
    notes: dict[str, dict[str, Any]] = {
        "png": {"pnginfo": noted},
        "jpeg": {},
        "gif": {},
        "webp": {"xmp": b"<x>sk-ant-canary</x>", "lossless": True},
    }
    noise = Image.frombytes("RGB", (20, 20), random.Random(7).randbytes(1200))
    file = io.BytesIO()
    noise.save(file, kind, comment=b"sk-ant-canary", exif=exif, **notes[kind])
    assert file.getvalue().count(b"sk-ant-canary") >= (1 if kind == "gif" else 2)
    ((media, data),) = prepare_pictures([(f"image/{kind}", based(file.getvalue()))])
    assert media == f"image/{kind}"
    sent = base64.b64decode(data)
    assert b"canary" not in sent
    with Image.open(io.BytesIO(sent)) as now, Image.open(file) as before:
        assert now.convert("RGB").tobytes() == before.convert("RGB").tobytes()


def saved(kind: str, width: int = 60, mode: str = "RGB", **more: Any) -> bytes:
    noise = Image.frombytes(mode, (width, 40), random.Random(7).randbytes(width * 40 * len(mode)))
    file = io.BytesIO()
    noise.save(file, kind, **more)
    return file.getvalue()


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp"])
def test_nothing_after_its_end_is_sent(pillow: bool, kind: str) -> None:
    for more in (b"sk-ant-canary", saved("jpeg", comment=b"sk-ant-canary"), b"canary" * 100):
        ((media, data),) = prepare_pictures([("image/png", based(saved(kind) + more))])
        assert media == f"image/{kind}"
        assert prepare_pictures([(media, data)]) == [(media, data)]
        assert base64.b64decode(data) == base64.b64decode(
            prepare_pictures([(media, based(saved(kind)))])[0][1]
        )
        assert b"canary" not in base64.b64decode(data)


def test_notes_between_the_scans_of_a_jpeg_are_not_sent(pillow: bool) -> None:
    file = saved("jpeg", progressive=True)
    note = b"\xff\xfe" + (15).to_bytes(2) + b"sk-ant-canary"
    second = file.index(b"\xff\xda", file.index(b"\xff\xda") + 2)
    for place in (2, second):
        for fill in (b"", b"\xff\xff"):
            noted = file[:place] + fill + note + file[place:]
            ((_, data),) = prepare_pictures([("image/jpeg", based(noted))])
            assert base64.b64decode(data) == base64.b64decode(
                prepare_pictures([("image/jpeg", based(file))])[0][1]
            )


def test_no_unknown_part_of_a_file_is_sent(pillow: bool) -> None:
    """Only the displayed parts of the picture stay: unknown parts may contain anything."""
    jpeg, gif, webp = saved("jpeg"), saved("gif"), saved("webp", lossless=True)
    jfif = b"\xff\xe0" + (16 + 39).to_bytes(2) + jpeg[6:18] + b"\x0d\x01" + b"sk-ant-canary" * 3
    unknown = b"cnry" + struct.pack("<I", 13) + b"sk-ant-canary" + b"\0"
    table = 13 + 3 * 256
    noted = {
        "jpeg": jpeg[:2] + jfif + jpeg[20:],
        "gif": gif[:table] + b"\x21\x42\x0dsk-ant-canary\0" + gif[table:],
        "webp": b"RIFF" + struct.pack("<I", len(webp) - 8 + len(unknown)) + webp[8:] + unknown,
    }
    for kind, file in noted.items():
        assert b"canary" in file
        ((media, data),) = prepare_pictures([(f"image/{kind}", based(file))])
        sent = base64.b64decode(data)
        assert (media, b"canary" in sent) == (f"image/{kind}", False)
        with Image.open(io.BytesIO(sent)) as now, Image.open(io.BytesIO(file)) as before:
            assert now.convert("RGB").tobytes() == before.convert("RGB").tobytes()


def test_a_picture_is_read_whatever_is_wrong_in_its_notes(pillow: bool) -> None:
    noted = PngInfo()
    noted.add_text("mxfile", "x" * 3_000_000, zip=True)
    file = saved("png", pnginfo=noted)
    for damaged in (file, file.replace(b"mxfile", b"mxfilf")):
        ((_, data),) = prepare_pictures([("image/png", based(damaged))])
        assert base64.b64decode(data) == saved("png")


def test_a_size_that_a_later_part_contradicts_takes_no_memory(pillow: bool) -> None:
    header = struct.pack(">II5B", 30_000, 30_000, 8, 2, 0, 0, 0)
    second = struct.pack(">I", 13) + b"IHDR" + header
    second += struct.pack(">I", zlib.crc32(b"IHDR" + header))
    file = saved("png")
    found = prepare_pictures([("image/png", based(file[:33] + second + file[33:]))])
    assert found == [] or not pillow, "without Pillow nothing is unpacked"
    assert prepare_pictures([("image/jpeg", based(b"\xff\xd8\xff\xe0" + bytes(10_000_000)))]) == []


def test_grey_of_16_bits_keeps_its_shades_when_it_is_made_smaller() -> None:
    grey = Image.new("I;16", (2_000, 1_000), 30_000)
    file = io.BytesIO()
    grey.save(file, "png")
    ((media, data),) = prepare_pictures([("image/png", based(file.getvalue()))])
    with Image.open(io.BytesIO(base64.b64decode(data))) as small:
        assert abs(small.convert("L").getpixel((9, 9)) - 117) <= 1
