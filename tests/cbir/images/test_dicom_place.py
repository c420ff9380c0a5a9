"""Places of frames, and facts of the patient, as headers have them."""

import numpy as np
import pytest
from pydicom.dataset import Dataset

from cbir.images import decode
from cbir.images.dicom_facts import read_slice_place
from cbir.images.slice_order import DAY, SlicePlace
from tests.cbir.images.synthetic_dicom import dicom_set, item, written

pytestmark = pytest.mark.filterwarnings("ignore:Invalid value for VR")


def header_of(**attributes):
    (image,) = decode(written(dicom_set(**attributes)))
    return image.dicom


def test_a_slice_has_its_place():
    dataset = dicom_set(
        ImagePositionPatient=[-1.23456, 2, -3.5], ImageOrientationPatient=[1, 0, 0, 0, 1, 0], InstanceNumber="7",
        AcquisitionNumber="2", AcquisitionDate="00010102", AcquisitionTime="000001.5", TriggerTime="40.5",
        TemporalPositionIdentifier="3",
    )  # fmt: skip
    (image,) = decode(written(dataset))
    expected = SlicePlace((-1.235, 2.0, -3.5), (1.0, 0.0, 0.0, 0.0, 1.0, 0.0), 7, 2, 2 * DAY + 1500, 3, 40.5)
    assert image.location == expected
    assert SlicePlace.from_text(expected.to_text()) == expected


def test_frames_of_an_enhanced_file_have_places_of_their_own():
    dataset = dicom_set(np.zeros((2, 4, 4), np.int16), frames=2, InstanceNumber="1")
    dataset.SharedFunctionalGroupsSequence = [
        item(PlaneOrientationSequence=[item(ImageOrientationPatient=[1, 0, 0, 0, 1, 0])])
    ]
    dataset.PerFrameFunctionalGroupsSequence = [
        item(
            PlanePositionSequence=[item(ImagePositionPatient=[0, 0, z])],
            FrameContentSequence=[
                item(FrameAcquisitionNumber=n, FrameAcquisitionDateTime="20200101100000.25")
            ],
        )
        for n, z in ((1, 5), (2, 2.5))
    ]
    first, second = (image.location for image in decode(written(dataset)))
    assert (first.position, first.acquisition) == ((0.0, 0.0, 5.0), 1)
    assert (second.position, second.acquisition) == ((0.0, 0.0, 2.5), 2)
    assert first.time % DAY == 36_000_250
    assert first.orientation == second.orientation == (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)


@pytest.mark.parametrize(("across", "down", "offsets", "last"), [
    ([1, 0, 0], [0, 1, 0], [0, 2.5, 5], (10, 20, 35)), ([1, 0, 0], [0, -1, 0], [0, 2.5, 5], (10, 20, 25)),
    ([0, 1, 0], [0, 0, -1], [0, -2.5, -5], (15, 20, 30)), ([1, 0, 0], [0, 1, 0], [30, 27.5, 25], (10, 20, 25)),
    ([0.995, 0, 0], [0, 0.995, 0], [0, 2.5, 5], (10, 20, 35)), ([1, 0, 0], [0, 1, 0], [0, 2.5], None),
])  # fmt: skip
def test_planes_of_a_dose_have_places_of_their_own(across, down, offsets, last):
    """Along the unit normal from the first one, or z coordinates: PS3.3, C.8.8.3.2."""
    dataset = dicom_set(
        np.zeros((3, 4, 4), np.uint16), frames=3, Modality="RTDOSE", ImagePositionPatient=[10, 20, 30],
        ImageOrientationPatient=[*across, *down], GridFrameOffsetVector=offsets,
    )  # fmt: skip
    first, *_, third = (image.location.position for image in decode(written(dataset)))
    assert (first, third) == ((10, 20, 30), last)


@pytest.mark.parametrize("attributes", [
    {}, {"ImagePositionPatient": [1, 2]}, {"ImageOrientationPatient": [1, 0, 0, 1, 0, 0]},
    {"ImageOrientationPatient": [0] * 6}, {"AcquisitionTime": "noon"}, {"ImagePositionPatient": None},
])  # fmt: skip
def test_what_is_damaged_or_absent_is_unknown(attributes):
    dataset = Dataset()
    for keyword, value in attributes.items():
        setattr(dataset, keyword, value)
    assert read_slice_place(dataset) == SlicePlace()


@pytest.mark.parametrize("text", ["", "x", "[]", "[1,2]", "[null,null,true,1,1,1,1]", "{}"])
def test_other_texts_are_unknown_places(text):
    assert SlicePlace.from_text(text) == SlicePlace()


@pytest.mark.parametrize(("attributes", "age"), [
    ({"PatientAge": "054Y"}, "54"), ({"PatientAge": "089Y"}, "89"), ({"PatientAge": "093Y"}, "90"),
    ({"PatientAge": "020M"}, "1"), ({"PatientAge": "003D"}, "0"), ({"PatientAge": "old"}, ""),
    ({"PatientBirthDate": "19600620", "StudyDate": "20200619"}, "59"),
    ({"PatientBirthDate": "19200101", "StudyDate": "20200619"}, "90"),
    ({"PatientBirthDate": "20210101", "StudyDate": "20200619"}, ""), ({}, ""),
])  # fmt: skip
def test_ages_are_years_and_high_ones_are_one(attributes, age):
    assert header_of(**attributes).age == age


@pytest.mark.parametrize(("sex", "stored"), [("F", "F"), ("m", "M"), ("O", "O"), ("female", ""), ("", "")])
def test_sex(sex, stored):
    assert header_of(PatientSex=sex).sex == stored


def test_tomosynthesis_has_side_and_view():
    """In shared functional groups, where mammograms have attributes of their own."""
    view = [item(CodeValue="399368009", CodingSchemeDesignator="SCT", CodeMeaning="medio-lateral oblique")]
    side = item(FrameAnatomySequence=[item(FrameLaterality="L")])
    for groups in (side, item(FrameAnatomySequence=[item(FrameLaterality="L", ViewCodeSequence=view)])):
        header = header_of(SharedFunctionalGroupsSequence=[groups], ViewCodeSequence=view)
        assert (header.laterality, header.view_position) == ("L", "MLO")
    side.ViewCodeSequence = view
    header = header_of(PerFrameFunctionalGroupsSequence=[side])
    assert (header.laterality, header.view_position) == ("L", "MLO")
    header = header_of(SharedFunctionalGroupsSequence=[side], ImageLaterality="R", ViewPosition="CC")
    assert (header.laterality, header.view_position) == ("R", "CC")


@pytest.mark.parametrize(("code", "view"), [("R-10242", "CC"), ("R-10226", "MLO"), ("R-10206", ""), ("", "")])
def test_views_that_are_codes_alone(code, view):
    header = header_of(ViewCodeSequence=[item(CodeValue=code)])
    assert (header.laterality, header.view_position) == ("", view)
    assert (
        header_of(
            SharedFunctionalGroupsSequence=[item(FrameAnatomySequence=[item(FrameLaterality="U")])]
        ).laterality
        == ""
    )


@pytest.mark.parametrize(("description", "stored"), [
    ("AX  T2 FLAIR 5mm", "AX T2 FLAIR 5mm"), ("knee Miller", ""), ("MILLER_KNEE", ""), ("scan of 2020-01-31", ""),
    ("MRN 4711007", ""), ("A long one", "A long one"), ("series of P-77x", ""), ("", ""),
])  # fmt: skip
def test_a_description_that_may_tell_the_patient_is_left_out(description, stored):
    header = header_of(SeriesDescription=description, PatientName="Miller^A", PatientID="77x")
    assert header.series_description == stored
    assert "Miller" not in repr(header)


@pytest.mark.parametrize("attributes", [
    {"PatientName": "Smith^John", "SeriesDescription": "CT SmithJohn"},
    {"PatientName": "Muller^Hans", "SeriesDescription": "MÜLLER thorax"},
    {"PatientName": "Ng^Bo", "SeriesDescription": "Ng Bo head"},
    {"PatientName": "Yamada^Tarou=山田^太郎", "SeriesDescription": "山田太郎 head"},
    {"PatientName": "A" * 62 + "^Tarou", "SeriesDescription": "Tarou head"},
    {"OtherPatientNames": ["One^A", "Jones^B"], "SeriesDescription": "head of Jones"},
    {"OperatorsName": "Jones^B", "SeriesDescription": "head by jones"},
    {"OtherPatientIDs": ["777", "44411"], "SeriesDescription": "head 44411"},
    {"PatientID": "12345", "SeriesDescription": "Pat12345 head"},
    {"SeriesDescription": "born 12 Mar 1950"}, {"SeriesDescription": "01JAN1950"},
    {"SeriesDescription": "Mar 12, 1950"}, {"SeriesDescription": "12 03 1950"}, {"SeriesDescription": "95 Y head"},
    {"SeriesDescription": "103yo"},
])  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_names_and_dates_are_found_however_they_are_written(attributes):
    assert header_of(SpecificCharacterSet="ISO_IR 192", **attributes).series_description == ""


@pytest.mark.parametrize(
    "description", ["MR head", "T1 5mm 3x3x10 2 3 4", "May 5 mm", "TE 90 ax", "phase 95%"]
)
def test_titles_and_modalities_are_no_names(description):
    header = header_of(
        SeriesDescription=description, PatientName="Smith^John^^Mr", AccessionNumber="MR-12", PatientID="5-T1"
    )
    assert header.series_description == description


def description_of(name, text, **attributes):
    """Description of a file with these bytes as description and as the patient's name."""
    data = written(dicom_set(PatientName="N" * len(name), SeriesDescription="D" * len(text), **attributes))
    (image,) = decode(data.replace(b"N" * len(name), name).replace(b"D" * len(text), text))
    return image.dicom.series_description


JAPANESE = ["", "ISO 2022 IR 87"]


@pytest.mark.parametrize(("name", "text", "encoding", "declared"), [
    ("山田^太郎", "山田太郎 頭部", "iso2022_jp", JAPANESE), ("山田^太郎", "頭部 山田", "shift_jis", None),
    ("ÖZ^X", "Kopf özx", "utf-8", None), ("陈^三", "头陈新", "gbk", "ISO_IR 100"), ("吴^三", "头吴新", "gbk", None),
    ("Miller^X", "Mil\x85ler head", "latin-1", None), ("Miller^X", "Mil\xadler head", "utf-8", "ISO_IR 192"),
])  # fmt: skip
def test_names_are_found_in_any_character_set(name, text, encoding, declared):
    attributes = {} if declared is None else {"SpecificCharacterSet": declared}
    assert description_of(name.encode(encoding), text.encode(encoding), **attributes) == ""


@pytest.mark.parametrize(("text", "encoding", "declared"), [
    ("頭部", "iso2022_jp", JAPANESE), ("Schädel", "utf-8", None), ("Schädel", "latin-1", None),
])  # fmt: skip
def test_other_descriptions_are_decoded(text, encoding, declared):
    attributes = {} if declared is None else {"SpecificCharacterSet": declared}
    assert description_of("Özil^山".encode(encoding, "replace"), text.encode(encoding), **attributes) == text
