"""Labels and paths that are longer than what PostgreSQL indexes: both databases take the same images."""

import secrets
from dataclasses import replace

import pytest

from cbir.errors import InvalidInput
from cbir.store.records.filter_conditions import Condition
from cbir.store.records.image_rows import LONGEST_KEY
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import entry

BEGINNING = secrets.token_hex(2000)  # cannot be compressed
REPORTS = [f"{BEGINNING} normal", f"{BEGINNING} fracture", "short", ""]


def test_long_labels_and_paths_are_stored_and_filtered_by(collection):
    path = "/images/" + "/".join(secrets.token_hex(100) for _ in range(20))
    with collection.writer() as writer:
        for number, report in enumerate(REPORTS):
            record, vector = entry(number, labels={"report": report, "site": "A"})
            writer.add([(replace(record, source=f"{path}/{number}.png"), vector)])
        writer.finish()
        assert writer.source_stamps([f"{path}/1.png"]) == {f"{path}/1.png": "1"}
    assert verify_collection(collection) == []
    for number, report in enumerate(REPORTS, start=1):
        assert matching(collection, "=", report) == [number]
        assert matching(collection, "!=", report) == sorted({1, 2, 3, 4} - {number})
    assert matching(collection, "=", BEGINNING) == []
    assert matching(collection, "=", *REPORTS[1:3]) == [2, 3]
    assert collection.label_values("report", 9) == [(report, 1) for report in sorted(REPORTS)]


def matching(collection, operator, *values):
    condition = Condition("report", operator, values[0], tuple(values[1:]))
    return collection.matching_numbers([condition]).tolist()


@pytest.mark.parametrize("key", ["k" * (LONGEST_KEY + 1), "\u00e4" * (LONGEST_KEY // 2 + 1)])
def test_names_of_labels_are_limited(collection, key):
    with collection.writer() as writer:
        (image_id,) = writer.add([entry(1, labels={key[: LONGEST_KEY // 2]: BEGINNING})]).ids
        for write in (
            lambda: writer.add([entry(2, labels={key: "1"})]),
            lambda: writer.set_labels(image_id, {key: "1"}),
        ):
            with pytest.raises(
                InvalidInput, match=r"has a name of 100[12] bytes; 1000 are allowed, rename it"
            ):
                write()
    assert len(collection) == 1
    assert collection.record(image_id).labels == {key[: LONGEST_KEY // 2]: BEGINNING}
