"""`cbir collection redescribe`: the same images with another profile, in a second collection."""

import csv
import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from cbir import descriptors
from cbir.images import Limits, read_images
from cbir.ingest.decoder_tasks import describe_bytes
from cbir.ingest.description import DescribeTask
from cbir.ingest.intake_check import ReceivedFile, add_received_files
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.erasure import find_traces
from cbir.store.index.open_index import open_index
from cbir.store.records import originals
from cbir.store.records.records import hash_patient
from cbir.store.upkeep.verify import verify_collection
from tests.held_files import hold_opening, release
from tests.indexer.commands import call, index
from tests.indexer.conftest import picture

pytestmark = pytest.mark.slow

CARRIED = (
    "images", "labels", "thumbnails", "instance_copies", "originals", "forgotten", "erased", "changes",
    "changed_images",
)  # fmt: skip


def redescribe(old: Path, new: Path, *more: object, code: int = 0) -> dict[str, Any]:
    """Run `cbir collection redescribe` to the profile tamura; its summary."""
    options = ("--collection", old, "--profile", "tamura", "--jobs", 1, "--format", "json", *more)
    return dict(json.loads(call("collection", "redescribe", new, *options, code=code)[0]))


def rows(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of a collection but its vectors and settings."""
    with sqlite3.connect(folder / "collection.sqlite") as connection:
        found = {name: sorted(connection.execute(f"SELECT * FROM {name}"), key=repr) for name in CARRIED}
    connection.close()
    return found


def upload(folder: Path, path: Path, keep: bool = True) -> str:
    """Add a picture as the service does; its id."""
    with Collection(folder) as collection, collection.writer() as writer:
        data = path.read_bytes()
        task = DescribeTask(collection.profile, collection.secret, Limits())
        described = describe_bytes(data, path.name, originals.source_of(data), task, True)
        return add_received_files(writer, [ReceivedFile(data, described)], keep_originals=keep).ids[0]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with twelve pictures of three patients, a file of two pages, and their collection; to be copied."""
    root = tmp_path_factory.mktemp("redescribe")
    for seed in range(12):
        picture(root / "images" / f"{seed:02d}.png", seed)
    pages = [cv2.imread(str(picture(root / f"{seed}.png", seed)), 0) for seed in (50, 51)]
    assert cv2.imwritemulti(str(root / "images" / "pages.tiff"), pages)
    with (root / "labels.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "label", "patient"])
        table.writerows([f"images/{n:02d}.png", "odd" if n % 2 else "even", f"P{n // 4}"] for n in range(12))
    index(root / "images", root / "old", "--labels", root / "labels.csv", "--profile", "huang2012")
    upload(root / "old", picture(root / "uploaded.png", 60))
    with Collection(root / "old") as collection, collection.writer() as writer:
        ids = [record.image_id for _, record in collection.iterate()]
        writer.delete(ids[:1])
        writer.set_labels(ids[1], {"label": "changed", "note": "new"})
    return root


@pytest.fixture
def old(made: Path, tmp_path: Path) -> Path:
    """A copy of the collection, to be changed; its images stay where they are."""
    return Path(shutil.copytree(made / "old", tmp_path / "old"))


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return tmp_path / "new"


def test_everything_but_the_vectors_is_carried_over(old, new):
    before = (old / "collection.sqlite").read_bytes()
    summary = redescribe(old, new)
    assert (summary["described"], summary["refused"]) == (14, 0)
    assert rows(new) == rows(old)
    assert len(rows(new)["thumbnails"]) == 1
    assert (old / "collection.sqlite").read_bytes() == before
    assert (new / "patient.key").read_text() == (old / "patient.key").read_text()
    with Collection(old) as source, Collection(new) as target:
        assert verify_collection(target) == []
        assert target.profile.name == "tamura"
        assert [change.what for change in target.history()] == [change.what for change in source.history()]
        assert target.view().statistics.fitted_on == 14
        for _, record in target.iterate():
            path = originals.original_path(new, record.source) or Path(record.source)
            image = list(read_images(path))[(record.frame or 1) - 1]
            np.testing.assert_array_equal(target.vector(record.image_id), descriptors.get("tamura")(image))
    for folder in (old, new):  # what was deleted stays deleted, and the next image gets the same number
        picture(folder.parent / "more.png", 70)
        assert index(folder.parent / "more.png", folder)["indexed"] == 1
    assert [row[0] for row in rows(new)["images"]] == [row[0] for row in rows(old)["images"]]


def test_vector_index_of_the_second_collection_follows(old, new, monkeypatch):
    monkeypatch.setenv("CBIR_INDEX", "hnsw")
    redescribe(old, new)
    with Collection(new) as target:
        index = open_index(target, Settings(index="hnsw"))
        assert index
        status = index.status()
        assert (status.images, status.behind, status.problem) == (14, 0, None)


def test_again_carries_over_what_has_changed(old, new, made):
    redescribe(old, new)
    assert redescribe(old, new)["described"] == 0
    uploaded = upload(old, picture(old.parent / "second.png", 61))
    index(picture(old.parent / "more" / "71.png", 71).parent, old)
    with Collection(old) as collection, collection.writer() as writer:
        ids = [record.image_id for _, record in collection.iterate()]
        writer.delete([ids[2]])
        writer.set_labels(ids[3], {"label": None, "site": "A"})
        writer.relabel(collection.record(ids[4]).source, {}, "ab" * 16)
    summary = redescribe(old, new)
    assert (summary["described"], summary["removed"], summary["updated"]) == (2, 1, 2)
    assert rows(new) == rows(old)
    assert (new / "originals").is_dir()
    with Collection(new) as collection:
        assert verify_collection(collection) == []
        assert ids[2] not in {record.image_id for _, record in collection.iterate()}
    with Collection(old) as collection, collection.writer() as writer:
        writer.delete([uploaded])
    redescribe(old, new)
    assert [path.name for path in (new / "originals").iterdir()] == [
        path.name for path in (old / "originals").iterdir()
    ]


def test_an_erased_patient_does_not_survive(old, new):
    with Collection(old) as collection:
        key = hash_patient(collection.secret, "P1")
        erased = [record.image_id for _, record in collection.iterate() if record.patient_key == key]
        with collection.writer() as writer:  # one of the images was deleted before, and named in the history
            writer.set_labels(erased[0], {"note": "x"})
            writer.delete(erased[:1])
    redescribe(old, new)
    assert any(key.encode() in path.read_bytes() for path in new.rglob("*") if path.is_file())
    with Collection(old) as collection, collection.writer() as writer:
        assert writer.erase_patient([key]) == 3
    assert redescribe(old, new)["removed"] == 3
    assert rows(new) == rows(old)
    contents = [path.read_bytes() for path in new.rglob("*") if path.is_file()]
    assert not [content for content in contents if any(i.encode() in content for i in (key, *erased))]
    with Collection(new) as collection:
        assert verify_collection(collection) == []
        assert find_traces(collection, [key]) == []
        assert collection.view().statistics.fitted_on == len(collection) == 10
    assert index(Path(rows(new)["images"][0][3]).parent, new)["deleted_earlier"] >= 3


def test_who_is_erased_in_the_new_collection_stays_out(old, new):
    redescribe(old, new)
    with Collection(new) as collection, collection.writer() as writer:
        key = hash_patient(collection.secret, "P2")
        assert writer.erase_patient([key]) == 4
    summary = redescribe(old, new, code=3)
    assert (summary["described"], summary["refused"]) == (0, 4)
    assert "erase it in the other" in summary["examples"][0][1]
    with Collection(new) as collection:
        assert find_traces(collection, [key]) == []
        assert next(change.what for change in collection.history()) == "erased"
    assert redescribe(old, new, code=3)["refused"] == 4


def test_images_without_a_readable_file_are_reported_by_id(old, new, made, tmp_path):
    moved = Path(shutil.copytree(made / "images", tmp_path / "images"))
    other = tmp_path / "other"
    index(moved, other, "--profile", "huang2012")
    lost = upload(other, picture(tmp_path / "x.png", 80), keep=False)
    with Collection(other) as collection:
        by_file = {Path(record.source).name: record.image_id for _, record in collection.iterate()}
    (moved / "00.png").unlink()
    picture(moved / "01.png", 99)
    (moved / "02.png").write_bytes(b"no picture")
    report = tmp_path / "report.csv"
    summary = redescribe(other, new, "--report", report, code=3)
    assert (summary["described"], summary["refused"]) == (11, 4)
    reasons = {row["image_id"]: row["reason"] for row in csv.DictReader(report.read_text().splitlines())}
    assert reasons.keys() == {by_file["00.png"], by_file["01.png"], by_file["02.png"], lost}
    assert "no longer" in reasons[by_file["00.png"]]
    assert "another picture" in reasons[by_file["01.png"]]
    assert "its file" in reasons[by_file["02.png"]]
    assert "original" in reasons[lost]
    assert "02.png" not in report.read_text()
    shutil.copy(made / "images" / "00.png", moved)
    assert redescribe(other, new, code=3)["described"] == 1


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of more pictures than are stored together; not to be changed."""
    root = tmp_path_factory.mktemp("many")
    for seed in range(600):
        picture(root / "images" / f"{seed:03d}.png", seed, 20)
    index(root / "images", root / "old", "--profile", "edge_histogram")
    return root / "old"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_an_interrupted_run_is_continued(many, new, number, code, monkeypatch):
    folder = many.parent / "images"
    (folder / "released").unlink(missing_ok=True)
    hold_opening(folder / "599.png", monkeypatch)
    options = ("--collection", many, "--profile", "tamura", "--jobs", 1)
    command = [sys.executable, "-m", "cbir.api.main", "collection", "redescribe", new, *options]
    with subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not Collection.exists(new) or not len(rows(new)["images"]):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        release(folder)
        process.communicate(timeout=300)
    assert process.returncode == code
    done = len(rows(new)["images"])
    assert 0 < done < 600
    summary = redescribe(many, new)
    assert (summary["already"], summary["described"]) == (done, 600 - done)
    with Collection(new) as collection:
        assert verify_collection(collection) == []


def test_a_folder_that_holds_something_else_is_left_alone(old, new, made, tmp_path):
    redescribe(old, new)
    for arguments, reason in (
        ((old, old), "is the collection itself"),
        ((old, new, "--profile", "color_layout"), "has profile tamura"),
    ):
        assert reason in refused(*arguments)
    with Collection(new) as collection, collection.writer() as writer:
        writer.set_labels(next(record.image_id for _, record in collection.iterate()), {"a": "b"})
    assert "changes of its own" in refused(old, new)
    index(made / "images", tmp_path / "stranger", "--profile", "tamura")
    assert "another patient key" in refused(old, tmp_path / "stranger")


def refused(old: Path, new: Path, *more: object) -> str:
    """Run `cbir collection redescribe`, which must be refused; the reason."""
    options = more or ("--profile", "tamura")
    printed, errors = call(
        "collection", "redescribe", new, "--collection", old, "--jobs", 1, *options, code=2
    )
    assert printed == ""
    return errors


def test_what_was_added_to_the_new_collection_can_be_carried_back(old, new, tmp_path):
    redescribe(old, new)
    index(picture(tmp_path / "more" / "71.png", 71).parent, new)
    back = ("--collection", new, "--profile", "huang2012", "--jobs", 1, "--format", "json")
    summary = json.loads(call("collection", "redescribe", old, *back)[0])
    assert (summary["described"], summary["already"]) == (1, 14)
    assert rows(old) == rows(new)


def test_going_back_keeps_and_reports_images_that_could_not_be_described(old, new, tmp_path):
    lost = upload(old, picture(tmp_path / "x.png", 80), keep=False)
    assert redescribe(old, new, code=3)["refused"] == 1
    report = tmp_path / "report.csv"
    back = ("--collection", new, "--profile", "huang2012", "--jobs", 1)
    summary = json.loads(
        call("collection", "redescribe", old, *back, "--format", "json", "--report", report, code=3)[0]
    )
    assert (summary["kept"], summary["refused"], summary["removed"]) == (1, 0, 0)
    assert [row["image_id"] for row in csv.DictReader(report.read_text().splitlines())] == [lost]
    assert lost in {row[1] for row in rows(old)["images"]}
    printed = call("collection", "redescribe", old, *back, code=3)[0]
    assert "1 image is in the second collection only, and was kept" in printed
    assert f"{lost}: only the second collection has it" in printed
