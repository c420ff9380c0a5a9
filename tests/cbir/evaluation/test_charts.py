"""Charts of the report."""

import re
from xml.etree import ElementTree

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
