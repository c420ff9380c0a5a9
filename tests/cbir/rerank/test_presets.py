"""`preset=paper`: the values of a method's paper by one name."""

import json
from pathlib import Path
from typing import Any

import pytest

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.evaluation.runs import parse_methods
from cbir.rerank.feedback import Feedback
from cbir.rerank.several_examples import get_learner
from cbir.search.command_options import parse_parameters
from cbir.store.base.profile import PROJECTED_EPRF

PAPER = {"preset": "paper"}
HUANG = {
    "K": 60, "N": 1000, "lam": 1.0, "P": 6, "T1": 10, "T2": 10, "alpha": 0.4, "lowest": 0.1, "C": 10.0,
    "gamma": "auto", "sharpness": 15.0, "closeness": 0.0, "sure": 0.0, "evidence": 0.0, "seed": 0,
}  # fmt: skip


@pytest.mark.parametrize("name", ["eprf", "nsu-eprf", "svm-eprf"])
def test_settings_of_a_profile_give_way(name: str) -> None:
    assert rerank.get_tuned(name, PROJECTED_EPRF, {}).parameters != HUANG
    assert rerank.get_tuned(name, PROJECTED_EPRF, PAPER).parameters == HUANG
    assert rerank.get_tuned(name, PROJECTED_EPRF, PAPER | {"P": 9}).parameters == HUANG | {"P": 9}
    assert get_learner(name, PROJECTED_EPRF, PAPER).parameters == HUANG


def test_the_name_is_the_same_in_commands() -> None:
    assert parse_parameters(["preset=paper", "P=9"]) == {"preset": "paper", "P": 9}
    (method,) = parse_methods("eprf:preset=paper:P=9")
    assert rerank.get_tuned(method.rerank, PROJECTED_EPRF, method.parameters).parameters == HUANG | {"P": 9}


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("eprf", {"preset": "book"}, "preset must be paper, not 'book'"),
        ("eprf", {"preset": 3}, "preset must be paper, not 3"),
        ("fuzzy-eprf", PAPER, "fuzzy-eprf has no preset: it follows no paper"),
        ("none", PAPER, "none has no preset"),
        ("eprf", {"P": "paper"}, "P must be a whole number"),
    ],
)
def test_others_are_refused(name: str, values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        rerank.get_tuned(name, {}, values)


def test_the_method_of_judgements_follows_no_paper() -> None:
    with pytest.raises(InvalidInput, match="feedback has no preset"):
        Feedback.from_values("feedback", PAPER)


def test_the_api_names_it_for_methods_with_a_paper() -> None:
    document = json.loads((Path(__file__).parents[3] / "docs" / "openapi.json").read_text("utf-8"))
    methods = document["components"]["schemas"]["RerankParameters"]["anyOf"]
    for name in rerank.names():
        properties = next(each["properties"] for each in methods if name in each["title"].split(", "))
        assert ("preset" in properties) == bool(rerank.reranker_class(name).paper)
