"""Images in the order of their slices, whose places are rows of the table of labels that nobody else sees."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from cbir.errors import InvalidInput
from cbir.images.slice_order import CYCLE, DAY, SlicePlace
from cbir.search import hit_selection
from cbir.search.hit_selection import CardWriter
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base.reserved_labels import SLICE_PLACE
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import DicomScope
from cbir.store.records.image_order import Position, SliceFacts, parse_order
from cbir.store.records.image_rows import insert_labels
from cbir.store.records.label_changes import DuplicateLabels
from cbir.store.records.records import stored_place
from cbir.store.upkeep.archive_instances import move_quarantined, move_to_patient
from cbir.store.upkeep.collection_copy import copy_collection
from cbir.store.upkeep.quarantine_release import read_quarantined
from tests.cbir.store.conftest import entry

AXIAL = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
SCOPE = DicomScope("1.2", "1.2.3")
COUNT = 12
SECRET = b"k" * 32


@pytest.fixture
def kept(collection: Collection) -> Collection:
    """A collection of slices that were added at random; the label z says where each of them lies."""
    added = []
    for number in random.Random(1).sample(range(COUNT), COUNT):
        record, vector = entry(number, "p", {"z": str(number)})
        location = SlicePlace((0.0, 0.0, 2.5 * number), AXIAL, instance=COUNT - number)
        uid = random.Random(number).randrange(10**12)
        facts = {"study": "1.2", "series": "1.2.3", "instance": f"1.2.3.{uid}", "format": "dicom"}
        added.append((replace(record, slice_place=location.to_text(), **facts), vector))
    with collection.writer() as writer:
        writer.add(added[:7])
        writer.add(added[7:])
    return collection


def places(kept: Collection, numbers: list[int]) -> list[int]:
    records = kept.records(numbers)
    return [int(records[number].labels["z"]) for number in numbers]


def test_slices_come_in_the_order_of_their_places(kept: Collection) -> None:
    assert places(kept, kept.numbers_in(SCOPE)) == [*range(COUNT)]
    assert places(kept, kept.numbers_in(DicomScope("1.2"))) == [*range(COUNT)]
    (group,) = kept.dicom_groups("series", None, 10)
    assert kept.record(group.middle).labels["z"] == str(COUNT // 2)
    where = kept.conditions(["z>8"])
    assert kept.record(kept.dicom_groups("study", None, 10, where)[0].middle).labels["z"] == "10"


def test_pages_of_slices_go_on_where_they_ended(kept: Collection) -> None:
    order, seen, after = parse_order("slices"), [], None
    while page := kept.sorted_page(order, after, 5, scope=SCOPE):
        seen += [int(record.labels["z"]) for _, record in page]
        after = page[-1][0]
    assert seen == [*range(COUNT)]
    page = kept.sorted_page(order, None, 3, scope=SCOPE)
    with kept.writer() as writer:
        writer.delete([page[-1][1].image_id])
    (_, following), *_ = kept.sorted_page(order, page[-1][0], 3, scope=SCOPE)
    assert following.labels["z"] == "3"
    with kept.writer() as writer:
        writer.delete([page[0][1].image_id])
    position, record = kept.sorted_page(order, None, 5, scope=SCOPE)[-1]
    with kept.writer() as writer:
        writer.delete([page[1][1].image_id])
    (_, following), *_ = kept.sorted_page(order, position, 3, scope=SCOPE)
    assert int(following.labels["z"]) == int(record.labels["z"]) + 1  # though all places moved
    assert kept.sorted_page(order, Position(10**9, "x"), 3, scope=SCOPE) == []
    with pytest.raises(InvalidInput, match="name its study too"):
        kept.sorted_page(order, None, 3)


def test_a_caller_with_limits_goes_through_the_own_slices(kept: Collection) -> None:
    limited = LimitedCollection(kept, kept.conditions(["z>=8"]))
    assert [record.labels["z"] for record in limited.records(limited.numbers_in(SCOPE)).values()] != []
    assert places(kept, limited.numbers_in(SCOPE)) == [8, 9, 10, 11]
    assert limited.dicom_groups("study", None, 5)[0].images == 4
    limited.close()


def test_the_middle_of_a_study_is_in_the_series_that_holds_it(kept: Collection) -> None:
    facts = {"study": "1.2", "series": "1.2.10", "format": "dicom"}
    with kept.writer() as writer:
        for number in range(100, 120):
            place = SlicePlace((0.0, 0.0, float(number)), AXIAL).to_text()
            record, vector = entry(number, "p", {"z": str(number)})
            writer.add([(replace(record, slice_place=place, instance=f"1.{number}", **facts), vector)])
    scope = DicomScope("1.2")
    numbers = kept.numbers_in(scope)
    (group,) = kept.dicom_groups("study", None, 5)
    assert places(kept, numbers) == [*range(COUNT), *range(100, 120)]
    assert kept.record(group.middle).labels["z"] == str(places(kept, numbers)[len(numbers) // 2])


def test_images_of_an_older_collection_follow_their_uids(kept: Collection) -> None:
    records = [replace(record, slice_place="") for _, record in kept.iterate()]
    ids = [record.image_id for record in records]
    with kept.writer() as writer:
        writer.delete(ids)
        writer.add([(replace(record, image_id=""), entry(1)[1]) for record in records], restore=True)
    shown = kept.records(kept.numbers_in(SCOPE)).values()
    in_order = [kept.records([number])[number].instance for number in kept.numbers_in(SCOPE)]
    assert len(shown) == COUNT
    assert in_order == sorted(in_order, key=lambda uid: int(uid.rpartition(".")[2]))


def test_places_are_no_labels(kept: Collection, tmp_path: Path) -> None:
    assert [key.key for key in kept.list_label_keys()] == ["z"]
    assert SLICE_PLACE not in kept.label_keys()
    with pytest.raises(InvalidInput, match="slice_place is reserved for the places of slices"):
        kept.conditions(["slice_place?"])
    record = next(record for _, record in kept.iterate())
    with kept.writer() as writer:
        with pytest.raises(InvalidInput, match="slice_place is reserved"):
            writer.set_labels(record.image_id, {SLICE_PLACE: None})
        writer.relabel(record.source, {SLICE_PLACE: "x", "side": "left"})
        writer.merge_labels([DuplicateLabels(record.image_id, "/copy.png", {SLICE_PLACE: "x"})])
    changed = kept.record(record.image_id)
    assert (changed.slice_place, changed.labels["side"]) == (record.slice_place, "left")
    copy_collection(kept, tmp_path / "copy", lambda *_: None)
    with Collection(tmp_path / "copy") as copy:
        assert places(copy, copy.numbers_in(SCOPE)) == [*range(COUNT)]


def test_a_label_of_an_older_collection_that_is_no_place(kept: Collection) -> None:
    record, vector = entry(99)
    with kept.writer() as writer:
        writer.add([(replace(record, study="1.2", series="1.2.3", instance="1.2.3.1"), vector)])
    with kept._engine.begin() as connection:
        insert_labels(connection, [(SLICE_PLACE, "left of the heart", COUNT + 1)])
    assert len(kept.numbers_in(SCOPE)) == COUNT + 1


def test_a_changed_file_gets_its_new_place_and_a_copy_that_of_its_instance(kept: Collection) -> None:
    number, record = next(kept.iterate())
    moved = SlicePlace((0.0, 0.0, 999.0), AXIAL).to_text()
    vector = entry(1)[1]
    with kept.writer() as writer:
        writer.add([(replace(record, image_id="", source_stamp="new", slice_place=moved), vector)])
        assert kept.numbers_in(SCOPE)[-1] == number
        writer.source_exists = lambda source: False
        copy = replace(record, image_id="", source="/copy", instance="9.9", slice_place=record.slice_place)
        writer.add([(copy, vector)])
        assert kept.record(record.image_id).slice_place == moved
        writer.add([(replace(copy, source="/copy2", instance=record.instance), vector)])
    assert kept.record(record.image_id).slice_place == record.slice_place


def test_times_are_stored_without_dates() -> None:
    day = 737_000
    first, second = (SlicePlace(time=day * DAY + ms) for ms in (1000, 61_000))
    stored = [
        SlicePlace.from_text(stored_place(SECRET, "p", "1.2", location)).time or 0
        for location in (first, second)
    ]
    assert (stored[1] - stored[0]) % CYCLE == 60_000
    assert stored[0] // DAY != day
    other = SlicePlace.from_text(stored_place(SECRET, "q", "1.2", first)).time
    assert other != stored[0]
    nobody, later = (
        stored_place(SECRET, "", "1.2", replace(first, time=days * DAY + 1000)) for days in (day, day + 9)
    )
    assert nobody == later  # the time of the day alone


def test_a_moved_slice_has_the_facts_of_its_new_patient(kept: Collection) -> None:
    number = kept.numbers_in(SCOPE)[0]
    image = kept.records([number])[number]
    with kept.writer() as writer:
        writer.set_labels(image.image_id, {"age": "70", "sex": "M", "note": "kept"})
        labels = {"age": "45", "z": "9", "note": "other"}
        now = replace(
            image, patient_key="q", labels=labels, study_day=7, slice_place=SlicePlace(time=5).to_text()
        )
        move_to_patient(writer, {image.image_id: now}, b"file")
    moved = kept.records([number])[number]
    assert moved.labels == {"z": "0", "note": "kept", "age": "45"}
    assert (moved.patient_key, moved.study_day) == ("q", 7)
    assert SlicePlace.from_text(moved.slice_place).time == 5


def test_a_moved_slice_in_quarantine_too(kept: Collection) -> None:
    record, vector = entry(30, "p", {"intake": "noise", "sex": "M", "z": "30"})
    record = replace(record, image_id=record.content_hash)
    with kept.writer() as writer:
        writer.held_pictures = {record.content_hash: b"jpeg"}
        writer.add([(record, vector)])
        (held,) = read_quarantined(kept)
        now = replace(record, patient_key="q", labels={"age": "45"}, slice_place=SlicePlace(time=5).to_text())
        move_quarantined(writer, held.image_id, now)
    (moved,) = read_quarantined(kept)
    assert moved.record.labels == {"intake": "noise", "z": "30", "age": "45"}
    assert (moved.record.patient_key, moved.record.slice_place) == ("q", now.slice_place)


def test_cards_have_the_places_of_the_slices_that_there_are_now(kept: Collection) -> None:
    def numbers() -> dict[str, tuple[int, int]]:
        writer, records = CardWriter(kept, Settings()), [record for _, record in kept.iterate()]
        slices = {record.labels["z"]: writer.card_of(record).slice for record in records}
        return {z: (each.number, each.count) for z, each in slices.items() if each}

    assert numbers() == {str(z): (z + 1, COUNT) for z in range(COUNT)}
    first = next(record for _, record in kept.iterate() if record.labels["z"] == "0")
    with kept.writer() as writer:
        writer.delete([first.image_id])
    assert numbers() == {str(z): (z, COUNT - 1) for z in range(1, COUNT)}


def test_a_series_is_put_in_order_once_for_all_answers(
    kept: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [record for _, record in kept.iterate()]
    first = CardWriter(kept, Settings()).card_of(records[0])
    monkeypatch.setattr(kept, "slice_facts", None)
    assert CardWriter(kept, Settings()).card_of(records[0]) == first


def test_series_that_were_not_used_for_long_are_forgotten_by_their_slices(
    kept: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hit_selection, "MOST_SLICES", 2 * COUNT)
    record = next(record for _, record in kept.iterate())
    asked = []

    def slice_facts(scope: DicomScope) -> dict[str, SliceFacts]:
        asked.append(scope.series)
        return {f"{scope.series}/{number}": SliceFacts(number + 1, COUNT, None, 1) for number in range(COUNT)}

    monkeypatch.setattr(kept, "slice_facts", slice_facts)
    for series in ("a", "b", "a", "c", "a", "b"):
        CardWriter(kept, Settings()).card_of(replace(record, series=series))
    assert asked == ["a", "b", "c", "b"]
