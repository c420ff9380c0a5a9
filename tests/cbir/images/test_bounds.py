"""Files that would cost much are refused by what they declare, before anything is decoded."""

import logging
import struct
import time
import tracemalloc
from io import StringIO

import numpy as np
import pytest
from pydicom.uid import JPEG2000Lossless, JPEGBaseline8Bit

from cbir.errors import UnreadableImage
from cbir.images import Limits, decode, dicom_dataset
from cbir.images.bit_depth import to_pixels
from cbir.images.reading import suppress_decoder_logs
from tests import hostile_images as hostile

SECONDS = 5.0  # of processor time for what is refused at once


def refused(data: bytes, **limits: int) -> str:
    """Assert that the data are refused soon, and return the message."""
    started = time.process_time()
    with pytest.raises(UnreadableImage) as caught:
        list(decode(data, "scan", limits=Limits(**limits)))
    assert time.process_time() - started < SECONDS
    return str(caught.value)


@pytest.mark.parametrize("inside", ["jpeg", "dicom"])
def test_scans_of_a_jpeg_are_limited(inside: str) -> None:
    def file(scans: int) -> bytes:
        stream = hostile.jpeg_of_scans(64, 48, scans)
        return stream if inside == "jpeg" else hostile.dicom_of_stream(stream, 48, 64, JPEGBaseline8Bit)

    (image,) = decode(file(50))
    assert (image.width, image.height) == (64, 48)
    assert "more than 100 JPEG scans" in refused(file(101))


def test_segments_of_a_jpeg_are_limited() -> None:
    assert len(list(decode(hostile.jpeg_of_markers(9000)))) == 1
    assert "too many markers" in refused(hostile.jpeg_of_markers(20_000))


@pytest.mark.parametrize("tail", [False, True])
def test_fill_bytes_of_a_jpeg_are_limited(tail: bool) -> None:
    """Pillow reads those before the first scan one by one."""
    whole = hostile.saved(np.zeros((8, 8), np.uint8), "JPEG")
    start = whole.index(b"\xff\xda") if tail else 2

    def file(fill: int) -> bytes:
        return whole[:start] + b"\xff" * fill + whole[start:]

    assert len(list(decode(file(9_000)))) == 1
    assert "fill bytes" in refused(file(11_000))
    assert "fill bytes" in refused(file(4_000_000))


def test_fill_bytes_of_all_segments_count_together() -> None:
    whole = hostile.saved(np.zeros((8, 8), np.uint8), "JPEG")
    comment = b"\xff" * 1000 + b"\xff\xfe\0\2"
    assert len(list(decode(whole[:2] + comment * 9 + whole[2:]))) == 1
    assert "fill bytes" in refused(whole[:2] + comment * 11 + whole[2:])


@pytest.mark.parametrize("prefix", [b"\xff\x01", b"\xff\xd0", b"\xff\xff\xff", b"\0\1", b""])
def test_a_dicom_frame_is_as_large_as_its_decoder_reads_it(prefix: bytes) -> None:
    stream = hostile.jpeg_with_hidden_size(320, 240, 64, prefix)
    assert "320 x 240 pixels where its header says 64 x 64" in refused(
        hostile.dicom_of_stream(stream, 64, 64, JPEGBaseline8Bit)
    )


def test_two_frame_headers_are_refused() -> None:
    small = hostile.saved(np.zeros((64, 64), np.uint8), "JPEG")
    large = hostile.saved(np.zeros((240, 320), np.uint8), "JPEG")
    header = small[small.index(b"\xff\xc0") :][:13]
    stream = large[:2] + header + large[2:]
    assert "2 frame headers" in refused(hostile.dicom_of_stream(stream, 64, 64, JPEGBaseline8Bit))
    assert "2 frame headers" in refused(stream)


def test_the_size_of_jpeg_2000_is_that_of_its_codestream() -> None:
    stream = hostile.jpeg_2000_with_decoy(320, 240, 64)
    assert "320 x 240 pixels where its header says 64 x 64" in refused(
        hostile.dicom_of_stream(stream, 64, 64, JPEG2000Lossless)
    )
    (image,) = decode(hostile.dicom_of_stream(stream, 240, 320, JPEG2000Lossless))
    assert (image.width, image.height) == (320, 240)
    lies = stream.replace((240).to_bytes(4, "big") + (320).to_bytes(4, "big"), bytes([0, 0, 0, 64] * 2), 1)
    assert "differ in size" in refused(hostile.dicom_of_stream(lies, 240, 320, JPEG2000Lossless))


def test_bytes_of_a_frame_are_limited() -> None:
    large = hostile.tiff_of_one_strip(9000, 32)
    assert len(large) < 500_000
    assert "(max_frame_bytes)" in refused(large)
    for data in (
        hostile.tiff_of_one_strip(1500, 32),
        hostile.tiff_of_one_strip(600, 64, samples=4),
        hostile.png_of_zeros(1100, depth=16, colour=6),
    ):
        assert "(max_frame_bytes)" in refused(data, frame_bytes=2**23)
    small = hostile.tiff_of_one_strip(600, 32)
    assert next(decode(small)).pixels.shape == (600, 600)
    assert "600 x 600 pixels of 4 bytes" in refused(small, frame_bytes=600 * 600 * 4 - 1)


def test_bytes_of_a_dicom_frame_are_limited() -> None:
    data = hostile.dicom(BitsAllocated=32, BitsStored=32, HighBit=31, Rows=8, Columns=8)
    assert len(list(decode(data, limits=Limits(frame_bytes=256)))) == 1
    assert "8 x 8 pixels of 4 bytes" in refused(data, frame_bytes=255)


def test_tiles_of_a_tiff_are_limited() -> None:
    assert "(max_pixels)" in refused(hostile.tiff_of_tiles(16, 65536))
    assert "strips or tiles" in refused(hostile.tiff_of_tiles(8000, 16))


def test_chunks_of_a_png_are_limited() -> None:
    assert len(list(decode(hostile.png_of_chunks(1000)))) == 1
    assert "PNG chunks" in refused(hostile.png_of_chunks(100_000))


@pytest.mark.parametrize("deflate", [False, True])
def test_items_of_dicom_sequences_are_limited(deflate: bool) -> None:
    (image,) = decode(hostile.dicom_of_items(1000, deflate))
    assert image.width == 16
    assert "50060 items" in refused(hostile.dicom_of_items(60_000, deflate))


@pytest.fixture
def few_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower the limit: many reads take seconds."""
    monkeypatch.setattr(dicom_dataset, "READS_OF_FILE", 10_000)


@pytest.mark.usefixtures("few_reads")
@pytest.mark.parametrize("deflate", [False, True])
def test_elements_of_a_dicom_file_are_limited(deflate: bool) -> None:
    assert len(list(decode(hostile.dicom_of_elements(1000, deflate)))) == 1
    assert "too many DICOM elements" in refused(hostile.dicom_of_elements(11_000, deflate))


@pytest.mark.usefixtures("few_reads")
def test_elements_of_a_dicom_sequence_are_limited() -> None:
    assert len(list(decode(hostile.dicom_of_sequence(1000)))) == 1
    assert "too many DICOM elements" in refused(hostile.dicom_of_sequence(11_000))


@pytest.mark.slow
def test_a_million_elements_take_no_time_to_speak_of() -> None:
    assert "too many DICOM elements" in refused(hostile.dicom_of_elements(900_000, deflate=True))


@pytest.mark.usefixtures("few_reads")
def test_frames_have_elements_of_their_own() -> None:
    frames = {"NumberOfFrames": 40, "Rows": 2, "Columns": 2}
    content = hostile.private_elements(11_000)
    (image, *_) = decode(hostile.dicom(content, **frames))
    assert image.frames == 40
    assert "too many DICOM elements" in refused(hostile.dicom(content, **frames | {"NumberOfFrames": 1}))


@pytest.mark.usefixtures("few_reads")
def test_enhanced_frames_have_hundreds_of_elements() -> None:
    """In sequences of undefined length, which are read at once."""
    count, begin, end = 200, b"SQ\0\0\xff\xff\xff\xff", b"\xfe\xff\xdd\xe0\0\0\0\0"
    content = hostile.private_elements(150)
    items = b"\x18\x00\x14\x91" + begin + hostile.ITEM * 50 + end  # MR Timing and Related Parameters
    group = hostile.ITEM[:4] + struct.pack("<I", len(items + content)) + items + content
    sequence = b"\x00\x52\x30\x92" + begin + group * count + end
    data = hostile.dicom(sequence, NumberOfFrames=count, Rows=1, Columns=1, PixelData=bytes(count))
    assert next(decode(data)).frames == count


@pytest.mark.usefixtures("few_reads")
def test_sequences_of_a_file_are_counted_together() -> None:
    """They are read on their first use, each by itself."""
    for elements, shared in ((6000, 0), (1, 6000)):
        assert len(list(decode(hostile.dicom_of_sequence(elements, shared=shared)))) == 1
    assert "too many DICOM elements" in refused(hostile.dicom_of_sequence(6000, shared=6000))


def test_a_deflated_file_is_read_as_the_same_file_uncompressed() -> None:
    tail = hostile.dicom_of_sequence(10)[len(hostile.dicom()) :]
    (plain,), (deflated,) = decode(hostile.dicom(tail)), decode(hostile.dicom(tail, deflate=True))
    assert np.array_equal(plain.pixels, deflated.pixels)
    assert (plain.dicom, plain.windowing) == (deflated.dicom, deflated.windowing)


def test_inflated_bytes_are_limited() -> None:
    data = hostile.dicom(
        b"\xe1\x7f\x10\x10OB\0\0" + (2**24).to_bytes(4, "little") + bytes(2**24), deflate=True
    )
    assert len(list(decode(data))) == 1
    assert "inflates to more than 1048576 bytes" in refused(data, inflated_bytes=2**20)


def test_loggers_below_pydicom_are_silent_too() -> None:
    root, stream = logging.getLogger(), StringIO()
    handler = logging.StreamHandler(stream)
    root.addHandler(handler)
    try:
        with suppress_decoder_logs():
            logging.getLogger("pydicom.values").error("PATIENT^NAME")
        logging.getLogger("pydicom.values").error("afterwards")
    finally:
        root.removeHandler(handler)
    assert stream.getvalue() == "afterwards\n"


@pytest.mark.slow
@pytest.mark.parametrize("channels", [3, 4])
def test_memory_beside_a_large_picture_is_small(channels: int) -> None:
    """Whether it turns out to be grey, or is blended onto black."""
    samples = np.zeros((5000, 5000, channels), np.uint8)
    samples[::7] = 90
    tracemalloc.start()
    try:
        pixels = to_pixels(samples)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert pixels.shape == (5000, 5000)
    assert peak < samples[:, :, 0].size * (1 if channels == 3 else 4) + 2**25
