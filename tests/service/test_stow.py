"""STOW-RS as DICOMweb clients send it."""

from io import BytesIO
from pathlib import Path

import pytest
from dicomweb_client.web import DICOMwebClient
from flask.testing import FlaskClient
from pydicom import dcmread
from pydicom.uid import BasicTextSRStorage

from cbir import settings
from cbir.client import Client
from cbir.datasets.phantoms.dicom_encoding import encode_dicom
from cbir.datasets.phantoms.drawing import draw_phantom
from cbir.store import Collection
from indexer.dicom.describe_instance import Fate
from service.app import create_app
from service.http.multipart_related import split_parts
from tests.indexer.damaged import DAMAGED
from tests.indexer.receiving import instances_in
from tests.service.conftest import serving

SENT, FAILED = "00081199", "00081198"


def instance(index: int) -> bytes:
    return encode_dicom(draw_phantom(index, 5, 64), index, 5)


def post(client: FlaskClient, *files: bytes, kind: str = "application/dicom", end: bytes = b"--"):
    body = b"".join(
        b"--edge\r\nContent-Type: " + kind.encode() + b"\r\n\r\n" + entry + b"\r\n" for entry in files
    )
    return client.post(
        "/dicomweb/studies",
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


def test_bodies_that_are_none(changing: FlaskClient) -> None:
    assert post(changing, instance(0), kind="image/png").status_code == 415
    assert post(changing, instance(0), end=b"").status_code == 400
    assert post(changing).status_code == 400
    for kind, status in (
        ("application/dicom", 415),
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
