"""Compressed frames come out as they were, or as a second decoder of other authors (DCMTK, OpenJPH) decodes them."""

import os
import shutil
import subprocess
import time
from io import BytesIO
from pathlib import Path

import imagecodecs
import jpeg_ls
import numpy as np
import PIL.Image
import pydicom
import pytest
from pydicom import uid
from pydicom.encaps import encapsulate
from pydicom.pixels.decoders.base import get_decoder
from pydicom.pixels.processing import convert_color_space

from cbir.errors import UnreadableImage
from cbir.images.dicom_frames import stored_frames
from tests.cbir.images.synthetic_dicom import dicom_set
from tests.cbir.images.test_corpus import SHIPPED

JPEG_LS = {uid.JPEGLSLossless, uid.JPEGLSNearLossless}
LOSSY_JPEG = {uid.JPEGBaseline8Bit, uid.JPEGExtended12Bit}
JFIF = b"\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0"
ADOBE_RGB, ADOBE_YBR = (b"\xff\xee\0\x0eAdobe\0\x64\0\0\0\0" + bytes([colours]) for colours in (0, 1))
LOSSY_GREY = [(uid.JPEGBaseline8Bit, 8), (uid.JPEGExtended12Bit, 8), (uid.JPEGExtended12Bit, 12)]
BY_DCMTK = {*JPEG_LS, *LOSSY_JPEG, uid.JPEGLossless, uid.JPEGLosslessSV1}
ROWS, COLUMNS = np.mgrid[0:70, 0:93]
WAVES = (np.sin(COLUMNS / 9) + np.cos(ROWS / 7)) / 4 + 0.5
NOISY = np.clip(WAVES + np.random.default_rng(1).normal(0, 0.02, WAVES.shape), 0, 1)
COLOURS = np.rint(255 * np.stack([NOISY, NOISY[::-1], NOISY[:, ::-1]], -1)).astype(np.uint8)


def waves(bits, signed=False):
    """Return a grey image that uses all values of `bits`, and those that are stored for it."""
    values = np.rint(NOISY * (2**bits - 1)).astype(int)
    size = 8 if bits <= 8 else 16
    if not signed:
        return values.astype(f"uint{size}"), values.astype(f"uint{size}")
    shifted = values - 2 ** (bits - 1)
    return shifted.astype(f"int{size}"), (shifted % 2**bits).astype(f"uint{size}")


def data_set(coded, syntax, shown, bits, **attributes):
    """Return a data set with one frame, `coded`, of an image like `shown`."""
    dataset = dicom_set(shown, BitsStored=bits, HighBit=bits - 1, **attributes)
    dataset.file_meta.TransferSyntaxUID = syntax
    dataset.PixelData = encapsulate([coded])
    dataset["PixelData"].VR = "OB"
    return dataset


def decoded(dataset):
    ((stored, damaged),) = stored_frames(dataset)
    assert not damaged
    return stored


def by_dcmtk(dataset_or_path, folder):
    """Return the pixels that DCMTK decodes; colours as RGB."""
    path = dataset_or_path
    if not isinstance(path, Path):
        path = folder / "coded.dcm"
        dataset_or_path.save_as(path, enforce_file_format=True)
    syntax = pydicom.dcmread(path, stop_before_pixels=True).file_meta.TransferSyntaxUID
    program = "dcmdjpls" if syntax in JPEG_LS else "dcmdjpeg"
    if shutil.which(program) is None:
        pytest.skip(f"{program}, of Debian's dcmtk, is not installed")
    subprocess.run([program, path, folder / "plain.dcm"], check=True, capture_output=True)
    plain = pydicom.dcmread(folder / "plain.dcm")
    if plain.PixelRepresentation:
        return plain.pixel_array
    most, plain.BitsStored = (
        2**plain.BitsStored - 1,
        plain.BitsAllocated,
    )  # or values beyond it would wrap around
    return np.minimum(plain.pixel_array, most)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bits", [2, 6, 8, 10, 12, 14, 15, 16])
@pytest.mark.parametrize("syntax", [uid.JPEGLosslessSV1, uid.JPEGLSLossless])
def test_lossless_grey_of_every_depth(syntax, bits, signed, tmp_path):
    shown, stored = waves(bits, signed)
    if syntax in JPEG_LS:
        coded = bytes(jpeg_ls.encode_array(stored))
    else:
        coded = imagecodecs.jpeg8_encode(stored, lossless=True, bitspersample=bits)
    dataset = data_set(coded, syntax, shown, bits)
    np.testing.assert_array_equal(decoded(dataset), shown)
    if syntax not in JPEG_LS or bits >= 8:  # DCMTK 3.6 reads no fewer bits of JPEG-LS
        np.testing.assert_array_equal(by_dcmtk(dataset, tmp_path), shown)


@pytest.mark.parametrize("predictor", range(1, 8))
def test_lossless_predictors(predictor, tmp_path):
    shown, stored = waves(12)
    coded = imagecodecs.jpeg8_encode(stored, lossless=True, predictor=predictor, bitspersample=12)
    dataset = data_set(coded, uid.JPEGLossless, shown, 12)
    np.testing.assert_array_equal(decoded(dataset), shown)
    np.testing.assert_array_equal(by_dcmtk(dataset, tmp_path), shown)


@pytest.mark.parametrize("planar", [0, 1])
@pytest.mark.parametrize("order", [0, 1, 2, None])
def test_lossless_colours(order, planar, tmp_path):
    """order: of JPEG-LS, by plane, line or pixel; None for JPEG."""
    if order is None:
        coded, syntax = imagecodecs.jpeg8_encode(COLOURS, lossless=True), uid.JPEGLosslessSV1
    else:
        samples = np.ascontiguousarray(COLOURS.transpose(2, 0, 1)) if order == 0 else COLOURS
        coded = bytes(jpeg_ls.encode_array(samples, interleave_mode=order))
        syntax = uid.JPEGLSLossless
    dataset = data_set(coded, syntax, COLOURS, 8, PlanarConfiguration=planar)
    np.testing.assert_array_equal(decoded(dataset), COLOURS)
    np.testing.assert_array_equal(by_dcmtk(dataset, tmp_path).reshape(COLOURS.shape), COLOURS)


@pytest.mark.filterwarnings("ignore")  # of pydicom: header and stream differ
@pytest.mark.parametrize("marker", [b"", JFIF, ADOBE_RGB, ADOBE_YBR], ids=["none", "JFIF", "RGB", "YBR"])
@pytest.mark.parametrize("identifiers", [b"RGB", b"\1\2\3"])
def test_lossless_luma_and_chroma(identifiers, marker):
    """The stream says what they are, or else the header; the decoder itself converts nothing."""
    coded = imagecodecs.jpeg8_encode(COLOURS, lossless=True)
    coded = coded[:2] + marker + coded[coded.index(b"\xff\xc3") :]  # without the encoder's own marker
    for old, new in zip(b"RGB", identifiers, strict=True):
        coded = coded.replace(bytes([old, 0x11, 0]), bytes([new, 0x11, 0]), 1)
        coded = coded.replace(bytes([old, 0]), bytes([new, 0]), 1)
    luma = identifiers != b"RGB" and marker != ADOBE_RGB
    expected = convert_color_space(COLOURS, "YBR_FULL", "RGB") if luma else COLOURS
    dataset = data_set(coded, uid.JPEGLosslessSV1, COLOURS, 8, PhotometricInterpretation="YBR_FULL")
    np.testing.assert_array_equal(decoded(dataset), expected)


def with_marker(coded, marker):
    """Return a colour JPEG with one marker in place of its own, and the components 1, 2 and 3."""
    tables = min(place for place in map(coded.find, (b"\xff\xdb", b"\xff\xc3", b"\xff\xc4")) if place > 0)
    coded = coded[:2] + marker + coded[tables:]
    scan = coded.index(b"\xff\xda")
    frame, header, rest = coded[:scan], coded[scan : scan + 12], coded[scan + 12 :]
    for old, new in zip(b"RGB", b"\1\2\3", strict=True):
        frame = frame.replace(bytes([old, 0x11]), bytes([new, 0x11]), 1)
        header = header.replace(bytes([old]), bytes([new]), 1)
    return frame + header + rest


@pytest.mark.filterwarnings("ignore")  # of pydicom: header and stream differ
@pytest.mark.parametrize("photometric", ["RGB", "YBR_FULL", "YBR_FULL_422"])
@pytest.mark.parametrize("marker", [JFIF, ADOBE_RGB, ADOBE_YBR], ids=["JFIF", "RGB", "YBR"])
@pytest.mark.parametrize("syntax", [uid.JPEGBaseline8Bit, uid.JPEGExtended12Bit, uid.JPEGLosslessSV1])
def test_colours_are_those_of_the_markers(syntax, marker, photometric):
    """Whatever the header says of them, as libjpeg shows such a stream."""
    samples = COLOURS if marker == ADOBE_RGB else convert_color_space(COLOURS, "RGB", "YBR_FULL")
    lossless = syntax == uid.JPEGLosslessSV1
    options = {"lossless": True} if lossless else {"level": 98}
    coded = imagecodecs.jpeg8_encode(
        np.ascontiguousarray(samples), colorspace="RGB", outcolorspace="RGB", subsampling="444", **options
    )
    coded = with_marker(coded, marker)
    found = decoded(data_set(coded, syntax, COLOURS, 8, PhotometricInterpretation=photometric))
    assert np.abs(found.astype(int) - COLOURS).max() <= (3 if lossless else 12)
    if not lossless:
        shown = np.asarray(PIL.Image.open(BytesIO(coded)).convert("RGB"))
        assert np.abs(found.astype(int) - shown).max() <= 2


@pytest.mark.parametrize("error", [1, 3])
@pytest.mark.parametrize("bits", [8, 12, 16])
def test_near_lossless(bits, error, tmp_path):
    shown, stored = waves(bits)
    dataset = data_set(bytes(jpeg_ls.encode_array(stored, error)), uid.JPEGLSNearLossless, shown, bits)
    pixels = decoded(dataset)
    assert np.abs(pixels.astype(int) - shown).max() == error
    np.testing.assert_array_equal(by_dcmtk(dataset, tmp_path), pixels)


@pytest.mark.parametrize(("syntax", "bits"), LOSSY_GREY)
def test_lossy_grey(syntax, bits, tmp_path):
    shown, stored = waves(bits)
    dataset = data_set(imagecodecs.jpeg8_encode(stored, 95, bitspersample=bits), syntax, shown, bits)
    pixels = decoded(dataset)
    assert np.abs(pixels.astype(int) - shown).mean() < 2**bits / 100
    assert np.abs(by_dcmtk(dataset, tmp_path).astype(int) - pixels).max() <= 1


@pytest.mark.parametrize("syntax", [uid.JPEGBaseline8Bit, uid.JPEGExtended12Bit])
@pytest.mark.parametrize("subsampling", ["444", "422"])
def test_lossy_colours(subsampling, syntax, tmp_path):
    coded = imagecodecs.jpeg8_encode(COLOURS, 95, subsampling=subsampling)
    dataset = data_set(coded, syntax, COLOURS, 8, PhotometricInterpretation="YBR_FULL_422")
    pixels = decoded(dataset)
    assert np.abs(pixels.astype(int) - COLOURS).mean() < 6
    others = by_dcmtk(dataset, tmp_path).astype(int)
    assert np.abs(others - pixels).mean() < 1


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_high_throughput_jpeg_2000(bits):
    shown, _ = waves(bits)
    coded = imagecodecs.htj2k_encode(shown, reversible=True)
    np.testing.assert_array_equal(decoded(data_set(coded, uid.HTJ2KLossless, shown, bits)), shown)
    inner = shown // 2 + 2 ** (bits - 2)  # far from the ends of the range, where decoders may wrap around
    coded = imagecodecs.htj2k_encode(inner, 60, reversible=False)
    pixels = decoded(data_set(coded, uid.HTJ2K, shown, bits))
    assert np.abs(imagecodecs.htj2k_decode(coded).astype(int) - pixels).max() <= 2


@pytest.mark.filterwarnings("ignore")  # of pydicom: some of them have faults
def test_shipped_files_are_those_of_dcmtk(tmp_path):
    compared = set()
    for path in sorted(SHIPPED.glob("*.dcm")):
        dataset = pydicom.dcmread(path, force=True)
        syntax = dataset.get("file_meta", {}).get("TransferSyntaxUID")
        if syntax not in BY_DCMTK or dataset.get("SamplesPerPixel") != 1:
            continue
        pixels = decoded(dataset)
        assert np.abs(by_dcmtk(path, tmp_path).astype(int) - pixels).max() <= (syntax in LOSSY_JPEG), path
        compared.add(syntax)
    assert compared == BY_DCMTK - {uid.JPEGBaseline8Bit, uid.JPEGLossless, uid.JPEGLosslessSV1}


def test_real_files_are_those_of_dcmtk(tmp_path):
    folder = Path(os.environ.get("CBIR_DATA", "")) / "dicom"
    if "CBIR_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("CBIR_DATA does not name a folder with a folder dicom")
    compared = 0
    for path in sorted(folder.iterdir()):
        dataset = pydicom.dcmread(path)
        if dataset.file_meta.TransferSyntaxUID not in BY_DCMTK:
            continue
        most = 2 if dataset.file_meta.TransferSyntaxUID in LOSSY_JPEG else 0
        assert np.abs(by_dcmtk(path, tmp_path).astype(int) - decoded(dataset)).max() <= most, path
        compared += 1
    assert compared == 19


def test_lossy_values_beyond_bits_stored_are_clipped():
    """They would lose their upper bits: white would become black."""
    stored = np.full((64, 64), 1023, np.uint16)
    stored[::3, ::5] = 0
    coded = imagecodecs.jpeg8_encode(stored, 80, bitspersample=12)
    assert imagecodecs.jpeg8_decode(coded).max() > 1023
    pixels = decoded(data_set(coded, uid.JPEGExtended12Bit, stored, 10))
    assert pixels.max() == 1023
    assert np.abs(pixels.astype(int) - stored).max() < 512


def test_a_scan_that_ends_at_another_coefficient():
    """ISO/IEC 10918-1, B.2.3 requires 63; some writers put 0."""
    shown, stored = waves(12)
    coded = bytearray(imagecodecs.jpeg8_encode(stored, 95, bitspersample=12))
    expected = decoded(data_set(bytes(coded), uid.JPEGExtended12Bit, shown, 12))
    scan = coded.index(b"\xff\xda")
    end = scan + 2 + int.from_bytes(coded[scan + 2 : scan + 4], "big")
    assert coded[end - 3 : end] == b"\0\x3f\0"
    coded[end - 2] = 0
    np.testing.assert_array_equal(decoded(data_set(bytes(coded), uid.JPEGExtended12Bit, shown, 12)), expected)


@pytest.mark.parametrize("padding", [b"\0", b"\0\0\0", b"\xff\xff"])
def test_padding_before_the_end_of_jpeg_ls(padding):
    """As in MR1_JLSL and CT1_JLSL of NEMA's files for compression."""
    shown, stored = waves(12)
    coded = bytes(jpeg_ls.encode_array(stored))
    padded = coded[:-2] + padding + coded[-2:]
    np.testing.assert_array_equal(decoded(data_set(padded, uid.JPEGLSLossless, shown, 12)), shown)


FRAMES = {
    uid.JPEGBaseline8Bit: imagecodecs.jpeg8_encode(waves(8)[1], 95),
    uid.JPEGExtended12Bit: imagecodecs.jpeg8_encode(waves(12)[1], 95, bitspersample=12),
    uid.JPEGLossless: imagecodecs.jpeg8_encode(waves(8)[1], lossless=True, predictor=5),
    uid.JPEGLosslessSV1: imagecodecs.jpeg8_encode(waves(8)[1], lossless=True),
    uid.JPEGLSLossless: bytes(jpeg_ls.encode_array(waves(8)[1])),
    uid.JPEGLSNearLossless: bytes(jpeg_ls.encode_array(waves(8)[1], 2)),
}


def frame(syntax):
    """Return a data set with the frame in a transfer syntax, and the frame."""
    bits = 12 if syntax == uid.JPEGExtended12Bit else 8
    return data_set(FRAMES[syntax], syntax, waves(bits)[0], bits), FRAMES[syntax]


@pytest.mark.parametrize("syntax", FRAMES)
def test_truncated_frames_are_refused_at_once(syntax):
    dataset, coded = frame(syntax)
    started = time.process_time()
    for share in np.linspace(0.1, 0.99, 8):
        dataset.PixelData = encapsulate([coded[: int(share * len(coded))]])
        with pytest.raises(UnreadableImage, match=r"truncated|damaged"):
            decoded(dataset)
    assert time.process_time() - started < 1


@pytest.mark.parametrize("syntax", FRAMES)
def test_frames_may_lack_their_end_marker_alone(syntax):
    dataset, coded = frame(syntax)
    expected = decoded(dataset)
    for kept in (coded[:-2], coded[:-1], coded[:-2] + bytes(100)):
        dataset.PixelData = encapsulate([kept])
        np.testing.assert_array_equal(decoded(dataset), expected)
    for lost in (3, 4, 5, 8, 13):
        for rest in (b"", bytes(1000)):
            dataset.PixelData = encapsulate([coded[:-lost] + rest])
            with pytest.raises(UnreadableImage, match=r"truncated|damaged"):
                decoded(dataset)


@pytest.mark.parametrize("syntax", FRAMES)
def test_other_decoders_that_are_installed_change_nothing(syntax, monkeypatch):
    (dataset, _), decoder = frame(syntax), get_decoder(syntax)
    expected = decoded(dataset)
    monkeypatch.setattr(decoder, "_available", {"gdcm": lambda *_: bytes(2 * 70 * 93), **decoder._available})
    np.testing.assert_array_equal(decoded(dataset), expected)
