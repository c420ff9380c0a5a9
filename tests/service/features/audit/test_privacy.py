"""The privacy check: planted identifiers are found and named without their value; clean images are silent."""

import csv
import io
import json
import sys
from pathlib import Path

import cv2
import numpy as np
import pydicom
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.dataset import Dataset
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.evaluation.datasets.phantoms import draw_phantom
from cbir.images import Limits
from cbir.store import Collection
from cbir.store.records.records import hash_patient
from indexer.index_job import index_images
from service.features.audit.privacy import find_privacy
from service.features.audit.privacy_tags import check_tags, profile_tags, read_identity
from service.features.audit.privacy_texts import (
    Identity,
    Sign,
    common_folders,
    form_of,
    is_dummy,
    label_signs,
    mentions_by_form,
    path_signs,
    patient_identity,
)

NOBODY = Identity()
VALUES = ("Okafor", "Ngozi", "4711003", "19610302", "ngozi@example.org")


def signs_of(**attributes: object) -> set[tuple[str, str]]:
    dataset = Dataset()
    for keyword, value in attributes.items():
        setattr(dataset, keyword, value)
    return {(sign.part, sign.why) for sign in check_tags(dataset, read_identity(dataset))}


def test_attributes_of_the_basic_profile() -> None:
    assert len(profile_tags()) > 500
    assert signs_of(PatientName="Okafor^Ngozi") == {("PatientName", "person")}
    assert signs_of(PatientID="4711003", PatientBirthDate="19610302") == {
        ("PatientID", "number"),
        ("PatientBirthDate", "birth-date"),
    }
    assert signs_of(StudyDate="20200102", ContentDate="20200102") == {("ContentDate StudyDate", "date")}
    assert signs_of(InstitutionName="St. Mary", PatientAge="093Y") == {
        ("InstitutionName", "place"),
        ("PatientAge", "age"),
    }
    assert signs_of(StudyID="2", AccessionNumber="A47") == {("AccessionNumber", "number")}
    assert signs_of(BurnedInAnnotation="YES") == {("BurnedInAnnotation", "declared-text")}


def test_texts_that_name_the_patient_in_other_attributes() -> None:
    named = signs_of(
        PatientName="Okafor^Ngozi", StudyDescription="Knee, Mrs. OKAFOR", SeriesDescription="AP view"
    )
    assert named == {("PatientName", "person"), ("StudyDescription", "own-name")}
    assert ("ImageComments", "phone") in signs_of(ImageComments="call +49 221 478 0")
    request = Dataset()
    request.RequestingPhysician = "House^Gregory"
    assert signs_of(RequestAttributesSequence=[request]) == {
        ("RequestAttributesSequence.RequestingPhysician", "person")
    }


def test_private_attributes() -> None:
    dataset = Dataset()
    dataset.PatientName = "Okafor^Ngozi"
    block = dataset.private_block(0x0029, "MAKER", create=True)
    block.add_new(0x10, "LO", "Gain 3")
    block.add_new(0x11, "UN", b"owner: Okafor")
    signs = {(sign.part, sign.why) for sign in check_tags(dataset, read_identity(dataset))}
    assert signs >= {("0029", "private"), ("(0029,1011)", "own-name")}


def test_a_file_whose_identity_was_removed_is_silent() -> None:
    dataset = Dataset()
    dataset.PatientName, dataset.PatientID = "CASE-0012", "CASE-0012"
    dataset.PatientIdentityRemoved, dataset.BurnedInAnnotation = "YES", "NO"
    dataset.StudyDate, dataset.LongitudinalTemporalInformationModified = "20010203", "MODIFIED"
    dataset.AccessionNumber, dataset.StudyID, dataset.PatientAge = "99812", "1", "063Y"
    dataset.StudyDescription, dataset.SOPInstanceUID = "CT CHEST W/O", "1.2.840.20190203.1.5"
    dataset.ReferringPhysicianName, dataset.InstitutionName = "Anonymous", ""
    code = Dataset()
    code.CodeValue = "113111"
    dataset.DeidentificationMethodCodeSequence = [code]
    dataset.private_block(0x0029, "MAKER", create=True).add_new(0x10, "LO", "Gain 3")
    assert check_tags(dataset, read_identity(dataset)) == []
    dataset.PatientName = "Okafor^Ngozi"  # though it says so
    assert [sign.why for sign in check_tags(dataset, read_identity(dataset))] == ["person"]


def test_damaged_attributes_are_left_out() -> None:
    file = io.BytesIO()
    dataset = Dataset()
    dataset.PatientName, dataset.PatientWeight = "Okafor^Ngozi", "70.5"
    pydicom.dcmwrite(file, dataset, implicit_vr=True, little_endian=True)
    damaged = pydicom.dcmread(io.BytesIO(file.getvalue().replace(b"70.5", b"7x.5")), force=True)
    assert {sign.part for sign in check_tags(damaged, read_identity(damaged))} == {"PatientName"}


def written_signs(name: bytes, text: bytes, **attributes: object) -> set[tuple[str, str]]:
    """Signs in a file with these bytes as name, as description and in a private attribute."""
    dataset, file = Dataset(), io.BytesIO()
    dataset.PatientName, dataset.SeriesDescription = "N" * len(name), "D" * len(text)
    dataset.private_block(0x0029, "MAKER", create=True).add_new(0x11, "UN", text)
    for keyword, value in attributes.items():
        setattr(dataset, keyword, value)
    pydicom.dcmwrite(file, dataset, implicit_vr=False, little_endian=True)
    data = file.getvalue().replace(b"N" * len(name), name).replace(b"D" * len(text), text)
    read = pydicom.dcmread(io.BytesIO(data), force=True)
    return {(sign.part, sign.why) for sign in check_tags(read, read_identity(read))}


@pytest.mark.parametrize(
    ("name", "text", "encoding", "declared"),
    [
        ("MÜLLER^X", "Kopf Müller", "utf-8", None),
        ("MÜLLER^X", "Kopf Müller", "utf-8", "ISO_IR 192"),
        ("山田^太郎", "頭部 山田", "iso2022_jp", ["", "ISO 2022 IR 87"]),
        ("武者小路^実", "頭部 武者小路", "iso2022_jp", None),
        ("武者小路^実", "頭部 武者小路", "shift_jis", None),
        ("ИВАНОВ^X", "head ИВАНОВ", "koi8-r", None),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_names_in_any_character_set(name: str, text: str, encoding: str, declared: object) -> None:
    attributes = {} if declared is None else {"SpecificCharacterSet": declared}
    signs = written_signs(name.encode(encoding), text.encode(encoding) + b" ", **attributes)
    assert signs >= {("SeriesDescription", "own-name"), ("(0029,1011)", "own-name")}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Okafor^Ngozi", "person"),
        ("Dr. House", "person"),
        ("ngozi@example.org", "e-mail"),
        ("2020-03-02", "date"),
        ("scan_20200302_1", "date"),
        ("02.03.2020", "date"),
        ("+49 221 4780", "phone"),
        ("MRN 4711003", "number"),
        ("078-05-1120", "number"),
    ],
)
def test_forms_of_identifiers(text: str, why: str) -> None:
    assert [mention.why for mention in mentions_by_form(text)] == [why]


@pytest.mark.parametrize(
    "text",
    [
        "", "knee", "Chest, frontal", "MR Head", "00042", "patient00001", "p017", "512x512", "1.2.840.113619.2.55.3",
        "1.2.276.0.20200302.1.1", "0b5fe20200302aa1d4ff0c", "T2 FLAIR 3.0", "v1.2.3", "20201399", "grade 3-4",
        "07-12", "IMG_000020200.png", "12345678", "f0e4c2f7-6c58-4e2a-9c1e-20200302aaaa",
    ],
)  # fmt: skip
def test_texts_without_identifiers(text: str) -> None:
    assert mentions_by_form(text) == ()


def test_labels() -> None:
    key = hash_patient(b"secret", "4711003")
    patient = Identity(key=key, secret=b"secret")
    labels = {
        "anatomy": "knee", "case": "4711003", "note": "seen 2020-03-02", "patient_name": "Okafor",
        "study_date": "20200302", "referringPhysician": "anonymous", "size": "4711004", "name": "tibia",
    }  # fmt: skip
    assert {(sign.part, sign.why) for sign in label_signs(labels, patient)} == {
        ("case", "own-number"),
        ("note", "date"),
        ("patient_name", "person"),
    }
    assert label_signs({"case": "00042"}, Identity(key=hash_patient(b"s", "00042"), secret=b"s")) == []


def test_paths() -> None:
    patient = patient_identity("Müller^Anna", "4711003")
    signs = path_signs("/data/2020-01-01/Mueller_Anna/4711003/scan-2020-03-02.dcm", 2, patient)
    assert {(sign.part, sign.why) for sign in signs} == {
        ("folder 2", "own-name"),
        ("folder 1", "own-number"),
        ("file name", "date"),
    }
    assert path_signs("upload:20200302", 0, patient) == []
    for path, part in (("s3://bucket/a^b/Smith^J", None), ("C:\\scans\\Smith^Jane\\1.png", "folder 1")):
        assert [sign.part for sign in path_signs(path, 1, NOBODY)] == ([part] if part else [])
    assert common_folders(["/a/b/c.png", "/a/d/c.png"]) == 1
    assert common_folders([]) == 0


def test_names_in_longer_words_and_short_names() -> None:
    assert [m.why for m in patient_identity("Okafor^N", "").mentions("ngoziokafor.png")] == ["own-name"]
    assert patient_identity("Li^Wei", "").mentions("lists of livers") == []
    assert patient_identity("Lee^Wei", "").mentions("leer") == []
    assert patient_identity("Anonymous", "0000").mentions("anonymous 0000") == []
    assert patient_identity("PHANTOM^1", "").mentions("phantom-1.png") == []


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    for mention in patient_identity(text, text).mentions(text):
        assert 0 <= mention.start < mention.end <= len(text)
    assert not any(letter in form_of(text) for letter in "bcdB12345678")
    is_dummy(text)


@pytest.mark.slow
def test_the_command_writes_a_list_without_values(tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    for number in range(4):
        grey = draw_phantom(number, size=256).pixels
        cv2.imwrite(str(files / f"clean-{number}.png"), grey)
    white = np.zeros((240, 320), np.uint8)
    cv2.putText(white, "OKAFOR NGOZI", (20, 60), cv2.FONT_HERSHEY_SIMPLEX, 1, 255, 2)
    cv2.imwrite(str(files / "ngozi@example.org.png"), white)
    rows = [["path", "kind", "contact"], [str(files / "clean-0.png"), "a", "ngozi@example.org"]]
    (tmp_path / "labels.csv").write_text("\n".join(map(",".join, rows)), encoding="utf-8")
    index_images(files, tmp_path / "collection", labels=tmp_path / "labels.csv", jobs=1)
    out = tmp_path / "report"
    arguments = [
        "collection",
        "audit",
        "--collection",
        str(tmp_path / "collection"),
        "--out",
        str(out),
        "--format",
        "json",
    ]
    done = CliRunner().invoke(app, [*arguments, "--privacy"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["private_images"] == 2
    text = (out / "privacy.csv").read_text(encoding="utf-8")
    assert {(row["where"], row["why"]) for row in csv.DictReader(io.StringIO(text))} == {
        ("labels", "e-mail"),
        ("path", "e-mail"),
        ("pixels", "personal-text"),
    }
    assert not any(value.casefold() in text.casefold() for value in VALUES)
    assert str(files) not in text
    with (out / "privacy_files.csv").open(newline="", encoding="utf-8") as file:
        assert {Path(row["source"]).name for row in csv.DictReader(file)} == {
            "clean-0.png",
            "ngozi@example.org.png",
        }
    privacy = json.loads((out / "audit.json").read_text(encoding="utf-8"))["privacy"]
    assert (privacy["checked"], privacy["images"], privacy["unread"]) == (5, 2, 0)
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Text in the pixels" in page
    assert "example.org" not in page
    (files / "clean-1.png").unlink()
    with Collection(tmp_path / "collection") as collection:
        assert find_privacy(collection, Limits()).unread == 1
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert not list(out.glob("privacy*"))  # not asked for


def test_the_package_with_the_table_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dicomanonymizer.dicomfields_selector", None)
    profile_tags.cache_clear()
    with pytest.raises(InvalidInput, match="privacy"):
        profile_tags()
    profile_tags.cache_clear()


def test_a_sign_has_no_value() -> None:
    assert Sign("PatientName", "person", form_of("Okafor^Ngozi")).form == "a^a"
    assert form_of("Ngozi 4711003") == "a 9999999"
