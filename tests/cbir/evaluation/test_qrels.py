"""Judging by labels, against the obvious loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.errors import InvalidInput
from cbir.evaluation.qrels import build_qrels
from cbir.evaluation.relevance import parse_relevance
from tests.cbir.evaluation.small import ask, pool

few = st.sampled_from(["", "a", "b", "c"])
image = st.fixed_dictionaries(
    {"label": few, "grade": st.sampled_from(["", "0", "1", "3"]), "patient": st.sampled_from([None, "p", "q"]),
     "content": st.sampled_from(["x", "y", "z"])}
)  # fmt: skip


def labels(one):
    return {key: one[key] for key in ("label", "grade")}


@given(
    st.lists(image, min_size=1, max_size=15),
    st.lists(image, min_size=1, max_size=5),
    st.sampled_from(["label", "grade", "label+grade"]),
    st.booleans(),
)
def test_gains_are_those_of_the_obvious_loops(images, asked, text, same_patient):
    relevance = parse_relevance(text)
    among = pool(list(map(labels, images)), [i["patient"] for i in images], [i["content"] for i in images])
    asked = [one for one in asked if relevance.group(labels(one)) is not None]
    queries = [ask(str(n), labels(one), one["patient"], one["content"]) for n, one in enumerate(asked)]
    grades = [int(i["grade"]) for i in images if relevance.group(labels(i)) is not None and i["grade"]]
    spread = max(grades) - min(grades) if grades and "grade" in text else 0

    def gain(query, candidate):
        if candidate["content"] == query["content"]:
            return 0
        if query["patient"] and query["patient"] == candidate["patient"] and not same_patient:
            return 0
        if any(not candidate[key] for key in relevance.needs):
            return 0
        if "label" in text and candidate["label"] != query["label"]:
            return 0
        return max(0, spread - abs(int(candidate["grade"]) - int(query["grade"]))) if "grade" in text else 1

    expected = {
        query.name: {place: gain(one, image) for place, image in enumerate(images) if gain(one, image)}
        for query, one in zip(queries, asked, strict=True)
    }
    level = max(spread, 1)
    some = any(value >= level for gains in expected.values() for value in gains.values())
    if not some or ("grade" in text and not spread):
        with pytest.raises(InvalidInput):
            build_qrels(among, queries, relevance, same_patient=same_patient)
        return
    found = build_qrels(among, queries, relevance, same_patient=same_patient)
    assert found.level == level
    without = {name for name, gains in expected.items() if not any(v >= level for v in gains.values())}
    assert {query.name for query in found.without_relevant} == without
    assert len(found.queries) == len(queries) - len(without)
    for number, query in enumerate(found.queries):
        gains = dict(zip(found.positions[number].tolist(), found.gains[number].tolist(), strict=True))
        assert gains == expected[query.name]
        assert found.relevant[number] == sum(value >= level for value in gains.values())
    unjudged = [any(not image[key] for key in relevance.needs) for image in images]
    assert found.unjudged == sum(unjudged)
    np.testing.assert_array_equal(found.classes < 0, unjudged)


def test_classes_have_the_same_number_for_candidates_and_queries():
    among = pool([{"label": "a"}, {"label": "b"}, {}, {"label": "a"}])
    found = build_qrels(among, [ask("q", {"label": "b"}), ask("r", {"label": "a"})], parse_relevance("label"))
    assert found.classes.tolist() == [0, 1, -1, 0]
    assert found.query_classes.tolist() == [1, 0]
    assert found.titles == ["a", "b"]


def test_a_class_that_only_a_query_has_is_reported():
    among = pool([{"label": "a"}, {"label": "b"}])
    found = build_qrels(
        among, [ask("q", {"label": "new"}), ask("r", {"label": "a"})], parse_relevance("label")
    )
    assert [query.name for query in found.without_relevant] == ["q"]
    assert [query.name for query in found.queries] == ["r"]


def test_the_level_can_be_chosen():
    among = pool([{"grade": str(grade)} for grade in range(5)])
    query = [ask("q", {"grade": "2"})]
    assert build_qrels(among, query, parse_relevance("grade")).relevant.tolist() == [1]
    assert build_qrels(among, query, parse_relevance("grade"), level=3).relevant.tolist() == [3]
    for level in (0, 5):
        with pytest.raises(InvalidInput, match="from 1 to 4"):
            build_qrels(among, query, parse_relevance("grade"), level=level)


def test_grades_all_alike_rank_nothing():
    with pytest.raises(InvalidInput, match="two grades"):
        build_qrels(pool([{"grade": "1"}] * 3), [ask("q", {"grade": "1"})], parse_relevance("grade"))


def test_an_empty_collection_has_nothing_relevant():
    with pytest.raises(InvalidInput, match="no image"):
        build_qrels(pool([]), [ask("q", {"label": "a"})], parse_relevance("label"))
