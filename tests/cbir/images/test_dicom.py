"""Synthetic DICOM files: effect of each attribute on the pixels, and refusals."""

import logging
import struct
import warnings
from io import BytesIO

import cv2
import numpy as np
import PIL.Image
import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    MPEG2MPML,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    RLELossless,
)

from cbir.errors import UnreadableImage
from cbir.images import DicomHeader, Limits, decode

RNG = np.random.default_rng(0)
STORED = RNG.integers(-1000, 3000, (12, 17), dtype=np.int16)
COLOUR = RNG.integers(0, 256, (12, 17, 3), dtype=np.uint8)
CT = "1.2.840.10008.5.1.4.1.1.2"


def dicom_set(stored=STORED, frames=None, **attributes):
    """A data set; stored: (rows, columns), (rows, columns, 3), or with `frames`, those first."""
    stored = np.asarray(stored)
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.MediaStorageSOPClassUID = dataset.SOPClassUID = CT
    dataset.file_meta.MediaStorageSOPInstanceUID = dataset.SOPInstanceUID = "1.2.3"
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    shape = stored.shape if frames is None else stored.shape[1:]
    dataset.Rows, dataset.Columns = shape[:2]
    if frames is not None:
        dataset.NumberOfFrames = frames
    dataset.SamplesPerPixel = 3 if len(shape) == 3 else 1
    if len(shape) == 3:
        dataset.PlanarConfiguration = 0
    dataset.PhotometricInterpretation = "RGB" if len(shape) == 3 else "MONOCHROME2"
    dataset.BitsAllocated = dataset.BitsStored = 8 * stored.dtype.itemsize
    dataset.HighBit = dataset.BitsStored - 1
    dataset.PixelRepresentation = int(stored.dtype.kind == "i")
    raw = stored.tobytes() + bytes(stored.nbytes % 2)
    if stored.dtype.kind == "f":
        keyword = "FloatPixelData" if stored.dtype.itemsize == 4 else "DoubleFloatPixelData"
        setattr(dataset, keyword, raw)
    else:
        dataset.PixelData = raw
        dataset["PixelData"].VR = "OW"
    for keyword, value in attributes.items():
        setattr(dataset, keyword, value)
    return dataset


def written(dataset):
    """The bytes of its file."""
    file = BytesIO()
    dataset.save_as(file, enforce_file_format=True)
    return file.getvalue()


def displayed(stored=STORED, **attributes):
    """The pixels of a file with one frame."""
    (image,) = decode(written(dicom_set(stored, **attributes)))
    assert image.format == "dicom"
    assert image.frame is None
    return image.pixels


def item(**attributes):
    dataset = Dataset()
    for keyword, value in attributes.items():
        setattr(dataset, keyword, value)
    return dataset


def lut(entries, first, bits=16, vr="US"):
    """An item of a modality or VOI LUT sequence."""
    dataset = item(LUTDescriptor=[len(entries) % 65536, first, bits])
    dataset.add_new(
        "LUTData",
        vr,
        [int(entry) for entry in entries] if vr == "US" else np.asarray(entries, "<u2").tobytes(),
    )
    return dataset


def by_percentiles(values, seen=None):
    low, high = np.percentile(values if seen is None else seen, (1, 99))
    return np.rint((np.clip(values, low, high) - low) / (high - low) * 255)


def linear(x, c, w):
    """PS3.3, C.11.2.1.2.1, line by line."""
    if x <= c - 0.5 - (w - 1) / 2:
        return 0
    if x > c - 0.5 + (w - 1) / 2:
        return 255
    return ((x - (c - 0.5)) / (w - 1) + 0.5) * 255


def linear_exact(x, c, w):
    """PS3.3, C.11.2.1.3.2, line by line."""
    if x <= c - w / 2:
        return 0
    if x > c + w / 2:
        return 255
    return ((x - c) / w + 0.5) * 255


def sigmoid(x, c, w):
    """PS3.3, C.11.2.1.3.1."""
    return 255 / (1 + np.exp(min(-4 * (x - c) / w, 700)))


FUNCTIONS = {"LINEAR": linear, "LINEAR_EXACT": linear_exact, "SIGMOID": sigmoid}


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
@given(c=st.floats(-900, 2900).map(lambda c: round(c, 2)), w=st.floats(1, 4000).map(lambda w: round(w, 2)))
def test_windows_follow_the_standard(function, c, w):
    result = displayed(WindowCenter=c, WindowWidth=w, VOILUTFunction=function)
    expected = np.vectorize(FUNCTIONS[function], otypes=[float])(STORED.astype(float), c, w)
    assert np.abs(result - expected).max() <= 0.5 + 1e-6


def test_first_window_applies_after_rescaling():
    result = displayed(
        WindowCenter=[40, 500], WindowWidth=[400, 2000], RescaleSlope=2, RescaleIntercept=-1024
    )
    np.testing.assert_allclose(
        result, np.vectorize(linear, otypes=[float])(STORED * 2.0 - 1024, 40.0, 400.0), atol=0.5 + 1e-6
    )


def test_width_one_is_a_threshold():
    np.testing.assert_array_equal(displayed(WindowCenter=100, WindowWidth=1), np.where(STORED > 99.5, 255, 0))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32])
def test_without_a_window_the_percentiles(dtype):
    info = np.iinfo(dtype)
    stored = RNG.integers(info.min, info.max, (20, 30), dtype=dtype, endpoint=True)
    np.testing.assert_array_equal(displayed(stored), by_percentiles(stored.astype(float)))


@pytest.mark.parametrize(
    "window",
    [{"WindowCenter": 0, "WindowWidth": 0}, {"WindowCenter": 9, "WindowWidth": -5}, {"WindowCenter": 9},
     {"WindowWidth": 9}, {"WindowCenter": None, "WindowWidth": None}, {"RescaleSlope": 0}],
)  # fmt: skip
def test_invalid_windows_are_ignored(window):
    np.testing.assert_array_equal(displayed(**window), by_percentiles(STORED.astype(float)))


def test_window_with_text_is_ignored():
    data = written(dicom_set(WindowCenter=40, WindowWidth=400)).replace(b"400.0 ", b"wide  ")
    (image,) = decode(data)
    np.testing.assert_array_equal(image.pixels, by_percentiles(STORED.astype(float)))


def test_a_width_below_one_is_exact():
    stored = np.arange(100, dtype=np.uint8).reshape(10, 10)
    values = stored / 100
    result = displayed(stored, RescaleSlope=0.01, RescaleIntercept=0, WindowCenter=0.5, WindowWidth=0.5)
    np.testing.assert_allclose(
        result, np.vectorize(linear_exact, otypes=[float])(values, 0.5, 0.5), atol=0.5 + 1e-6
    )


@pytest.mark.parametrize("value", [0, 7, 255])
def test_a_flat_image_is_black(value):
    assert not displayed(np.full((4, 6), value, np.uint8)).any()
    assert not displayed(np.full((4, 6), value, np.float32)).any()


def test_monochrome1_is_inverted_after_the_window():
    for window in ({}, {"WindowCenter": 300, "WindowWidth": 900}, {"VOILUTSequence": [lut([0, 65535], 0)]}):
        plain = displayed(**window)
        np.testing.assert_array_equal(
            displayed(PhotometricInterpretation="MONOCHROME1", **window), 255 - plain
        )


def test_modality_table():
    entries = RNG.integers(0, 4096, 64)
    stored = RNG.integers(0, 128, (9, 9), dtype=np.uint8)
    expected = entries[np.clip(stored.astype(int) - 20, 0, 63)].astype(float)
    for vr in ("US", "OW"):
        result = displayed(stored, ModalityLUTSequence=[lut(entries, 20, vr=vr)])
        np.testing.assert_array_equal(result, by_percentiles(expected))


@pytest.mark.parametrize("bits", [8, 10, 12, 16])
@pytest.mark.parametrize("first", [-1000, 0, 50])
def test_voi_table_precedes_window(bits, first):
    entries = RNG.integers(0, 2**bits, 500)
    result = displayed(VOILUTSequence=[lut(entries, first, bits)], WindowCenter=1, WindowWidth=1)
    expected = entries[np.clip(STORED.astype(int) - first, 0, 499)] * 255 / (2**bits - 1)
    assert np.abs(result - expected).max() <= 0.5 + 1e-6


def test_voi_table_after_rescaling_into_the_negative():
    stored = np.arange(200, dtype=np.uint16).reshape(10, 20)
    table = lut(range(200), 65536 - 100, 8)
    result = displayed(stored, RescaleSlope=1, RescaleIntercept=-100, VOILUTSequence=[table])
    np.testing.assert_array_equal(result, stored)


def test_table_larger_than_declared_does_not_overflow():
    entries = [0, 4095, 40000, 65535]
    result = displayed(np.array([[0, 1, 2, 3]], np.uint8), VOILUTSequence=[lut(entries, 0, 12)])
    assert result.tolist() == [[0, 16, 156, 255]]


def test_padding_does_not_count_for_the_percentiles():
    stored = STORED.copy()
    stored[:6] = -2000
    result = displayed(stored, PixelPaddingValue=-2000)
    np.testing.assert_array_equal(result[6:], by_percentiles(stored[6:].astype(float)))
    assert not result[:6].any()
    stored[:6] = RNG.integers(-2100, -1999, (6, 17))
    result = displayed(stored, PixelPaddingValue=-2000, PixelPaddingRangeLimit=-2100)
    np.testing.assert_array_equal(result[6:], by_percentiles(stored[6:].astype(float)))


def test_only_padding():
    assert not displayed(np.full((3, 3), 9, np.int16), PixelPaddingValue=9).any()


def test_bits_above_bits_stored_are_ignored():
    stored = RNG.integers(0, 4096, (8, 8), dtype=np.uint16)
    result = displayed(stored | 0xF000, BitsStored=12, HighBit=11)
    np.testing.assert_array_equal(result, by_percentiles(stored.astype(float)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_pixels(dtype):
    stored = RNG.normal(0, 1e5, (12, 17)).astype(dtype)
    np.testing.assert_array_equal(displayed(stored), by_percentiles(stored.astype(float)))
    for bad in (np.nan, np.inf):
        stored[0, 0] = bad
        with pytest.raises(UnreadableImage, match="not finite"):
            displayed(stored)


def test_rescaling_to_infinity_is_refused():
    with pytest.raises(UnreadableImage, match="not finite"):
        displayed(RescaleSlope="1e308", RescaleIntercept=0)


def test_one_bit():
    mask = STORED > 900
    packed = np.packbits(mask.reshape(-1), bitorder="little").tobytes()
    result = displayed(BitsAllocated=1, BitsStored=1, HighBit=0, PixelRepresentation=0, PixelData=packed)
    np.testing.assert_array_equal(result, mask * 255)


def test_colours():
    np.testing.assert_array_equal(displayed(COLOUR), COLOUR)
    planes = np.ascontiguousarray(COLOUR.transpose(2, 0, 1)).tobytes()
    np.testing.assert_array_equal(displayed(COLOUR, PlanarConfiguration=1, PixelData=planes), COLOUR)
    np.testing.assert_array_equal(displayed(COLOUR.astype(np.uint16) * 257), COLOUR)
    twelve = COLOUR.astype(np.uint16) * 16
    result = displayed(twelve, BitsStored=12, HighBit=11)
    assert np.abs(result - twelve * (255 / 4095)).max() <= 0.5
    np.testing.assert_array_equal(displayed(np.dstack([COLOUR[..., 0]] * 3)), COLOUR[..., 0])


def test_luma_and_chroma_become_rgb():
    smooth = cv2.GaussianBlur(COLOUR, (0, 0), 2)
    ybr = cv2.cvtColor(smooth, cv2.COLOR_RGB2YCrCb)[..., [0, 2, 1]]
    result = displayed(np.ascontiguousarray(ybr), PhotometricInterpretation="YBR_FULL")
    assert np.abs(result.astype(int) - smooth).max() <= 3


@pytest.mark.parametrize(
    ("count", "first", "bits"), [(256, 0, 16), (256, 0, 8), (16, 40, 16), (0, 0, 8), (300, 5, 8)]
)
def test_palettes(count, first, bits):
    """Among them 8-bit entries for more than 256 values, packed two to a word."""
    entries = RNG.integers(0, 2**bits, (3, count or 65536))
    stored = RNG.integers(0, 400, (9, 9), dtype=np.uint16)
    attributes = {}
    for name, row in zip(("Red", "Green", "Blue"), entries, strict=True):
        attributes[f"{name}PaletteColorLookupTableDescriptor"] = [count, first, bits]
        attributes[f"{name}PaletteColorLookupTableData"] = row.astype(f"<u{bits // 8}").tobytes()
    result = displayed(stored, PhotometricInterpretation="PALETTE COLOR", **attributes)
    positions = np.clip(stored.astype(int) - first, 0, (count or 65536) - 1)
    expected = entries.T[positions] * 255 / (2**bits - 1)
    assert np.abs(result - expected).max() <= 0.5 + 1e-6


def test_byte_palette_declared_as_words():
    attributes = {}
    for name in ("Red", "Green", "Blue"):
        attributes[f"{name}PaletteColorLookupTableDescriptor"] = [256, 0, 16]
        attributes[f"{name}PaletteColorLookupTableData"] = np.arange(256, dtype="<u2").tobytes()
    stored = COLOUR[..., 0]
    np.testing.assert_array_equal(
        displayed(stored, PhotometricInterpretation="PALETTE COLOR", **attributes), stored
    )


def test_segmented_palette():
    """A discrete segment of one entry, then a linear one up to 65535 (C.7.9.2)."""
    segments = struct.pack("<6H", 0, 1, 0, 1, 255, 65535)
    attributes = {}
    for name in ("Red", "Green", "Blue"):
        attributes[f"{name}PaletteColorLookupTableDescriptor"] = [256, 0, 16]
        attributes[f"Segmented{name}PaletteColorLookupTableData"] = segments
    stored = COLOUR[..., 0]
    np.testing.assert_array_equal(
        displayed(stored, PhotometricInterpretation="PALETTE COLOR", **attributes), stored
    )


def test_frames_one_at_a_time():
    stored = RNG.integers(0, 4000, (5, 6, 7), dtype=np.uint16)
    images = list(decode(written(dicom_set(stored, frames=5, WindowCenter=2000, WindowWidth=4000))))
    assert [image.frame for image in images] == [1, 2, 3, 4, 5]
    for image, frame in zip(images, stored, strict=True):
        np.testing.assert_allclose(
            image.pixels, np.vectorize(linear, otypes=[float])(frame.astype(float), 2000, 4000), atol=0.51
        )
    assert [image.frame for image in decode(written(dicom_set(stored[:1], frames=1)))] == [None]


@pytest.mark.parametrize("where", ["each", "shared", "both"])
def test_functional_groups_of_enhanced_objects(where):
    stored = RNG.integers(0, 4000, (3, 6, 7), dtype=np.uint16)

    def group(number):
        return item(
            PixelValueTransformationSequence=[
                item(RescaleSlope=number, RescaleIntercept=-100, RescaleType="US")
            ],
            FrameVOILUTSequence=[item(WindowCenter=500 * number, WindowWidth=1000)],
        )

    dataset = dicom_set(stored, frames=3, WindowCenter=1, WindowWidth=2, RescaleSlope=9, RescaleIntercept=9)
    if where != "each":
        dataset.SharedFunctionalGroupsSequence = [group(2)]
    if where != "shared":
        dataset.PerFrameFunctionalGroupsSequence = [group(number) for number in (1, 2, 3)]
    factors = (2, 2, 2) if where == "shared" else (1, 2, 3)
    for image, frame, factor in zip(decode(written(dataset)), stored, factors, strict=True):
        expected = np.vectorize(linear, otypes=[float])(frame * float(factor) - 100, 500.0 * factor, 1000.0)
        assert np.abs(image.pixels - expected).max() <= 0.5 + 1e-6


@pytest.mark.parametrize(
    "syntax", [ImplicitVRLittleEndian, ExplicitVRBigEndian, DeflatedExplicitVRLittleEndian]
)
def test_encodings_of_the_data_set(syntax):
    dataset = dicom_set()
    if syntax == ExplicitVRBigEndian:
        dataset.PixelData = STORED.astype(">i2").tobytes()
    dataset.file_meta.TransferSyntaxUID = syntax
    (image,) = decode(written(dataset))
    np.testing.assert_array_equal(image.pixels, displayed())


@pytest.mark.parametrize("syntax", [ImplicitVRLittleEndian, ExplicitVRLittleEndian, ExplicitVRBigEndian])
def test_files_without_preamble(syntax):
    dataset = dicom_set()
    if syntax == ExplicitVRBigEndian:
        dataset.PixelData = STORED.astype(">i2").tobytes()
    del dataset.file_meta
    file = BytesIO()
    order = {"implicit_vr": syntax.is_implicit_VR, "little_endian": syntax.is_little_endian}
    pydicom.dcmwrite(file, dataset, enforce_file_format=False, **order)
    (image,) = decode(file.getvalue())
    np.testing.assert_array_equal(image.pixels, displayed())


def test_run_lengths_and_frames():
    stored = np.repeat(RNG.integers(0, 4000, (3, 6, 1), dtype=np.uint16), 40, axis=2)
    dataset = dicom_set(stored, frames=3)
    plain = [image.pixels for image in decode(written(dataset))]
    dataset.compress(RLELossless, generate_instance_uid=False)
    for image, expected in zip(decode(written(dataset)), plain, strict=True):
        np.testing.assert_array_equal(image.pixels, expected)


def compressed(coded, rows, columns, syntax=JPEGBaseline8Bit):
    dataset = dicom_set(np.zeros((rows, columns), np.uint8))
    dataset.file_meta.TransferSyntaxUID = syntax
    dataset.PixelData = encapsulate([coded])
    dataset["PixelData"].VR = "OB"
    return written(dataset)


def test_compressed_frame_of_another_size_is_refused_before_decoding():
    for kind, syntax in (("JPEG", JPEGBaseline8Bit), ("JPEG2000", JPEG2000Lossless)):
        file = BytesIO()
        PIL.Image.fromarray(np.full((32, 48), 77, np.uint8)).save(file, kind)
        coded = file.getvalue()
        assert next(decode(compressed(coded, 32, 48, syntax))).pixels.shape == (32, 48)
        with pytest.raises(UnreadableImage, match="48 x 32 pixels where its header says 47 x 32"):
            next(decode(compressed(coded, 32, 47, syntax)))
        with pytest.raises(UnreadableImage, match="is damaged"):
            next(decode(compressed(b"\xff\xd8" + bytes(50), 32, 48, syntax)))


def test_header():
    attributes = {
        "StudyInstanceUID": "1.2", "SeriesInstanceUID": "1.2.4", "Modality": "CT", "BodyPartExamined": "CHEST",
        "ViewPosition": "PA", "Laterality": "L", "ImageLaterality": "R", "BurnedInAnnotation": "YES",
        "PatientID": "77 ",
    }  # fmt: skip
    (image,) = decode(written(dicom_set(**attributes)))
    assert image.dicom == DicomHeader(
        "1.2", "1.2.4", "1.2.3", "CT", "CHEST", "PA", "R", True, "77", "MONOCHROME2", sop_class=CT
    )
    assert "77" not in repr(image.dicom)
    (image,) = decode(written(dicom_set(Laterality="L", BurnedInAnnotation="NO", Modality=None)))
    assert image.dicom == DicomHeader(
        instance="1.2.3", laterality="L", photometric="MONOCHROME2", sop_class=CT
    )


def refused(dataset, **options):
    with pytest.raises(UnreadableImage) as caught:
        list(decode(dataset if isinstance(dataset, bytes) else written(dataset), "scan.dcm", **options))
    assert str(caught.value).startswith("scan.dcm ")
    return str(caught.value)


def test_objects_without_pixels():
    dataset = dicom_set()
    del dataset.PixelData
    assert "has no pixels, though it is of class CT Image Storage" in refused(dataset)
    dataset.SOPClassUID = "1.2.840.10008.5.1.4.1.1.88.11"
    assert "Basic Text SR Storage" in refused(dataset)
    dataset.SOPClassUID = "1.2.3.4"
    assert "an unknown class" in refused(dataset)


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"Rows": 0}, "17 x 0 pixels, an empty image"),
        ({"Rows": 60000, "Columns": 60000}, "60000 x 60000 pixels; at most 100000000"),
        ({"Rows": 13}, "truncated or do not fit"),
        ({"BitsAllocated": 12}, "do not fit"),
        ({"BitsAllocated": 0}, "do not fit"),
        ({"SamplesPerPixel": 4}, "neither 1 nor 3"),
        ({"SamplesPerPixel": 3}, "do not fit"),
        ({"PhotometricInterpretation": "PALETTE COLOR"}, "damaged"),
        ({"PhotometricInterpretation": "FANTASY"}, "do not fit"),
        ({"NumberOfFrames": 20000}, "20000 frames; at most 10000"),
        ({"NumberOfFrames": -1}, "no frames"),
        ({"NumberOfFrames": 2}, "truncated or do not fit"),
        ({"PixelData": b""}, "truncated or do not fit"),
        ({"VOILUTSequence": [Dataset()]}, "damaged"),
    ],
)
def test_inconsistent_attributes_are_refused(attributes, reason):
    assert reason in refused(dicom_set(**attributes))


def test_missing_attributes():
    for keyword, reason in (("Rows", "no Rows"), ("BitsAllocated", "do not fit")):
        dataset = dicom_set()
        del dataset[keyword]
        assert reason in refused(dataset)


def test_unsupported_transfer_syntaxes_are_named():
    dataset = dicom_set()
    dataset.PixelData = encapsulate([bytes(64)])
    dataset.file_meta.TransferSyntaxUID = MPEG2MPML
    assert "MPEG2 Main Profile / Main Level" in refused(dataset)
    data = written(dicom_set()).replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.7.7.7\0")
    assert "1.2.840.10008.7.7.7" in refused(data)


def test_deflated_data_set_beyond_the_limit():
    dataset = dicom_set(np.zeros((2000, 2000), np.uint16))
    dataset.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    data = written(dataset)
    assert len(data) < 10**6
    assert len(list(decode(data))) == 1
    assert "inflates to more than 4000000 bytes" in refused(data, limits=Limits(bytes=4_000_000))
    assert "truncated" in refused(data[:-300])


def test_truncated_files_are_refused():
    data = written(dicom_set())
    for length in range(132, len(data), 7):
        refused(data[:length])


def test_messages_contain_no_patient_data(caplog, capfd):
    """Neither in errors, warnings, logs nor on the terminal: for values that pydicom warns of, and damage."""
    caplog.set_level(logging.DEBUG)
    secret = "DOE^JOHN"
    dataset = dicom_set(PatientName=secret, PatientID=secret)
    dataset.add_new("StudyDate", "LO", secret)
    dataset.add_new("NumberOfFrames", "LO", secret)
    dataset.add_new("WindowCenter", "LO", secret)
    data = written(dataset)
    stated = [refused(data)]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for position in range(0, len(data), 5):
            damaged = bytearray(data)
            damaged[position] ^= 0xFF
            try:
                list(decode(bytes(damaged)))
            except UnreadableImage as error:
                stated.append(str(error))
    assert secret not in "".join(stated)
    assert not warned
    assert not [record for record in caplog.records if record.name.startswith("pydicom")]
    assert capfd.readouterr() == ("", "")
