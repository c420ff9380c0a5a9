"""Structured Reports are valid, readable, and belong to the query's patient."""

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import pytest
from highdicom import sr
from pydicom import Dataset, dcmread
from pydicom.uid import EnhancedSRStorage

from cbir import settings
from cbir.errors import CbirError
from cbir.search.dicom_levels import Exclude
from cbir.store import Collection
from service.app import create_app
from service.features.report.command import report_hits
from tests.cbir.validation import check
from tests.indexer.receiving import file_of, slices
from tests.service.dicom_collection import SLICES, make


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Dataset]]:
    return make(tmp_path_factory)


@pytest.fixture
def query(created: tuple[Path, list[Dataset]], tmp_path: Path) -> Path:
    """A slice as its archive would export it, of a patient whose name is not in ASCII."""
    ds = dcmread(BytesIO(file_of(created[1][0])))
    ds.SpecificCharacterSet, ds.PatientName = "ISO_IR 192", "SECRÉT^ŇAME"
    ds.PatientBirthDate, ds.AccessionNumber = "19500101", "A-1"
    path = tmp_path / "query.dcm"
    ds.save_as(path)
    return path


def test_report_is_valid_and_lists_the_hits(
    created: tuple[Path, list[Dataset]], query: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report.dcm"
    report_hits(str(query), created[0], k=5, out=out, exclude=Exclude.instance)
    check(out)
    requested, result = dcmread(query), sr.EnhancedSR.from_dataset(dcmread(out))
    assert result.SOPClassUID == EnhancedSRStorage
    for keyword in ("PatientID", "PatientName", "PatientBirthDate", "AccessionNumber", "StudyInstanceUID"):
        assert result[keyword].value == requested[keyword].value
    assert result.SeriesInstanceUID != requested.SeriesInstanceUID
    groups = result.content.get_image_measurement_groups()
    assert len(groups) == 5
    with Collection(created[0]) as collection:
        by_uid = {record.instance: record for _, record in collection.iterate()}
    scores = []
    for position, group in enumerate(groups, start=1):
        rank, score = group.get_measurements()
        assert rank.value == position
        scores.append(score.value)
        (of_query,) = score.referenced_images
        assert of_query.referenced_sop_instance_uid == requested.SOPInstanceUID
        (image,) = group.source_images
        record = by_uid[image.referenced_sop_instance_uid]
        assert image.referenced_sop_class_uid == record.sop_class
        assert record.instance != requested.SOPInstanceUID
    assert scores == sorted(scores, reverse=True)
    studies = {study for study, _, _, _ in result.get_evidence()}
    assert {study for study, _, _, _ in result.get_evidence(current_procedure_only=True)} == {
        requested.StudyInstanceUID
    }
    assert requested.StudyInstanceUID in studies


@pytest.mark.parametrize(
    ("exclude", "left"),
    [(Exclude.instance, 2 * SLICES - 1), (Exclude.study, SLICES), (Exclude.patient, 0)],
)
def test_what_is_left_out(
    created: tuple[Path, list[Dataset]], query: Path, tmp_path: Path, exclude: Exclude, left: int
) -> None:
    out = tmp_path / "report.dcm"
    if not left:
        with pytest.raises(CbirError, match="no DICOM image is left"):
            report_hits(str(query), created[0], out=out, exclude=exclude, where=["modality=CT"])
        assert not out.exists()
        return
    report_hits(str(query), created[0], k=100, out=out, exclude=exclude, where=["modality=CT"])
    check(out)
    assert len(sr.EnhancedSR.from_dataset(dcmread(out)).content.get_image_measurement_groups()) == left


@pytest.mark.parametrize("declared", ["ISO_IR 192", ["", "ISO 2022 IR 87"]])
def test_names_in_any_character_set(
    created: tuple[Path, list[Dataset]], tmp_path: Path, declared: str | list[str]
) -> None:
    ds = dcmread(BytesIO(file_of(created[1][0])))
    ds.SpecificCharacterSet, ds.PatientName = declared, "Yamada^Tarou=山田^太郎"
    ds.save_as(tmp_path / "query.dcm")
    report_hits(str(tmp_path / "query.dcm"), created[0], k=1, out=tmp_path / "report.dcm")
    check(tmp_path / "report.dcm")
    assert str(dcmread(tmp_path / "report.dcm").PatientName) == "Yamada^Tarou=山田^太郎"


class Mistaken(BaseHTTPRequestHandler):
    """Whatever is asked for, it gives this."""

    metadata: ClassVar[dict[str, Any]] = {}

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps([self.metadata]).encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_wrong_metadata_of_an_archive_are_refused(
    created: tuple[Path, list[Dataset]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Collection(created[0]) as collection:
        records = [record for _, record in collection.iterate()]
    slice_ = next(record for record in records if record.labels.get("modality") == "CT")
    other = next(ds for ds in created[1] if ds.SOPInstanceUID != slice_.instance).to_json_dict()
    nonsense = {"00101030": {"vr": "DS", "Value": ["SECRET"]}}
    with ThreadingHTTPServer(("127.0.0.1", 0), Mistaken) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for metadata, stated in ((other, "another instance"), (nonsense, "are not DICOM")):
            monkeypatch.setattr(Mistaken, "metadata", metadata)
            with pytest.raises(CbirError, match=stated) as message:
                report_hits(
                    f"id:{slice_.image_id}", created[0], out=tmp_path / "report.dcm",
                    archive=f"http://127.0.0.1:{server.server_port}",
                )  # fmt: skip
            assert "SECRET" not in str(message.value)
        server.shutdown()
    assert not (tmp_path / "report.dcm").exists()


def test_an_image_of_the_collection_takes_its_patient_from_its_file(
    created: tuple[Path, list[Dataset]], tmp_path: Path
) -> None:
    with Collection(created[0]) as collection:
        records = [record for _, record in collection.iterate()]
    slice_ = next(record for record in records if record.labels.get("modality") == "CT")
    report_hits(f"id:{slice_.image_id}", created[0], k=3, out=tmp_path / "report.dcm")
    check(tmp_path / "report.dcm")
    assert dcmread(tmp_path / "report.dcm").PatientID == "secret-patient"
    picture = next(record for record in records if not record.instance)
    with pytest.raises(CbirError, match="is no DICOM image"):
        report_hits(f"id:{picture.image_id}", created[0], out=tmp_path / "other.dcm")


def test_hits_without_dicom_are_refused(
    created: tuple[Path, list[Dataset]], query: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report.dcm"
    (tmp_path / "broken.dcm").write_bytes(query.read_bytes()[:300])
    ds = dcmread(query)
    ds.add_new(0x00100030, "LO", "SECRET day")
    ds.save_as(tmp_path / "odd.dcm")
    present = tmp_path / "there.dcm"
    present.touch()
    for image, options, words in (
        (query, {}, "--out"),
        (query, {"store": True}, "--archive"),
        (query, {"store": True, "archive": "nonsense"}, "archive_url"),
        (query, {"store": True, "archive": "http://127.0.0.1:1/x"}, "http://127.0.0.1:1/x does not answer"),
        (query, {"out": present}, "exists already"),
        (tmp_path / "nothing.dcm", {"out": out}, "nothing.dcm"),
        (tmp_path / "broken.dcm", {"out": out}, "broken.dcm"),
        (tmp_path / "odd.dcm", {"out": out}, "odd.dcm cannot be copied"),
        ("id:nobody", {"out": out}, "nobody"),
        ("id:nobody", {"out": out, "frame": 2}, "--frame is for files"),
    ):
        with pytest.raises(CbirError, match=words) as message:
            report_hits(str(image), created[0], **options)
        assert "SECR" not in str(message.value)
        assert not out.exists()
    assert present.read_bytes() == b""


def test_collection_stores_no_patient_identity(created: tuple[Path, list[Dataset]], tmp_path: Path) -> None:
    collection_folder = Path(shutil.copytree(created[0], tmp_path / "own"))
    sent = next(slices(1, 40, seed=3))
    client = create_app(collection_folder, settings.load()).test_client()
    (image_id,) = client.post("/v1/images", data=file_of(sent), content_type="application/dicom").json["ids"]
    with pytest.raises(CbirError, match="only the archive knows"):
        report_hits(f"id:{image_id}", collection_folder, out=tmp_path / "report.dcm")
