"""Searches among the other studies of the query's patient."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

import cbir
from cbir import settings
from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.store.records.filter_conditions import PatientScope
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from tests.cbir.images.synthetic_dicom import dicom_set, written
from tests.service import wards
from tests.service.conftest import problem


def search(client: FlaskClient, **fields: Any) -> list[str]:
    answer = client.post("/v1/search", json={"k": 100, "rerank": "none", "same_patient": True} | fields)
    assert answer.status_code == 200, answer.text
    return [hit["image_id"] for hit in answer.json["results"]]


def dicom_of(patient: str) -> bytes:
    return bytes(written(dicom_set(np.arange(4096).reshape(64, 64), PatientID=patient)))


def upload(client: FlaskClient, file: bytes) -> Any:
    form = {"image": (io.BytesIO(file), "x"), "same_patient": "true", "k": "100", "rerank": "none"}
    return client.post("/v1/search", data=form)


def test_other_images_of_the_patient(client: FlaskClient, ids: list[str]) -> None:
    """Images without a study have no other study: all but the query are found."""
    assert set(search(client, image_id=ids[5])) == {ids[4], ids[6], ids[7]}
    assert search(client, image_id=ids[5], region=[0, 0, 40, 40])[0] in {ids[4], ids[6], ids[7]}
    assert set(search(client, image_id=ids[5], where=["label=even"])) == {ids[4], ids[6]}
    everyone = search(client, image_id=ids[5], same_patient=False)
    assert [each for each in everyone if each in ids[4:8]] == search(client, image_id=ids[5])


def test_patient_of_a_file(client: FlaskClient, ids: list[str], pictures: list[Path]) -> None:
    found = upload(client, dicom_of("patient-1")).json["results"]
    assert {hit["image_id"] for hit in found} == set(ids[4:8])
    for file in (dicom_of("nobody"), dicom_of(""), pictures[-1].read_bytes()):
        assert upload(client, file).json["results"] == []


def test_an_image_is_needed(client: FlaskClient) -> None:
    said = problem(client.post("/v1/search", json={"vector": [0.0], "same_patient": True}), 422)
    assert "same_patient" in said or "vector" in said


def test_limited_callers_find_their_images_only(indexed: Path, ids: list[str], tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "state")
    app = create_app(indexed, settings.load(require_tokens=True, state_folder=tmp_path / "state"))
    client = app.test_client()
    text = tokens.create([Scope.search], where=["label=even"])[1]
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
    assert search(client, image_id=ids[4]) == [ids[6]]
    found = upload(client, dicom_of("patient-1")).json["results"]
    assert {hit["image_id"] for hit in found} == {ids[4], ids[6]}


def test_patients_by_file_are_limited_and_logged(indexed: Path, tmp_path: Path) -> None:
    tokens = TokenStore(tmp_path / "state")
    values = settings.load(require_tokens=True, state_folder=tmp_path / "state", identifiers_per_hour=2)
    client = create_app(indexed, values).test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {tokens.create([Scope.search])[1]}"
    names = ("patient-1", "nobody", "patient-1", "patient-2")
    assert [upload(client, dicom_of(name)).status_code for name in names] == [200, 200, 200, 429]
    written_lines = (tmp_path / "state" / "audit.jsonl").read_text()
    assert written_lines.count('"identifier": true') == 4
    assert "patient-" not in written_lines


def test_a_patient_beyond_the_limit_is_not_named_and_the_search_goes_on(indexed: Path) -> None:
    client = create_app(indexed, settings.load(identifiers_per_hour=1)).test_client()

    def named(patient: str) -> bool:
        form = {"image": (io.BytesIO(dicom_of(patient)), "x"), "include": "cards", "k": "60"}
        answer = client.post("/v1/search", data=form)
        assert answer.status_code == 200
        assert answer.json["results"]
        return bool(answer.json["query"]["patient"])

    assert [named(patient) for patient in ("patient-1", "patient-2", "patient-1")] == [True, False, True]


def test_in_python(indexed: Path, ids: list[str], tmp_path: Path) -> None:
    with cbir.open(indexed) as collection:
        found = collection.search(ids[5], same_patient=True)
        assert {hit.image_id for hit in found} == {ids[4], ids[6], ids[7]}
        (tmp_path / "one.dcm").write_bytes(dicom_of("patient-1"))
        found = collection.search(tmp_path / "one.dcm", same_patient=True)
        assert {hit.image_id for hit in found} == set(ids[4:8])
        with pytest.raises(InvalidInput, match="same_patient"):
            collection.search(vector=collection.vector(ids[0], raw=True), same_patient=True)


def test_the_study_of_the_query_is_left_out(tmp_path_factory: pytest.TempPathFactory) -> None:
    ward = wards.make(tmp_path_factory)
    with Collection(ward.folder) as collection:
        view = collection.view()
        record = next(each for each in ward.visible if each.patient_key and each.study)
        all_rows = collection.patient_rows(view, PatientScope(record.patient_key))
        others = collection.patient_rows(view, PatientScope(record.patient_key, record.study))
        of_study = [
            each
            for _, each in collection.iterate()
            if (each.patient_key, each.study) == (record.patient_key, record.study)
        ]
    assert len(all_rows) - len(others) == len(of_study)
