"""`cbir index` as a user runs it."""

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cbir import descriptors
from cbir.images import read_images
from cbir.store import Collection
from cbir.store.upkeep.verify import verify_collection
from cbir.store.writing.default_profile import DEFAULT_PROFILE
from tests.held_files import held_files, release
from tests.indexer.commands import call, index
from tests.indexer.conftest import picture

CBIR = [sys.executable, "-m", "cbir.api.main"]


def run(*arguments: object) -> dict[str, Any]:
    """Run `cbir` in a process of its own; the JSON that it prints."""
    command = [*CBIR, *map(str, arguments), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder of ten pictures, which stays as it is, and its collection, to be copied."""
    root = tmp_path_factory.mktemp("indexed")
    for seed in range(10):
        picture(root / "images" / f"{seed:02d}.png", seed)
    index(root / "images", root / "collection")
    return root / "images", root / "collection"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "collection"


def test_a_folder_becomes_a_collection_with_the_default_profile(folder, target):
    describe = descriptors.get(descriptors.resolve_descriptor(DEFAULT_PROFILE).name)
    assert run("index", folder, "--collection", target, "--jobs", 2)["indexed"] == 30
    info = run("collection", "info", "--collection", target)
    assert (info["images"], info["profile"]) == (30, DEFAULT_PROFILE)
    with Collection(target) as collection:
        for _, record in collection.iterate():
            (image,) = read_images(Path(record.source))
            vector = collection.vector(record.image_id)  # of float16
            np.testing.assert_allclose(vector, describe(image), rtol=2e-3, atol=2e-3)
        assert verify_collection(collection) == []
        assert collection.view().statistics.fitted_on == 30


def test_again_does_nothing_and_new_and_changed_files_are_indexed(folder, target):
    index(folder, target)
    again = index(folder, target)
    assert (again["indexed"], again["already"]) == (0, 30)
    picture(folder / "new.png", 99)
    picture(folder / "a" / "01.png", 77, size=50)
    more = index(folder, target)
    assert (more["indexed"], more["already"]) == (2, 29)
    with Collection(target) as collection:
        assert len(collection) == 31


def test_unreadable_files_are_counted_listed_and_reported(folder, target, tmp_path):
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n garbage")
    (folder / "empty.jpg").write_bytes(b"")
    cut = picture(folder / "cut.png", 50).read_bytes()
    (folder / "cut.png").write_bytes(cut[: len(cut) // 2])
    report = tmp_path / "errors.csv"
    summary = index(folder, target, "--report", report, code=3)
    assert (summary["indexed"], summary["refused"]) == (30, 3)
    rows = list(csv.DictReader(report.read_text().splitlines()))
    assert {Path(row["path"]).name for row in rows} == {"broken.png", "empty.jpg", "cut.png"}
    assert all(row["reason"] for row in rows)


@pytest.mark.skipif(sys.platform != "linux", reason="setpriv is of Linux")
def test_files_without_permission_are_refused_as_such_and_tried_again(indexed, target, tmp_path):
    as_user: list[str] = []
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is not installed")
        as_user = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    source = tmp_path / "images"
    for number, (name, mode) in enumerate((("open", 0o700), ("listed", 0o400), ("closed", 0o300)), 1):
        (source / name).mkdir(parents=True)
        shutil.copy(indexed[0] / f"{number:02d}.png", source / name / "a.png")
        (source / name).chmod(mode)
    (source / "b.png").write_bytes((indexed[0] / "00.png").read_bytes())
    (source / "b.png").chmod(0)
    report = tmp_path / "report.csv"

    def run_index() -> tuple[int, list[str]]:
        arguments = ("index", source, "--collection", target, "--report", report, "--jobs", 1)
        command = [*as_user, *CBIR, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
        rows = list(csv.DictReader(report.read_text().splitlines()))
        assert all("cannot be read: no permission to read it; grant" in row["reason"] for row in rows)
        return done.returncode, sorted(row["path"].removeprefix(str(source)) for row in rows)

    try:
        assert run_index() == (3, ["/b.png", "/closed", "/listed/a.png"])
        with Collection(target) as collection:
            assert len(collection) == 1
    finally:
        for path in (source / "listed", source / "closed", source / "b.png"):
            path.chmod(0o700)
    assert run_index() == (0, [])
    with Collection(target) as collection:
        assert len(collection) == 4


def test_labels_and_patients_come_from_the_manifest(folder, target, tmp_path):
    manifest = tmp_path / "labels.csv"
    manifest.write_text(
        "path,label,patient,odd column\n"
        f"{folder}/a/01.png,knee,Jane Doe,yes\nimages/a/03.png,hand,Jane Doe,\nimages/gone.png,x,,\n"
    )
    assert index(folder, target, "--labels", manifest)["manifest_unused"] == 1
    with Collection(target) as collection:
        records = {Path(record.source).name: record for _, record in collection.iterate()}
    assert records["01.png"].labels == {"label": "knee", "odd column": "yes"}
    assert records["01.png"].patient_key == records["03.png"].patient_key
    assert records["05.png"].patient_key is None
    assert b"Jane" not in b"".join(path.read_bytes() for path in target.rglob("*") if path.is_file())
    manifest.write_text("path,label\nimages/a/01.png,ankle\n")
    assert index(folder, target, "--labels", manifest)["relabelled"] == 1
    with Collection(target) as collection:
        assert {r.labels.get("label") for _, r in collection.iterate()} == {"ankle", "hand", None}


def test_a_deleted_image_stays_deleted(indexed, target):
    folder, collection = indexed
    shutil.copytree(collection, target)
    with Collection(target) as collection:
        _, record = next(iter(collection.iterate()))
    call("collection", "delete", "--yes", record.image_id, "--collection", target)
    again = index(folder, target)
    assert (again["indexed"], again["deleted_earlier"]) == (0, 1)
    assert index(folder, target, "--restore")["indexed"] == 1


def test_copies_are_indexed_once_unless_asked(folder, target):
    shutil.copy(folder / "a" / "01.png", folder / "copy.png")
    summary = index(folder, target)
    assert (summary["indexed"], summary["duplicates"]) == (30, 1)
    assert index(folder, target, "--duplicates")["indexed"] == 1


def test_another_profile_is_refused(folder, target):
    index(folder, target, "--profile", "tamura")
    assert index(folder, target)["already"] == 30  # without --profile the collection's own is used
    _, message = call("index", folder, "--collection", target, "--profile", "huang2012", code=2)
    assert "profile tamura" in message


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["{folder}/nowhere", "--collection", "{target}"], "nowhere"),
        (["{folder}", "--collection", "{target}", "--profile", "sift"], "sift"),
        (["{folder}", "--collection", "{target}", "--labels", "{folder}/none.csv"], "none.csv"),
        (["{folder}", "--collection", "{target}", "--weight", "tamura"], "PART=FACTOR"),
        (["{folder}", "--collection", "{target}", "--jobs", "0"], "--jobs"),
        (["{folder}"], "--collection"),
    ],
)
def test_wrong_use_is_told_and_makes_nothing(folder, target, arguments, reason):
    filled = [part.format(folder=folder, target=target) for part in arguments]
    assert reason in call("index", *filled, code=2)[1]
    assert not target.exists() or len(Collection(target)) == 0


def test_a_patient_told_later_is_taken_over(indexed, target, tmp_path):
    folder, collection = indexed
    shutil.copytree(collection, target)
    manifest = tmp_path / "labels.csv"
    manifest.write_text(f"path,PatientID\n{folder}/01.png,Jane\n")
    assert index(folder, target, "--labels", manifest)["relabelled"] == 1
    proof = ("collection", "verify", "--erased", "Jane", "--collection", target)
    call(*proof, code=1)
    call("collection", "erase-patient", "--yes", "Jane", "--collection", target)
    assert "no problems" in call(*proof)[0]
    again = index(folder, target)
    assert (again["indexed"], again["deleted_earlier"]) == (0, 1)
    assert "no problems" in call(*proof)[0]
    with Collection(target) as collection:
        assert len(collection) == 9
    assert index(folder, target, "--restore")["indexed"] == 1


def test_a_name_that_is_not_utf8_is_refused_and_the_rest_indexed(folder, target, tmp_path):
    shutil.copy(folder / "a" / "01.png", os.fsencode(folder) + b"/\xff.png")
    summary = index(folder, target, "--report", tmp_path / "report.csv", code=3)
    assert (summary["indexed"], summary["refused"]) == (30, 1)
    assert "not UTF-8" in (tmp_path / "report.csv").read_text()


def test_a_moved_folder_is_found_at_its_new_place(folder, target):
    index(folder, target)
    folder.rename(folder.with_name("moved"))
    assert index(folder.with_name("moved"), target)["duplicates"] == 30
    assert index(folder.with_name("moved"), target)["already"] == 30


def test_killed_again_and_again_it_ends_with_every_image_once(tmp_path, target):
    folder, total, kills = tmp_path / "many", 1100, 2  # bench/kills.py kills more often
    for seed in range(total):
        picture(folder / f"{seed:04d}.png", seed, size=32)
    command = [
        *CBIR,
        "index",
        str(folder),
        "--collection",
        str(target),
        "--jobs",
        "2",
        "--profile",
        "huang2012",
    ]
    moments, counts = random.Random(0), [0]
    while len(counts) <= kills:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and count(target) == counts[-1]:
            time.sleep(0.05)
        time.sleep(moments.uniform(0.0, 0.1))
        process.kill()
        if process.wait() != -signal.SIGKILL:
            break
        with Collection(target) as collection:
            assert verify_collection(collection) == []
            counts.append(len(collection))
    assert 0 < counts[1] < total, "no kill hit the middle of the run"
    assert counts == sorted(counts), "acknowledged images were lost"
    ended = index(folder, target)
    assert ended["indexed"] + ended["already"] == total
    assert index(folder, target)["already"] == total
    with Collection(target) as collection:
        assert len(collection) == total
        assert verify_collection(collection) == []


def count(target: Path) -> int:
    """Images in a collection that another process may just be making."""
    if not Collection.exists(target):
        return 0
    with Collection(target) as collection:
        return len(collection)


def test_an_interrupt_ends_in_order_and_the_run_goes_on(tmp_path, target, monkeypatch):
    folder = tmp_path / "many"
    total = held_files(folder, monkeypatch)
    command = [*CBIR, "index", str(folder), "--collection", str(target), "--jobs", "1", "--profile", "tamura"]
    command += ["--format", "json", "--progress", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr
    while json.loads(process.stderr.readline())["done"] == 0:
        pass
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    first = json.loads(output)
    assert 0 < first["indexed"] < total
    release(folder)
    second = index(folder, target)
    assert (second["indexed"], second["already"]) == (total - first["indexed"], first["indexed"])
