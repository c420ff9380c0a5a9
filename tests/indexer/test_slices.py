"""Slices through `cbir index`: their order, facts of their headers, and what an older version left out."""

import os
import random
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from sqlalchemy import delete

from cbir import settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.base.reserved_labels import SLICE_PLACE
from cbir.store.base.schema import labels
from cbir.store.records.filter_conditions import DicomScope
from cbir.store.records.records import PERSON_LABELS
from cbir.store.upkeep.verify import verify_collection
from service.app import create_app
from tests.cbir.images.synthetic_series import stack, write_series
from tests.indexer.commands import index

COUNT, SPACING = 24, (5.0, 7.0, 7.0)
STUDY, SERIES = "1.2.9", "1.2"
PERSON = {
    "PatientAge": "093Y",
    "PatientSex": "F",
    "SeriesDescription": "CHEST 5.0 B31f",
    "PatientName": "Miller^A",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A series with random file names and random SOP Instance UIDs."""
    random_uids(write_series(tmp_path / "ct", stack((COUNT, 32, 32), SPACING), SPACING, SERIES, **PERSON))
    return tmp_path / "ct"


def random_uids(paths: list[Path]) -> None:
    drawn = random.Random(5)
    for number, path in enumerate(paths):
        dataset = pydicom.dcmread(path)
        dataset.InstanceNumber = number + 1
        dataset.SOPInstanceUID = dataset.file_meta.MediaStorageSOPInstanceUID = (
            f"2.25.{drawn.randrange(10**30)}"
        )
        dataset.save_as(path)


def heights(folder: Path) -> dict[str, float]:
    """Height of each instance in mm."""
    datasets = (pydicom.dcmread(path, stop_before_pixels=True) for path in folder.rglob("*.dcm"))
    return {str(each.SOPInstanceUID): float(each.ImagePositionPatient[2]) for each in datasets}


def listed(collection: Path, **query: Any) -> list[dict[str, Any]]:
    """The images of the study as the service lists them."""
    client = create_app(collection, settings.load()).test_client()
    answer = client.get("/v1/images", query_string={"study": STUDY, "limit": 10} | query)
    items = list(answer.json["items"])
    while answer.json["next"]:
        following = {"study": STUDY, "limit": 10, "cursor": answer.json["next"]} | query
        answer = client.get("/v1/images", query_string=following)
        items += answer.json["items"]
    return items


def test_slices_are_listed_by_position(folder: Path, tmp_path: Path) -> None:
    index(folder, tmp_path / "c")
    height = heights(folder)
    for query in ({}, {"series": SERIES}, {"sort": "slices", "series": SERIES}):
        assert [height[item["instance"]] for item in listed(tmp_path / "c", **query)] == sorted(
            height.values()
        )
    added = [item["instance"] for item in listed(tmp_path / "c", sort="oldest")]
    assert [height[uid] for uid in added] != sorted(height.values())
    client = create_app(tmp_path / "c", settings.load()).test_client()
    middle = client.get("/v1/series").json["items"][0]["image_id"]
    assert height[client.get(f"/v1/images/{middle}").json["instance"]] == sorted(height.values())[COUNT // 2]


def test_facts_of_the_header_are_labels_that_tell_nobody(folder: Path, tmp_path: Path) -> None:
    index(folder, tmp_path / "c")
    with Collection(tmp_path / "c") as collection:
        for _, record in collection.iterate():
            facts = {key: record.labels[key] for key in PERSON_LABELS}
            assert facts == {"age": "90", "sex": "F", "series_description": "CHEST 5.0 B31f"}
            assert list(record.labels)[:1] == ["modality"]  # what a tile shows first
    written = b"".join(path.read_bytes() for path in (tmp_path / "c").rglob("*") if path.is_file())
    assert b"Miller" not in written


def test_indexing_again_completes_what_an_older_version_left_out(folder: Path, tmp_path: Path) -> None:
    index(folder, tmp_path / "c")
    with Collection(tmp_path / "c") as collection:
        complete = [record for _, record in collection.iterate()]
    forget(tmp_path / "c")
    with Collection(tmp_path / "c") as collection, collection.writer() as writer:
        writer.set_labels(complete[0].image_id, {"sex": "unknown"})
    summary = index(folder, tmp_path / "c")
    assert (summary["already"], summary["indexed"], summary["completed"]) == (COUNT, 0, COUNT)
    with Collection(tmp_path / "c") as collection:
        again = [record for _, record in collection.iterate()]
        assert again[0].labels.pop("sex") == "unknown"  # what somebody has set stays
        assert complete[0].labels.pop("sex") == "F"
        assert again == complete
        assert verify_collection(collection) == []
    assert index(folder, tmp_path / "c")["completed"] == 0


def forget(collection: Path) -> None:
    """Take away what older versions did not store."""
    with Collection(collection) as opened, opened._engine.begin() as connection:
        connection.execute(delete(labels).where(labels.c.key.in_((SLICE_PLACE, *PERSON_LABELS))))


def test_damaged_and_foreign_files_are_not_completed(folder: Path, tmp_path: Path) -> None:
    index(folder, tmp_path / "c")
    forget(tmp_path / "c")
    broken = sorted(folder.iterdir())[0]
    stamp = broken.stat()
    broken.write_bytes(bytes(stamp.st_size))
    os.utime(broken, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert index(folder, tmp_path / "c")["completed"] == COUNT - 1


def test_two_passes_follow_each_other(tmp_path: Path) -> None:
    paths = []
    for number, name in ((1, "a"), (2, "b")):
        values = stack((10, 32, 32), SPACING, seed=number)
        values[:, :4] = 100 * np.arange(10)[:, None, None]  # so that no two pictures are the same
        paths += write_series(tmp_path / "ct" / name, values, SPACING, SERIES, AcquisitionNumber=number)
    random_uids(paths)
    index(tmp_path / "ct", tmp_path / "c")
    with Collection(tmp_path / "c") as collection:
        records = collection.records(collection.numbers_in(DicomScope(STUDY, SERIES)))
        numbers = collection.numbers_in(DicomScope(STUDY, SERIES))
    assert [Path(records[number].source).parent.name for number in numbers] == ["a"] * 10 + ["b"] * 10


def test_images_that_were_sent_are_completed_from_their_originals(folder: Path, tmp_path: Path) -> None:
    Collection.create(tmp_path / "c", profiles.get("tamura")).close()
    client = create_app(tmp_path / "c", settings.load(keep_originals=True)).test_client()
    paths = sorted(folder.iterdir())
    sent = client.post("/v1/images", data={"image": [(BytesIO(path.read_bytes()), "x") for path in paths]})
    assert sent.status_code == 201, sent.text
    height = heights(folder)
    assert [height[item["instance"]] for item in listed(tmp_path / "c")] == sorted(height.values())
    forget(tmp_path / "c")
    assert [height[item["instance"]] for item in listed(tmp_path / "c")] != sorted(height.values())
    write_series(tmp_path / "other", stack((1, 32, 32), SPACING, seed=9), SPACING, "1.9")
    assert index(tmp_path / "other", tmp_path / "c")["completed"] == COUNT
    assert [height[item["instance"]] for item in listed(tmp_path / "c")] == sorted(height.values())
