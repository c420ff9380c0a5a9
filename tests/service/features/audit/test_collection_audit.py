"""The audit of a collection over HTTP: made by a job, refused to limited callers, dropped by an erasure."""

import json
import time
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from cbir import settings
from cbir.store.snapshot.derived_files import AUDIT_FILE, drop_audit_file, read_audit_file, write_audit_file
from service.app import create_app
from service.features.audit.job import STEPS, AuditSteps
from tests.service.conftest import facts_of

AUDIT = "/v1/audit"


def finished(client: FlaskClient) -> dict:
    """The answer once the job has ended."""
    for _ in range(1200):
        answer: dict = client.get(AUDIT).json
        if answer["state"] != "computing":
            return answer
        time.sleep(0.1)
    raise AssertionError(answer)


@pytest.mark.slow
def test_an_audit_is_a_job_whose_result_stays(writable: Path) -> None:
    client = create_app(writable, settings.load()).test_client()
    assert client.get(AUDIT).json["state"] == "none"
    job = client.post(AUDIT, json={"label": "label"})
    assert job.status_code == 202, job.json
    answer = finished(client)
    assert answer["state"] == "ready", answer
    assert answer["job"] == job.json["job"]
    assert answer["audit"]["labels"]["key"] == "label"
    assert not answer["changed"]
    (image_id,) = [item["image_id"] for item in client.get("/v1/images?limit=1").json["items"]]
    assert client.patch(f"/v1/images/{image_id}", json={"labels": {"label": "other"}}).status_code == 200
    assert client.get(AUDIT).json["changed"]


def test_labels_that_were_corrected_since_the_audit_are_named(writable: Path) -> None:
    client = create_app(writable, settings.load(job_workers=0)).test_client()
    corrected, removed, kept = client.get("/v1/images?limit=3").json["items"]
    items = [
        {
            "image_id": image["image_id"],
            "label": image["labels"]["label"],
            "suggested": "x",
            "suspicion": 0.9,
            "neighbours": [],
        }
        for image in (corrected, removed, kept, kept | {"image_id": "0" * 32})
    ]
    labels = {"key": "label", "judged": 9, "suspects": 4, "rare": [], "confusions": [], "items": items}
    audit = {
        "read_at": "2026-01-01T00:00:00+00:00",
        "generation": 0,
        "images": 9,
        "duplicates": {"groups": 0, "images": 0, "unread": 0, "items": []},
        "leaks": None,
        "labels": labels,
        "outliers": {"images": 0, "items": []},
        "drift": {"key": None, "threshold": 0.1, "alarms": 0, "sources": []},
        "coverage": {"images": 9, "patients": 0, "without_patient": 9, "thin": 0, "labels": []},
        "groups": None,
    }
    write_audit_file(writable, json.dumps(audit))
    assert client.get(AUDIT).json["corrected"] == {}
    for image, value in ((corrected, "other"), (removed, None)):
        assert (
            client.patch(f"/v1/images/{image['image_id']}", json={"labels": {"label": value}}).status_code
            == 200
        )
    answer = client.get(AUDIT).json
    assert answer["corrected"] == {corrected["image_id"]: "other", removed["image_id"]: ""}
    assert len(answer["audit"]["labels"]["items"]) == 4


def test_a_label_that_no_image_has_is_refused(writable: Path) -> None:
    client = create_app(writable, settings.load(job_workers=0)).test_client()
    assert client.post(AUDIT, json={"label": "lable"}).status_code == 422
    assert client.post(AUDIT, json={"unknown": 1}).status_code == 422
    assert client.get("/v1/jobs").json["items"] == []


def test_one_job_at_a_time(writable: Path) -> None:
    client = create_app(writable, settings.load(job_workers=0)).test_client()
    first, second = (client.post(AUDIT, json={}).json["job"] for _ in range(2))
    assert first == second
    assert client.get(AUDIT).json["state"] == "computing"


def test_the_page_has_the_labels_to_choose(writable: Path) -> None:
    page = create_app(writable, settings.load(job_workers=0)).test_client().get("/quality")
    facts = facts_of(page.text)
    assert facts["chosen"] == "label"
    assert facts["may_release"]
    assert facts["may_cancel"]


def test_steps_never_go_back() -> None:
    sent: list[int] = []
    steps = AuditSteps(sent.append)
    duplicates = "reading pictures", "finding similar images", "comparing pictures", "naming changes"
    for stage in (*duplicates, "neighbours", "labels", "drift"):
        for done in range(4):
            steps(stage, done, 3)
    assert sent == sorted(sent)
    assert sent[-1] == STEPS


def test_the_file_of_an_audit(tmp_path: Path) -> None:
    assert read_audit_file(tmp_path) is None
    write_audit_file(tmp_path, '{"a": "ä"}')
    assert read_audit_file(tmp_path) == '{"a": "ä"}'
    drop_audit_file(tmp_path)
    drop_audit_file(tmp_path)
    assert not (tmp_path / AUDIT_FILE).exists()


def test_an_audit_of_another_version_is_none(writable: Path) -> None:
    write_audit_file(writable, '{"made": "2020-01-01"}')
    answer = create_app(writable, settings.load(job_workers=0)).test_client().get(AUDIT)
    assert (answer.status_code, answer.json["state"], answer.json["audit"]) == (200, "none", None)
