"""Random changes and truncation of small files give an image or UnreadableImage."""

import gzip

import cv2
import imagecodecs
import nibabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydicom.uid import (
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLosslessSV1,
    JPEGLSLossless,
    RLELossless,
)

from cbir.errors import UnreadableImage
from cbir.images import Limits, decode
from tests.cbir.images.synthetic_dicom import COLOUR, STORED, compressed, dicom_set, item, lut, written
from tests.cbir.images.test_rasters import GREY, chunk, coded, saved, with_chunk

LIMITS = Limits(pixels=1_000_000, bytes=1_000_000, frames=50)
SMALL = cv2.GaussianBlur(GREY, (0, 0), 2)


def repaired(data):
    """A PNG with right checksums, so that damage gets behind them."""
    out, position = data[:8], 8
    while position + 12 <= len(data):
        length = int.from_bytes(data[position : position + 4], "big")
        if position + 12 + length > len(data):
            break
        out += chunk(data[position + 4 : position + 8], data[position + 8 : position + 8 + length])
        position += 12 + length
    return out


def run_lengths():
    dataset = dicom_set(STORED)
    dataset.compress(RLELossless, generate_instance_uid=False)
    return written(dataset)


def enhanced():
    stored = np.stack([STORED, STORED[::-1]])
    group = item(
        PixelValueTransformationSequence=[item(RescaleSlope=2, RescaleIntercept=1, RescaleType="US")],
        FrameVOILUTSequence=[item(WindowCenter=40, WindowWidth=400)],
    )
    return written(dicom_set(stored, frames=2, PerFrameFunctionalGroupsSequence=[group, group]))


def volume():
    values = np.stack([SMALL, SMALL[::-1], SMALL // 2], axis=-1).astype(np.int16)
    return nibabel.Nifti1Image(values, np.diag([-1.0, 1.0, 4.0, 1.0])).to_bytes()


SEEDS = {
    "png": saved(SMALL, "PNG"),
    "png palette": saved(saved_palette := cv2.merge([SMALL] * 3), "PNG"),
    "png key": with_chunk(coded(".png", SMALL), b"tRNS", b"\0\x07"),
    "jpeg": saved(saved_palette, "JPEG"),
    "jpeg progressive": saved(SMALL, "JPEG", progressive=True),
    "tiff": saved(SMALL, "TIFF"),
    "tiff lzw": saved(saved_palette, "TIFF", compression="tiff_lzw"),
    "tiff deep": coded(".tif", saved_palette.astype(np.uint16) * 257),
    "bmp": saved(SMALL, "BMP"),
    "nifti": volume(),
    "nifti gzip": gzip.compress(volume(), mtime=0),
    "dicom": written(
        dicom_set(STORED, WindowCenter=40, WindowWidth=400, RescaleSlope=2, RescaleIntercept=-9)
    ),
    "dicom colour": written(dicom_set(COLOUR)),
    "dicom tables": written(
        dicom_set(STORED, ModalityLUTSequence=[lut(range(99), 0)], VOILUTSequence=[lut([1, 9], 0)])
    ),
    "dicom enhanced": enhanced(),
    "dicom rle": run_lengths(),
    "dicom jpeg": compressed(coded(".jpg", SMALL), *SMALL.shape, JPEGBaseline8Bit),
    "dicom jpeg lossless": compressed(
        imagecodecs.jpeg8_encode(SMALL, lossless=True), *SMALL.shape, JPEGLosslessSV1
    ),
    "dicom jpeg extended": compressed(
        imagecodecs.jpeg8_encode(SMALL.astype(np.uint16) * 16, bitspersample=12),
        *SMALL.shape,
        JPEGExtended12Bit,
    ),
    "dicom jpeg ls": compressed(imagecodecs.jpegls_encode(SMALL), *SMALL.shape, JPEGLSLossless),
    "dicom jpeg 2000": compressed(saved(SMALL, "JPEG2000", no_jp2=True), *SMALL.shape, JPEG2000Lossless),
}

FRAMES = {"dicom enhanced": 2, "nifti": 3, "nifti gzip": 3}

changes = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=8)


def attempt(data):
    images, refusal = [], "x "
    try:
        images = list(decode(data, "x", limits=LIMITS))
    except UnreadableImage as error:
        refusal = str(error)
    assert refusal.startswith("x ")
    for image in images:
        assert image.pixels.dtype == np.uint8
        assert image.pixels.ndim in (2, 3)
        assert image.pixels.size > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", SEEDS)
@settings(max_examples=120, deadline=None)
@given(changes=changes, early=st.booleans(), length=st.one_of(st.just(1.0), st.floats(0, 1)))
def test_changed_and_truncated_files(kind, changes, early, length):
    data = bytearray(SEEDS[kind])
    reach = min(len(data), 600) if early else len(data)  # headers are where damage does most
    for offset, value in changes:
        data[int(offset * reach)] = value
    del data[int(length * len(data)) :]
    attempt(bytes(data))
    if kind.startswith("png"):
        attempt(repaired(bytes(data)))


@given(st.binary(max_size=400), st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\0", b"MM\0*",
       b"II+\0", b"BM", bytes(128) + b"DICM", b"\x08\0\x05\0CS\x0a\0", b"\x02\0\0\0UL\x04\0"]))  # fmt: skip
def test_any_bytes_after_any_signature(rest, beginning):
    attempt(beginning + rest)


def test_the_seeds_are_images():
    for kind, data in SEEDS.items():
        assert len(list(decode(data, kind))) == FRAMES.get(kind, 1)
