"""Carrying images over to a collection of another profile, without decoding any."""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.base.schema import tables
from cbir.store.erasure import find_traces
from cbir.store.postgresql import postgresql_schema
from cbir.store.postgresql.postgresql_database import open_database
from cbir.store.upkeep.carry_over import Carried, CarryOver, open_counterpart
from cbir.store.upkeep.verify import verify_collection

PROFILE = profiles.get("color_layout")
PATIENT, OTHER = "a" * 32, "b" * 32


def vector(number: int) -> Any:
    """The vector of an image number in the target."""
    return np.random.default_rng(number).normal(size=PROFILE.load_descriptor().dimensions).astype(np.float32)


def carry(source: Collection, folder: Path) -> Carried:
    """Carry all images over; what was changed and removed at first."""
    with open_counterpart(source, folder, PROFILE) as target, target.writer() as writer:
        carry_over = CarryOver(source, target, writer)
        carried = carry_over.update()
        carry_over.add({image.number: vector(image.number) for image in carry_over.missing_images()})
        assert carry_over.update() == Carried()
        carry_over.finish()
        writer.finish()
        assert verify_collection(target) == []
        assert len(target.view()) == len(source)
    for table in ("images", "labels", "instance_copies", "forgotten", "erased", "changes", "changed_images"):
        assert rows(folder, table) == rows(source.folder, table), table
    return carried


def traces_of(folder: Path, key: str) -> list[str]:
    """Files and tables with a patient's key."""
    with Collection(folder) as collection:
        searched = [] if collection.is_local else postgresql_schema.tables.tables
        named = [name for name in searched if key in str(rows(folder, name))]
        return [*find_traces(collection, [key]), *named]


def rows(folder: Path, table: str) -> list[Any]:
    database = open_database(folder)
    with database.connect() as connection:
        found = sorted(map(tuple, connection.execute(select(tables.tables[table]))), key=repr)
    database.dispose()
    return found


def test_dicom_instances_with_the_same_picture_are_carried_and_erased(collection, entries, folder):
    (first, values), *others = entries(0, 6, PATIENT)
    first = replace(first, study="1.2", series="1.2.3", instance="1.2.3.4", sop_class="1.5")
    copy = replace(first, instance="1.2.3.5", source="/images/copy.dcm", patient_key=OTHER)
    with collection.writer() as writer:
        writer.add([(first, values), *others])
        writer.add([(copy, values)])
        writer.finish()
    carry(collection, folder)
    with Collection(folder) as target:
        assert target.known_instances(["1.2.3.4", "1.2.3.5"]) == {"1.2.3.4", "1.2.3.5"}
    assert traces_of(folder, OTHER)
    with collection.writer() as writer:
        assert writer.erase_patient([OTHER]) == 0  # the picture is the other patient's
    carry(collection, folder)
    with Collection(folder) as target:
        assert target.known_instances(["1.2.3.5"]) == set()
    assert traces_of(folder, OTHER) == []


def test_what_was_deleted_may_be_restored_and_history_may_end(collection, entries, folder):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 10)).ids
        writer.delete(ids[:2])
    carry(collection, folder)
    with collection.writer() as writer:
        writer.add(entries(0, 1), restore=True)
        writer.compact(history_days=0, deleted_days=0)
        writer.set_labels(ids[5], {"a": "b"})
    assert carry(collection, folder).updated == 1
    assert [row[3] for row in rows(folder, "changes")][-1] == "labelled"


@pytest.mark.parametrize("with_finish", [True, False])
def test_images_that_are_added_before_others_are_seen(collection, entries, folder, with_finish):
    with collection.writer() as writer:
        numbers = list(writer.add(entries(0, 20)).numbers.values())
    with open_counterpart(collection, folder, PROFILE) as target, target.writer() as writer:
        carry_over = CarryOver(collection, target, writer)
        carry_over.update()
        carry_over.add({number: vector(number) for number in numbers[3:15]})
        if with_finish:
            carry_over.finish()
            writer.finish()
        assert len(target.view()) == 12
        for left in (numbers[17:], numbers[1:3], numbers[15:17], numbers[:1]):
            before = len(target.view())
            carry_over.add({number: vector(number) for number in left})
            assert len(target.view()) == before + len(
                left
            )  # a view that was open before, as that of a service
            with Collection(folder) as other:
                assert len(other.view()) == before + len(left)
        writer.finish()
        assert target.view().gallery.ids.tolist() == numbers
        assert target.view().snapshot is not None
        assert verify_collection(target) == []


def test_numbers_are_never_used_twice(collection, entries, folder):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 5)).ids
        writer.delete(ids[-1:])
    carry(collection, folder)
    with Collection(folder) as target, target.writer() as writer:
        ((record, _),) = entries(9, 10)
        (number,) = writer.add([(record, vector(9))]).numbers.values()
    assert number == 6


def test_a_profile_that_was_tuned_stays(collection, entries, folder):
    with collection.writer() as writer:
        writer.add(entries(0, 4))
    carry(collection, folder)
    with Collection(folder) as target, target.writer() as writer:
        writer.set_profile(target.profile.model_copy(update={"rerank": {"C": 3.0}}))
    with collection.writer() as writer:
        writer.add(entries(4, 5))
    with open_counterpart(collection, folder, PROFILE) as target, target.writer() as writer:
        CarryOver(collection, target, writer).update()
        CarryOver(collection, target, writer).update()
        assert [change.what for change in target.history()] == ["profile", "added", "added"]
        target.view()
        assert target.profile.rerank == {"C": 3.0}


@pytest.mark.parametrize("what", ["added", "deleted", "labelled"])
def test_changes_of_the_target_are_not_undone(collection, entries, folder, what):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 4)).ids
    carry(collection, folder)
    with Collection(folder) as target, target.writer() as writer:
        if what == "added":
            ((record, _),) = entries(9, 10)
            writer.add([(record, vector(9))])
        elif what == "deleted":
            writer.delete(ids[:1])
        else:
            writer.set_labels(ids[0], {"a": "b"})
    with collection.writer() as writer:  # the same number in the history of the source
        writer.set_labels(ids[1], {"c": "d"})
    with (
        open_counterpart(collection, folder, PROFILE) as target,
        target.writer() as writer,
        pytest.raises(InvalidInput, match=f"1 changes of its own, the first of .* \\({what}\\)"),
    ):
        CarryOver(collection, target, writer)


def test_damage_of_the_source_is_not_carried_over(collection, entries, folder):
    with collection.writer() as writer:
        ids = writer.add(entries(0, 4)).ids
    with sqlite3.connect(collection.folder / "collection.sqlite") as connection:
        connection.create_function("row_checksum", -1, lambda *_: 0, deterministic=True)
        connection.execute("UPDATE images SET width = 11 WHERE number = 2")
    connection.close()
    with (
        open_counterpart(collection, folder, PROFILE) as target,
        target.writer() as writer,
        pytest.raises(CollectionDamaged, match=ids[1]),
    ):
        CarryOver(collection, target, writer)
