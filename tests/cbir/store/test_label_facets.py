"""Numbers of images by label, against counts in Python."""

from collections import Counter

import pytest

from cbir.errors import InvalidInput
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import parse_filter, parse_filters

LABELS = [
    {"label": f"value-{number % 5}", "site": "ab"[number % 2]}
    | ({"grade": str(number % 4 - 1)} if number % 3 else {})
    for number in range(30)
]


@pytest.fixture
def filled(collection, entries):
    with collection.writer() as writer:
        for number, labels in enumerate(LABELS):
            writer.add(entries(number, number + 1, **labels))
    return collection


def counted(key, where):
    """Count the values of the images that fulfil the conditions, the slow way."""
    conditions = parse_filters(where)
    fitting = [labels for labels in LABELS if all(condition.holds_for(labels) for condition in conditions)]
    return Counter(labels[key] for labels in fitting if key in labels)


@pytest.mark.parametrize("where", [[], ["site=a"], ["site=a", "grade?"], ["label=value-1", "label=value-2"]])
def test_keys_and_values_are_counted(filled, where):
    conditions = filled.conditions(where)
    keys = {row.key: (row.images, row.values) for row in filled.list_label_keys(conditions)}
    assert list(keys) == ["grade", "label", "site"]
    for key in keys:
        counts = counted(key, where)
        assert keys[key] == (counts.total(), len(counts))
        values = filled.list_label_values(key, conditions)
        assert (values.images, values.values) == keys[key]
        assert values.items == sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    assert filled.list_label_values("grade", conditions).minimum == min(
        map(float, counted("grade", where)), default=None
    )


def test_pages_hold_every_value_once(filled):
    pages = [filled.list_label_values("label", (), offset, 2) for offset in (0, 2, 4, 6)]
    assert [len(page.items) for page in pages] == [2, 2, 1, 0]
    assert [item for page in pages for item in page.items] == filled.list_label_values("label").items
    assert {(page.images, page.values) for page in pages} == {(30, 5)}


def test_the_range_is_that_of_numbers_alone(collection, entries):
    with collection.writer() as writer:
        for number, value in enumerate(["9", "10", "-2.5", "unknown", "nan", "inf", "10"]):
            writer.add(entries(number, number + 1, grade=value, label="x"))
    values = collection.list_label_values("grade")
    assert (values.minimum, values.maximum, values.images, values.values) == (-2.5, 10.0, 7, 6)
    assert values.items[0] == ("10", 2)
    assert collection.list_label_values("label").maximum is None


def test_a_value_that_no_matching_image_has_leaves_nothing(filled):
    values = filled.list_label_values("label", filled.conditions(["site=nowhere"]))
    assert (values.images, values.values, values.minimum, values.items) == (0, 0, None, [])
    assert filled.list_label_keys(filled.conditions(["site=nowhere"])) == []


def test_unknown_keys_and_empty_collections(filled, tmp_path):
    with pytest.raises(InvalidInput, match="no image has a label 'lable'; did you mean 'label'"):
        filled.list_label_values("lable")


def test_an_empty_collection_has_no_labels(collection):
    assert collection.list_label_keys() == []
    with pytest.raises(InvalidInput, match="no image has any label"):
        collection.list_label_values("label")


def test_a_limited_caller_sees_counts_of_visible_images_alone(filled):
    limited = LimitedCollection(filled, [parse_filter("site=a")])
    assert limited.list_label_keys() == filled.list_label_keys(filled.conditions(["site=a"]))
    for key in ("label", "grade", "site"):
        assert limited.list_label_values(key) == filled.list_label_values(key, filled.conditions(["site=a"]))
    where = ["label=value-1", "label=value-3", "grade?"]
    both = filled.conditions(["site=a", *where])
    assert limited.list_label_keys(limited.conditions(where)) == filled.list_label_keys(both)
    page = limited.list_label_values("label", limited.conditions(where), 1, 1)
    assert page == filled.list_label_values("label", both, 1, 1)
    with filled.writer() as writer:
        writer.set_labels(filled.page()[0][1].image_id, {"site": "b"})
    assert limited.list_label_values("site").items == [("a", 14)]
    limited.close()


def test_labels_are_counted_while_images_change(filled, monkeypatch):
    limited = LimitedCollection(filled, [parse_filter("site=a")])
    expected = limited.list_label_keys()
    monkeypatch.setattr("cbir.store.limited_collection.ATTEMPTS", 0)
    assert limited.list_label_keys() == expected
    assert (
        limited.list_label_values("label").items
        == filled.list_label_values("label", filled.conditions(["site=a"])).items
    )
    limited.close()
