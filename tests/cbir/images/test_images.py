"""Arrays to pixels, files to images: values, limits, refusals."""

import os
import subprocess
import sys
import threading
import warnings

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cbir.errors import UnreadableImage
from cbir.images import Image, Limits, decode, from_array, read_images
from cbir.images.bit_depth import apply_window, percentiles, weighted_percentiles
from cbir.images.reading import suppress_decoder_logs

SHAPES = st.tuples(st.integers(1, 6), st.integers(1, 6))


def png(pixels):
    return cv2.imencode(".png", pixels)[1].tobytes()


@pytest.fixture
def noise():
    return np.random.default_rng(0).integers(0, 256, (21, 34), dtype=np.uint8)


@given(hnp.arrays(np.uint8, SHAPES))
def test_byte_values_survive_every_wider_type(grey):
    for samples in (
        grey,
        grey[:, :, None],
        grey.astype(np.int16),
        grey.astype(np.uint32),
        grey.astype(np.int64),
    ):
        np.testing.assert_array_equal(from_array(samples).pixels, grey)
    np.testing.assert_array_equal(from_array(grey / 255).pixels, grey)
    np.testing.assert_array_equal(from_array(np.dstack([grey] * 3)).pixels, grey)


@given(hnp.arrays(np.uint8, SHAPES))
def test_bytes_times_257_are_inverted(grey):
    wide = np.vstack([grey, np.full_like(grey[:1], 255)]).astype(np.uint16) * 257
    for samples in (wide, wide.astype(">u2")):
        np.testing.assert_array_equal(from_array(samples).pixels[:-1], grey)


def test_all_values_of_sixteen_and_twelve_bits():
    full = np.arange(65536).reshape(256, 256)
    np.testing.assert_array_equal(from_array(full.astype(np.uint16)).pixels, (full + 128) // 257)
    twelve = np.arange(4096).reshape(64, 64)
    np.testing.assert_array_equal(from_array(twelve.astype(np.uint16)).pixels, np.rint(twelve * 255 / 4095))
    assert (
        from_array(np.array([[4096, 0]], np.uint16)).pixels.max() == 16
    )  # one value beyond twelve bits: sixteen


def test_bool_is_black_and_white():
    assert from_array(np.array([[True, False]])).pixels.tolist() == [[255, 0]]


def test_wide_ranges_use_the_percentiles():
    ramp = np.arange(-500, 500, dtype=np.int32).reshape(20, 50)
    low, high = np.percentile(ramp, (1, 99))
    expected = np.rint((np.clip(ramp, low, high) - low) / (high - low) * 255)
    np.testing.assert_array_equal(from_array(ramp).pixels, expected)
    np.testing.assert_array_equal(from_array(ramp.astype(np.float32)).pixels, expected)


@given(
    hnp.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1e308, 1e308)),
    st.lists(st.integers(0, 29), min_size=1, max_size=300),
)
def test_weighted_percentiles_equal_percentiles(values, positions):
    positions = np.array(positions) % values.size
    counts = np.bincount(positions, minlength=values.size)
    assert weighted_percentiles(values, counts) == percentiles(values[positions])


def test_equal_percentiles_give_way_to_the_range():
    samples = np.zeros((40, 40), np.float32)
    samples[0, 0] = 8.0
    assert from_array(samples).pixels[0, :2].tolist() == [255, 0]


@pytest.mark.parametrize("value", [-3, 1000, 1e300, -1e-300])
def test_a_flat_array_is_black(value):
    assert not from_array(np.full((3, 4), value)).pixels.any()


@given(hnp.arrays(st.sampled_from([np.float32, np.float64]), SHAPES))
def test_floats_of_any_size_give_pixels_or_a_reason(samples):
    if np.isfinite(samples).all():
        assert from_array(samples).pixels.shape == samples.shape
    else:
        with pytest.raises(UnreadableImage, match="not finite"):
            from_array(samples)


def test_huge_and_tiny_ranges_reach_black_and_white():
    for greatest in (1.7e308, 5e-324):
        pixels = from_array(np.array([[-greatest, 0.0, greatest]])).pixels
        assert pixels[0, 0] == 0
        assert pixels[0, 2] == 255


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), hnp.arrays(np.float64, 5, elements=st.floats(-1e7, 1e7)))
def test_window_is_the_clipped_line(low, high, values):
    pixels = apply_window(values, low, high)
    if high - low > 1e-3:
        expected = np.clip((values - low) / (high - low), 0, 1) * 255
        assert np.abs(pixels - expected).max() <= 0.5 + 1e-6
    elif low >= high:
        np.testing.assert_array_equal(pixels, np.where(values > low, 255, 0))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.int32])
def test_alpha_blends_onto_black(dtype):
    scale = {np.uint16: 257, np.float32: 1 / 255}.get(dtype, 1)
    rgba = np.array([[[255, 100, 0, 255], [255, 100, 0, 0], [255, 100, 0, 128]]])
    expected = [[[255, 100, 0], [0, 0, 0], [128, 50, 0]]]
    assert from_array((rgba * scale).astype(dtype)).pixels.tolist() == expected


def test_three_equal_channels_are_grey_and_one_pixel_of_colour_is_colour(noise):
    rgb = np.dstack([noise] * 3)
    assert from_array(rgb).pixels.ndim == 2
    rgb[7, 9, 2] ^= 1
    assert from_array(rgb).pixels.ndim == 3


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (np.zeros(4), "shape"),
        (np.zeros((2, 2, 2)), "shape"),
        (np.zeros((2, 2, 5)), "shape"),
        (np.zeros((1, 2, 2, 3)), "shape"),
        (np.float64(3), "shape"),
        (np.zeros((0, 5)), "no pixels"),
        (np.zeros((5, 0, 3)), "no pixels"),
        (np.zeros((2, 2), complex), "complex128"),
        (np.full((2, 2), "a"), "values of type"),
        (np.full((2, 2), None), "object"),
        (np.zeros((2, 2), "datetime64[s]"), "datetime64"),
        ([[1, 2], [3]], "not an array of numbers"),
        (np.array([[0.0, np.nan]]), "not finite"),
        (np.array([[0.0, np.inf]]), "not finite"),
        (np.full((2, 2, 4), 2.5), "alpha"),
        (np.full((2, 2, 4), -1), "alpha"),
    ],
)
def test_invalid_arrays_are_refused(samples, reason):
    with pytest.raises(UnreadableImage, match=reason) as refused:
        from_array(samples, "the mask")
    assert str(refused.value).startswith("the mask ")


def test_read_and_decode_agree(tmp_path, noise):
    path = tmp_path / "without suffix"
    path.write_bytes(png(noise))
    (item,), (other,) = read_images(path), decode(png(noise), "x")
    assert (item.source, item.format, item.frame, item.dicom) == ("without suffix", "png", None, None)
    assert other.source == "x"
    np.testing.assert_array_equal(item.pixels, noise)
    assert item.content_hash == other.content_hash == Image(noise).content_hash
    assert item.pixels.flags.c_contiguous


def test_files_that_cannot_be_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")  # must not wait for a writer
    for path, reason in [
        (tmp_path / "missing.png", "missing.png cannot be read: No such file"),
        (tmp_path, "not a regular file"),
        (tmp_path / "pipe", "not a regular file"),
        ("/dev/zero", "not a regular file"),
        ("a\0b.png", "cannot be read"),
    ]:
        with pytest.raises(UnreadableImage, match=reason):
            list(read_images(path))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "image is empty"),
        (b"\0", "is not a PNG, JPEG, TIFF, BMP, DICOM or NIfTI file"),
        (b"BM, said the text, is where it began", "is not a PNG"),
        (b"id,label\n1,a\n" * 50, "is not a PNG"),
        (b"GIF89a" + bytes(300), "is a GIF"),
        (b"\x89PNG\r\n\x1a\n", "truncated"),
        (b"\xff\xd8\xff", "damaged"),
        (b"II*\0", "damaged"),
        (b"II*\0\0\0\0\0", "without a page"),
        (b"BM" + bytes(12) + b"\x28\0\0\0", "damaged"),
        (bytes(128) + b"DICM", "has no pixels"),
        ("text", "of type str"),
        (None, "of type NoneType"),
    ],
)
def test_invalid_bytes_are_refused(data, reason):
    with pytest.raises(UnreadableImage, match=reason):
        list(decode(data))


def test_limits_on_bytes(tmp_path, noise):
    path = tmp_path / "big.png"
    path.write_bytes(png(noise))
    size = path.stat().st_size
    assert len(list(read_images(path, limits=Limits(bytes=size)))) == 1
    for frames in (
        read_images(path, limits=Limits(bytes=size - 1)),
        decode(png(noise), limits=Limits(bytes=size - 1)),
    ):
        with pytest.raises(UnreadableImage, match=f"{size} bytes; at most {size - 1}"):
            list(frames)
    with path.open("ab") as file:
        file.truncate(10**12)  # a sparse terabyte: refused by its size, not read
    with pytest.raises(UnreadableImage, match=r"big\.png has 1000000000000 bytes"):
        list(read_images(path))


def test_import_is_cheap():
    """Neither pydicom nor Pillow is loaded before a file needs it."""
    check = "import sys, cbir.images; sys.exit(any(name in sys.modules for name in ('pydicom', 'PIL')))"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0


def test_an_ordinary_png_needs_no_pillow(tmp_path, noise):
    (tmp_path / "a.png").write_bytes(png(noise))
    check = (
        "import sys; from cbir.images import read_images; list(read_images(sys.argv[1])); "
        "sys.exit('PIL' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", check, tmp_path / "a.png"]).returncode == 0


def test_damage_writes_nothing_to_stdout_or_stderr(tmp_path, noise):
    """No library writes to stdout or stderr about broken PNG, JPEG and BMP files."""
    rng = np.random.default_rng(0)
    for suffix in (".png", ".jpg", ".bmp"):
        data = cv2.imencode(suffix, noise)[1]
        for number in range(20):
            broken = data.copy()
            broken[rng.integers(30, data.size, 3)] ^= 0x55
            (tmp_path / f"{number}{suffix}").write_bytes(broken[: rng.integers(100, data.size + 1)].tobytes())
    script = (
        "import sys, pathlib\nfrom cbir.errors import UnreadableImage\nfrom cbir.images import read_images\n"
        "for path in pathlib.Path(sys.argv[1]).iterdir():\n"
        "    try: list(read_images(path))\n"
        "    except UnreadableImage: pass\n"
    )
    stated = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, check=True)
    assert stated.stdout + stated.stderr == b""


def test_suppressing_logs_restores_filters():
    """Also when threads leave in another order than they came."""
    before = list(warnings.filters)
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()

    def first():
        with suppress_decoder_logs():
            first_in.set()
            second_in.wait(10)
        first_out.set()

    def second():
        first_in.wait(10)
        with suppress_decoder_logs():
            second_in.set()
            first_out.wait(10)
            warnings.warn("unheard", stacklevel=1)

    threads = [threading.Thread(target=work) for work in (first, second)]
    with warnings.catch_warnings(record=True) as heard:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not heard
    with pytest.warns(UserWarning, match="^heard$"):
        warnings.warn("heard", stacklevel=1)
    assert list(warnings.filters) == before


def test_decoding_in_threads_equals_one_thread(noise):
    pictures = [np.roll(noise, step) for step in range(16)]
    result: dict[int, np.ndarray] = {}

    def work(start):
        for number in range(start, 16, 4):
            result[number] = next(decode(png(pictures[number]))).pixels

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((result[number] == picture).all() for number, picture in enumerate(pictures))


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", "f8", "i4", "u4", "i8"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (7, 13), (1100, 1000)])
def test_percentiles_are_those_of_numpy_in_double_precision(dtype: str, shape: tuple[int, int]) -> None:
    values = (np.random.default_rng(3).random(shape) * 60_000 + 1000).astype(dtype)
    low, high = np.percentile(values.astype(np.float64), (1, 99))
    expected = (low, high) if low < high else (values.min(), values.max())
    assert percentiles(values) == tuple(map(float, expected))
    pixels = from_array(values).pixels
    np.testing.assert_array_equal(pixels, apply_window(values.astype(np.float64), *percentiles(values)))
