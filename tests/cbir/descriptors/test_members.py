"""Common tests of all descriptors."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from cbir import descriptors
from cbir.errors import InvalidInput
from cbir.images import Image
from tests.cbir.descriptors.pictures import draw

MEMBERS = pytest.mark.parametrize("name", descriptors.names())
SHAPES = [
    (1, 1),
    (1, 2),
    (2, 1),
    (3, 5),
    (1, 300),
    (300, 1),
    (7, 9),
    (69, 71),
    (70, 70),
    (513, 40),
    (2, 20_000),
]


def check(name: str, values: np.ndarray) -> None:
    assert values.shape == (descriptors.get(name).dimensions,)
    assert values.dtype == np.float32
    assert np.isfinite(values).all()


@MEMBERS
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("channels", [(), (3,)], ids=["grey", "colour"])
@pytest.mark.filterwarnings("error")
def test_every_size(name, shape, channels):
    describe = descriptors.get(name)
    image = Image(draw("noise", shape + channels, 1))
    before = image.pixels.copy()
    check(name, describe(image))
    assert describe(image).tolist() == describe(image).tolist()
    assert (image.pixels == before).all()


@MEMBERS
@pytest.mark.parametrize("level", [0, 255])
@pytest.mark.filterwarnings("error")
def test_flat(name, level):
    for shape in ((1, 1), (90, 90), (40, 40, 3)):
        check(name, descriptors.get(name)(Image(np.full(shape, level, np.uint8))))


@pytest.mark.slow
@MEMBERS
def test_huge(name):
    pixels = draw("noise", (300, 300), 3).repeat(11, 0).repeat(11, 1)
    check(name, descriptors.get(name)(Image(pixels)))


@MEMBERS
def test_not_contiguous(name):
    for pixels in (draw("smooth", (200, 240), 4), draw("smooth", (200, 240, 3), 4)):
        for view in (pixels[::2, ::3], pixels[::-1, ::-1], pixels.swapaxes(0, 1), pixels[10:150, 20:100]):
            expected = descriptors.get(name)(Image(np.ascontiguousarray(view)))
            assert descriptors.get(name)(Image(view)).tolist() == expected.tolist()


@MEMBERS
def test_three_equal_channels_are_grey(name):
    grey = draw("stripes", (110, 90), 6)
    expected = descriptors.get(name)(Image(grey))
    assert descriptors.get(name)(Image(np.stack([grey] * 3, axis=-1))).tolist() == expected.tolist()


@MEMBERS
def test_threads_do_not_disturb_each_other(name):
    describe = descriptors.get(name)
    images = [Image(draw("smooth", (60 + 31 * i, 300 - 29 * i), i)) for i in range(8)] * 3
    expected = [describe(image).tolist() for image in images]
    with ThreadPoolExecutor(4) as executor:
        assert [values.tolist() for values in executor.map(describe, images)] == expected


@MEMBERS
def test_parts_cover_all_values(name):
    describe = descriptors.get(name)
    assert describe.name == name
    assert describe.parts[0].start == 0
    assert describe.parts[-1].stop == describe.dimensions
    for part, following in zip(describe.parts, describe.parts[1:], strict=False):
        assert part.start < part.stop == following.start


def test_huang2012_is_its_parts():
    image = Image(draw("smooth", (130, 100, 3), 9))
    whole = descriptors.get("huang2012")
    values = whole(image)
    assert [part.name for part in whole.parts] == ["color_layout", "tamura", "edge_histogram"]
    for part, name in zip(whole.parts, ("color_layout", "tamura", "edge_histogram_150"), strict=True):
        assert values[part.start : part.stop].tolist() == descriptors.get(name)(image).tolist()


def test_unknown_name():
    with pytest.raises(InvalidInput, match=r"there is no descriptor 'sift'; choose one of .*huang2012"):
        descriptors.get("sift")
