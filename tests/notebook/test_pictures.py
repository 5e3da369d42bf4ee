"""Pictures that models look at are small enough for them."""

from __future__ import annotations

import base64
import io
import random
import sys

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

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
    large, small = encoded(3200, 1600), encoded(10, 10)
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


def test_a_broken_large_picture_is_left_out() -> None:
    half = encoded(3200, 1600)[:200]
    assert fitting([("image/png", half)]) == []
