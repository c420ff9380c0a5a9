"""Damage that decoders conceal is seen, and files as they are have none."""

import re
import sys

import numpy as np
import PIL.Image
import pytest
from pydicom.uid import JPEG2000, JPEG2000Lossless, JPEGBaseline8Bit, RLELossless

from cbir.errors import UnreadableImage
from cbir.images import decode
from cbir.images.coded_damage import EOI, SIZ, is_damaged_frame, is_damaged_jpeg
from cbir.system.remedies import install_command
from tests.cbir.images.synthetic_dicom import COLOUR, STORED, compressed, dicom_set, written
from tests.cbir.images.test_rasters import saved

RANDOM = np.random.default_rng(0)
COLUMNS = np.linspace(0, 255, 128)
RAMP = np.clip(COLUMNS + RANDOM.normal(0, 9, (128, 128)), 0, 255).astype(np.uint8)  # from black to white
JPEGS = {
    "sequential": saved(RAMP, "JPEG", quality=90),
    "progressive": saved(RAMP, "JPEG", quality=90, progressive=True),
}


def as_dicom(stored: np.ndarray, syntax: str) -> bytes:
    dataset = dicom_set(stored)
    dataset.compress(syntax, generate_instance_uid=False)
    return written(dataset)


def with_others(data: bytes, start: int, count: int = 64) -> bytes:
    return data[:start] + RANDOM.bytes(count) + data[start + count :]


def count_unnoticed(data: bytes) -> int:
    """Number of ten damaged files that come out without a word."""
    unnoticed = 0
    for start in np.linspace(0.3, 0.9, 10) * len(data):
        try:
            (image,) = decode(with_others(data, int(start)), find_damage=True)
        except UnreadableImage:
            continue
        unnoticed += not image.damaged
    return unnoticed


@pytest.mark.parametrize("name", JPEGS)
def test_damaged_jpegs_are_noticed(name: str) -> None:
    (image,) = decode(JPEGS[name], find_damage=True)
    assert not image.damaged
    assert count_unnoticed(JPEGS[name]) <= 3


@pytest.mark.parametrize("syntax", [RLELossless, JPEG2000Lossless])
def test_damaged_dicom_frames_are_noticed(syntax: str) -> None:
    data = as_dicom(RAMP, syntax)
    (image,) = decode(data, find_damage=True)
    assert not image.damaged
    assert count_unnoticed(data) <= 2


@pytest.mark.parametrize("syntax", [RLELossless, JPEG2000Lossless])
@pytest.mark.parametrize("stored", [(STORED + 1000).astype(np.uint16), STORED, COLOUR])
def test_frames_of_any_kind_are_sound(syntax: str, stored: np.ndarray) -> None:
    repeats = (-(-128 // len(stored)), -(-128 // stored.shape[1]), 1)[: stored.ndim]
    (image,) = decode(as_dicom(np.tile(stored, repeats), syntax), find_damage=True)
    assert not image.damaged


def test_baseline_frames_are_looked_at_too() -> None:
    coded = JPEGS["sequential"]
    start = len(coded) // 2
    damaged = coded[:start] + coded[start + 500 :]
    for frame, expected in ((coded, False), (damaged, True)):
        (image,) = decode(compressed(frame, 128, 128, JPEGBaseline8Bit), find_damage=True)
        assert image.damaged is expected
    (image,) = decode(compressed(damaged, 128, 128, JPEGBaseline8Bit))
    assert not image.damaged, "nobody asked"


def test_a_jpeg_of_another_kind_is_not_damaged() -> None:
    assert not is_damaged_jpeg(saved(PIL.Image.fromarray(RAMP).convert("CMYK"), "JPEG"))  # CMYK
    assert not is_damaged_jpeg(b"\xff\xd8\xff")


def test_what_leaves_the_pixels_of_a_jpeg_alone_is_no_damage() -> None:
    coded = JPEGS["sequential"]
    profile = saved(RAMP, "JPEG", icc_profile=bytes(300)).replace(b"ICC_PROFILE\0\1\1", b"ICC_PROFILE\0\1\2")
    assert b"ICC_PROFILE\0\1\2" in profile
    for data in (
        profile,
        coded[:-2] + bytes(20) + EOI,  # zeros before the end
        coded[:2] + b"xy" + coded[2:],  # bytes between segments of the header
        coded + b"other data",
        coded + coded,
    ):
        assert not is_damaged_jpeg(data)
    assert is_damaged_jpeg(coded[:-2] + b"x" * 20 + EOI)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    with pytest.raises(UnreadableImage, match=re.escape(install_command("intake"))):
        list(decode(JPEGS["sequential"], find_damage=True))
    (image,) = decode(JPEGS["sequential"])
    assert not image.damaged


def test_lossy_jpeg_2000_that_is_called_lossless_is_not_damaged() -> None:
    squares = np.where(np.add.outer(np.arange(128), np.arange(128)) // 9 % 2, 255, 0).astype(np.uint8)
    dataset = dicom_set(squares)
    dataset.compress(JPEG2000, j2k_cr=[20], generate_instance_uid=False)
    dataset.file_meta.TransferSyntaxUID = JPEG2000Lossless
    (image,) = decode(written(dataset), find_damage=True)
    assert not image.damaged


@pytest.mark.parametrize("padding", [b"", b"\0", bytes(6), b"\x80"])
def test_what_stands_for_no_pixel_is_padding(padding: bytes) -> None:
    header = b"".join(number.to_bytes(4, "little") for number in (1, 64, *[0] * 14))
    segment = b"\x03abcd" + b"\xfda"  # four bytes as they are, four times the same
    assert not is_damaged_frame(header + segment + padding, RLELossless, 8)
    for changed in (segment + b"\x00b", segment[:-2], b"\x03abcd\xfca", b"\x03abcd\xfea"):
        assert is_damaged_frame(header + changed, RLELossless, 8)


@pytest.mark.parametrize("syntax", [RLELossless, JPEG2000Lossless, JPEGBaseline8Bit])
@pytest.mark.parametrize("coded", [b"", b"\0" * 64, SIZ + b"\0" * 60, SIZ + b"\1" * 60])
def test_nonsense_raises_nothing(syntax: str, coded: bytes) -> None:
    assert is_damaged_frame(coded, syntax, 8) in (True, False)
