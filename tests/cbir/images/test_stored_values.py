"""Stored values after every decoder: unused bits, high bit and sign; and attributes that say what they are."""

import shutil
import subprocess

import imagecodecs
import jpeg_ls
import numpy as np
import pydicom
import pytest
from pydicom import uid
from pydicom.encaps import encapsulate

from cbir.errors import UnreadableImage
from cbir.images import decode
from cbir.images.dicom_frames import stored_frames
from tests import benches
from tests.cbir.images.synthetic_dicom import COLOUR, dicom_set, displayed, refused, written

RNG = np.random.default_rng(3)
NATIVE = (uid.ExplicitVRLittleEndian, uid.ImplicitVRLittleEndian, uid.ExplicitVRBigEndian)
LOSSLESS = (
    uid.RLELossless, uid.JPEGLosslessSV1, uid.JPEGLSLossless, uid.JPEG2000Lossless, uid.JPEG2000, uid.HTJ2KLossless,
)  # fmt: skip
BY_DCMTK = (*NATIVE, uid.RLELossless, uid.JPEGLosslessSV1, uid.JPEGLSLossless)
# Bits allocated and stored, and the high bit.
LAYOUTS = (
    (8, 8, 7), (8, 6, 5), (8, 6, 7), (16, 16, 15), (16, 12, 11), (16, 12, 15), (16, 12, 13), (16, 10, 9), (16, 9, 15),
)  # fmt: skip
BENCH = benches.loaded("second_decoders")


def values_of(stored, signed):
    values = RNG.integers(0, 2**stored, (24, 40))
    values[0, :2] = 0, 2**stored - 1
    return values - 2 ** (stored - 1) * signed


def words_of(values, allocated, stored, high):
    """Put values at their bits, between others that are at random."""
    shift = high + 1 - stored
    mask = (2**stored - 1) << shift
    noise = RNG.integers(0, 2**allocated, values.shape) & ~mask
    return (((values << shift) & mask) | noise).astype(f"uint{allocated}")


def coded(words, syntax):
    """Code whole words, unused bits included."""
    bits = 8 * words.itemsize
    if syntax == uid.JPEGLosslessSV1:
        return imagecodecs.jpeg8_encode(words, lossless=True, bitspersample=bits)
    if syntax == uid.JPEGLSLossless:
        return bytes(jpeg_ls.encode_array(words))
    if syntax == uid.HTJ2KLossless:
        return imagecodecs.htj2k_encode(words, reversible=True)
    return imagecodecs.jpeg2k_encode(words, level=0, reversible=True, codecformat="j2k")


def data_set(words, syntax, **attributes):
    """Return a data set of words, native or coded in a transfer syntax."""
    dataset = dicom_set(words, **attributes)
    if syntax in NATIVE:
        order = ">" if syntax == uid.ExplicitVRBigEndian else "<"
        dataset.PixelData = words.astype(words.dtype.newbyteorder(order)).tobytes()
        dataset["PixelData"].VR = "OB" if words.itemsize == 1 else "OW"
        dataset.file_meta.TransferSyntaxUID = syntax
    elif syntax == uid.RLELossless:
        dataset.compress(syntax, generate_instance_uid=False)
    else:
        dataset.file_meta.TransferSyntaxUID = syntax
        dataset.PixelData = encapsulate([coded(words, syntax)])
        dataset["PixelData"].VR = "OB"
    return pydicom.dcmread(pydicom.filebase.DicomBytesIO(written(dataset)))


def layout(allocated, stored, high, signed):
    return {
        "BitsAllocated": allocated,
        "BitsStored": stored,
        "HighBit": high,
        "PixelRepresentation": int(signed),
    }


def each_layout(syntaxes):
    """Run a test with each layout, with and without sign, in each transfer syntax."""

    def parametrized(test):
        test = pytest.mark.parametrize("photometric", ["MONOCHROME2", "MONOCHROME1"])(test)
        test = pytest.mark.parametrize("signed", [False, True])(test)
        test = pytest.mark.parametrize(("allocated", "stored", "high"), LAYOUTS)(test)
        return pytest.mark.parametrize("syntax", syntaxes)(test)

    return parametrized


def values_and_data_set(syntax, allocated, stored, high, signed, photometric):
    values = values_of(stored, signed)
    words = words_of(values, allocated, stored, high)
    attributes = layout(allocated, stored, high, signed)
    return values, data_set(words, syntax, PhotometricInterpretation=photometric, **attributes)


@pytest.mark.filterwarnings("ignore")  # of pydicom: bits of header and stream differ
@each_layout([*NATIVE, *LOSSLESS])
def test_unused_bits_and_signs(syntax, allocated, stored, high, signed, photometric):
    values, dataset = values_and_data_set(syntax, allocated, stored, high, signed, photometric)
    ((found, _),) = stored_frames(dataset)
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("bits", [8, 10, 12, 14])
@pytest.mark.parametrize("syntax", [uid.JPEG2000Lossless, uid.HTJ2KLossless])
def test_signs_in_the_stream_and_not_in_the_header(syntax, bits):
    """A coder may have taken two's complement for unsigned words, and say so, or the other way round."""
    values = values_of(bits, True).astype(np.int16)
    encode = imagecodecs.htj2k_encode if syntax == uid.HTJ2KLossless else imagecodecs.jpeg2k_encode
    for samples in (values, values.view(np.uint16)):
        dataset = dicom_set(values, BitsStored=bits, HighBit=bits - 1)
        dataset.file_meta.TransferSyntaxUID = syntax
        dataset.PixelData = encapsulate([encode(samples, reversible=True)])
        dataset["PixelData"].VR = "OB"
        ((found, _),) = stored_frames(dataset)
        np.testing.assert_array_equal(found, values)


def test_lossy_values_a_little_beyond_are_clipped_and_unused_bits_masked():
    values = values_of(12, False).astype(np.uint16)
    values[:4] = 4095
    for noise, tolerance in ((0, 3), (0xF000, 16)):
        words = np.minimum(values, 4080) | noise if noise else values
        dataset = dicom_set(values, BitsStored=12, HighBit=11)
        dataset.file_meta.TransferSyntaxUID = uid.JPEGLSNearLossless
        dataset.PixelData = encapsulate([bytes(jpeg_ls.encode_array(words, 3))])
        dataset["PixelData"].VR = "OB"
        ((found, _),) = stored_frames(dataset)
        assert np.abs(found.astype(int) - values)[values > 3].max() <= tolerance


@pytest.mark.parametrize("error", [1, 2, 3])
@pytest.mark.parametrize("bits", [6, 7])
def test_near_lossless_jpeg_ls_of_dcmtk_below_eight_bits(bits, error, tmp_path):
    """Its coder has other thresholds than ISO/IEC 14495-1, C.2.4.1.1.1, and does not write them down."""
    if shutil.which("dcmcjpls") is None:
        pytest.skip("dcmcjpls, of Debian's dcmtk, is not installed")
    values = values_of(bits, False).astype(np.uint8)
    dataset = coded_by_dcmtk(values, bits, error, tmp_path)
    ((found, _),) = stored_frames(dataset)
    assert np.abs(found.astype(int) - values).max() <= error


def coded_by_dcmtk(values, bits, error, folder):
    """Return a data set with values in near-lossless JPEG-LS."""
    (folder / "plain.dcm").write_bytes(written(dicom_set(values, BitsStored=bits, HighBit=bits - 1)))
    options = ["+en", "+md", str(error), folder / "plain.dcm", folder / "coded.dcm"]
    subprocess.run(["dcmcjpls", *options], check=True, capture_output=True)
    return pydicom.dcmread(folder / "coded.dcm")


@pytest.mark.skipif(shutil.which("dcmcjpls") is None, reason="dcmcjpls, of Debian's dcmtk, is not installed")
def test_the_last_bits_of_an_image_of_dcmtk_may_be_zero(tmp_path):
    for seed in range(100):
        values = np.random.default_rng(seed).integers(0, 64, (24, 40), np.uint8)
        values[0, :2] = 0, 63
        dataset = coded_by_dcmtk(values, 6, 2, tmp_path)
        if b"\0\xff\xd9" in dataset.PixelData:
            break
    else:
        pytest.fail("no image ends with a zero")
    ((found, _),) = stored_frames(dataset)
    assert np.abs(found.astype(int) - values).max() <= 2


@pytest.mark.parametrize("signed", [False, True])
def test_bits_beyond_those_that_the_stream_declares(signed):
    """Lossless JPEG codes differences of 16 bits: words may have more bits than its header says, as with overlays."""
    values = values_of(12, signed)
    words = (values.astype(np.int16).view(np.uint16) & 0xFFF) | 0x5000
    dataset = dicom_set(values.astype(np.int16), BitsStored=12, HighBit=11, PixelRepresentation=int(signed))
    dataset.file_meta.TransferSyntaxUID = uid.JPEGLosslessSV1
    coded = imagecodecs.jpeg8_encode(words, lossless=True, bitspersample=12)
    assert coded[coded.find(b"\xff\xc3") + 4] == 12
    dataset.PixelData = encapsulate([coded])
    dataset["PixelData"].VR = "OB"
    ((found, _),) = stored_frames(dataset)
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("keyword", ["Rows", "Columns"])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_refusal_names_the_size_that_is_missing(keyword, is_there):
    dataset = without(keyword, dicom_set())
    if is_there:
        setattr(dataset, keyword, None)
    with pytest.raises(UnreadableImage, match=f"has no {keyword};"):
        next(decode(written(dataset)))


@pytest.mark.parametrize("high", [3, 16, 99, None])
def test_a_high_bit_that_cannot_be_is_ignored(high):
    values = values_of(12, False).astype(np.uint16)
    window = {"WindowCenter": 2048, "WindowWidth": 4096}
    expected = displayed(values, BitsStored=12, HighBit=11, **window)
    np.testing.assert_array_equal(displayed(values, BitsStored=12, HighBit=high, **window), expected)


def without(keyword, dataset):
    del dataset[keyword]
    return dataset


@pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
def test_samples_per_pixel_follow_from_the_colours(photometric):
    dataset = dicom_set(PhotometricInterpretation=photometric)
    expected = next(decode(written(dataset))).pixels
    np.testing.assert_array_equal(next(decode(written(without("SamplesPerPixel", dataset)))).pixels, expected)
    coloured = without("SamplesPerPixel", dicom_set(COLOUR))
    np.testing.assert_array_equal(next(decode(written(coloured))).pixels, COLOUR)


def test_colours_without_planar_configuration_are_by_pixel():
    dataset = without("PlanarConfiguration", dicom_set(COLOUR))
    np.testing.assert_array_equal(next(decode(written(dataset))).pixels, COLOUR)
    compressed = dicom_set(COLOUR)
    compressed.compress(uid.RLELossless, generate_instance_uid=False)
    compressed = without("PlanarConfiguration", compressed)
    np.testing.assert_array_equal(next(decode(written(compressed))).pixels, COLOUR)


def test_bytes_need_neither_bits_stored_nor_a_sign():
    grey = COLOUR[..., 0]
    dataset = without("PixelRepresentation", without("HighBit", without("BitsStored", dicom_set(grey))))
    dataset.WindowCenter, dataset.WindowWidth = 128, 256
    np.testing.assert_array_equal(next(decode(written(dataset))).pixels, grey)


@pytest.mark.parametrize("planar", [0, 1])
@pytest.mark.parametrize("syntax", [*NATIVE, uid.RLELossless])
def test_planes_of_deep_colours(syntax, planar):
    """Of 12 bits in 16, in both layouts; DCMTK renders the same."""
    deep = COLOUR.astype(np.uint16) * 16 + 7
    stored = deep if planar == 0 else np.ascontiguousarray(deep.transpose(2, 0, 1))
    dataset = dicom_set(deep, BitsStored=12, HighBit=11, PlanarConfiguration=planar)
    dataset.PixelData = stored.tobytes()
    if syntax == uid.RLELossless:
        dataset.PlanarConfiguration, dataset.PixelData = 0, deep.tobytes()
        dataset.compress(syntax, generate_instance_uid=False)
        dataset.PlanarConfiguration = planar
    else:
        order = ">" if syntax == uid.ExplicitVRBigEndian else "<"
        dataset.PixelData = stored.astype(f"{order}u2").tobytes()
        dataset.file_meta.TransferSyntaxUID = syntax
    (image,) = decode(written(dataset))
    assert np.abs(image.pixels - deep * (255 / 4095)).max() <= 0.5
    if shutil.which("dcmj2pnm"):
        assert BENCH.compare_dicom(written(dataset), image).difference <= 1


def test_luma_and_chroma_of_more_than_eight_bits():
    """PS3.3, C.7.6.3.1.2, for one colour: pure red."""
    luma_and_chroma = np.full((4, 6, 3), (0.299 * 4095, 2048 - 0.1687 * 4095, 2048 + 0.5 * 4095), np.uint16)
    result = displayed(luma_and_chroma, BitsStored=12, HighBit=11, PhotometricInterpretation="YBR_FULL")
    assert np.abs(result.astype(int) - (255, 0, 0)).max() <= 1


def test_a_stream_of_other_components_than_the_header():
    dataset = dicom_set(COLOUR[..., 0])
    dataset.file_meta.TransferSyntaxUID = uid.JPEGBaseline8Bit
    dataset.PixelData = encapsulate([imagecodecs.jpeg8_encode(COLOUR, 95)])
    dataset["PixelData"].VR = "OB"
    assert "3 components where its header says 1 (SamplesPerPixel)" in refused(dataset)
    with pytest.raises(UnreadableImage, match="SamplesPerPixel 1 with RGB"):
        displayed(COLOUR[..., 0], PhotometricInterpretation="RGB")


@pytest.mark.parametrize("signed", [False, True])
def test_a_coder_may_have_taken_out_the_bits_below_the_value(signed):
    """The header describes the words before: 12 bits at the top of 16, of which the stream has 12."""
    values = values_of(12, signed)
    words = (values & 0xFFF).astype(np.uint16)
    dataset = dicom_set(words, **layout(16, 12, 15, signed))
    dataset.file_meta.TransferSyntaxUID = uid.JPEG2000Lossless
    stream = imagecodecs.jpeg2k_encode(words, level=0, reversible=True, codecformat="j2k", bitspersample=12)
    dataset.PixelData = encapsulate([stream])
    dataset["PixelData"].VR = "OB"
    ((found, _),) = stored_frames(dataset)
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("syntax", [uid.JPEGLSLossless, uid.JPEG2000Lossless, uid.JPEGLosslessSV1])
def test_an_unused_bit_of_dark_pixels_is_masked_without_loss(syntax):
    """It looks like a value that is a little beyond, which lossy coding alone gives."""
    values = values_of(12, False)
    words = np.where(values < 1000, values | 0x1000, values).astype(np.uint16)
    ((found, _),) = stored_frames(data_set(words, syntax, **layout(16, 12, 11, False)))
    np.testing.assert_array_equal(found, values)


@pytest.mark.slow  # a process for each
@pytest.mark.skipif(shutil.which("dcmj2pnm") is None, reason="dcmj2pnm, of Debian's dcmtk, is not installed")
@pytest.mark.filterwarnings("ignore")
@each_layout(BY_DCMTK)
def test_unused_bits_and_signs_are_shown_as_by_dcmtk(syntax, allocated, stored, high, signed, photometric):
    _, dataset = values_and_data_set(syntax, allocated, stored, high, signed, photometric)
    (image,) = decode(written(dataset))
    comparison = BENCH.compare_dicom(written(dataset), image)
    assert comparison.difference is not None, comparison.reason
    assert comparison.difference <= 1
