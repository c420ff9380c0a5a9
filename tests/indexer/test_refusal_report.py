"""The csv of refused files."""

import csv
from pathlib import Path

from indexer.refusal_report import refusal_report


def test_a_path_is_no_formula(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    with refusal_report(path) as report:
        report("=HYPERLINK.png", "is empty")
        report("images/=.png", "is empty")
    rows = list(csv.reader(path.read_text().splitlines()))
    assert rows == [["path", "reason"], ["'=HYPERLINK.png", "is empty"], ["images/=.png", "is empty"]]
