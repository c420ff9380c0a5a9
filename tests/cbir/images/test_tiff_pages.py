"""TIFF pages of every layout, by two writers; what one decoder reads is compared with the other."""

import struct
from io import BytesIO

import imagecodecs
import numpy as np
import PIL.Image
import pytest
import tifffile

from cbir.errors import UnreadableImage
from cbir.images import Limits, decode
from cbir.images.bit_depth import to_bytes
from cbir.images.rasters import apply_orientation
from tests import benches

RNG = np.random.default_rng(5)
COLOUR = RNG.integers(0, 256, (40, 56, 3), dtype=np.uint8)
GREY = COLOUR[..., 0]
ZEROS, ALPHA = np.zeros((40, 56, 1), np.uint8), RNG.integers(0, 256, (40, 56, 1), dtype=np.uint8)
BLENDED = ((COLOUR.astype(int) * ALPHA + 127) // 255).astype(np.uint8)
COMPRESSIONS = (None, "lzw", "deflate", "zstd", "packbits", "lzma")
BENCH = benches.loaded("second_decoders")


def tiff(samples, **options):
    file = BytesIO()
    tifffile.imwrite(file, samples, **options)
    return file.getvalue()


def only(data, **options):
    (image,) = decode(data, **options)
    assert image.frame is None
    return image.pixels


def planes(samples):
    return np.ascontiguousarray(samples.transpose(2, 0, 1))


def depth(samples, dtype):
    return samples.astype(dtype) * dtype(257 if dtype == np.uint16 else 1)


@pytest.mark.parametrize("tile", [None, (16, 16)])
@pytest.mark.parametrize("layout", ["contig", "separate"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_colours_in_every_layout(compression, dtype, layout, tile):
    samples = depth(COLOUR if layout == "contig" else planes(COLOUR), dtype)
    for order in "<>":
        for big in (False, True):
            for predictor in (False, True) if compression not in (None, "packbits") else (False,):
                data = tiff(
                    samples, photometric="rgb", planarconfig=layout, tile=tile, compression=compression,
                    byteorder=order, bigtiff=big, predictor=predictor or None,
                )  # fmt: skip
                np.testing.assert_array_equal(only(data), COLOUR)


@pytest.mark.parametrize("tile", [None, (16, 16)])
@pytest.mark.parametrize("compression", [None, "lzw", "deflate", "zstd"])
@pytest.mark.parametrize(
    "dtype", [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.float16, np.float32, np.float64]
)
def test_grey_of_every_type(dtype, compression, tile):
    """Pillow swaps the bytes of compressed big-endian values twice."""
    if np.dtype(dtype).kind == "f":
        samples, expected = (GREY / 255).astype(dtype), GREY
    elif np.dtype(dtype).kind == "i":
        samples = (GREY.astype(int) - 128).astype(dtype)
        expected = to_bytes(samples)
    else:
        samples, expected = depth(GREY, dtype), GREY
    for order in "<>":
        for photometric in ("minisblack", "miniswhite"):
            for predictor in (False, True) if compression else (False,):
                data = tiff(
                    samples, photometric=photometric, byteorder=order, compression=compression, tile=tile,
                    predictor=predictor or None,
                )  # fmt: skip
                result = only(data).astype(int)
                shown = 255 - expected if photometric == "miniswhite" else expected
                assert np.abs(result - shown).max() <= (dtype == np.float16)


@pytest.mark.parametrize("layout", ["contig", "separate"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize(
    ("kind", "extra", "expected"),
    [("unspecified", ZEROS, COLOUR), ("assocalpha", ALPHA, COLOUR), ("unassalpha", ALPHA, BLENDED)],
)
def test_samples_besides_the_colours(kind, extra, expected, dtype, layout):
    """Transparency is blended onto black once, and samples without a meaning are not transparency."""
    samples = depth(np.dstack([COLOUR, extra]), dtype)
    samples = samples if layout == "contig" else planes(samples)
    for order in "<>":
        data = tiff(samples, photometric="rgb", planarconfig=layout, extrasamples=[kind], byteorder=order)
        assert np.abs(only(data).astype(int) - expected).max() <= (kind == "unassalpha")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize(
    ("kind", "extra", "expected"),
    [("unspecified", ZEROS, GREY), ("assocalpha", ALPHA, GREY),
     ("unassalpha", ALPHA, (GREY.astype(int) * ALPHA[..., 0] + 127) // 255)],
)  # fmt: skip
def test_samples_besides_grey(kind, extra, expected, dtype):
    data = tiff(
        depth(np.dstack([GREY, extra]), dtype),
        photometric="minisblack",
        planarconfig="contig",
        extrasamples=[kind],
    )
    assert np.abs(only(data).astype(int) - expected).max() <= (kind == "unassalpha")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
@pytest.mark.parametrize("kind", ["unspecified", "assocalpha", "unassalpha"])
def test_samples_besides_grey_where_zero_is_white(kind, dtype):
    """What is transparent is black, and alpha is no negative."""
    ink, opacity = 1 - GREY / 255, ALPHA[..., 0] / 255
    shown = GREY if kind == "unspecified" else GREY * opacity
    samples = np.dstack([ink * opacity if kind == "assocalpha" else ink, opacity])
    if dtype != np.float32:
        samples = np.rint(samples * np.iinfo(dtype).max)
    data = tiff(samples.astype(dtype), photometric="miniswhite", planarconfig="contig", extrasamples=[kind])
    assert np.abs(only(data) - shown).max() <= 1


def test_several_further_samples():
    samples = np.dstack([COLOUR, ZEROS, ALPHA]).astype(np.uint16) * 257
    data = tiff(samples, photometric="rgb", extrasamples=["unspecified", "unassalpha"])
    assert np.abs(only(data).astype(int) - BLENDED).max() <= 1


def raw_tiff(rows, bits, order="<", **tags):
    """A page of `rows`, bytes each; tags: by number, of type SHORT."""
    payload, height = b"".join(rows), len(rows)
    width = tags.pop("width")
    entries = {256: width, 257: height, 258: bits, 259: 1, 262: 1, 277: 1, 278: height}
    entries |= {int(tag[1:]): value for tag, value in tags.items()}
    offset = 8 + 2 + 12 * (len(entries) + 2) + 4
    fields = {tag: (3, value) for tag, value in entries.items()} | {273: (4, offset), 279: (4, len(payload))}
    directory = b""
    for tag, (kind, value) in sorted(fields.items()):
        directory += struct.pack(f"{order}HHI", tag, kind, 1)
        directory += struct.pack(f"{order}I", value) if kind == 4 else struct.pack(f"{order}HH", value, 0)
    start = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 8)
    return start + struct.pack(f"{order}H", len(fields)) + directory + bytes(4) + payload


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("bits", [2, 4, 10, 12, 14])
def test_packed_grey(bits, order):
    values = RNG.integers(0, 2**bits, (9, 21))
    digits = (values[..., None] >> np.arange(bits)[::-1]) & 1
    rows = [np.packbits(row.reshape(-1).astype(np.uint8)).tobytes() for row in digits]
    result = only(raw_tiff(rows, bits, order, width=21))
    np.testing.assert_array_equal(result, np.rint(values * (255 / (2**bits - 1))))


@pytest.mark.parametrize("order", "<>")
def test_whole_numbers_of_three_bytes_are_refused(order):
    """They are in the order of bytes of the file, and would be read as bits of the other."""
    rows = [bytes(RNG.integers(0, 256, 63, dtype=np.uint8)) for _ in range(9)]
    with pytest.raises(UnreadableImage, match="samples of 24 bits, which are not read; export it with 16"):
        only(raw_tiff(rows, 24, order, width=21))


@pytest.mark.parametrize("photometric", ["minisblack", "miniswhite"])
def test_bilevel_pages_that_pillow_does_not_open(photometric):
    data = tiff(GREY > 99, photometric=photometric, byteorder=">", bigtiff=True)
    white = GREY > 99 if photometric == "minisblack" else GREY <= 99
    np.testing.assert_array_equal(only(data), white * 255)


def test_four_samples_that_nothing_says_of():
    rows = [row.tobytes() for row in np.dstack([COLOUR, ZEROS])]
    data = raw_tiff(rows, 8, width=56, t262=2, t277=4)
    np.testing.assert_array_equal(only(data), COLOUR)


@pytest.mark.parametrize("scale", [1, 256])
def test_palettes_of_bytes_and_of_words(scale):
    """Some writers put bytes where words belong."""
    palette = RNG.integers(0, 256, (3, 256))
    data = tiff(GREY, photometric="palette", colormap=(palette * scale).astype(np.uint16))
    np.testing.assert_array_equal(only(data), palette.T[GREY])


def test_inks_of_sixteen_bits():
    inks = np.asarray(PIL.Image.fromarray(COLOUR).convert("CMYK"))
    data = tiff(inks.astype(np.uint16) * 257, photometric="separated")
    np.testing.assert_array_equal(only(data), COLOUR)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_orientation(dtype, orientation):
    data = tiff(depth(COLOUR, dtype), photometric="rgb", extratags=[(274, 3, 1, orientation, True)])
    np.testing.assert_array_equal(only(data), apply_orientation(COLOUR, orientation))


def pages(*entries, kind=1):
    """A file of (samples, options of a page); kind: NewSubfileType in place of 1."""
    file, reduced = BytesIO(), struct.pack("<HHI", 254, 4, 1)
    with tifffile.TiffWriter(file) as writer:
        for samples, options in entries:
            colours = "rgb" if samples.ndim == 3 else "minisblack"
            writer.write(samples, photometric=colours, metadata=None, **options)
    return file.getvalue().replace(reduced + struct.pack("<I", 1), reduced + struct.pack("<I", kind))


OLD_REDUCED = {"extratags": [(255, 3, 1, 2, True)]}
REDUCED = {"subfiletype": 1}


@pytest.mark.parametrize(("auxiliary", "kind"), [(REDUCED, 1), (REDUCED, 4), (REDUCED, 5), (OLD_REDUCED, 1)])
@pytest.mark.parametrize("first", [False, True])
def test_reduced_copies_and_masks_are_no_pages(first, auxiliary, kind):
    entries = [(COLOUR, {}), (GREY[::4, ::4], auxiliary)]
    np.testing.assert_array_equal(only(pages(*entries[:: -1 if first else 1], kind=kind)), COLOUR)
    data = pages((COLOUR, {}), (GREY[::4, ::4], auxiliary), (GREY, {"subfiletype": 2}), kind=kind)
    images = list(decode(data))
    assert [(image.frame, image.frames) for image in images] == [(1, 2), (2, 2)]
    np.testing.assert_array_equal(images[1].pixels, GREY)
    np.testing.assert_array_equal(only(pages((COLOUR, auxiliary), kind=kind)), COLOUR)  # of no other page


TILED, STRIPS = {"tile": (16, 16), "compression": "deflate"}, {"compression": "lzw", "rowsperstrip": 8}


@pytest.mark.parametrize("options", [{}, TILED, STRIPS])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99])
def test_truncated_pages_are_refused(share, options):
    data = tiff(depth(COLOUR, np.uint16), photometric="rgb", **options)
    with pytest.raises(UnreadableImage):
        only(data[: int(share * len(data))])


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("layout", ["contig", "separate"])
def test_a_last_strip_that_is_filled_up(layout, compression):
    """To the rows of the others, as some writers do."""
    samples = depth(COLOUR if layout == "contig" else planes(COLOUR), np.uint16)
    data = tiff(samples, photometric="rgb", planarconfig=layout, compression=compression, rowsperstrip=8)
    height = struct.pack("<HHI", 257, 4, 1)
    assert data.count(height + struct.pack("<I", 40)) == 1
    data = data.replace(height + struct.pack("<I", 40), height + struct.pack("<I", 37))
    np.testing.assert_array_equal(only(data), COLOUR[:37])


def test_true_reasons():
    deep, layers = depth(GREY, np.uint16), depth(np.stack([GREY] * 16), np.uint16)
    for data, reason in (
        (tiff(deep, compression="jpeg2000"), "compression 34712, which is not read"),
        (tiff(COLOUR, photometric="rgb", compression="webp"), "compression 50001, which is not read"),
        (tiff(GREY.astype(np.complex64), photometric="minisblack"), "samples of 64 bits"),
        (tiff(layers, photometric="minisblack", volumetric=True, tile=(16, 16, 16)), "ImageDepth"),
        (tiff(deep, photometric="cfa"), "photometric interpretation 32803"),
    ):
        with pytest.raises(UnreadableImage, match=reason):
            only(data)


def test_limits_hold_before_anything_is_decoded():
    data = tiff(depth(COLOUR, np.uint16), photometric="rgb", compression="deflate")
    with pytest.raises(UnreadableImage, match="at most 2239 are decoded"):
        only(data, limits=Limits(pixels=40 * 56 - 1))
    with pytest.raises(UnreadableImage, match="max_frame_bytes"):
        only(data, limits=Limits(frame_bytes=40 * 56 * 6 - 1))


def test_pages_are_those_of_the_other_library():
    """tifffile for pages that Pillow decodes, and the other way round where Pillow keeps the depth."""
    deep = GREY.astype(np.uint16) * 257
    for samples in (GREY, COLOUR, GREY > 99, deep, GREY.astype(np.float32) / 255, GREY.astype(np.int32)):
        for compression in (None, "tiff_lzw", "tiff_adobe_deflate"):
            file = BytesIO()
            PIL.Image.fromarray(samples).save(file, "TIFF", compression=compression)
            (image,) = decode(file.getvalue())
            comparison = BENCH.compare_tiff(file.getvalue(), image)
            assert comparison.difference == 0, comparison


def test_a_jpeg_stream_that_is_larger_than_its_strip_is_refused():
    for size, reason in (((40, 56), None), ((41, 56), "another size"), ((400, 560), "another size")):
        stream = imagecodecs.jpeg8_encode(np.zeros((*size, 3), np.uint8))
        data = tiff(
            iter([stream]), shape=(40, 56, 3), dtype=np.uint8, photometric="rgb", compression="jpeg",
            byteorder=">", bigtiff=True,
        )  # fmt: skip
        if reason is None:
            assert only(data).shape[:2] == size
            continue
        with pytest.raises(UnreadableImage, match=reason):
            only(data)


def test_colours_that_transparency_is_in_are_not_multiplied_by_another_one():
    alpha = np.full((*COLOUR.shape[:2], 1), 99, np.uint8)
    samples = depth(np.concatenate([COLOUR, alpha, alpha], 2), np.uint16)
    for kinds in (["assocalpha", "unassalpha"], ["unassalpha", "assocalpha"]):
        data = tiff(samples, photometric="rgb", planarconfig="contig", extrasamples=kinds)
        np.testing.assert_array_equal(only(data), COLOUR)
