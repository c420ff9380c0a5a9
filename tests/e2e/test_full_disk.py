"""A full disk: one clear error, nothing damaged, and searching goes on."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import StorageFull
from cbir.store import Collection
from cbir.store.upkeep.verify import verify_collection
from service.access.audit import AuditFiles
from service.access.audit_chain import read_or_create_key
from service.access.token_stores import Scope, TokenStore
from tests.cbir.store.conftest import entry
from tests.service.conftest import CBIR, ids, indexed, pictures, problem, serving

__all__ = ["ids", "indexed", "pictures"]  # fixtures of the service's tests, used here too

SIZE = 3 * 2**20
FILLER = "filler"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of three MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    mounted = tmp_path / "disk"
    mounted.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", mounted], capture_output=True, text=True
    )
    if made.returncode:
        pytest.skip(f"no small file system can be mounted here: {made.stderr.strip()}")
    try:
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", mounted], check=True)


def fill(disk: Path, left: int = 0) -> None:
    """Use up the disk but for some bytes."""
    with (disk / FILLER).open("wb", buffering=0) as file:
        with suppress(OSError):
            while True:
                file.write(b"\0" * 4096)
        file.truncate(max(0, file.tell() - left))


def make_room(disk: Path) -> None:
    (disk / FILLER).unlink()


@pytest.mark.parametrize("left", [0, 16384, 200_000])
def test_index_ends_with_one_line(disk: Path, indexed: Path, pictures: list[Path], left: int) -> None:
    folder = Path(shutil.copytree(indexed, disk / "collection"))
    fill(disk, left)
    command = [*CBIR, "index", *map(str, pictures), "--collection", str(folder), "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    if left < 200_000:
        assert done.returncode == 2, done.stderr
        assert "is full" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    make_room(disk)
    with Collection(folder) as collection:
        assert verify_collection(collection) == []
        assert len(collection) >= 30
    again = CliRunner().invoke(app, [*command[len(CBIR) :]])
    assert again.exit_code == 0, again.output
    with Collection(folder) as collection:
        assert verify_collection(collection) == []
        assert len(collection) == len(pictures)


def test_a_new_collection_without_room(disk: Path, pictures: list[Path]) -> None:
    fill(disk, 4096)
    command = [*CBIR, "index", str(pictures[0]), "--collection", str(disk / "new"), "--jobs", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    assert done.returncode == 2
    assert "is full" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    make_room(disk)
    again = CliRunner().invoke(app, [*command[len(CBIR) :]])
    assert again.exit_code == 0, again.output


def test_every_step_of_the_writer(disk: Path, indexed: Path) -> None:
    """Whatever room is left when: what was acknowledged is there afterwards, and nothing else is harmed."""
    folder = Path(shutil.copytree(indexed, disk / "collection"))
    rng, acknowledged, refused = np.random.default_rng(0), 30, 0
    for turn in range(12):
        fill(disk, int(rng.integers(0, 400_000)))
        try:
            with Collection(folder) as collection, collection.writer() as writer:
                for batch in range(turn * 50, turn * 50 + 50, 10):
                    acknowledged += len(writer.add([_entry(n) for n in range(batch, batch + 10)]).ids)
                writer.compact()
        except StorageFull:
            refused += 1
        make_room(disk)
        with Collection(folder) as collection:
            assert verify_collection(collection) == []
            assert len(collection) >= acknowledged
            acknowledged = len(collection)
    assert refused > 3, "the disk was never full"


def _entry(number: int):
    record, _ = entry(number)
    return record, np.random.default_rng(number).normal(5.0, 2.0, 168).astype(np.float32)


def test_the_service_searches_on(disk: Path, indexed: Path, pictures: list[Path], ids: list[str]) -> None:
    folder = Path(shutil.copytree(indexed, disk / "collection"))
    with serving(folder) as running:
        search = f"{running.address}/v1/search?k=5"
        before = httpx.post(search, files={"image": pictures[-1].read_bytes()}).json()["results"]
        fill(disk)
        for _ in range(3):
            answer = httpx.post(search, files={"image": pictures[-1].read_bytes()})
            assert answer.json()["results"] == before
            assert httpx.post(search, json={"image_id": ids[0]}).status_code == 200
        assert httpx.get(f"{running.address}/readyz").status_code == 200
        new = {"image": pictures[-1].read_bytes()}
        assert "is full" in problem(httpx.post(f"{running.address}/v1/images", files=new), 507)
        assert httpx.get(f"{running.address}/readyz").json()["images"] == 30
        make_room(disk)
        assert httpx.post(f"{running.address}/v1/images", files=new).status_code == 201
        assert httpx.get(f"{running.address}/readyz").json()["images"] == 31
    with Collection(folder) as collection:
        assert verify_collection(collection) == []


def test_every_writer_of_the_state_says_that_the_disk_is_full(
    disk: Path, tmp_path: Path, indexed: Path, ids: list[str]
) -> None:
    state = disk / "state"
    _, text = TokenStore(state).create(list(Scope))
    other, _ = TokenStore(state).create([Scope.search])
    environment = {
        "CBIR_STATE_FOLDER": str(state),
        "CBIR_REQUIRE_TOKENS": "true",
        "CBIR_AUDIT_LOG": str(tmp_path / "audit.jsonl"),
        "CBIR_ANNOTATION_FOLDER": str(disk / "segmentations"),
        "CBIR_INDEX_ROOTS": str(tmp_path),
    }
    with (
        serving(indexed, **environment) as running,
        httpx.Client(base_url=running.address, headers={"Authorization": f"Bearer {text}"}) as client,
    ):
        assert client.get("/v1/cases").status_code == 200  # the state database exists
        fill(disk)
        segmentation = {"label": ("a.nii", b"x" * 100_000)}
        kept = {"search": {"image_id": ids[0]}, "note": "x" * 1000}
        writes = [
            client.post("/v1/admin/tokens", json={"scopes": ["search"]}),
            client.post(f"/v1/admin/tokens/{other.token_id}/revoke"),
            *[client.post("/v1/cases", json={"title": f"{n}", **kept}) for n in range(20)],
            *[client.post("/v1/cohorts", json={"title": f"{n}", "relevant": ids[:9]}) for n in range(20)],
            client.post("/v1/audit", json={}),
            client.put("/monailabel/datastore/label", params={"image": ids[0]}, files=segmentation),
        ]
        assert {answer.status_code for answer in writes} <= {201, 202, 507}, [a.text for a in writes]
        for answer in (writes[0], writes[1], writes[-1]):
            assert "is full" in problem(answer, 507)
        assert client.post("/v1/search", json={"image_id": ids[0]}).status_code == 200
        make_room(disk)
        assert client.post("/v1/admin/tokens", json={"scopes": ["search"]}).status_code == 201


@pytest.mark.parametrize("failure", ["closed", "open"])
def test_an_audit_log_without_room_shows_in_readiness_and_metrics(
    disk: Path, tmp_path: Path, indexed: Path, ids: list[str], failure: str
) -> None:
    log = disk / "audit.jsonl"
    _, text = TokenStore(tmp_path / "state").create(list(Scope))
    environment = {
        "CBIR_STATE_FOLDER": str(tmp_path / "state"),
        "CBIR_REQUIRE_TOKENS": "true",
        "CBIR_AUDIT_LOG": str(log),
        "CBIR_AUDIT_FAILURE": failure,
    }
    with (
        serving(indexed, **environment) as running,
        httpx.Client(base_url=running.address, headers={"Authorization": f"Bearer {text}"}) as client,
    ):

        def search() -> int:
            return client.post("/v1/search", json={"image_id": ids[0]}).status_code

        def wait_ready(status: int, parts: list[str] | None) -> httpx.Response:
            for _ in range(150):
                answer = client.get("/readyz")
                if answer.status_code == status and (status == 503 or answer.json().get("degraded") == parts):
                    return answer
                time.sleep(0.2)
            raise AssertionError(answer.text)

        assert (search(), client.get("/readyz").status_code) == (200, 200)
        assert {'cbir_part_up{part="audit log"} 1.0', "cbir_audit_lines_lost_total 0.0"} <= set(
            client.get("/metrics").text.splitlines()
        )
        fill(disk)
        if failure == "closed":  # nobody has sent a request that would have failed
            assert "audit log" in problem(wait_ready(503, None), 503)
            while search() != 503:  # some lines still fit into the last block of the file
                pass
            assert client.get("/readyz").status_code == 503
        else:
            while "are not in the audit log" not in str(client.get("/readyz").json().get("warning")):
                assert search() == 200
            assert wait_ready(200, ["disk", "audit log"]).json()["status"] == "ready"
        assert client.get("/healthz").json()["degraded"] == ["disk", "audit log"]
        metrics = client.get("/metrics").text
        assert 'cbir_part_up{part="audit log"} 0.0' in metrics
        assert failure == "closed" or "cbir_audit_lines_lost_total 0.0" not in metrics
        make_room(disk)
        wait_ready(200, ["disk"])  # it is never large
        assert search() == 200
        assert 'cbir_part_up{part="audit log"} 1.0' in client.get("/metrics").text
    if failure == "open":
        assert '"action": "lines not written"' in log.read_text()
    assert AuditFiles(log).verify().faults == []


def test_half_a_key_of_the_audit_log_is_not_left(disk: Path) -> None:
    fill(disk)
    with pytest.raises(OSError, match="No space"):
        read_or_create_key(disk / "audit.key")
    assert not (disk / "audit.key").exists()
    make_room(disk)
    assert read_or_create_key(disk / "audit.key") == read_or_create_key(disk / "audit.key")


def test_the_service_starts_on_a_full_disk(disk: Path, indexed: Path, pictures: list[Path]) -> None:
    """SQLite needs 32 KiB beside the database to share it among processes, and no more."""
    folder = Path(shutil.copytree(indexed, disk / "collection"))
    fill(disk, 65536)
    with serving(folder) as running:
        answer = httpx.post(f"{running.address}/v1/search?k=5", files={"image": pictures[-1].read_bytes()})
        assert len(answer.json()["results"]) == 5
