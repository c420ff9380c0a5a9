"""Days of studies: intervals without dates, kept with the images and shown as no label."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from cbir.errors import InvalidInput
from cbir.ingest.manifest import Manifest
from cbir.store import Collection
from cbir.store.base.reserved_labels import STUDY_DAY
from cbir.store.base.schema import labels
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.image_rows import insert_labels
from cbir.store.records.record_rows import stored_day
from cbir.store.records.records import DAYS, add_labels, days_between, parse_day, relative_day
from cbir.store.upkeep.collection_copy import copy_collection, export_collection
from tests.cbir.store.conftest import entry

SECRET = b"k" * 32
FILTERS = ("study_day>5", "study_day=100", "study_day!=100", "study_day?", "!study_day?", " study_day =1")
DATES = st.dates(date(1900, 1, 1), date(2100, 1, 1))


@given(
    DATES,
    DATES,
    st.text(min_size=1, max_size=8).filter(lambda text: text.strip()),
    st.binary(min_size=16, max_size=32),
)
def test_differences_are_those_of_the_dates(earlier: date, later: date, patient: str, secret: bytes) -> None:
    days = [relative_day(secret, patient, f"{day:%Y%m%d}") for day in (earlier, later)]
    assert days_between(*days) == (later - earlier).days
    assert all(day is not None and 0 <= day < DAYS for day in days)


def test_another_patient_or_key_counts_from_another_day() -> None:
    days = {
        relative_day(secret, patient, "20200301")
        for secret in (SECRET, b"l" * 32)
        for patient in ("a", "b", "c")
    }
    assert len(days) == 6
    assert relative_day(SECRET, " a ", "20200301") == relative_day(SECRET, "a", "20200301")


def test_the_numbers_of_a_date_are_spread_over_the_whole_cycle() -> None:
    """What a day is says nothing of its date: those of many patients fill each tenth of the cycle alike."""
    for text in ("19500101", "20260101"):
        days = [relative_day(SECRET, str(patient), text) or 0 for patient in range(5000)]
        counts = [sum(10 * day // DAYS == tenth for day in days) for tenth in range(10)]
        assert min(counts) > 400
        assert max(counts) < 600


@pytest.mark.parametrize(
    "text", ["", "2020", "20201301", "20200230", "2020030a", "２０２００３０１", "20200301-20200401"]
)
def test_no_day_without_a_date(text: str) -> None:
    assert relative_day(SECRET, "a", text) is None
    assert relative_day(SECRET, "  ", "20200301") is None
    assert days_between(None, 4) is days_between(4, None) is None


def test_a_manifest_gives_whole_days() -> None:
    assert days_between(parse_day("-3"), parse_day(" 9 ")) == 12
    for text in ("x", "1.5", "", "12345678", "²", "--1"):
        with pytest.raises(InvalidInput, match="study_day"):
            parse_day(text)


def test_a_manifest_with_another_day_is_refused(tmp_path: Path) -> None:
    manifest = tmp_path / "labels.csv"
    manifest.write_text("path,patient,study_day\na.png,p,12\nb.png,p,\n")
    rows = Manifest(manifest).labels([tmp_path / "a.png", tmp_path / "b.png"])
    assert [row.get(STUDY_DAY) for row in rows.values()] == ["12", None]
    manifest.write_text("path,patient,study_day\na.png,p,2024-01-10\n")
    with pytest.raises(InvalidInput, match="line 2: study_day is a whole number of days"):
        Manifest(manifest)


def test_a_day_is_dropped_where_a_manifest_names_another_patient() -> None:
    record = replace(entry(1)[0], patient_key=None, study_day=5)
    known = add_labels(record, {"patient": "a"}, SECRET)
    assert known.study_day is None
    assert add_labels(replace(known, study_day=7), {"patient": "a", "label": "x"}, SECRET).study_day == 7
    given = add_labels(record, {"patient": "a", STUDY_DAY: "12"}, SECRET)
    assert (given.study_day, STUDY_DAY in given.labels) == (12, False)


@pytest.fixture
def kept(collection: Collection) -> Collection:
    """Six images of two patients, with days but for the last."""
    entries = [entry(n, f"p{n % 2}", {"a": str(n)}) for n in range(6)]
    with collection.writer() as writer:
        writer.add(
            [(replace(r, study_day=100 + n if n < 5 else None), v) for n, (r, v) in enumerate(entries)]
        )
        writer.finish()
    return collection


def days_of(collection: Collection) -> list[int | None]:
    return [record.study_day for _, record in collection.iterate()]


def test_days_are_no_labels(kept: Collection) -> None:
    assert days_of(kept) == [100, 101, 102, 103, 104, None]
    assert {key for _, record in kept.iterate() for key in record.labels} == {"a"}
    assert [key.key for key in kept.list_label_keys()] == ["a"] == [*kept.label_keys()]
    assert [*kept.counts()["labels"]] == ["a"] == [*kept.info()["labels"]]
    with pytest.raises(InvalidInput, match=r"no image has a label 'b'.*Labels: a$"):
        kept.conditions(["b>5"])
    for text in FILTERS:
        with pytest.raises(InvalidInput, match="study_day is reserved"):
            kept.conditions([text])
    for attempt in (
        lambda: kept.list_label_values(STUDY_DAY),
        lambda: kept.label_values(STUDY_DAY, 1),
        lambda: kept.labels_by_number(STUDY_DAY),
        lambda: kept.numeric_labels(STUDY_DAY),
        lambda: kept.labelled_vectors(STUDY_DAY),
    ):
        with pytest.raises(InvalidInput, match="study_day is reserved"):
            attempt()
    limited = LimitedCollection(kept, kept.conditions(["a>=3"]))
    assert days_of(limited) == [103, 104, None]
    assert [key.key for key in limited.list_label_keys()] == ["a"]
    limited.close()


def test_nobody_sets_a_day_as_a_label(kept: Collection) -> None:
    image_id = entry(1)[0].content_hash
    with kept.writer() as writer:
        for change in (
            lambda: writer.set_labels(image_id, {STUDY_DAY: "1"}),
            lambda: writer.set_labels(image_id, {STUDY_DAY: None}),
            lambda: writer.label_images(STUDY_DAY, {image_id: "1"}),
        ):
            with pytest.raises(InvalidInput, match="study_day is reserved"):
                change()
        writer.set_labels(image_id, {"a": None})
    assert days_of(kept)[1] == 101


def test_a_file_that_changes_hands_loses_its_day(kept: Collection) -> None:
    source = kept.record(entry(1)[0].content_hash).source
    with kept.writer() as writer:
        writer.relabel(source, {"a": "x"}, kept.record(entry(1)[0].content_hash).patient_key)
        assert days_of(kept)[1] == 101
        writer.relabel(source, {}, "other")
        assert days_of(kept)[1] is None
        assert writer.relabel(source, {STUDY_DAY: "-1"}, "third")
        assert days_of(kept)[1] == DAYS - 1
        assert not writer.relabel(source, {STUDY_DAY: "-01"}, "third")


def test_a_copy_of_a_missing_file_gives_its_day_to_the_same_patient_alone(kept: Collection) -> None:
    record, vector = entry(1, "p1", {"a": "1"})
    key = kept.record(record.content_hash).patient_key
    with kept.writer() as writer:
        writer.source_exists = lambda source: False
        writer.add([(replace(record, source="/copy", patient_key="other", study_day=7), vector)])
        assert days_of(kept)[1] == 101
        writer.add([(replace(record, source="/copy2", patient_key=key, study_day=7), vector)])
    assert days_of(kept)[1] == 7


def test_a_label_of_an_older_collection_that_is_no_day(kept: Collection) -> None:
    with kept._engine.begin() as connection:
        insert_labels(connection, [(STUDY_DAY, "Monday", 6)])
    assert days_of(kept)[5] is None
    assert [stored_day(text) for text in ("-3", "0", "", "-", "²", "2024-01-10", None)] == [-3, 0] + 5 * [
        None
    ]


def test_a_changed_file_gets_its_new_day(kept: Collection) -> None:
    record, vector = entry(1, "p1", {"a": "1"})
    with kept.writer() as writer:
        writer.add([(replace(record, source_stamp="new", study_day=7), vector)])
        assert days_of(kept)[1] == 7
        writer.add([(replace(record, source_stamp="newer"), vector)])
    assert days_of(kept)[1] is None


def test_erasing_a_patient_erases_days(kept: Collection) -> None:
    with kept.writer() as writer:
        writer.erase_patient(["p1"])
    assert days_of(kept) == [100, 102, 104]
    with kept._engine.connect() as connection:
        numbers = connection.scalars(select(labels.c.number).where(labels.c.key == STUDY_DAY)).all()
    assert {*numbers} == {number for number, _ in kept.iterate()}


def test_copies_keep_days_and_exports_do_not(kept: Collection, tmp_path: Path) -> None:
    copy_collection(kept, tmp_path / "copy", lambda *_: None)
    with Collection(tmp_path / "copy") as copy:
        assert days_of(copy) == days_of(kept)
        assert copy.secret == kept.secret
    export_collection(kept, tmp_path / "export")
    assert STUDY_DAY not in (tmp_path / "export" / "records.csv").read_text()
