"""Label filters as typed."""

import pytest

from cbir.errors import InvalidInput
from cbir.store.filter_conditions import Condition, parse_filter


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("modality=CT", Condition("modality", "=", "CT")),
        (" modality = CT ", Condition("modality", "=", "CT")),
        ("label!=knee", Condition("label", "!=", "knee")),
        ("severity>=1.5", Condition("severity", ">=", "1.5")),
        ("age<60", Condition("age", "<", "60")),
        ("note=a=b", Condition("note", "=", "a=b")),
        ("empty=", Condition("empty", "=", "")),
    ],
)
def test_what_can_be_typed(text, expected):
    assert parse_filter(text) == expected


@pytest.mark.parametrize("text", ["", "modality", "=CT", "severity>=high", "<3"])
def test_what_cannot_is_named(text):
    with pytest.raises(InvalidInput, match="filter"):
        parse_filter(text)


def test_a_value_is_never_sql(collection, entries):
    with collection.writer() as writer:
        writer.add(entries(0, 2, label="x"))
    view = collection.view()
    hostile = parse_filter("label=x' OR '1'='1")
    assert collection.select_rows(view, [hostile]).tolist() == []
