"""The choice that `auto` stands for: stored text, text of other versions, defaults by descriptor."""

from typing import Any

import pytest

from cbir import rerank
from cbir.rerank import CANDIDATES, OF_HUANG2012, AutoChoice, default_choice, read_choice
from cbir.rerank.answer_evidence import Evidence
from cbir.search import Request
from cbir.search.query_parts import _evidence_for


def test_a_stored_choice_is_read_back() -> None:
    choice = AutoChoice("diffusion", "best of 2", {"damping": 0.97}, 4)
    assert read_choice(choice.to_json(), "huang2012") == choice


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "{",
        "[]",
        "{}",
        '{"method": "of-a-later-version", "reason": "good"}',
        '{"method": "aqe", "reason": "good", "parameters": {"P": -1}}',
        '{"method": "aqe", "reason": "good", "parameters": {"unknown": 1}}',
        '{"method": "aqe", "reason": "good", "field": 1}',
    ],
)
def test_text_that_names_no_method_of_this_version_counts_as_no_choice(text: str | None) -> None:
    assert read_choice(text, "huang2012") == default_choice("huang2012")


def test_descriptors_that_diffusion_harms_are_not_re_ranked() -> None:
    assert default_choice("color_layout").method == default_choice("tamura").method == "none"
    for descriptor, candidate in (("lite0-max", 0), ("edge_histogram", 0), ("huang2012", 1)):
        default = default_choice(descriptor)
        assert (default.method, default.parameters) == CANDIDATES[candidate]


def test_every_candidate_exists_and_no_re_ranking_is_one() -> None:
    assert [rerank.get(name, **parameters).name for name, parameters in CANDIDATES]
    assert ("none", {}) in CANDIDATES


def test_the_update_and_svms_act_by_default() -> None:
    for name in ("lite0-max", "huang2012", "a network of one's own"):
        default = default_choice(name)
        parameters = rerank.get(default.method, **default.parameters).parameters
        assert parameters["lam"] > 0
        assert parameters["weight"] > 0
        assert parameters["evidence"] > 0


def test_the_default_keeps_first_answers_but_those_of_huang2012() -> None:
    """Without labels there is no evidence that another first answer is better, beside that of other collections."""
    assert rerank.get("auto").parameters["sure"] == 1.0
    assert rerank.get("auto", **OF_HUANG2012).parameters["sure"] == 0.85


@pytest.mark.parametrize(
    "narrowed",
    [
        {"where": ["label=a"]}, {"same_patient": True}, {"max_distance": 1.0}, {"score_threshold": 0.5},
        {"group_by": "patient", "group_size": 2}, {"group_by": "study"},
    ],
)  # fmt: skip
def test_evidence_is_of_answers_as_they_were_counted(narrowed: dict[str, Any]) -> None:
    """Of all images, one by one, or the best of each patient."""
    by_image, by_patient = {"label": Evidence()}, {"kind": Evidence()}
    choice = AutoChoice("none", "", evidence={"image": by_image, "patient": by_patient})
    assert _evidence_for(choice, Request()) == by_image
    assert _evidence_for(choice, Request(group_by="patient")) == by_patient
    assert _evidence_for(choice, Request(**narrowed)) == {}
