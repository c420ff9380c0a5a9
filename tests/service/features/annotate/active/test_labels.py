"""Severities as labels of a collection's images."""

from pathlib import Path

import numpy as np
import pytest

from cbir.errors import CollectionBusy, InvalidInput
from cbir.learn.grading import SeverityRanker
from cbir.learn.grading.grader import fit_grader
from cbir.learn.severity.stored_ranker import write_severity
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.base import stored_models
from cbir.store.base.collection_folder import writer_lock
from cbir.store.records.filter_conditions import parse_filter
from cbir.store.records.records import Record


@pytest.fixture
def collection(tmp_path: Path) -> Collection:
    """Five images of Tamura vectors, a snapshot of them, and one label."""
    made = Collection.create(tmp_path / "collection", profiles.get("tamura"))
    with made.writer() as writer:
        writer.add([_entry(number) for number in range(5)])
        writer.finish()
    return made


def _entry(number: int) -> tuple[Record, np.ndarray]:
    record = Record(
        content_hash=f"{number:032x}",
        source=f"/images/{number}.png",
        source_stamp="1",
        format="png",
        width=9,
        height=9,
        labels={"grade": str(number)},
    )
    return record, np.random.default_rng(number).normal(5.0, 2.0, 6).astype(np.float32)


def _ids(collection: Collection, *where: str) -> list[str]:
    found = collection.page(0, 100, [parse_filter(text) for text in where])
    return [record.image_id for _, record in found]


def test_filters_compare_the_severity(collection: Collection) -> None:
    ids = _ids(collection)
    assert write_severity(collection, ids, [0.25, 1.5, -2.0, 10.0, 1.49996]) == 5
    assert _ids(collection, "severity>=1.5") == [ids[1], ids[3], ids[4]]  # four digits are kept
    assert _ids(collection, "severity>1.5") == [ids[3]]
    assert _ids(collection, "severity<0") == [ids[2]]
    assert _ids(collection, "severity<=0.25") == [ids[0], ids[2]]
    assert _ids(collection, "severity>=1.5", "grade=3") == [ids[3]]


def test_search_filters_by_it(collection: Collection) -> None:
    ids = _ids(collection)
    before = collection.view()
    write_severity(collection, ids[:3], [1.0, 2.0, 3.0])
    current = collection.view()
    rows = collection.select_rows(current, [parse_filter("severity>=2")])
    assert current.generation > before.generation
    assert rows is not None
    assert len(rows) == 2


def test_other_labels_stay_and_new_values_replace_old_ones(collection: Collection) -> None:
    ids = _ids(collection)
    write_severity(collection, ids, np.arange(5))
    assert write_severity(collection, [*ids[:2], "gone"], [0.0, 7.0, 3.0]) == 1
    assert collection.record(ids[0]).labels == {"grade": "0", "severity": "0.0000"}
    assert collection.record(ids[1]).labels == {"grade": "1", "severity": "7.0000"}
    assert collection.record(ids[4]).labels == {"grade": "4", "severity": "4.0000"}


def test_nothing_changes_with_the_same_values(collection: Collection) -> None:
    ids = _ids(collection)
    write_severity(collection, ids, np.zeros(5))
    generation = collection.generation()
    assert write_severity(collection, ids, np.full(5, -1e-9)) == 0
    assert write_severity(collection, [], []) == 0
    assert collection.generation() == generation


def test_vectors_stay_as_they_are(collection: Collection) -> None:
    ids = _ids(collection)
    snapshot, vector = collection.info()["snapshot"], collection.vector(ids[0])
    write_severity(collection, ids, np.arange(5.0))
    assert collection.info()["snapshot"] == snapshot
    assert np.array_equal(collection.vector(ids[0]), vector)


@pytest.mark.parametrize("values", [[1.0], [1.0, float("nan")], [1.0, float("inf")], [[1.0, 2.0]]])
def test_what_is_no_severity_is_refused(collection: Collection, values: list[float]) -> None:
    with pytest.raises(InvalidInput, match="2 images need as many finite severities"):
        write_severity(collection, _ids(collection)[:2], values)


def test_one_image_twice_is_refused(collection: Collection) -> None:
    with pytest.raises(InvalidInput, match="occurs twice"):
        write_severity(collection, _ids(collection)[:1] * 2, [1.0, 2.0])


def test_another_writer_is_respected(collection: Collection) -> None:
    with writer_lock(collection.folder), pytest.raises(CollectionBusy):
        write_severity(collection, _ids(collection), np.arange(5.0))
    assert _ids(collection, "severity>=0") == []


def test_grades_by_severity_hold_for_the_images_of_its_study(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "collection", profiles.get("tamura"))
    with collection.writer() as writer:
        entries = [_entry(number) for number in range(24)]
        for number, (record, _) in enumerate(entries):
            record.labels.update({"grade": str(number % 4), "source": "knee" if number < 16 else "lung"})
        writer.add(entries)
        writer.finish()
    write_severity(collection, _ids(collection, "source=knee"), np.tile(np.arange(4.0), 4))
    with pytest.raises(InvalidInput, match="8 of 24 graded images have no number"):
        fit_grader(collection, "grade", SeverityRanker())
    folder = collection.folder / stored_models.SEVERITY_FOLDER
    folder.mkdir()
    (folder / stored_models.SEVERITY_CARD).write_text('{"where": ["source=knee"]}')
    stored = fit_grader(collection, "grade", SeverityRanker())
    assert (stored.images, stored.where) == (16, ("source=knee",))
