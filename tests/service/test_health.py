"""Readiness, and what other processes do to the collection meanwhile."""

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from cbir import settings
from cbir.errors import DeviceFailed
from cbir.search.view_vectors import ViewVectors
from cbir.store import Collection
from cbir.store.safety.last_good import NAME
from cbir.system import device, device_failure
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.collections import mounted_collection
from service.collections.app_state import EXTENSION
from service.collections.part_checks import names_of_down_parts
from service.state import server_answers
from service.state.server_answers import PartCheck
from tests.service.conftest import COUNT, cbir, problem


def test_ready(indexed: Path) -> None:
    client = create_app(indexed, settings.load()).test_client()
    assert client.get("/healthz").json == {"status": "ok"}
    detail = client.get("/readyz").json
    assert detail.pop("generation") > 0
    assert detail.pop("device").startswith(("cpu, because ", "cuda, because "))
    assert detail == {"status": "ready", "images": COUNT - 6, "profile": "huang2012"}


def test_a_gpu_that_failed_is_said(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_tried", lambda library, needs_driver=False: None)
    monkeypatch.setattr(device, "gpu_name", lambda: "Test GPU")
    monkeypatch.setattr(device_failure, "_failures", device_failure._FailureLog())
    client = create_app(indexed, settings.load(device="auto")).test_client()
    assert client.get("/readyz").json["device"] == "cuda, because Test GPU passed its trial"
    assert "\ncbir_gpu_failures_total 0.0\n" in client.get("/metrics").text
    with pytest.raises(DeviceFailed), device_failure.device_failures("search"):
        raise RuntimeError("CUDA error: unspecified launch failure\nmore")
    device_failure.give_up_gpu("the GPU failed (search): a reason")
    assert client.get("/readyz").json["device"] == "cpu, because the GPU failed (search): a reason"
    assert "\ncbir_gpu_failures_total 1.0\n" in client.get("/metrics").text


def test_the_device_of_the_index_is_said_where_it_is_another(
    indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = create_app(indexed, settings.load(device="cpu", index="flat"))
    client = app.test_client()
    assert client.get("/readyz").json["device"] == "cpu, because device=cpu is set"
    monkeypatch.setattr(ViewVectors, "device", "cuda")  # as where torch alone has no GPU
    device = client.get("/readyz").json["device"]
    assert device == "cpu, because device=cpu is set; the index of the collection is on cuda"


@pytest.mark.parametrize("key", [None, "", "0" * 64])
def test_a_wrong_key_is_a_warning(writable: Path, key: str | None) -> None:
    client = create_app(writable, settings.load()).test_client()
    assert "warning" not in client.get("/readyz").json
    path = writable / "patient.key"
    right = path.read_text()
    path.unlink()
    if key is not None:
        path.write_text(key)
    assert "the key file patient.key of" in client.get("/readyz").json["warning"]
    path.write_text(right)
    assert "warning" not in client.get("/readyz").json


@pytest.mark.slow
def test_added_and_deleted_by_another_process(writable: Path, pictures: list[Path], ids: list[str]) -> None:
    client = create_app(writable, settings.load()).test_client()
    assert client.get("/readyz").json["images"] == COUNT - 6
    cbir("index", *pictures[-6:], "--collection", writable, "--jobs", "1")
    assert client.get("/readyz").json["images"] == COUNT
    newest = client.post("/v1/search", data=pictures[-1].read_bytes(), content_type="image/png").json
    assert newest["query"]["image_id"] is not None
    with Collection(writable) as other, other.writer() as writer:
        writer.delete([ids[0]])
    assert client.get("/readyz").json["images"] == COUNT - 1
    problem(client.get(f"/v1/images/{ids[0]}"), 404)
    left = client.post("/v1/search", json={"image_id": ids[1], "k": 100}).json["results"]
    assert ids[0] not in [hit["image_id"] for hit in left]


def test_thumbnail_of_a_deleted_image_is_gone_from_the_cache_too(writable: Path, ids: list[str]) -> None:
    client = create_app(writable, settings.load()).test_client()
    etag = client.get(f"/v1/images/{ids[0]}/thumbnail").headers["ETag"]
    with Collection(writable) as other, other.writer() as writer:
        writer.delete([ids[0]])
    problem(client.get(f"/v1/images/{ids[0]}/thumbnail", headers={"If-None-Match": etag}), 404)


@pytest.mark.slow
def test_collection_that_goes_and_comes_back(writable: Path, tmp_path: Path, pictures: list[Path]) -> None:
    client = create_app(writable, settings.load()).test_client()
    assert client.get("/readyz").json["images"] == COUNT - 6
    shutil.rmtree(writable)
    problem(client.get("/readyz"), 503)
    cbir("index", *pictures[:3], "--collection", writable, "--jobs", "1")
    assert client.get("/readyz").json["images"] == 3


def test_snapshot_that_cannot_be_used_is_told(writable: Path, caplog: pytest.LogCaptureFixture) -> None:
    for file in (writable / "snapshots").iterdir():
        file.write_bytes(b"nothing")
    app = create_app(writable, settings.load())
    detail = app.test_client().get("/readyz")
    assert detail.status_code == 200
    assert detail.json["images"] == COUNT - 6
    assert detail.json["warning"]
    app.test_client().get("/readyz")
    assert caplog.text.count(f"collection {writable.name}: ") == 1


def test_an_archive_that_does_not_answer(indexed: Path) -> None:
    client = create_app(indexed, settings.load(archive_url="http://127.0.0.1:1/dicom-web")).test_client()
    for path, status in (("/healthz", "degraded"), ("/readyz", "ready")):
        answer = client.get(path)
        assert answer.status_code == 200
        assert (answer.json["status"], answer.json["degraded"]) == (status, ["archive"])
    assert client.get("/livez").json == {"status": "ok"}


def test_a_part_that_never_answers_counts_as_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_answers, "ANSWER_SECONDS", 0.05)
    hangs = Event()
    part = PartCheck("archive", hangs.wait, 0)
    try:
        assert part.is_down()
        assert names_of_down_parts([part], [None, "no answer"]) == ["archive", "collection database"]
    finally:
        hangs.set()
    end = time.monotonic() + 5
    while part.is_down():
        assert time.monotonic() < end
    assert names_of_down_parts([part], [None]) == []


def test_an_answer_holds_for_a_time() -> None:
    asked: list[int] = []
    part = PartCheck("archive", lambda: asked.append(1), 3600)
    assert not any(part.is_down() for _ in range(5))
    assert asked == [1]


def test_warming_up(indexed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    create_app(indexed, settings.load()).extensions[EXTENSION].warm_up()
    assert caplog.text == ""
    create_app(tmp_path, settings.load()).extensions[EXTENSION].warm_up()
    assert "not ready" in caplog.text


@pytest.mark.parametrize("damage", ["none", "snapshot", "database", "missing"])
def test_strangers_learn_no_names(writable: Path, tmp_path: Path, damage: str) -> None:
    """Where tokens are needed, names of folders and collections are for those who bring one."""
    if damage == "snapshot":
        for file in (writable / "snapshots").iterdir():
            file.write_bytes(b"nothing")
    elif damage == "database":
        (writable / "collection.sqlite").write_bytes(b"not a database" * 1000)
    elif damage == "missing":
        shutil.rmtree(writable)
    tokens = TokenStore(tmp_path / "state")
    existing = {"Authorization": f"Bearer {tokens.create([Scope.admin])[1]}"}
    reader = {"Authorization": f"Bearer {tokens.create([Scope.search])[1]}"}
    in_force = settings.load(require_tokens=True, state_folder=tokens.file.parent, failed_attempts=3)
    client = create_app([writable, tmp_path / "second-ward"], in_force).test_client()
    reported = client.get("/readyz", headers=existing)
    assert reported.status_code == (503 if damage == "missing" else 200)
    if damage in ("database", "missing"):
        assert str(writable) in reported.text
    if damage != "missing":
        assert set(reported.json["collections"]) == {"own", "second-ward"}
    known = client.get("/readyz", headers=reader)
    assert known.status_code == reported.status_code
    assert str(tmp_path) not in known.text
    assert ("second-ward" in known.text) == (damage != "missing")
    assert ("warning" in known.text) == ("warning" in reported.text)
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic x"}):
        answer = client.get("/readyz", headers=headers)
        assert answer.status_code == reported.status_code
        assert str(tmp_path) not in answer.text
        assert "second-ward" not in answer.text
        if reported.status_code == 200:
            assert answer.json == {"status": "ready"}
    for _ in range(3):
        client.get("/readyz", headers={"Authorization": "Bearer x"})
    guessed_enough = client.get("/readyz", headers=existing)
    assert guessed_enough.status_code == reported.status_code
    assert "second-ward" not in guessed_enough.text
    assert str(tmp_path) not in guessed_enough.text
    problem(client.get("/v1/collections", headers=existing), 429)


def test_nobody_is_let_in_is_not_ready(
    indexed: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = TokenStore(tmp_path / "state")
    existing = {"Authorization": f"Bearer {tokens.create([Scope.search])[1]}"}
    client = create_app(
        indexed, settings.load(require_tokens=True, state_folder=tokens.file.parent)
    ).test_client()
    tokens.file.write_text("[")
    for path, headers in (("/readyz", {}), ("/readyz", existing), ("/v1/collections", existing)):
        detail = problem(client.get(path, headers=headers), 503)
        assert str(tmp_path) not in detail
    assert str(tokens.file) in caplog.text
    assert client.get("/healthz").status_code == 200


@contextmanager
def counting_openings() -> Iterator[list[str]]:
    """The databases that are opened meanwhile."""
    seen: list[str] = []
    counting = True

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if counting and event == "sqlite3.connect":
            seen.append(str(arguments[0]))

    sys.addaudithook(hook)
    yield seen
    counting = False


def test_a_damaged_collection_is_not_opened_for_every_request(
    writable: Path, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, image = writable / "collection.sqlite", f"/v1/images/{ids[0]}"
    sound = database.read_bytes()
    shutil.rmtree(writable / NAME)
    database.write_bytes(b"not a database" * 1000)
    client = create_app(writable, settings.load()).test_client()
    with counting_openings() as opened:
        detail = problem(client.get(image), 503)
        assert opened
        opened.clear()
        for path in (image, "/readyz", "/v1/collection", image):
            assert problem(client.get(path), 503) == detail
        assert not opened
        monkeypatch.setattr(mounted_collection, "RETRY_SECONDS", 0.2)
        client = create_app(writable, settings.load()).test_client()
        problem(client.get(image), 503)
        time.sleep(0.3)
        opened.clear()
        problem(client.get(image), 503)
        assert opened
    monkeypatch.undo()
    client = create_app(writable, settings.load()).test_client()
    problem(client.get(image), 503)
    database.write_bytes(sound)  # the same file, mended: noticed at once
    assert client.get(image).status_code == 200
