"""Filters with any text at all, against a filter in Python, on a real engine each."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cbir.store.index.milvus_collection import attribute_token, label_token, number_key
from cbir.store.index.port import IndexedImage, IndexScope
from cbir.store.records.filter_conditions import OPERATORS, WITHOUT_VALUE, Condition, PatientScope
from tests.cbir.store.index.subjects import DIMENSIONS, Subject, is_in_scope

HOSTILE = (
    'a"b', "a'b",
    "a\\", '\\"', "100%", "%25", "_", "*", "a\nb", "Ünïcödé", "日本", "🫀", "é", "e\u0301", " ", "'; DROP",
    '"] == "x" or number > 0 or labels["x', "{}", "$meta", "labels", "number", "null", "true", "1e3", "-0", "x" * 900,
    "1.0", "1", "٣", "0x10", "1_0", "nan", "inf", "-inf", "1e400",
)  # fmt: skip
texts = st.sampled_from(HOSTILE) | st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=8
)
numbers = st.floats(allow_nan=False, allow_infinity=False).map(repr) | st.sampled_from(
    ["inf", "-inf", "nan", "0"]
)


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    """A condition of any kind, often one that holds for an image."""
    symbol = draw(st.sampled_from([*OPERATORS, *WITHOUT_VALUE]))
    key = draw(st.sampled_from(HOSTILE) | texts)
    if symbol in WITHOUT_VALUE:
        return Condition(key, symbol, "")
    if symbol in ("=", "!="):
        others = tuple(draw(st.lists(texts, max_size=2))) if symbol == "=" else ()
        return Condition(key, symbol, draw(texts), others)
    return Condition(key, symbol, draw(numbers))


@pytest.fixture
def hostile(subject: Subject) -> Subject:
    """Images with each text as the key and as the value of a label, and as attributes."""
    images = [
        IndexedImage(
            number,
            content_hash=f"{number:032x}",
            patient_key=text[:30],
            study=text[:60],
            series=text[:60],
            instance=text[:60],
            labels={text: HOSTILE[-number], HOSTILE[-number]: text, "grade": f"{number / 4 - 3}"},
        )
        for number, text in enumerate(HOSTILE, start=1)
    ]
    vectors = np.random.default_rng(0).standard_normal((len(images), DIMENSIONS)).astype(np.float32)
    subject.put(images, vectors)
    subject.index.finish()
    return subject


def assert_same(subject: Subject, scope: IndexScope) -> None:
    """The index finds what the conditions hold for, no more and no less."""
    query: NDArray[np.float32] = np.zeros((1, DIMENSIONS), np.float32)
    (found,) = subject.index.nearest(query, len(HOSTILE), scope)
    expected = {number for number, image in subject.images.items() if is_in_scope(image, scope)}
    assert set(found.numbers.tolist()) == expected, scope


def test_hostile_texts(hostile: Subject) -> None:
    grade = IndexScope((Condition("grade", ">", "-1"), Condition("grade", "<=", "2.25")))
    assert_same(hostile, grade)
    for text in HOSTILE:
        for symbol in ("=", "!=", "?", "!?"):
            value = "" if symbol in WITHOUT_VALUE else HOSTILE[-3]
            assert_same(hostile, IndexScope((Condition(text, symbol, value),)))
        scope = IndexScope(of_patients=(PatientScope(text[:30], text[:60]),), without_patients=("", text))
        assert_same(hostile, scope)
        assert_same(hostile, IndexScope(without_patients=(text[:30],)))


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(conditions(), min_size=1, max_size=3))
def test_any_conditions(hostile: Subject, where: list[Condition]) -> None:
    assert_same(hostile, IndexScope(tuple(where)))


@given(texts, texts, texts, texts)
def test_tokens_differ(key: str, value: str, other_key: str, other: str) -> None:
    assert (label_token(key, value) == label_token(other_key, other)) == ((key, value) == (other_key, other))
    assert (number_key(key) == number_key(other_key)) == (key == other_key)
    assert label_token(key) != label_token(other_key, other)
    tokens = {label_token(key), label_token(key, value), attribute_token("study", value)}
    assert len(tokens) == 3
    assert all(0 <= token < 2**63 for token in tokens)
