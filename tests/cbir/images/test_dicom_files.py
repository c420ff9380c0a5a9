"""Synthetic DICOM files: encodings, headers and refusals."""

import logging
import warnings
from io import BytesIO

import numpy as np
import PIL.Image
import pydicom
import pytest
from pydicom.encaps import encapsulate
from pydicom.uid import (
    MPEG2MPML,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
)

from cbir.errors import UnreadableImage
from cbir.images import DicomHeader, Limits, decode
from tests.cbir.images.synthetic_dicom import (
    CT,
    STORED,
    compressed,
    dicom_set,
    displayed,
    item,
    refused,
    written,
)


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
        ({"BitsAllocated": 12}, "has BitsAllocated 12"),
        ({"BitsAllocated": 0}, "has BitsAllocated 0, which cannot be"),
        ({"SamplesPerPixel": 4}, "neither 1 nor 3"),
        ({"SamplesPerPixel": 3}, "has SamplesPerPixel 3 with MONOCHROME2"),
        ({"PhotometricInterpretation": "PALETTE COLOR"}, "has a palette that is missing or damaged"),
        ({"PhotometricInterpretation": "FANTASY"}, "has a PhotometricInterpretation that is not read"),
        ({"PhotometricInterpretation": "YBR_RCT", "SamplesPerPixel": 3}, "as YBR_RCT without JPEG 2000"),
        ({"BitsStored": 17}, "has BitsStored 17, which cannot be"),
        ({"PixelRepresentation": 2}, "has PixelRepresentation 2, which cannot be"),
        ({"NumberOfFrames": 20000}, "20000 frames; at most 10000"),
        ({"NumberOfFrames": -1}, "no frames"),
        ({"NumberOfFrames": 2}, "truncated or do not fit"),
        ({"PixelData": b""}, "truncated or do not fit"),
    ],
)
def test_inconsistent_attributes_are_refused(attributes, reason):
    assert reason in refused(dicom_set(**attributes))


@pytest.mark.parametrize("blank", [b"", b"  ", b"\0\0", b" \0"])
def test_a_blank_number_of_frames_is_one(blank):
    dataset = dicom_set(NumberOfFrames="9" * len(blank))
    start = b"\x28\0\x08\0IS" + len(blank).to_bytes(2, "little")
    data = written(dataset).replace(start + b"9" * len(blank), start + blank)
    (image,) = decode(data)
    assert image.frame is None
    np.testing.assert_array_equal(image.pixels, displayed())


@pytest.mark.parametrize("vr", [b"UN", b"ZZ"])
@pytest.mark.parametrize("start", [b"\x10\0\x40\0CS", b"\x28\0\x10\0US", b"\x28\0\x50\x10DS"])
def test_elements_of_unknown_vr_are_those_of_the_dictionary(start, vr):
    data = written(dicom_set(PatientSex="F", WindowCenter="40", WindowWidth="400"))
    (expected,) = decode(data)
    place = data.index(start)
    length = data[place + 6 : place + 8]
    header = start[:4] + (b"UN\0\0" + length + b"\0\0" if vr == b"UN" else vr + length)
    (image,) = decode(data[:place] + header + data[place + 8 :])
    assert (image.dicom, image.windowing) == (expected.dicom, expected.windowing)
    assert image.dicom.sex == "F"


def test_long_sequences_of_unknown_vr():
    count = 1000
    dataset = dicom_set(np.zeros((count, 2, 2), np.int16), count)
    dataset.PerFrameFunctionalGroupsSequence = [
        item(FrameVOILUTSequence=[item(WindowCenter=number, WindowWidth=10)]) for number in range(count)
    ]
    data = written(dataset)
    assert data.count(b"\0\x52\x30\x92SQ") == 1
    images = decode(data.replace(b"\0\x52\x30\x92SQ", b"\0\x52\x30\x92UN"))
    assert [image.windowing.center for image in images] == list(range(count))


def test_missing_attributes():
    for keyword, reason in (
        ("Rows", "no Rows"),
        ("BitsAllocated", "no BitsAllocated"),
        ("BitsStored", "no BitsStored"),
        ("PixelRepresentation", "no PixelRepresentation"),
        ("PhotometricInterpretation", "no PhotometricInterpretation"),
    ):
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


def test_compressed_pixels_in_a_native_transfer_syntax_are_refused():
    """They have more bytes than needed, and would be shown as pixels."""
    dataset = dicom_set(np.zeros((2, 2), np.uint8), PixelData=encapsulate([bytes(range(64))]))
    dataset.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
    dataset["PixelData"].VR = "OB"
    data = written(dataset).replace(b"1.2.840.10008.1.2.4.50", b"1.2.840.10008.1.2.1\0\0\0")
    assert "has compressed pixels in an uncompressed transfer syntax" in refused(data)


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
