"""Label filters as typed."""

import contextlib
import time

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from cbir.errors import InvalidInput
from cbir.store.limited_collection import LimitedCollection
from cbir.store.records.filter_conditions import (
    MAX_CHARACTERS,
    Condition,
    parse_filter,
    parse_filters,
    write_conditions,
)
from cbir.store.views.collection_view import BYTES, KEPT, FilterCache


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
        ("modality?", Condition("modality", "?", "")),
        ("two words ? ", Condition("two words", "?", "")),
        ("what??", Condition("what?", "?", "")),
        ("!modality?", Condition("modality", "!?", "")),
        ("note=really?", Condition("note", "=", "really?")),
        ("note!=?", Condition("note", "!=", "?")),
        ("note=CT|MR,?", Condition("note", "=", "CT|MR,?")),
    ],
)
def test_what_can_be_typed(text, expected):
    assert parse_filter(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "modality", "=CT", "severity>=high", "<3", " =CT", "a!b", "a ! =b", "?", "!?", "!modality", "=?"],
)
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
    assert time.perf_counter() - started < 1


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


def test_of_several_values_of_a_key_any_fits():
    parsed = parse_filters(["a=1", "b!=1", "a= 2", "b!=2", "a=1", "a>0"])
    assert parsed == (
        Condition("a", "=", "1", ("2",)),
        Condition("b", "!=", "1"),
        Condition("b", "!=", "2"),
        Condition("a", ">", "0"),
    )


LABELS = (
    {}, {"m": "CT"}, {"m": "MR"}, {"m": "CT|MR"}, {"m": "CT", "grade": "2"}, {"m": "MR", "grade": "10"},
    {"grade": "high"}, {"m": "", "grade": "3.5"},
)  # fmt: skip
CONDITIONS = (
    ["m=CT"], ["m=CT", "m=MR"], ["m=CT", "m=MR", "grade>=2"], ["m?"], ["!m?"], ["grade?", "!m?"], ["m!=CT", "m!=MR"],
    ["m=CT|MR"], ["m="], ["grade>2", "grade<=10"], ["grade>=2", "grade!=10"], ["m=CT", "m!=CT"],
)  # fmt: skip


@pytest.mark.parametrize("where", CONDITIONS)
def test_filters_hold_alike_in_a_collection_a_limit_and_outside(collection, entries, where):
    with collection.writer() as writer:
        for number, labels in enumerate(LABELS):
            writer.add(entries(number, number + 1, **labels))
    conditions = parse_filters(where)
    expected = [
        number for number, labels in enumerate(LABELS) if all(c.holds_for(labels) for c in conditions)
    ]
    assert collection.select_rows(collection.view(), conditions).tolist() == expected
    limited = LimitedCollection(collection, conditions)
    assert [number - 1 for number, _ in limited.page()] == expected
    limited.close()


@st.composite
def typed_and_written(draw):
    """A condition and the text that says the same."""
    key, symbol = (
        draw(st.sampled_from(["m", "grade"])),
        draw(st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "?", "!?"])),
    )
    if symbol in ("?", "!?"):
        return Condition(key, symbol), f"{'!' if symbol == '!?' else ''}{key}?"
    numbers = st.integers(-3, 12) | st.floats(0, 12)
    value = draw(
        numbers if symbol in ("<", "<=", ">", ">=") else numbers | st.sampled_from(["CT", "CT|MR", ""])
    )
    return Condition(key, symbol, value), f"{key}{symbol}{value}"


@hypothesis.given(st.lists(typed_and_written(), max_size=4), st.data())
@hypothesis.settings(
    max_examples=60, deadline=None, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture]
)
def test_typed_and_written_conditions_select_the_same_images(collection, entries, pairs, data):
    if not len(collection):
        with collection.writer() as writer:
            for number, labels in enumerate(LABELS):
                writer.add(entries(number, number + 1, **labels))
    typed, written = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    mixed = [data.draw(st.sampled_from(pair)) for pair in pairs]
    found = [
        collection.select_rows(collection.view(), collection.conditions(where))
        for where in (typed, written, mixed, write_conditions(typed))
    ]
    assert parse_filters(typed) == parse_filters(written) == parse_filters(mixed)
    for rows in found[1:]:
        assert (rows is None) == (found[0] is None)
        assert rows is None or rows.tolist() == found[0].tolist()


@pytest.mark.parametrize(
    ("key", "symbol", "value"),
    [
        ("", "=", "a"),
        ("m", "==", "CT"),
        ("m", "in", "CT"),
        ("m", "=", None),
        ("m", "=", True),
        ("m", "=", ["CT"]),
        ("m", "?", "CT"),
        ("m", ">=", "high"),
        ("m", "<", None),
    ],
)
def test_a_typed_condition_that_cannot_hold_is_refused(key, symbol, value):
    with pytest.raises(InvalidInput, match="condition"):
        Condition(key, symbol, value)


def test_only_equality_has_several_values():
    assert Condition("m", "=", "CT", ["MR"]).values == ("CT", "MR")
    with pytest.raises(InvalidInput, match="several values; only = takes them"):
        Condition("m", "!=", "CT", ["MR"])


@pytest.mark.parametrize(
    ("condition", "texts"),
    [
        (Condition("two words", "=", "a=b<c?"), ["two words=a=b<c?"]),
        (Condition("m", "=", "CT", ["=MR"]), ["m=CT", "m==MR"]),
        (Condition("grade", ">=", 2), ["grade>=2"]),
        (Condition("grade", "<", 2.5), ["grade<2.5"]),
        (Condition("m", "?"), ["m?"]),
        (Condition("what?", "?"), ["what??"]),
        (Condition("m", "!?"), ["!m?"]),
    ],
)
def test_a_typed_condition_can_be_written(condition, texts):
    assert condition.texts() == texts
    assert write_conditions(condition) == texts
    assert write_conditions(["a=1", condition]) == ["a=1", *texts]


@pytest.mark.parametrize(
    "condition",
    [
        Condition("a=b", "=", "c"),
        Condition("a<b", "?"),
        Condition("!a", "?"),
        Condition(" a", "=", "c"),
        Condition("a", "=", "c "),
        Condition("a", "=", "c" * MAX_CHARACTERS),
    ],
)
def test_what_cannot_be_written_is_refused_and_can_be_searched(collection, entries, condition):
    labels = {condition.key: condition.value}
    with collection.writer() as writer:
        writer.add(entries(0, 1, **labels))
        writer.add(entries(1, 2, other="c"))
    assert collection.select_rows(collection.view(), collection.conditions([condition])).tolist() == [0]
    with pytest.raises(InvalidInput, match="cannot be written"):
        condition.texts()


def test_presence_and_any_of_select_what_they_say():
    def fitting(*where):
        conditions = parse_filters(where)
        return [
            number for number, labels in enumerate(LABELS) if all(c.holds_for(labels) for c in conditions)
        ]

    assert fitting("m=CT", "m=MR") == [1, 2, 4, 5]
    assert fitting("m?") == [1, 2, 3, 4, 5, 7]
    assert fitting("!m?") == [0, 6]
    assert fitting("m!=CT", "m!=MR") == [0, 3, 6, 7]
    assert fitting("m=CT", "grade?") == [4]


def test_unknown_keys_are_named(collection, entries):
    with pytest.raises(InvalidInput, match="no image has a label 'modality'; no image has any label"):
        collection.conditions(["modality=CT"])
    with collection.writer() as writer:
        writer.add(entries(0, 2, modality="CT", Label="x"))
    for text in ("modalty=CT", "modalty!=CT", "modalty>1", "modalty?"):
        with pytest.raises(InvalidInput) as refused:
            collection.conditions(["Label=x", text])
        assert str(refused.value) == (
            "no image has a label 'modalty'; did you mean 'modality'? Labels: Label, modality"
        )
    with pytest.raises(InvalidInput, match="'label'; did you mean 'Label'"):
        collection.conditions(["label?"])
    with pytest.raises(InvalidInput, match=r"'zzz'\. Labels: Label, modality$"):
        collection.conditions(["zzz=1"])
    assert collection.conditions(
        ["!modalty?", "modality=nothing"]
    )  # the key is not, the value may be unknown


def test_a_limited_caller_learns_no_hidden_key(collection, entries):
    with collection.writer() as writer:
        writer.add(entries(0, 2, ward="a", common="1"))
        writer.add(entries(2, 4, ward="b", secret_key="1"))
    limited = LimitedCollection(collection, [parse_filter("ward=a")])
    collection.conditions(["secret_key=1"])
    messages = []
    for key in ("secret_key", "secret_kex"):
        with pytest.raises(InvalidInput) as refused:
            limited.conditions([f"{key}=1"])
        messages.append(str(refused.value).replace(key, "KEY"))
    limited.close()
    assert messages == ["no image has a label 'KEY'. Labels: common, ward"] * 2


def test_other_values_are_texts_and_each_once() -> None:
    assert Condition("grade", "=", 1, [2, "1", 2.5]).values == ("1", "2", "2.5")
    with pytest.raises(InvalidInput, match="list of values"):
        Condition("view", "=", "AP", "PA")
    with pytest.raises(InvalidInput, match="only = takes them"):
        Condition("view", "!=", "AP", ["PA"])
