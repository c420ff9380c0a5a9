"""What has to agree for an image to be relevant."""

import pytest

from cbir.errors import InvalidInput
from cbir.evaluation.relevance import parse_relevance

CHEST = {"label": "CXR", "modality": "CR", "anatomy": "chest", "irma_code": "1121-127-700-500"}


def test_labels_must_be_equal():
    assert parse_relevance("label").group(CHEST) == ("CXR",)
    assert parse_relevance("modality+anatomy").group(CHEST) == ("CR", "chest")
    assert parse_relevance(" modality + anatomy ").keys == ("modality", "anatomy")
    assert parse_relevance("label+label").keys == ("label",)
    assert parse_relevance("label").group({"label": ""}) is None
    assert parse_relevance("label+modality").group({"label": "CXR"}) is None


@pytest.mark.parametrize(
    ("axes", "group"),
    [
        ("TDAB", ("1121-127-700-500",)), ("T", ("1121",)), ("D", ("127",)), ("a", ("700",)),
        ("BA", ("700-500",)), ("TT", ("1121",)),
    ],
)  # fmt: skip
def test_axes_of_the_irma_code(axes, group):
    assert parse_relevance(f"irma:{axes}").group(CHEST) == group
    assert parse_relevance(f"irma:{axes}").group(CHEST | {"irma_code": "1121127700500"}) == group


def test_an_axis_that_is_not_known_agrees_with_none():
    starred = {"irma_code": "1121-12*-***-500"}
    assert parse_relevance("irma:TB").group(starred) == ("1121-500",)
    for axes in ("D", "A", "TDAB", "DB"):
        assert parse_relevance(f"irma:{axes}").group(starred) is None
    assert parse_relevance("irma:T").group({"irma_code": "C"}) is None
    assert parse_relevance("irma:T").group(CHEST | {"irma_code": ""}) is None
    with pytest.raises(InvalidInput, match="not an IRMA code"):
        parse_relevance("irma:T").group({"irma_code": "thorax"})


def test_criteria_join():
    both = parse_relevance("label+irma:A")
    assert both.group(CHEST) == ("CXR", "700")
    assert both.needs == ("label", "irma_code")


def test_grades():
    knee = {"anatomy": "knee", "grade": "3", "severity": "2.0"}
    assert parse_relevance("grade").group(knee) == ()
    assert parse_relevance("grade").grade_of(knee) == 3
    assert parse_relevance("anatomy+grade").class_of(knee) == ("knee", "grade 3")
    assert parse_relevance("grade:severity").grade_of(knee) == 2
    assert parse_relevance("grade").group({"anatomy": "knee"}) is None
    assert parse_relevance("label:grade").group(knee) == ("3",)
    assert parse_relevance("label").grade_of(knee) is None
    for grade in ("1.5", "II", "nan", "inf"):
        with pytest.raises(InvalidInput, match="whole number"):
            parse_relevance("grade").grade_of({"grade": grade})


def test_in_words():
    assert "modality and anatomy" in parse_relevance("modality+anatomy").in_words(0)
    assert "technique, anatomy" in parse_relevance("irma:TA").in_words(0)
    words = parse_relevance("anatomy+grade").in_words(4)
    assert "4 minus the difference" in words
    assert "anatomy" in words


@pytest.mark.parametrize(
    "text", ["", "+", "label+", "irma:", "irma:X", "irma", "grade+grade:severity", "colour:red", "label:"]
)
def test_what_cannot_be_read_is_named(text):
    with pytest.raises(InvalidInput, match="relevance"):
        parse_relevance(text)
