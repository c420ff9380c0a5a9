"""The list of re-rankers."""

import pytest

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.evaluation.runs import parse_methods


def test_lists():
    assert [method.name for method in parse_methods("none, eprf pearson,none")] == ["none", "eprf", "pearson"]
    assert [method.name for method in parse_methods("all")] == list(rerank.names())
    tuned = parse_methods("eprf:P=9:C=0.5")[0]
    assert (tuned.rerank, tuned.parameters) == ("eprf", {"P": 9, "C": 0.5})
    assert tuned.file == "eprf-P=9-C=0.5.run"
    assert parse_methods("eprf:P=1e1")[0].parameters == {"P": 10.0}


@pytest.mark.parametrize(
    "text", ["", " , ", "magic", "eprf:P", "eprf:P=many", "eprf:magic=1", "eprf:P=0", "none:P=1"]
)
def test_what_does_not_exist_is_named(text):
    with pytest.raises(InvalidInput):
        parse_methods(text)
