"""Charts of the report."""

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.evaluation.report import charts

SVG = "{http://www.w3.org/2000/svg}"


def test_long_names_fit_and_are_told_in_full():
    names = ["chest", "computed radiography / lower extremity / <knee> & patella / severity 3"]
    drawn = ElementTree.fromstring(charts.bars([(name, "7", [0.5]) for name in names], ["none"], "AP"))
    shown = [text for text in drawn.iter(f"{SVG}text") if text.find(f"{SVG}title") is not None]
    assert [text.find(f"{SVG}title").text for text in shown] == names
    assert shown[0].text == "chest"
    assert re.fullmatch(r"computed radio.*….*severity 3", shown[1].text)
    for text in shown:
        assert len(text.text) * charts.LETTER <= float(text.get("x"))


def test_curves_can_be_told_apart():
    assert len(set(charts.styles(32))) == 32


def test_no_classes_give_an_empty_chart():
    assert not list(ElementTree.fromstring(charts.bars([], ["none"], "AP")).iter(f"{SVG}rect"))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.41, 0.44), (0.41, 0.46)),
        ((0.0, 1.0), (0.0, 1.0)),
        ((0.3, 0.62), (0.3, 0.8)),
        ((0.5,), (0.5, 0.55)),
    ],
)
def test_a_range_fits_its_values_in_round_steps(values, expected):
    assert charts.fitting(values) == pytest.approx(expected)


@given(st.lists(st.floats(0.0, 1.0), min_size=1))
def test_no_value_lies_outside_its_range(values):
    low, high = charts.fitting(values)
    assert low - 1e-6 <= min(values)
    assert max(values) <= high + 1e-6


def test_ticks_and_points_follow_the_range():
    drawn = charts.lines([("a", [0.4, 0.5])], [3, 15], "P", "y", x_range=(0, 15), y_range=(0.4, 0.5))
    tree = ElementTree.fromstring(drawn)
    ticks = [text.text for text in tree.iter(f"{SVG}text") if text.get("class") == "tick"]
    assert ticks[1::2] == ["0", "3", "6", "9", "12", "15"]
    assert ticks[::2] == ["0.40", "0.42", "0.44", "0.46", "0.48", "0.50"]
    first, last = next(tree.iter(f"{SVG}polyline")).get("points").split()
    assert float(last.split(",")[0]) == charts.WIDTH - charts.RIGHT
    assert float(first.split(",")[1]) > float(last.split(",")[1])
