"""Charts of the report."""

import re
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbir.errors import InvalidInput
from cbir.evaluation.report import charts
from cbir.evaluation.report.charts import WIDTH, require_matplotlib, standalone_svg

SVG = "{http://www.w3.org/2000/svg}"


def titles(chart, kind):
    """Tooltips of the marks of a class."""
    root = ElementTree.fromstring(chart)
    return [mark.findtext(f"{SVG}title") for mark in root.iter() if mark.get("class") == kind]


def test_long_names_are_cut_and_complete_in_the_tooltip():
    names = ["chest", "computed radiography / lower extremity / <knee> & patella / severity 3"]
    chart = charts.bar_chart([(name, "7", [0.5]) for name in names], ["none"], "AP")
    assert titles(chart, "name") == names
    assert titles(chart, "bar") == [f"{name}, none: 0.500" for name in names]
    texts = [text.text for text in ElementTree.fromstring(chart).iter(f"{SVG}text")]
    assert "chest" in texts
    long = next(text for text in texts if re.fullmatch(r"computed radio.*….*severity 3", text))
    assert len(long) <= charts.LONGEST
    assert texts.count("7") == 2


@pytest.mark.parametrize("name", ["$\\frac{$", "5 $ to 6 $", "_hidden", "#2b66b1", "<b>&amp;", "[/x] :cat:"])
def test_names_are_printed_as_they_are(name):
    drawn = [
        charts.line_chart([(name, [0.1, 0.9])], [0, 1], "x", name),
        charts.bar_chart([(name, "7", [0.5])], [name], name),
        charts.scatter_chart([(0.1, 0.2, 0, name)], [name], name),
        charts.box_chart([(name, np.array([0.1, 0.2]))], (0, 1), name, name),
    ]
    for chart in drawn:
        texts = [text.text for text in ElementTree.fromstring(chart).iter(f"{SVG}text")]
        assert name in texts, texts
    for chart in drawn[:3]:
        assert name in titles(chart, "curve") + titles(chart, "name") + titles(chart, "dot")


@pytest.mark.filterwarnings("ignore:Glyph")
def test_characters_that_xml_does_not_have_are_left_out():
    chart = charts.bar_chart([("a\x01b\x1b[31m", "\x02", [0.5])], ["c\uffff"], "AP")
    assert titles(chart, "bar") == ["ab[31m, c: 0.500"]


def test_curves_can_be_told_apart():
    assert len({str(style) for style in charts.line_styles(32)}) == 32


def test_no_classes_give_an_empty_chart():
    assert not titles(charts.bar_chart([], ["none"], "AP"), "bar")


def test_the_same_values_give_the_same_bytes_without_date_or_version():
    first, second = (charts.line_chart([("a", [0.1, 0.9])], [0, 1], "x", "y") for _ in range(2))
    assert first == second
    assert not re.search(r"\b20\d\d-|matplotlib|https?://(?!www\.w3\.org/2000/svg)", first)


def test_colours_follow_the_page():
    chart = charts.scatter_chart([(0.1, 0.2, 0, "<a>"), (0.5, 0.5, None, "rest")], ["a"], "map")
    assert titles(chart, "dot") == ["<a>", "rest"]
    assert "var(--c0)" in chart
    assert "var(--rule)" in chart
    assert "prefers-color-scheme: dark" in standalone_svg(chart)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidInput, match=r"pip install '\.\[evaluate\]'"):
        require_matplotlib()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.41, 0.44), (0.41, 0.46)),
        ((0.0, 1.0), (0.0, 1.0)),
        ((0.3, 0.62), (0.3, 0.8)),
        ((0.5,), (0.5, 0.55)),
        ((0.0, 2.95), (0.0, 5.0)),
        ((-0.3, 1.1), (-0.5, 2.0)),
        ((40.0, 1234.0), (0.0, 2500.0)),
    ],
)
def test_a_range_fits_its_values_in_round_steps(values, expected):
    assert charts.round_range(values) == pytest.approx(expected)


@given(st.lists(st.floats(-1e4, 1e4), min_size=1))
def test_no_value_lies_outside_its_range(values):
    low, high = charts.round_range(values)
    assert low - 1e-6 <= min(values)
    assert max(values) <= high + 1e-6


@pytest.mark.parametrize(
    ("limits", "labels"),
    [
        ((1.0, 8.0), ["1.0", "2.4", "3.8", "5.2", "6.6", "8.0"]),
        ((1.0, 6.0), ["1", "2", "3", "4", "5", "6"]),
        ((0.0, 0.05), ["0.00", "0.01", "0.02", "0.03", "0.04", "0.05"]),
    ],
)
def test_ticks_are_where_their_labels_say(limits, labels):
    chart = charts.line_chart([("a", [0.4, 0.5])], limits, "x", "y", x_range=limits)
    assert [text.text for text in ElementTree.fromstring(chart).iter(f"{SVG}text")][:6] == labels


def test_ticks_and_points_follow_the_range():
    chart = charts.line_chart([("a", [0.4, 0.5])], [3, 15], "P", "y", x_range=(0, 15), y_range=(0.4, 0.5))
    root = ElementTree.fromstring(chart)
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert texts[:6] == ["0", "3", "6", "9", "12", "15"]
    assert texts[7:13] == ["0.40", "0.42", "0.44", "0.46", "0.48", "0.50"]
    curve = root.find(".//*[@class='curve']")
    path = next(curve.iter(f"{SVG}path")).get("d").split()
    (x0, y0), (x1, y1) = map(float, path[1:3]), map(float, path[4:6])
    assert x0 < x1 <= WIDTH
    assert y0 > y1


@pytest.mark.parametrize(
    ("last", "ticks"), [(2, [1, 2]), (5, [1, 2, 3, 4, 5]), (6, [1, 2, 3, 4, 5, 6]), (20, [1, 5, 9, 13, 17])]
)
def test_epochs_are_whole_numbers(last, ticks):
    assert charts.whole_ticks((1.0, float(last))) == ticks
    xs = [float(number) for number in range(1, last + 1)]
    chart = charts.line_chart([("loss", xs)], xs, "epoch", "loss", x_range=(1.0, xs[-1]), whole_numbers=True)
    labels = re.findall(r"<text[^>]*>([^<]*)</text>", chart)
    assert [int(label) for label in labels if label in map(str, ticks)] == ticks
    assert "1.8" not in labels
