"""The audit log: who did what when, and nothing of a patient."""

import io
import json
import os
import re
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, g

from cbir import settings
from cbir.errors import InvalidInput
from cbir.store import Collection
from service.access.audit import AuditLog, log_images
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.collections.app_state import EXTENSION

FIELDS = ["time", "token", "address", "action", "images", "job", "status"]
FIELDS += ["user", "image_count", "identifier", "n", "prev", "mac"]


@pytest.fixture
def tokens(tmp_path: Path) -> TokenStore:
    return TokenStore(tmp_path / "state")


@pytest.fixture
def closed(indexed: Path, tokens: TokenStore) -> Flask:
    return create_app(indexed, settings.load(require_tokens=True, state_folder=tokens.file.parent))


def lines(tokens: TokenStore) -> list[dict[str, Any]]:
    """What the audit log beside the tokens says."""
    results = [json.loads(line) for line in (tokens.file.parent / "audit.jsonl").read_text().splitlines()]
    assert all(list(line) == FIELDS for line in results)
    return results


def test_a_search(closed: Flask, tokens: TokenStore, ids: list[str]) -> None:
    token, text = tokens.create([Scope.search])
    before = datetime.now(UTC)
    answer = closed.test_client().post(
        "/v1/search?k=3", json={"image_id": ids[0]}, headers={"Authorization": f"Bearer {text}"}
    )
    (line,) = lines(tokens)
    assert line["time"].endswith("Z")
    assert abs(datetime.fromisoformat(line["time"]) - before) < timedelta(seconds=30)
    visible = [hit["image_id"] for hit in answer.json["results"]]
    assert line == line | {"token": token.token_id, "address": "127.0.0.1", "action": "search", "status": 200}
    assert line["images"] == [ids[0], *visible]


def test_a_search_with_an_image(closed: Flask, tokens: TokenStore, pictures: list[Path]) -> None:
    headers = {"Authorization": f"Bearer {tokens.create([Scope.search])[1]}"}
    client = closed.test_client()
    answer = client.post(
        "/v1/search", data=pictures[-1].read_bytes(), content_type="image/png", headers=headers
    )
    client.post("/v1/search", data=b"no image", content_type="image/png", headers=headers)
    results, failed = lines(tokens)
    assert results["images"] == [hit["image_id"] for hit in answer.json["results"]]
    assert (failed["status"], failed["images"]) == (422, [])


@pytest.mark.features
def test_an_explanation(closed: Flask, tokens: TokenStore, ids: list[str]) -> None:
    headers = {"Authorization": f"Bearer {tokens.create([Scope.search])[1]}"}
    body = {"image_id": ids[0], "answers": ids[1:3]}
    assert closed.test_client().post("/v1/explain", json=body, headers=headers).status_code == 200
    (line,) = lines(tokens)
    assert (line["action"], line["images"]) == ("explain", ids[:3])


def test_looking_through_the_collection(closed: Flask, tokens: TokenStore, ids: list[str]) -> None:
    """Whoever reads the records one by one or by the page leaves a trace of each."""
    headers, client = {"Authorization": f"Bearer {tokens.create([Scope.admin])[1]}"}, closed.test_client()
    page = client.get("/v1/images?limit=4", headers=headers).json
    client.get(f"/v1/images?limit=1000&cursor={page['next']}", headers=headers)
    client.get(f"/v1/images/{ids[5]}", headers=headers)
    etag = client.get(f"/v1/images/{ids[6]}", headers=headers).headers["ETag"]
    client.get(f"/v1/images/{ids[6]}", headers=headers | {"If-None-Match": etag})
    client.head(f"/v1/images/{ids[7]}", headers=headers)
    client.get("/v1/images/none-such", headers=headers)
    client.get("/v1/collection/history", headers=headers)
    client.get(f"/v1/images/{ids[0]}/thumbnail", headers=headers)
    detail = [(line["action"], line["images"], line["status"]) for line in lines(tokens)]
    assert detail == [
        ("list", ids[:4], 200),
        ("list", ids[4:], 200),
        ("record", [ids[5]], 200),
        ("record", [ids[6]], 200),
        ("record", [ids[6]], 304),
        ("record", [ids[7]], 200),
        ("record", [], 404),
        ("history", ids, 200),
    ]


def test_an_erased_patient(writable: Path, tokens: TokenStore, ids: list[str]) -> None:
    app = create_app(writable, settings.load(require_tokens=True, state_folder=tokens.file.parent))
    text = tokens.create([Scope.admin])[1]
    headers, client = {"Authorization": f"Bearer {text}"}, app.test_client()
    with Collection(writable) as collection:
        key = collection.record(ids[4]).patient_key
    for path in (f"/v1/patients/{key}", f"/v1/patients/{key}", "/v1/patients/patient-1"):
        client.delete(path, headers=headers)
    detail = [(line["action"], line["images"], line["status"]) for line in lines(tokens)]
    assert detail == [("erase", ids[4:8], 200), ("erase", [], 200), ("erase", [], 422)]
    assert key not in (tokens.file.parent / "audit.jsonl").read_text()


@pytest.mark.slow
def test_jobs(writable: Path, tokens: TokenStore, pictures: list[Path]) -> None:
    roots = (str(pictures[0].parent),)
    app = create_app(
        writable, settings.load(require_tokens=True, state_folder=tokens.file.parent, index_roots=roots)
    )
    token, text = tokens.create([Scope.ingest])
    headers, client = {"Authorization": f"Bearer {text}"}, app.test_client()
    handle = app.extensions[EXTENSION].handle()
    with handle.indexing(handle.folder):  # so that the jobs wait
        sent = {"folder": roots[0], "duplicates": True}
        first = client.post("/v1/jobs", json=sent, headers=headers).json["job"]
        second = client.post("/v1/jobs", json=sent, headers=headers).json["job"]
        client.post(f"/v1/jobs/{second}/cancel", headers=headers)
    client.post(f"/v1/jobs/{second}/cancel", headers=headers)
    client.post("/v1/jobs/Doe/cancel", headers=headers)
    client.post("/v1/jobs", json={"folder": "/etc"}, headers=headers)
    detail = [(line["action"], line["job"], line["status"]) for line in lines(tokens)]
    assert detail == [
        ("ingest", first, 202),
        ("ingest", second, 202),
        ("cancel", second, 202),
        ("cancel", second, 409),
        ("cancel", None, 404),
        ("ingest", None, 403),
    ]
    for _ in range(600):
        if client.get(f"/v1/jobs/{first}", headers=headers).json["ended"]:
            break
        time.sleep(0.1)
    with Collection(writable) as collection:
        newest = collection.history()[0]
    assert (newest.who, newest.what) == (f"token {token.token_id}", "added")


def test_logins_and_attempts(closed: Flask, tokens: TokenStore) -> None:
    client = closed.test_client()
    token, text = tokens.create([Scope.search])
    client.post("/login", data={"token": text})
    client.post("/login", data={"token": "cbir_wrong_secret"})
    client.post("/v1/search", headers={"Authorization": "Bearer cbir_wrong_secret"})
    client.post("/v1/search", headers={"Authorization": f"Bearer {text}"})
    detail = [(line["token"], line["action"], line["status"]) for line in lines(tokens)]
    assert detail[:3] == [(token.token_id, "login", 303), (None, "login", 401), (None, "search", 401)]
    assert detail[3][:2] == (token.token_id, "search")


def test_guessed_tokens_at_any_address(closed: Flask, tokens: TokenStore) -> None:
    client, wrong = closed.test_client(), {"Authorization": "Bearer cbir_wrong_secret"}
    for path in ("/metrics", "/v1/collections", "/openapi.json", "/none-such", "/readyz"):
        client.get(path, headers=wrong)
    client.post("/v1/search", headers=wrong)
    token, text = tokens.create([Scope.search])
    tokens.revoke(token.token_id)
    client.get("/v1/collections", headers={"Authorization": f"Bearer {text}"})  # nobody guesses
    client.get("/v1/collections")
    detail = [(line["token"], line["action"], line["status"]) for line in lines(tokens)]
    expected = [(None, "authenticate", 401)] * 4 + [(None, "authenticate", 200), (None, "search", 401)]
    assert detail == expected


def test_those_who_bring_nothing_cannot_fill_it(closed: Flask, tokens: TokenStore) -> None:
    client = closed.test_client()
    for _ in range(20):
        client.post("/v1/search")
        client.get("/")
        client.get("/healthz")
    for _ in range(20):
        client.post("/v1/search", headers={"Authorization": "Bearer x"})
    assert len(lines(tokens)) == 10  # then the address has to wait


def test_nothing_of_a_patient_or_a_token(
    closed: Flask, tokens: TokenStore, pictures: list[Path], ids: list[str]
) -> None:
    text = tokens.create([Scope.admin], name="Dr Doe")[1]
    headers, client = {"Authorization": f"Bearer {text}"}, closed.test_client()
    client.post("/v1/search", json={"image_id": "Doe^Jane", "exclude_patient": "Doe-Jane"}, headers=headers)
    client.post("/v1/search?where=name=Doe", json={"image_id": ids[0]}, headers=headers)
    client.post(
        "/v1/search",
        data={"image": (io.BytesIO(pictures[-1].read_bytes()), "Doe_Jane.png"), "exclude_patient": "Doe"},
        headers=headers,
    )
    for method, path in (("DELETE", "/v1/patients/Doe-Jane"), ("DELETE", "/v1/images/Doe"), ("GET", "/Doe")):
        client.open(path, method=method, headers=headers)
    written = (tokens.file.parent / "audit.jsonl").read_text()
    assert len(written.splitlines()) >= 3
    assert "Doe" not in written
    assert text.split("_", 2)[2] not in written


def test_open_service_keeps_one_only_when_asked(indexed: Path, tmp_path: Path, ids: list[str]) -> None:
    for options in ({}, {"audit_log": tmp_path / "logs" / "audit.jsonl"}):
        client = create_app(indexed, settings.load(state_folder=tmp_path / "state", **options)).test_client()
        client.post("/v1/search?k=1", json={"image_id": ids[0]})
    (line,) = (tmp_path / "logs" / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["token"] is None
    assert not (tmp_path / "state").exists()


def test_appended_to_by_many(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text('{"earlier": true}\n')
    logs = [AuditLog(path), AuditLog(path)]
    images = ["0" * 32] * 200
    with ThreadPoolExecutor(8) as executor:
        list(executor.map(lambda n: logs[n % 2].write(str(n), "", "search", images, 200), range(400)))
    first, *others = [json.loads(line) for line in path.read_text().splitlines()]
    assert first == {"earlier": True}
    assert sorted(int(line["token"]) for line in others) == list(range(400))


def test_rotation(tmp_path: Path) -> None:
    path, old = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    log = AuditLog(path)
    assert path.stat().st_mode & 0o777 == 0o600
    log.write("1", "", "search", [], 200)
    path.rename(old)
    log.write("2", "", "search", [], 200)
    assert [json.loads(file.read_text())["token"] for file in (old, path)] == ["1", "2"]
    path.unlink()
    log.write("3", "", "search", [], 200)
    assert json.loads(path.read_text())["token"] == "3"


def test_full_disk_does_not_stop_the_service(caplog: pytest.LogCaptureFixture) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    AuditLog(Path("/dev/full")).write("1", "", "search", [], 200)
    assert "audit log" in caplog.text
    assert "No space" in caplog.text


def test_a_line_that_was_cut_short_spoils_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As on a disk that has room for half a line, and after the machine went down."""
    path = tmp_path / "audit.jsonl"
    log = AuditLog(path)
    log.write("1", "", "search", [], 200)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, before[1]))
    try:
        log.write("2", "", "search", [], 200)
        log.write("3", "", "search", [], 200)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "cut short" in caplog.text
    log.write("4", "", "search", [], 200)
    with path.open("a") as file:
        file.write('{"time": "20')
    AuditLog(path).write("5", "", "search", [], 200)
    first, torn, missing, fourth, cut, fifth = path.read_text().splitlines()
    assert [json.loads(line)["token"] for line in (first, fourth, fifth)] == ["1", "4", "5"]
    assert len(torn) == 20
    assert json.loads(missing).items() >= {"action": "lines not written", "count": 2}.items()
    assert cut == '{"time": "20'


def test_path_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="audit_log"):
        AuditLog(tmp_path)


def test_only_image_ids_are_noted(app: Flask) -> None:
    good = ["0123456789abcdef" * 2, "0123456789abcdef" * 2 + "-2"]
    with app.app_context():
        log_images([good[0], None, "", "Doe^Jane", "0123", good[0].upper(), good[0] + "-x", good[0] + "\n"])
        log_images([good[1], good[0]])
        assert list(g.audit_images) == good
    assert all(re.fullmatch(r"[0-9a-f-]+", name) for name in good)
