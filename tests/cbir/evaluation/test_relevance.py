"""What has to agree for an image to be relevant."""

import pytest

from cbir.errors import InvalidInput
from cbir.evaluation.relevance import parse

CHEST = {"label": "CXR", "modality": "CR", "anatomy": "chest", "irma_code": "1121-127-700-500"}


def test_labels_must_be_equal():
    assert parse("label").group(CHEST) == ("CXR",)
    assert parse("modality+anatomy").group(CHEST) == ("CR", "chest")
    assert parse(" modality + anatomy ").keys == ("modality", "anatomy")
    assert parse("label+label").keys == ("label",)
    assert parse("label").group({"label": ""}) is None
    assert parse("label+modality").group({"label": "CXR"}) is None


@pytest.mark.parametrize(
    ("axes", "group"),
    [
        ("TDAB", ("1121-127-700-500",)), ("T", ("1121",)), ("D", ("127",)), ("a", ("700",)),
        ("BA", ("700-500",)), ("TT", ("1121",)),
    ],
)  # fmt: skip
def test_axes_of_the_irma_code(axes, group):
    assert parse(f"irma:{axes}").group(CHEST) == group
    assert parse(f"irma:{axes}").group(CHEST | {"irma_code": "1121127700500"}) == group


def test_an_axis_that_is_not_known_agrees_with_none():
    starred = {"irma_code": "1121-12*-***-500"}
    assert parse("irma:TB").group(starred) == ("1121-500",)
    for axes in ("D", "A", "TDAB", "DB"):
        assert parse(f"irma:{axes}").group(starred) is None
    assert parse("irma:T").group({"irma_code": "C"}) is None
    assert parse("irma:T").group(CHEST | {"irma_code": ""}) is None
    with pytest.raises(InvalidInput, match="no IRMA code"):
        parse("irma:T").group({"irma_code": "thorax"})


def test_criteria_join():
    both = parse("label+irma:A")
    assert both.group(CHEST) == ("CXR", "700")
    assert both.needs == ("label", "irma_code")


def test_grades():
    knee = {"anatomy": "knee", "grade": "3", "severity": "2.0"}
    assert parse("grade").group(knee) == ()
    assert parse("grade").grade_of(knee) == 3
    assert parse("anatomy+grade").class_of(knee) == ("knee", "grade 3")
    assert parse("grade:severity").grade_of(knee) == 2
    assert parse("grade").group({"anatomy": "knee"}) is None
    assert parse("label:grade").group(knee) == ("3",)
    assert parse("label").grade_of(knee) is None
    for grade in ("1.5", "II", "nan", "inf"):
        with pytest.raises(InvalidInput, match="whole number"):
            parse("grade").grade_of({"grade": grade})


def test_in_words():
    assert "modality and anatomy" in parse("modality+anatomy").in_words(0)
    assert "technique, anatomy" in parse("irma:TA").in_words(0)
    words = parse("anatomy+grade").in_words(4)
    assert "4 minus the difference" in words
    assert "anatomy" in words


@pytest.mark.parametrize(
    "text", ["", "+", "label+", "irma:", "irma:X", "irma", "grade+grade:severity", "colour:red", "label:"]
)
def test_what_cannot_be_read_is_named(text):
    with pytest.raises(InvalidInput, match="relevance"):
        parse(text)
