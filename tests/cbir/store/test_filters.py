"""Label filters as typed."""

import contextlib
import time

import numpy as np
import pytest

from cbir.errors import InvalidInput
from cbir.store.filter_cache import BYTES, KEPT, FilterCache
from cbir.store.filter_conditions import MAX_CHARACTERS, Condition, parse_filter


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
        ("two words = of\ttwo\nlines ", Condition("two words", "=", "of\ttwo\nlines")),
        ("a==b", Condition("a", "=", "=b")),
    ],
)
def test_what_can_be_typed(text, expected):
    assert parse_filter(text) == expected


@pytest.mark.parametrize("text", ["", "modality", "=CT", "severity>=high", "<3", " =CT", "a!b", "a ! =b"])
def test_what_cannot_is_named(text):
    with pytest.raises(InvalidInput, match="filter"):
        parse_filter(text)


def test_the_length_of_a_condition_is_limited():
    assert parse_filter("key=" + "v" * (MAX_CHARACTERS - 4)).key == "key"
    with pytest.raises(InvalidInput, match=f"has 100004 characters; {MAX_CHARACTERS} are allowed"):
        parse_filter("key=" + " " * 100_000)


@pytest.mark.parametrize("character", [" ", "=", "!", "<", ">", "a", "\u00a0"])
def test_the_longest_condition_takes_no_time(character):
    started = time.perf_counter()
    with contextlib.suppress(InvalidInput):
        parse_filter(character * MAX_CHARACTERS)
    assert time.perf_counter() - started < 0.1


def test_a_value_is_never_sql(collection, entries):
    with collection.writer() as writer:
        writer.add(entries(0, 2, label="x"))
    view = collection.view()
    hostile = parse_filter("label=x' OR '1'='1")
    assert collection.select_rows(view, [hostile]).tolist() == []


def test_a_filter_is_read_once_and_again_after_a_change(collection, entries, monkeypatch):
    with collection.writer() as writer:
        first, _ = writer.add(entries(0, 2, label="x")).ids
    searched = [parse_filter("label=x")]
    assert collection.select_rows(collection.view(), searched).tolist() == [0, 1]
    with monkeypatch.context() as patched:
        patched.setattr(collection, "matching_numbers", None)
        assert collection.select_rows(collection.view(), searched).tolist() == [0, 1]
    with collection.writer() as writer:
        writer.set_labels(first, {"label": "y"})
    assert collection.select_rows(collection.view(), searched).tolist() == [1]


@pytest.mark.parametrize(("size", "kept"), [(1, KEPT), (BYTES // 32, 4), (BYTES, 1)])
def test_only_the_last_filters_are_kept_and_fewer_large_ones(size, kept):
    cache, read = FilterCache(), []

    def rows(number):
        def load():
            read.append(number)
            return np.zeros(size, np.int64)

        return cache.rows((parse_filter(f"label={number}"),), load)

    last = list(range(KEPT + 2 - kept, KEPT + 2))
    for number in (*range(KEPT + 2), *last):
        assert not rows(number).flags.writeable
    assert read == list(range(KEPT + 2))
    rows(last[0] - 1)
    assert len(read) == KEPT + 3
