"""The same operations in SQLite and in PostgreSQL give the same collection."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.limited_collection import LimitedCollection
from cbir.store.postgresql.postgresql_address import files_folder
from cbir.store.records import label_changes
from cbir.store.records.filter_conditions import parse_filters
from cbir.store.records.image_order import parse_order
from cbir.store.upkeep.verify import verify_collection
from cbir.store.writing.writer import Writer
from tests.cbir.store.conftest import entry
from tests.postgresql_server import PostgresqlServer

pytestmark = pytest.mark.slow
VALUES = ["1", "10", "2.5", "-1", " 3 ", "knee", "Knee", "", "é", "1_0", "nan"]
NUMBERS = st.integers(0, 11)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(NUMBERS, min_size=1, max_size=4), st.sampled_from(VALUES)),
    st.tuples(st.just("again"), st.lists(NUMBERS, min_size=1, max_size=2), st.sampled_from(VALUES)),
    st.tuples(st.just("delete"), st.lists(NUMBERS, min_size=1, max_size=2)),
    st.tuples(st.just("label"), NUMBERS, st.sampled_from(["a", "b"]), st.sampled_from([*VALUES, None])),
    st.tuples(st.just("erase"), st.integers(0, 2)),
    st.tuples(st.just("finish")),
    st.tuples(st.just("compact"), st.booleans()),
)


def run(step: tuple[Any, ...], writer: Writer) -> object:
    """Carry out a step, and return its result."""
    match step:
        case ("add" | "again", numbers, value):
            new = [entry(number, f"p{number % 3}", {"a": value}) for number in dict.fromkeys(numbers)]
            return writer.add(new, duplicates=step[0] == "again", restore=step[0] == "again")
        case ("delete", numbers):
            return sorted(writer.delete([entry(number)[0].content_hash for number in numbers]))
        case ("label", number, key, value):
            return writer.set_labels(entry(number)[0].content_hash, {key: value})
        case ("erase", patient):
            return writer.images_of(f"p{patient}"), writer.erase_patient([f"p{patient}"])
        case ("compact", refit):
            return writer.compact(refit=refit)
    return writer.finish()


def state(collection: Collection) -> dict[str, object]:
    """What a collection answers."""
    view = collection.view()
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    conditions = [parse_filters([text]) for text in ("a>1", "a<=2.5", "a=knee", "a!=1", "b?", "!b?", "a>nan")]
    orders = [parse_order(text) for text in ("oldest", "newest")]
    keys = [key.key for key in collection.list_label_keys()]
    orders += [parse_order(f"{sign}label:{key}") for key in keys for sign in ("", "-")]
    pages = []
    for order in orders:
        position = None
        while page := collection.sorted_page(order, position, 3):
            pages.append([(found.number, record) for found, record in page])
            position = page[-1][0]
    statistics = collection.statistics()
    return {
        "numbers": view.gallery.ids[rows].tolist(),
        "vectors": view.gallery.vectors(rows).tolist(),
        "statistics": statistics and statistics.to_json(),
        "records": list(collection.iterate()),
        "counts": collection.counts(),
        "keys": collection.list_label_keys(),
        "values": [collection.list_label_values(key) for key in keys],
        "filtered": [collection.matching_numbers(condition).tolist() for condition in conditions],
        "pages": pages,
        "history": [
            (change.change, change.what, change.images, sorted(change.image_ids))
            for change in collection.history()
        ],
        "patients": collection.patient_keys(),
        "groups": collection.group_keys(view.gallery.ids.tolist(), "patient"),
    }


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CBIR_COLLECTION_FILES", str(tmp_path / "files"))
    return tmp_path


@pytest.fixture
def pair(files: Path, postgresql: PostgresqlServer) -> Iterator[tuple[Collection, Collection]]:
    """Two empty collections with the same key."""
    address = postgresql.new_address()
    profile, key = profiles.get("tamura"), bytes(32)
    with (
        Collection.create(files / "sqlite", profile, key) as one,
        Collection.create(files_folder(address), profile, key) as other,
    ):
        yield one, other
    postgresql.drop_schemas([address])


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=1, max_size=6))
def test_the_same_steps_give_the_same_collection(
    files: Path, postgresql: PostgresqlServer, steps: list[tuple[Any, ...]]
) -> None:
    address = postgresql.new_address()
    places = files / address.rpartition("=")[2], files_folder(address)
    one, other = (Collection.create(place, profiles.get("tamura"), bytes(32)) for place in places)
    with one, other:
        for step in steps:
            with one.writer() as writer, other.writer() as other_writer:
                assert run(step, writer) == run(step, other_writer)
            assert state(one) == state(other)
        assert verify_collection(one) == verify_collection(other) == []
    postgresql.drop_schemas([address])


def test_both_remove_the_oldest_entries_of_an_image(
    pair: tuple[Collection, Collection], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(label_changes, "KEPT_OF_IMAGE", 3)
    monkeypatch.setattr(label_changes, "PRUNED_EVERY", 10)
    for collection in pair:
        with collection.writer() as writer:
            image_id = writer.add([entry(0)]).ids[0]
            for number in range(25):
                writer.set_labels(image_id, {"a": str(number)})
    one, other = ([change.change for change in collection.history()] for collection in pair)
    assert one == other == [*range(26, 17, -1), 1]
    assert verify_collection(pair[0]) == verify_collection(pair[1]) == []


def test_a_limited_collection_shows_the_same(pair: tuple[Collection, Collection]) -> None:
    for collection in pair:
        with collection.writer() as writer:
            for number in range(20):
                labels = {"a": VALUES[number % len(VALUES)]} | ({"b": "100%'\\"} if number % 4 else {})
                writer.add([entry(number, f"p{number % 3}", labels)])
            writer.finish()
    for texts in (["a>1"], ["a=knee"], ["a!=1"], ["b?"], ["!b?"], ["b=100%'\\"], ["a>=1", "b?"]):
        one, other = (LimitedCollection(collection, parse_filters(texts)) for collection in pair)
        with one, other:
            assert state(one) == state(other)
            assert 0 < len(other) < 20
            hidden = set(pair[1].image_ids().values()) - set(other.image_ids().values())
            assert other.records_by_id(hidden) == {}
