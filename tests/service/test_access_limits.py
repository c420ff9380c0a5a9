"""Limits of callers, patients in requests, and what errors and jobs tell callers without the scope admin."""

import io
import os
import time
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from PIL import Image

from cbir import settings
from cbir.errors import CollectionBusy, CollectionDamaged, StorageFull
from cbir.store import Collection
from service.access.rate_limits import HOUR, PatientRate, RequestRate
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.collections.app_state import EXTENSION
from service.http.problems import NotReady
from tests.service.conftest import problem
from tests.service.dicom_collection import dicom_with_name


@pytest.fixture
def tokens(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "state")


def service(folder: Path, tokens: TokenStore, **options: Any) -> Flask:
    return create_app(folder, settings.load(require_tokens=True, state_folder=tokens.file.parent, **options))


def sender(app: Flask, tokens: TokenStore, *scopes: Scope) -> FlaskClient:
    client = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {tokens.create(scopes)[1]}"
    return client


class Clock:
    """A clock that is set by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


# Patients


@pytest.mark.features
def test_identifiers_are_no_oracle(
    indexed: Path, tokens: TokenStore, ids: list[str], pictures: list[Path]
) -> None:
    """The answer to a patient's identifier is the same whether the collection has that patient or not."""
    client = sender(service(indexed, tokens), tokens, Scope.search, Scope.annotate, Scope.ingest)
    picture = pictures[0].read_bytes()
    answers = set()
    for identifier in ("patient-0", "patient-1", "nobody", "0", "Doe^Jane", "A" * 32, " " + "a" * 32):
        query = {"image_id": ids[0], "exclude_patient": identifier}
        form = {"image": (io.BytesIO(picture), "x"), "exclude_patient": identifier}
        for answer in (client.post("/v1/search", json=query), client.post("/v1/search", data=form)):
            answers.add((answer.status_code, answer.text))
        form = {"image": (io.BytesIO(picture), "x"), "exclude_patient": identifier}
        answers.add(
            (graded := client.post("/v1/grade", data=form)).status_code and (graded.status_code, graded.text)
        )
        address = client.post(
            f"/v1/search?exclude_patient={identifier}", data=picture, content_type="image/png"
        )
        problem(address, 422)
    assert len(answers) == 1
    assert next(iter(answers))[0] == 422
    assert "patient key" in next(iter(answers))[1]


def test_a_key_is_never_taken_for_an_identifier(
    writable: Path, tokens: TokenStore, pictures: list[Path]
) -> None:
    """An identifier may have the form of a key; even then nobody learns its hash."""
    identifier = "0123456789abcdef" * 2
    app = service(writable, tokens)
    data = {"image": (io.BytesIO(pictures[-1].read_bytes()), "x"), "labels": f'{{"patient": "{identifier}"}}'}
    added = sender(app, tokens, Scope.ingest).post("/v1/images", data=data).json["ids"][0]
    for scope in (Scope.search, Scope.admin):
        client = sender(app, tokens, scope)
        query = {"image_id": client.get("/v1/images?limit=1").json["items"][0]["image_id"], "k": 1000}
        found = client.post("/v1/search", json=query | {"exclude_patient": identifier}).json["results"]
        assert added in [hit["image_id"] for hit in found]


def test_keys_exclude_a_patient(indexed: Path, tokens: TokenStore, ids: list[str]) -> None:
    client = sender(service(indexed, tokens), tokens, Scope.search)
    key = client.get(f"/v1/images/{ids[4]}").json["patient_key"]
    hits = client.post("/v1/search", json={"image_id": ids[0], "k": 1000, "exclude_patient": key}).json[
        "results"
    ]
    assert not {hit["image_id"] for hit in hits} & set(ids[4:8])
    assert len(hits) == len(ids) - 5


def test_identifiers_of_administrators_are_limited_and_logged(
    indexed: Path, tokens: TokenStore, ids: list[str]
) -> None:
    client = sender(service(indexed, tokens, identifiers_per_hour=3), tokens, Scope.admin)

    def search(patient: str) -> Any:
        return client.post("/v1/search", json={"image_id": ids[0], "k": 1000, "exclude_patient": patient})

    hits = search("patient-1").json["results"]
    assert not {hit["image_id"] for hit in hits} & set(ids[4:8])
    assert [search(name).status_code for name in ("patient-2", "x", "patient-1", " patient-1 ")] == [200] * 4
    refused = search("patient-3")
    problem(refused, 429)
    assert HOUR - 60 < int(refused.headers["Retry-After"]) <= HOUR
    assert search("patient-1").status_code == 200
    assert search("f" * 32).status_code == 200
    written = (tokens.file.parent / "audit.jsonl").read_text().splitlines()
    assert ['"identifier": true' in line for line in written] == [True] * 7 + [False]
    assert "patient-" not in "".join(written)


def test_without_tokens_identifiers_are_limited_too(indexed: Path, ids: list[str]) -> None:
    client = create_app(indexed, settings.load(identifiers_per_hour=2)).test_client()
    sent = [
        client.post("/v1/search", json={"image_id": ids[0], "exclude_patient": str(number)}).status_code
        for number in range(4)
    ]
    assert sent == [200, 200, 429, 429]


def test_patients_of_added_images_are_limited(
    writable: Path, tokens: TokenStore, pictures: list[Path]
) -> None:
    app = service(writable, tokens, patients_per_hour=2)
    client = sender(app, tokens, Scope.ingest)

    def add(number: int, patient: str) -> int:
        data = {
            "image": (io.BytesIO(pictures[number].read_bytes()), "x"),
            "labels": f'{{"patient": "{patient}"}}',
        }
        return int(client.post("/v1/images", data=data).status_code)

    assert [add(-1, "1"), add(-2, "2"), add(-3, "1")] == [201, 201, 201]
    assert add(-4, "3") == 429
    assert (
        client.post("/v1/images", data=dicom_with_name(), content_type="application/dicom").status_code == 429
    )
    with Collection(writable) as collection:
        assert len(collection) == len(pictures) - 3, "what was refused is not stored"
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {tokens.create([Scope.admin])[1]}"
    assert [add(-4, "3"), add(-5, "4"), add(-6, "5")] == [201, 201, 201]


def test_patient_rate() -> None:
    clock = Clock()
    rate = PatientRate(2, clock)
    assert rate.seconds_to_wait("a", ["1"]) == 0
    clock.now += 100
    assert [rate.seconds_to_wait("a", ["2", "1", "2"]), rate.seconds_to_wait("b", ["1", "9"])] == [0, 0]
    assert rate.seconds_to_wait("a", ["3"]) == HOUR - 100
    assert rate.seconds_to_wait("a", ["3", "4"]) == HOUR
    assert rate.seconds_to_wait("c", ["1", "2", "3"]) == HOUR
    clock.now += HOUR - 100
    assert rate.seconds_to_wait("a", ["3"]) == 0
    assert rate.seconds_to_wait("a", ["4"]) == 100


# Requests per minute


def test_request_rate() -> None:
    clock = Clock()
    rate = RequestRate(60, clock)
    assert [rate.seconds_to_wait("a") for _ in range(61)] == [0] * 60 + [1]
    assert rate.seconds_to_wait("b") == 0
    clock.now += 1
    assert [rate.seconds_to_wait("a"), rate.seconds_to_wait("a")] == [0, 1]
    clock.now += 3600
    assert [rate.seconds_to_wait("a") for _ in range(61)] == [0] * 60 + [1]
    slow = RequestRate(1, clock)
    assert [slow.seconds_to_wait("a"), slow.seconds_to_wait("a")] == [0, 60]


def test_a_token_that_sends_too_much_waits(indexed: Path, tokens: TokenStore) -> None:
    app = service(indexed, tokens, requests_per_minute=6)
    first, second = sender(app, tokens, Scope.search), sender(app, tokens, Scope.search)
    answers = [first.get("/v1/images?limit=1") for _ in range(8)]
    assert [answer.status_code for answer in answers] == [200] * 6 + [429] * 2
    assert "requests per minute" in problem(answers[-1], 429)
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 10
    assert second.get("/v1/images?limit=1").status_code == 200, "others do not wait"
    assert first.get("/healthz").status_code == 200
    assert len((tokens.file.parent / "audit.jsonl").read_text().splitlines()) == 7, (
        "refusals do not fill the log"
    )


# Paths and names


@pytest.mark.parametrize("error_type", [StorageFull, CollectionBusy, CollectionDamaged, NotReady])
def test_errors_name_no_paths(
    indexed: Path, tokens: TokenStore, error_type: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    app = service(indexed, tokens)
    text = f"{indexed}/collection.sqlite of process 4711"

    def fail() -> None:
        raise error_type(text)

    app.view_functions["images.get_images"] = fail
    reader, admin = sender(app, tokens, Scope.search), sender(app, tokens, Scope.admin)
    answer = reader.get("/v1/images")
    told = problem(answer, answer.status_code)
    assert str(indexed) not in told
    assert "4711" not in told
    assert text in caplog.text
    assert problem(admin.get("/v1/images"), answer.status_code) == text


@pytest.mark.slow
def test_jobs_name_files_to_administrators_only(
    writable: Path, tokens: TokenStore, tmp_path: Path, pictures: list[Path]
) -> None:
    folder = tmp_path / "scans"
    folder.mkdir()
    (folder / "Doe_Jane.png").write_bytes(b"no image")
    (folder / "labels.csv").write_text("nothing,here\n")
    for name in ("Doe_John.png", "Doe_Jim.png"):  # the same picture with two labels
        Image.new("L", (32, 32), 77).save(folder / name)
    (folder / "rows.csv").write_text("path,label\nDoe_John.png,knee\nDoe_Jim.png,hip\n")
    app = service(writable, tokens, index_roots=(str(folder),))
    client, admin = sender(app, tokens, Scope.ingest), sender(app, tokens, Scope.admin)
    tables = ({}, {"labels": str(folder / "labels.csv")}, {"labels": str(folder / "rows.csv")})
    for body in ({"folder": str(folder)} | table for table in tables):
        name = client.post("/v1/jobs", json=body).json["job"]
        while not (job := client.get(f"/v1/jobs/{name}").json)["ended"]:
            time.sleep(0.1)
        told = [client.get(address).text for address in ("/v1/jobs", f"/v1/jobs/{name}")]
        for secret in ("Doe", str(folder), str(writable)):
            assert not [text[text.index(secret) - 60 :][:200] for text in told if secret in text]
        assert job["state"] in ("done", "failed")
        full = admin.get(f"/v1/jobs/{name}").json
        assert full["refused"] == job["refused"]
        if body.get("labels", "").endswith("rows.csv"):
            assert job["summary"]["conflicts"] == 1
            assert "Doe_John.png" in str(full["summary"]["conflict_examples"])
        if job["refused"]:
            assert full["refused_files"][0]["path"] == "Doe_Jane.png"
            assert job["refused_files"][0]["reason"].startswith("the file is not a PNG")


def test_a_full_queue_of_jobs_says_how_long(indexed: Path, tmp_path: Path) -> None:
    app = create_app(indexed, settings.load(index_roots=(str(tmp_path),)))
    client, state = app.test_client(), app.extensions[EXTENSION]
    with state.handle().indexing(indexed):
        answers = [client.post("/v1/jobs", json={"folder": str(tmp_path)}) for _ in range(102)]
        for job in state.jobs.all():
            state.jobs.cancel(job.job)
    problem(answers[-1], 429)
    assert int(answers[-1].headers["Retry-After"]) >= 30


# Tokens file


@pytest.mark.skipif(os.name == "nt", reason="permissions are not in the mode there")
@pytest.mark.parametrize(
    ("what", "mode"), [("file", 0o620), ("file", 0o640 | 0o020), ("file", 0o602), ("folder", 0o777)]
)
def test_tokens_that_others_can_write_are_refused(
    indexed: Path, tokens: TokenStore, what: str, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    app = service(indexed, tokens)
    client = sender(app, tokens, Scope.search)
    assert client.get("/v1/images").status_code == 200
    target = tokens.file if what == "file" else tokens.file.parent
    target.chmod(mode)
    problem(client.get("/v1/images"), 503)
    assert "chmod" in caplog.text
    target.chmod(0o600 if what == "file" else 0o700)
    assert client.get("/v1/images").status_code == 200
