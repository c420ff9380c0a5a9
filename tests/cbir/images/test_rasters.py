"""PNG, JPEG, TIFF and BMP of every kind, written by Pillow and OpenCV."""

import struct
import zlib
from io import BytesIO

import cv2
import imagecodecs
import numpy as np
import PIL.Image
import pytest

from cbir.errors import UnreadableImage
from cbir.images import Limits, decode
from cbir.images.rasters import apply_orientation

RNG = np.random.default_rng(0)
GREY = RNG.integers(0, 256, (20, 33), dtype=np.uint8)
COLOUR = RNG.integers(0, 256, (20, 33, 3), dtype=np.uint8)
SMOOTH = np.add.outer(np.arange(40) * 3, np.arange(64) * 2).astype(np.uint8)
TAGS = {"orientation": 274, "photometric": 262}
FORMATS = {"png": "PNG", "jpeg": "JPEG", "tiff": "TIFF", "bmp": "BMP"}


def saved(picture, kind, **options):
    """A file's bytes; picture: an array or a Pillow image."""
    file = BytesIO()
    (picture if isinstance(picture, PIL.Image.Image) else PIL.Image.fromarray(picture)).save(
        file, kind, **options
    )
    return file.getvalue()


def coded(suffix, samples):
    """A file's bytes by OpenCV; samples: grey, RGB or RGB and alpha."""
    if samples.ndim == 3:
        samples = samples[:, :, [2, 1, 0, 3][: samples.shape[2]]]
    return cv2.imencode(suffix, np.ascontiguousarray(samples))[1].tobytes()


def only(data, **options):
    (image,) = decode(data, **options)
    assert image.frame is None
    return image


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def with_chunk(data, kind, content):
    """A PNG with one more chunk behind its header."""
    return data[:33] + chunk(kind, content) + data[33:]


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP"])
@pytest.mark.parametrize(
    "samples", [GREY, COLOUR, GREY > 99, np.dstack([GREY] * 3)], ids=["grey", "rgb", "1", "alike"]
)
def test_lossless_formats_preserve_pixels(kind, samples):
    image = only(saved(samples, kind))
    assert image.format == kind.lower()
    expected = samples * np.uint8(255) if samples.dtype == bool else samples
    if expected.ndim == 3 and (expected[..., :1] == expected).all():
        expected = expected[..., 0]
    np.testing.assert_array_equal(image.pixels, expected)


@pytest.mark.parametrize(
    "options", [{}, {"progressive": True}, {"optimize": True}, {"restart_marker_blocks": 2}]
)
def test_jpeg(options):
    image = only(saved(SMOOTH, "JPEG", quality=95, **options))
    assert image.format == "jpeg"
    assert np.abs(image.pixels.astype(int) - SMOOTH).max() <= 6
    smooth_rgb = np.dstack([SMOOTH, SMOOTH[::-1], SMOOTH[:, ::-1]])
    rgb = only(saved(smooth_rgb, "JPEG", quality=95, subsampling=0, **options)).pixels
    assert np.abs(rgb.astype(int) - smooth_rgb).max() <= 12


def test_cmyk_jpeg():
    rgb = np.dstack([SMOOTH, SMOOTH[::-1], SMOOTH[:, ::-1]])
    result = only(saved(PIL.Image.fromarray(rgb).convert("CMYK"), "JPEG", quality=98)).pixels
    assert np.abs(result.astype(int) - rgb).mean() < 3


@pytest.mark.parametrize(
    ("bits", "options"), [(12, {"bitspersample": 12}), (16, {"bitspersample": 16, "lossless": True})]
)
def test_deeper_jpeg_is_no_damage(bits, options):
    data = imagecodecs.jpeg8_encode(GREY.astype(np.uint16) << (bits - 8), **options)
    with pytest.raises(UnreadableImage, match=f"is a JPEG of {bits} bits, which is not read; convert it"):
        only(data)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_png_below_eight_bits(bits):
    levels = GREY[:, :32] >> (8 - bits)
    packed = np.packbits(np.unpackbits(levels[..., None], axis=2)[..., -bits:].reshape(20, -1), axis=1)
    rows = b"".join(b"\0" + row.tobytes() for row in packed)
    header = struct.pack(">IIBBBBB", 32, 20, bits, 0, 0, 0, 0)
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    end = chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    expected = levels * np.uint8(255 // (2**bits - 1))
    np.testing.assert_array_equal(only(start + end).pixels, expected)
    keyed = only(start + chunk(b"tRNS", struct.pack(">H", 1)) + end).pixels
    np.testing.assert_array_equal(keyed, np.where(levels == 1, 0, expected))


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_sixteen_bits_keep_their_depth(suffix, channels):
    wide = RNG.integers(0, 65536, (9, 14, channels), dtype=np.uint16)
    twelve = wide[..., :3] >> 4
    if channels == 4:
        wide[..., 3] = 65535
    result = only(coded(suffix, wide[..., 0] if channels == 1 else wide)).pixels.reshape(9, 14, -1)
    np.testing.assert_array_equal(result, (wide[..., :3].astype(int) + 128) // 257)
    result = only(coded(suffix, twelve[..., 0] if channels == 1 else twelve)).pixels.reshape(9, 14, -1)
    np.testing.assert_array_equal(result, np.rint(twelve[..., : result.shape[2]] * (255 / 4095)))


def test_sixteen_bit_alpha_is_blended_onto_black():
    wide = np.zeros((2, 2, 4), np.uint16)
    wide[..., :3], wide[0, 0, 3], wide[0, 1, 3] = 65535, 65535, 32896
    assert only(coded(".png", wide)).pixels.tolist() == [[255, 128], [0, 0]]


def test_palettes():
    picture = PIL.Image.fromarray(COLOUR).quantize(32)
    expected = np.asarray(picture.convert("RGB"))
    for kind in ("PNG", "BMP", "TIFF"):
        np.testing.assert_array_equal(only(saved(picture, kind)).pixels, expected)


def test_palette_transparency_is_blended_onto_black():
    picture = PIL.Image.fromarray(COLOUR).quantize(4)
    opacity = np.array([255, 0, 128, 51])
    result = only(saved(picture, "PNG", transparency=bytes(opacity.tolist()))).pixels
    rgb, alpha = np.asarray(picture.convert("RGB")).astype(float), opacity[np.asarray(picture)][..., None]
    assert np.abs(result - rgb * alpha / 255).max() <= 0.5


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_alpha_is_blended_onto_black(kind, mode):
    samples = np.dstack([COLOUR, GREY]) if mode == "RGBA" else np.dstack([GREY, GREY[::-1]])
    result = only(saved(PIL.Image.fromarray(samples, mode), kind)).pixels.reshape(20, 33, -1)
    assert np.abs(result - samples[..., :-1] * (samples[..., -1:] / 255)).max() <= 0.5


@pytest.mark.parametrize("samples", [GREY, COLOUR, GREY.astype(np.uint16) * 257], ids=["grey", "rgb", "16"])
def test_one_transparent_colour_is_black(samples):
    value = samples[3, 4]
    key = np.atleast_1d(value).astype(">u2").tobytes()
    expected = np.where(
        (samples == value).reshape(20, 33, -1).all(axis=2)[..., None], 0, samples.reshape(20, 33, -1)
    )
    result = only(with_chunk(coded(".png", samples), b"tRNS", key)).pixels
    np.testing.assert_array_equal(
        result.reshape(expected.shape), expected // (257 if samples.dtype == np.uint16 else 1)
    )
    with pytest.raises(UnreadableImage, match="transparency"):
        only(with_chunk(coded(".png", samples), b"tRNS", b"\1"))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF"])
def test_orientation_is_applied_once(kind, orientation):
    exif = PIL.Image.Exif()
    exif[TAGS["orientation"]] = orientation
    data = saved(SMOOTH, kind, exif=exif)
    stored = np.asarray(only(saved(SMOOTH, kind)).pixels)
    expected = np.asarray(PIL.ImageOps.exif_transpose(PIL.Image.open(BytesIO(data))))
    result = only(data).pixels
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(result, apply_orientation(stored, orientation))


@pytest.mark.parametrize("orientation", [0, 9, None, "6", (1, 2)])
def test_invalid_orientation_is_ignored(orientation):
    np.testing.assert_array_equal(apply_orientation(GREY, orientation), GREY)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("dtype", [np.uint16, np.float32, np.float64])
def test_orientation_of_a_deep_tiff_page(orientation, dtype):
    wide = (COLOUR.astype(float) * (257 if dtype == np.uint16 else 1 / 255)).astype(dtype)
    data = bytearray(coded(".tif", wide))
    planar = data.index(struct.pack("<HHI", 284, 3, 1))  # says what is the default: may go
    struct.pack_into("<HHII", data, planar, TAGS["orientation"], 3, 1, orientation)
    np.testing.assert_array_equal(only(bytes(data)).pixels, apply_orientation(COLOUR, orientation))


def test_animated_png_gives_one_picture():
    frames = [PIL.Image.fromarray(np.full((9, 9), value, np.uint8)) for value in (10, 100, 200)]
    data = saved(frames[0], "PNG", save_all=True, append_images=frames[1:])
    assert b"acTL" in data
    assert (only(data).pixels == 10).all()


@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate", "packbits", "jpeg", "zstd"])
def test_tiff_compression(compression):
    result = only(saved(SMOOTH, "TIFF", compression=compression)).pixels
    assert np.abs(result.astype(int) - SMOOTH).max() <= (20 if compression == "jpeg" else 0)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_tiff_white_is_zero(dtype):
    samples = GREY.astype(dtype) * (257 if dtype == np.uint16 else 1)
    if dtype == np.float32:
        samples /= 255
    data = bytearray(saved(samples, "TIFF"))
    tag = data.index(struct.pack("<HHI", TAGS["photometric"], 3, 1))
    assert data[tag + 8] == 1
    data[tag + 8] = 0
    np.testing.assert_array_equal(only(bytes(data)).pixels, 255 - GREY)


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.uint32, np.float32, np.float64])
def test_tiff_of_wide_values(dtype):
    samples = (np.arange(600).reshape(20, 30) * 7).astype(dtype)
    if np.dtype(dtype).kind != "u":
        samples -= np.dtype(dtype).type(500)
    low, high = np.percentile(samples.astype(float), (1, 99))
    expected = np.rint((np.clip(samples.astype(float), low, high) - low) / (high - low) * 255)
    data = coded(".tif", samples) if dtype in (np.float64, np.uint32, np.int16) else saved(samples, "TIFF")
    np.testing.assert_array_equal(only(data).pixels, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiff_of_float_colours(dtype):
    np.testing.assert_array_equal(only(coded(".tif", (COLOUR / 255).astype(dtype))).pixels, COLOUR)


def test_tiff_with_nan_is_refused():
    with pytest.raises(UnreadableImage, match="not finite"):
        only(saved(np.full((3, 3), np.nan, np.float32), "TIFF"))


@pytest.mark.parametrize("big", [False, True])
def test_tiff_pages(big):
    pages = [
        PIL.Image.fromarray(page) for page in (GREY, COLOUR, GREY[::-1][:7], GREY.astype(np.uint16) * 257)
    ]
    data = saved(pages[0], "TIFF", save_all=True, append_images=pages[1:], big_tiff=big)
    images = list(decode(data))
    assert [image.frame for image in images] == [1, 2, 3, 4]
    for image, page in zip(images, (GREY, COLOUR, GREY[::-1][:7], GREY), strict=True):
        np.testing.assert_array_equal(image.pixels, page)
    with pytest.raises(UnreadableImage, match="frames; at most 3"):
        next(decode(data, limits=Limits(frames=3)))


def test_tiff_pages_of_different_depth():
    deep = [
        cv2.cvtColor(COLOUR, cv2.COLOR_RGB2BGR).astype(np.uint16) * 257,
        GREY,
        GREY[::-1].astype(np.float64),
    ]
    data = cv2.imencodemulti(".tif", deep)[1].tobytes()
    result = [image.pixels for image in decode(data)]
    np.testing.assert_array_equal(result[0], COLOUR)
    np.testing.assert_array_equal(result[1], GREY)
    assert result[2].shape == GREY.shape


def test_cyclic_tiff_directories_end():
    data = bytearray(saved(GREY, "TIFF"))
    (start,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, start)
    struct.pack_into("<I", data, start + 2 + 12 * count, start)
    assert len(list(decode(bytes(data)))) == 1


WHOLE = {
    "png": saved(COLOUR, "PNG"),
    "jpeg": saved(COLOUR, "JPEG"),
    "progressive": saved(COLOUR, "JPEG", progressive=True),
    "tiff": saved(COLOUR, "TIFF"),
    "lzw": saved(COLOUR, "TIFF", compression="tiff_lzw"),
    "deep": coded(".tif", COLOUR.astype(np.uint16) * 257),
    "bmp": saved(COLOUR, "BMP"),
}


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.99])
def test_truncated_file_is_refused(kind, part):
    data = WHOLE[kind]
    only(data)
    with pytest.raises(UnreadableImage, match=r"^scan\.dat "):
        list(decode(data[: int(len(data) * part)], "scan.dat"))


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"optimize": True}])
@pytest.mark.parametrize("picture", [COLOUR, GREY, np.where(np.eye(64) > 0, 200, 0).astype(np.uint8)])
def test_a_jpeg_may_lack_its_end_marker_alone(picture, options):
    data = saved(picture, "JPEG", **options)
    whole = only(data).pixels
    for kept in (data[:-2], data[:-1], data[:-2] + b"\0"):
        (image,) = decode(kept, find_damage=True)
        np.testing.assert_array_equal(image.pixels, whole)
        assert not image.damaged
    for length in range(data.index(b"\xff\xda"), len(data) - 3, 5):
        for rest in (b"", bytes(5000)):
            with pytest.raises(UnreadableImage):
                only(data[:length] + rest)


def test_truncated_jpeg_with_intact_thumbnail_is_refused():
    exif = PIL.Image.Exif()
    exif[0x9286] = saved(GREY, "JPEG")  # a whole JPEG inside the comment
    data = saved(COLOUR, "JPEG", exif=exif)
    only(data)
    with pytest.raises(UnreadableImage, match="truncated"):
        only(data[: len(data) // 2 + len(data) // 4])


def test_png_checksums_are_verified():
    data = bytearray(WHOLE["png"])
    data[len(data) // 2] ^= 1
    with pytest.raises(UnreadableImage, match="checksum"):
        only(bytes(data))


def test_data_after_the_end_are_ignored():
    for kind in ("png", "jpeg", "bmp"):
        np.testing.assert_array_equal(only(WHOLE[kind] + b"\0junk").pixels, only(WHOLE[kind]).pixels)


def test_png_chunks_that_make_libpng_complain_are_left_out(capfd):
    data = with_chunk(WHOLE["png"], b"iCCP", b"not a profile")
    np.testing.assert_array_equal(only(data).pixels, COLOUR)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "header", [(0, 5, 8, 0), (5, 0, 8, 0), (5, 5, 3, 0), (5, 5, 8, 1), (5, 5, 16, 3), (5, 5, 1, 2)]
)
def test_invalid_png_headers_are_refused(header):
    start = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", *header, 0, 0, 0))
    with pytest.raises(UnreadableImage, match=r"an empty image|header"):
        only(start + chunk(b"IDAT", zlib.compress(bytes(99))) + chunk(b"IEND", b""))


@pytest.mark.parametrize("kind", WHOLE)
def test_limit_on_pixels(kind):
    only(WHOLE[kind], limits=Limits(pixels=20 * 33))
    with pytest.raises(UnreadableImage, match="33 x 20 pixels; at most 659"):
        only(WHOLE[kind], limits=Limits(pixels=20 * 33 - 1))


def announced(kind, side):
    """Small files that announce side x side pixels."""
    if kind == "png":
        header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
        data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(999))) + chunk(b"IEND", b"")
        return b"\x89PNG\r\n\x1a\n" + data
    data = bytearray(WHOLE[kind])
    if kind == "jpeg":
        struct.pack_into(">HH", data, data.index(b"\xff\xc0") + 5, side, side)
    elif kind == "bmp":
        struct.pack_into("<ii", data, 18, side, side)
    else:
        for tag in (256, 257):
            position = next(
                at for form in (3, 4) if (at := data.find(struct.pack("<HHI", tag, form, 1))) >= 0
            )
            struct.pack_into("<HHII", data, position, tag, 4, 1, side)
    return bytes(data)


@pytest.mark.parametrize("kind", ["png", "jpeg", "bmp", "tiff", "deep"])
def test_decompression_bomb_is_refused_by_its_header(kind):
    with pytest.raises(UnreadableImage, match="60000 x 60000 pixels; at most 100000000"):
        only(announced(kind, 60000))
