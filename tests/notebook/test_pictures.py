"""Pictures that models look at are small enough for them."""

from __future__ import annotations

import base64
import io
import random
import sys

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from jupyter_agent.text import images
from jupyter_agent.text.images import attached, fitting, pixels, told


def encoded(width: int, height: int, kind: str = "png", mode: str = "RGB") -> str:
    file = io.BytesIO()
    Image.new(mode, (width, height)).save(file, kind)
    return base64.b64encode(file.getvalue()).decode()


def test_small_pictures_stay_as_they_are() -> None:
    small = ("image/png", encoded(1568, 10))
    assert fitting([small]) == [small]


@pytest.mark.parametrize("kind", ["png", "jpeg"])
def test_nothing_but_the_picture_is_sent(kind: str) -> None:
    picture = Image.frombytes("RGB", (20, 20), random.Random(7).randbytes(1200))
    noted, exif = PngInfo(), Image.Exif()
    noted.add_text("Comment", "sk-ant-canary")
    noted.add_itxt("Author", "sk-ant-canary", zip=False)
    exif[0x010E] = "sk-ant-canary"
    more = {"pnginfo": noted} if kind == "png" else {"comment": b"sk-ant-canary"}
    file = io.BytesIO()
    picture.save(file, kind, exif=exif, **more)
    assert file.getvalue().count(b"sk-ant-canary") >= 2
    ((_, data),) = fitting([(f"image/{kind}", base64.b64encode(file.getvalue()).decode())])
    sent = base64.b64decode(data)
    assert b"canary" not in sent
    with Image.open(io.BytesIO(sent)) as now, Image.open(file) as before:
        assert now.tobytes() == before.tobytes()


@pytest.mark.parametrize(
    ("kind", "mode"), [("png", "RGB"), ("png", "P"), ("png", "RGBA"), ("jpeg", "RGB")]
)
def test_large_ones_are_made_smaller_in_their_shape(kind: str, mode: str) -> None:
    ((media, data),) = fitting([(f"image/{kind}", encoded(3200, 1600, kind, mode))])
    assert media == f"image/{kind}"
    assert pixels(media, data) == (1568, 784)
    assert Image.open(io.BytesIO(base64.b64decode(data))).size == (1568, 784)


def test_one_that_stays_too_many_bytes_becomes_a_jpeg() -> None:
    noise = Image.frombytes("RGB", (1700, 1700), random.Random(7).randbytes(3 * 1700 * 1700))
    file = io.BytesIO()
    noise.save(file, "png")
    ((media, data),) = fitting([("image/png", base64.b64encode(file.getvalue()).decode())])
    assert media == "image/jpeg"
    assert len(data) < 5_000_000


def test_without_pillow_large_ones_are_left_out_and_said_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large, small = encoded(9000, 300), encoded(10, 10)
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert fitting([("image/png", large), ("image/png", small)]) == [("image/png", small)]
    assert told("image/png", large).endswith(", too large to be shown>")
    assert "too large" not in told("image/png", small)
    pictures = [("image/png", each) for each in (large, small, small)]
    assert attached(pictures, 3)[1] == "(3 pictures, counted from above. Attached: 2, 3.)"
    none = "(1 picture, counted from above. None is attached.)"
    assert attached(pictures[:1], 3) == ([], none)


def test_which_of_several_are_attached_is_said() -> None:
    pictures = [("image/png", encoded(10, number)) for number in range(1, 6)]
    assert attached(pictures, 5) == (pictures, "")
    assert attached(pictures, 2) == (
        pictures[3:],
        "(5 pictures, counted from above. Attached: 4, 5.)",
    )


@pytest.fixture(params=["with-pillow", "without"])
def pillow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether there is one; the test itself always needs it."""
    there = request.param == "with-pillow"
    monkeypatch.setattr(images, "_has_pillow", lambda: there)
    return there


def based(file: bytes) -> str:
    return base64.b64encode(file).decode()


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp"])
def test_the_type_is_that_of_the_bytes(pillow: bool, kind: str) -> None:
    picture = encoded(40, 30, kind)
    for called in ("image/png", "image/jpeg", "image/webp"):
        assert fitting([(called, picture)]) == [(f"image/{kind}", picture)]
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
        assert fitting([(called, based(NO_PICTURES[name]))]) == []
    assert fitting([("image/png", "%%%")]) == []


def test_a_picture_whose_bytes_are_damaged_in_the_middle_raises_nothing(pillow: bool) -> None:
    dice = random.Random(17)
    noise = Image.frombytes("RGB", (60, 40), dice.randbytes(7200))
    for kind in ("png", "jpeg", "gif", "webp"):
        file = io.BytesIO()
        noise.save(file, kind)
        for _ in range(60):
            damaged = bytearray(file.getvalue())
            damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            fitting([(f"image/{kind}", based(bytes(damaged[: dice.randrange(len(damaged))])))])
            fitting([(f"image/{kind}", based(bytes(damaged)))])


def test_a_photo_that_was_taken_upright_is_sent_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for width, kind in ((40, "jpeg"), (3200, "jpeg"), (40, "png"), (3200, "webp")):
        file = io.BytesIO()
        Image.new("RGB", (width, width // 2)).save(file, kind, exif=exif)
        ((media, data),) = fitting([(f"image/{kind}", based(file.getvalue()))])
        now = pixels(media, data)
        assert now is not None
        assert now[0] * 2 == now[1], (kind, now)


@pytest.mark.parametrize("kind", ["gif", "webp"])
def test_gif_and_webp_lose_their_notes_too(pillow: bool, kind: str) -> None:
    exif = Image.Exif()
    exif[0x010E] = "sk-ant-canary"
    noise = Image.frombytes("RGB", (20, 20), random.Random(7).randbytes(1200))
    file = io.BytesIO()
    more = {"xmp": b"<x>sk-ant-canary</x>", "lossless": True} if kind == "webp" else {}
    noise.save(file, kind, comment=b"sk-ant-canary", exif=exif, **more)
    assert b"canary" in file.getvalue()
    ((media, data),) = fitting([(f"image/{kind}", based(file.getvalue()))])
    assert media == f"image/{kind}"
    sent = base64.b64decode(data)
    assert b"canary" not in sent
    with Image.open(io.BytesIO(sent)) as now, Image.open(file) as before:
        assert now.convert("RGB").tobytes() == before.convert("RGB").tobytes()
