"""STOW-RS as DICOMweb clients send it."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from dicomweb_client.web import DICOMwebClient
from flask.testing import FlaskClient
from pydicom import dcmread
from pydicom.uid import BasicTextSRStorage
from werkzeug.test import TestResponse

from cbir import settings
from cbir.errors import StorageFull
from cbir.evaluation.datasets.phantoms.dicom_encoding import encode_dicom
from cbir.evaluation.datasets.phantoms.drawing import draw_phantom
from cbir.store import Collection
from cbir.store.records.add_transaction import Added
from cbir.store.records.records import Entry
from cbir.store.writing.writer import Writer
from indexer.describe_instance import Fate
from service.app import create_app
from service.client import Client
from service.http.request_bodies import split_parts
from tests.indexer.damaged import DAMAGED
from tests.indexer.receiving import instances_in
from tests.service.conftest import serving

SENT, FAILED = "00081199", "00081198"


def instance(index: int) -> bytes:
    return encode_dicom(draw_phantom(index, 5, 64), index, 5)


def post(
    client: FlaskClient,
    *files: bytes,
    kind: str = "application/dicom",
    end: bytes = b"--",
    path: str = "/dicomweb/studies",
):
    body = b"".join(
        b"--edge\r\nContent-Type: " + kind.encode() + b"\r\n\r\n" + entry + b"\r\n" for entry in files
    )
    return client.post(
        path,
        data=body + b"--edge" + end + b"\r\n",
        content_type='multipart/related; type="application/dicom"; boundary=edge',
    )


@pytest.fixture
def changing(writable: Path) -> FlaskClient:
    return create_app(writable, settings.load()).test_client()


@pytest.mark.slow
def test_a_dicomweb_client_stores_and_stores_again(writable: Path) -> None:
    datasets = [dcmread(BytesIO(instance(number))) for number in range(3)]
    with serving(writable) as running:
        client = DICOMwebClient(f"{running.address}/dicomweb")
        for _ in range(2):
            answer = client.store_instances(datasets)
            stored = [item.ReferencedSOPInstanceUID for item in answer.ReferencedSOPSequence]
            assert stored == [entry.SOPInstanceUID for entry in datasets]
        with Client(running.address) as ours:
            assert len(ours.store_instances([instance(0), instance(3)])[SENT]["Value"]) == 2
            study = datasets[0].StudyInstanceUID
            assert len(ours.store_study_instances(study, [instance(0)])[SENT]["Value"]) == 1
    with Collection(writable) as collection:
        records = {record.instance: record for _, record in collection.iterate()}
        assert all(record.format == "png" for uid, record in records.items() if not uid)
        entry = records[datasets[0].SOPInstanceUID]
        assert len(collection) == 30 + 4
        assert collection.thumbnail(entry.image_id)
        assert entry.patient_key
        assert entry.labels["modality"] == datasets[0].Modality


def test_what_is_not_stored_is_named_with_its_reason(changing: FlaskClient) -> None:
    report = dcmread(BytesIO(instance(4)))
    del report.PixelData
    report.SOPClassUID = report.file_meta.MediaStorageSOPClassUID = BasicTextSRStorage
    file = BytesIO()
    report.save_as(file)
    cut = instance(5)[:-500]
    answer = post(changing, instance(6), instance(6), file.getvalue(), cut, b"no DICOM at all")
    assert answer.status_code == 202
    assert answer.mimetype == "application/dicom+json"
    sent, failed = answer.json[SENT]["Value"], answer.json[FAILED]["Value"]
    assert ["00081196" in item for item in sent] == [False, False, True]
    assert sent[2]["00081196"]["Value"] == [0xB006]
    assert [item["00081197"]["Value"] for item in failed] == [[0xC000], [0xC000]]
    assert failed[0]["00081155"]["Value"] == [dcmread(BytesIO(cut)).SOPInstanceUID]
    assert post(changing, cut).status_code == 409
    assert post(changing, instance(6)).status_code == 200


def test_damaged_objects_are_refused_and_the_others_taken(changing: FlaskClient, writable: Path) -> None:
    before = len(instances_in(writable))
    answer = post(changing, *(data for data, _ in DAMAGED.values()))
    assert answer.status_code == 202
    reasons = {Fate.stored: None, Fate.no_image: 0xB006, Fate.unreadable: 0xC000}
    expected = [reasons[fate] for _, fate in DAMAGED.values()]
    sent, failed = answer.json[SENT]["Value"], answer.json[FAILED]["Value"]
    assert [item.get("00081196", {"Value": [None]})["Value"][0] for item in sent] == [
        reason for reason in expected if reason != 0xC000
    ]
    assert [item["00081197"]["Value"] for item in failed] == [[0xC000]] * expected.count(0xC000)
    assert len(instances_in(writable)) == before + expected.count(None)
    assert "SECRET" not in answer.get_data(as_text=True)


def reasons(answer: TestResponse) -> dict[str, list[int]]:
    """Warning and failure reasons of a response, by the sequence that holds them."""
    tags = {SENT: "00081196", FAILED: "00081197"}
    return {
        sequence: [item.get(tag, {"Value": [0]})["Value"][0] for item in answer.json[sequence]["Value"]]
        for sequence, tag in tags.items()
        if sequence in answer.json
    }


def with_pixels(data: bytes, **changes: object) -> bytes:
    """The same instance with inverted pixels and other attributes."""
    dataset = dcmread(BytesIO(data))
    dataset.PixelData = (dataset.pixel_array.max() - dataset.pixel_array).tobytes()
    for name, value in changes.items():
        setattr(dataset, name, value)
    file = BytesIO()
    dataset.save_as(file)
    return file.getvalue()


@pytest.mark.parametrize(
    "kind",
    [
        "multipart/related; type=application/dicom; boundary=edge",
        'Multipart/Related; boundary="edge"; TYPE="Application/DICOM"',
        "multipart/related;boundary=edge;type=application/dicom;start=a/b",
        "multipart/related; boundary=edge",
    ],
)
def test_content_types_of_many_parts(changing: FlaskClient, kind: str) -> None:
    body = b"--edge\r\nContent-Type: application/dicom\r\n\r\n" + instance(0) + b"\r\n--edge--\r\n"
    answer = changing.post("/dicomweb/studies", data=body, content_type=kind)
    assert (answer.status_code, reasons(answer)) == (200, {SENT: [0]})


@pytest.mark.parametrize(
    "kind", ["application/dicom", "application/dicom; transfer-syntax=*", "application/octet-stream"]
)
def test_one_file_as_the_body(changing: FlaskClient, kind: str) -> None:
    study = dcmread(BytesIO(instance(0))).StudyInstanceUID
    for path in ("/dicomweb/studies", f"/dicomweb/studies/{study}"):
        answer = changing.post(path, data=instance(0), content_type=kind)
        assert (answer.status_code, reasons(answer)) == (200, {SENT: [0]})
    assert changing.post("/dicomweb/studies", data=b"no DICOM", content_type=kind).status_code == 409


def test_instances_of_another_study_are_refused(changing: FlaskClient, writable: Path) -> None:
    before = len(instances_in(writable))
    own, other = instance(0), with_pixels(instance(0), StudyInstanceUID="1.2.3", SOPInstanceUID="1.2.3.4")
    path = f"/dicomweb/studies/{dcmread(BytesIO(own)).StudyInstanceUID}"
    answer = post(changing, other, own, path=path)
    assert (answer.status_code, reasons(answer)) == (202, {SENT: [0], FAILED: [0xA900]})
    assert answer.json[FAILED]["Value"][0]["00081155"]["Value"] == ["1.2.3.4"]
    assert post(changing, other, path=path).status_code == 409
    assert len(instances_in(writable)) == before + 1


def test_other_pixels_under_a_known_uid_are_discarded_with_a_warning(
    changing: FlaskClient, writable: Path
) -> None:
    assert post(changing, instance(0)).status_code == 200
    picture = instances_in(writable)
    answer = post(changing, with_pixels(instance(0)), instance(0), with_pixels(with_pixels(instance(0))))
    assert (answer.status_code, reasons(answer)) == (202, {SENT: [0xB006, 0, 0]})
    assert instances_in(writable) == picture
    twice = post(changing, instance(1), with_pixels(instance(1)))
    assert (twice.status_code, reasons(twice)) == (202, {SENT: [0, 0xB006]})
    uid = dcmread(BytesIO(instance(0))).SOPInstanceUID
    with Collection(writable) as collection:
        (old,) = (record.image_id for _, record in collection.iterate() if record.instance == uid)
    assert changing.delete(f"/v1/images/{old}").status_code == 204
    assert reasons(post(changing, with_pixels(instance(0)))) == {SENT: [0]}, "the remedy of the document"


def test_other_pixels_under_the_uid_of_an_equal_picture(changing: FlaskClient) -> None:
    """The collection keeps one image for two instances with equal pixels."""
    dataset = dcmread(BytesIO(instance(0)))
    dataset.SOPInstanceUID = dataset.file_meta.MediaStorageSOPInstanceUID = "1.2.3.9"
    file = BytesIO()
    dataset.save_as(file)
    assert reasons(post(changing, instance(0), file.getvalue())) == {SENT: [0, 0]}
    assert reasons(post(changing, file.getvalue())) == {SENT: [0]}
    assert reasons(post(changing, with_pixels(file.getvalue()))) == {SENT: [0xB006]}


def test_an_instance_that_cannot_be_written_fails_alone(
    changing: FlaskClient, writable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add, poison = Writer.add, dcmread(BytesIO(instance(1))).SOPInstanceUID

    def fails(writer: Writer, entries: Sequence[Entry], **options: Any) -> Added:
        if any(record.instance == poison for record, _ in entries):
            raise ValueError
        return add(writer, entries, **options)

    monkeypatch.setattr(Writer, "add", fails)
    before = len(instances_in(writable))
    answer = post(changing, instance(0), instance(1), instance(2))
    assert (answer.status_code, reasons(answer)) == (202, {SENT: [0, 0], FAILED: [0x0110]})
    assert answer.json[FAILED]["Value"][0]["00081155"]["Value"] == [poison]
    assert len(instances_in(writable)) == before + 2
    assert post(changing, instance(1)).status_code == 500, (
        "nothing can be written, as far as the service knows"
    )
    monkeypatch.setattr(Writer, "add", add)
    assert reasons(post(changing, instance(0), instance(1))) == {SENT: [0, 0]}


def test_a_full_disk_is_not_tried_again_for_each_instance(
    changing: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def fails(writer: Writer, entries: Sequence[Entry], **options: Any) -> Added:
        tries.append(len(entries))
        raise StorageFull("the disk is full")

    monkeypatch.setattr(Writer, "add", fails)
    assert post(changing, instance(0), instance(1)).status_code == 507
    assert tries == [2]


def test_bodies_that_are_none(changing: FlaskClient) -> None:
    assert post(changing, instance(0), kind="image/png").status_code == 415
    assert post(changing, instance(0), end=b"").status_code == 400
    assert post(changing).status_code == 400
    for kind, status in (
        ("image/png", 415),
        ("multipart/related; type=application/dicom+json; boundary=edge", 415),
        ("multipart/related; type=image/png; boundary=edge", 415),
        ("multipart/related", 400),
    ):
        answer = changing.post("/dicomweb/studies", data=b"--edge\r\n", content_type=kind)
        assert (answer.status_code, answer.mimetype) == (status, "application/problem+json")


def test_parts_keep_every_byte() -> None:
    inside = b"\r\n--edg\r\n\r\n\0--\xff"
    assert split_parts(b"preamble\r\n--edge\r\n\r\n" + inside + b"\r\n--edge--\r\nepilogue", b"edge") == [
        inside
    ]
