"""Rows of a manifest whose files show a picture that is there already: their labels stay with the picture."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from cbir.store import Collection
from cbir.store.records.records import Record
from tests.indexer.commands import call, index

NAMES = ("a.png", "b.png", "c.png")  # the first two show the same


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for name, seed in zip(NAMES, (1, 1, 2), strict=True):
        pixels = np.random.default_rng(seed).integers(0, 256, (40, 40), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "in" / name)
    return tmp_path / "in"


def run(folder: Path, manifest: str, *more: object, code: int = 0) -> dict[str, Any]:
    table = folder.parent / "labels.csv"
    table.write_text("".join(f"in/{line}\n" if n else f"{line}\n" for n, line in enumerate(manifest.split())))
    return index(folder, folder.parent / "c", "--labels", table, *more, code=code)


def record_of(folder: Path, name: str) -> Record:
    with Collection(folder.parent / "c") as collection:
        return next(record for _, record in collection.iterate() if Path(record.source).name == name)


def test_labels_of_a_duplicate_stay_with_the_picture(folder: Path) -> None:
    summary = run(folder, "path,label,patient b.png,fracture,P1 c.png,normal,P2")
    assert (summary["indexed"], summary["duplicates"], summary["relabelled"]) == (2, 1, 1)
    assert (summary["conflicts"], summary["manifest_unused"], summary["manifest_lost"]) == (0, 0, 0)
    kept = record_of(folder, "a.png")
    assert kept.labels == {"label": "fracture"}
    assert kept.patient_key not in (None, record_of(folder, "c.png").patient_key)
    again = run(folder, "path,label,patient b.png,fracture,P1 c.png,normal,P2")
    assert (again["relabelled"], again["conflicts"]) == (0, 0)


def test_labels_come_together_from_both_rows(folder: Path) -> None:
    run(folder, "path,label,side a.png,fracture, b.png,fracture,left")
    assert record_of(folder, "a.png").labels == {"label": "fracture", "side": "left"}


def test_a_later_run_labels_the_picture_too(folder: Path) -> None:
    index(folder, folder.parent / "c")
    assert run(folder, "path,label b.png,fracture")["relabelled"] == 1
    assert record_of(folder, "a.png").labels == {"label": "fracture"}


def test_conflicts_are_listed_with_both_paths_and_the_first_label_stays(folder: Path) -> None:
    report = folder.parent / "report.csv"
    manifest = "path,label,patient a.png,fracture,Miller b.png,normal,Smith c.png,normal,P2"
    summary = run(folder, manifest, "--report", report, code=3)
    assert (summary["conflicts"], summary["refused"], summary["relabelled"]) == (2, 0, 0)
    assert record_of(folder, "a.png").labels == {"label": "fracture"}
    with report.open(newline="") as file:
        rows = [(Path(row["path"]).name, row["reason"]) for row in csv.DictReader(file)]
    first = str(folder / "a.png")
    assert [name for name, _ in rows] == ["b.png"] * 3
    assert rows[0][1].startswith("left out: the same picture as")
    assert rows[1][1] == f"is of another patient than {first}, which has the same picture and was there first"
    assert rows[2][1].startswith(f"its label is normal, but fracture for {first}, ")
    options = ("--collection", folder.parent / "c", "--labels", folder.parent / "labels.csv", "--jobs", 1)
    printed = call("index", folder, *options, code=3)[0]
    assert "2 labels of duplicates differ from those of the picture, which stay:" in printed
    assert str(folder / "b.png") in printed
    assert first in printed
    assert "Smith" not in printed + report.read_text()


def test_two_duplicates_that_contradict_each_other(folder: Path) -> None:
    (folder / "d.png").write_bytes((folder / "a.png").read_bytes())
    summary = run(folder, "path,label b.png,fracture d.png,normal", code=3)
    assert (summary["conflicts"], summary["relabelled"]) == (1, 1)
    assert [Path(path).name for path, _ in summary["conflict_examples"]] == ["d.png"]


def test_rows_whose_labels_are_with_no_picture_are_counted(folder: Path) -> None:
    (folder / "d.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    summary = run(folder, "path,label a.png,x d.png,y e.png,z", code=3)
    assert (summary["manifest_lost"], summary["manifest_unused"]) == (1, 1)


def test_what_counts_for_another_patient_does_not_come_to_the_picture(folder: Path) -> None:
    manifest = "path,patient,study_day,age,side a.png,Miller,,, b.png,Smith,7,45,left"
    assert run(folder, manifest, code=3)["conflicts"] == 1
    kept = record_of(folder, "a.png")
    assert (kept.study_day, kept.labels) == (None, {"side": "left"})


def test_rows_of_pictures_that_were_deleted_are_counted(folder: Path) -> None:
    run(folder, "path,label c.png,x")
    image = record_of(folder, "c.png").image_id
    with Collection(folder.parent / "c") as collection, collection.writer() as writer:
        writer.delete([image])
    summary = run(folder, "path,label c.png,x")
    assert (summary["deleted_earlier"], summary["manifest_lost"], summary["manifest_unused"]) == (1, 1, 0)
