"""The csv of refused files."""

import csv
import os
import stat
from pathlib import Path

import pytest

from indexer.index_progress import refusal_report


def test_no_cell_is_a_formula(tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    with refusal_report(path) as report:
        report("=HYPERLINK.png", "is empty")
        report("images/=.png", "=HYPERLINK.png needs more memory than there is")
    rows = list(csv.reader(path.read_text().splitlines()))
    assert rows == [
        ["path", "reason"],
        ["'=HYPERLINK.png", "is empty"],
        ["images/=.png", "'=HYPERLINK.png needs more memory than there is"],
    ]


@pytest.mark.skipif(os.name == "nt", reason="Windows has other rights")
@pytest.mark.parametrize("exists", [False, True])
def test_only_the_owner_reads_a_report(tmp_path: Path, exists: bool) -> None:
    if exists:
        (tmp_path / "report.csv").touch()
        (tmp_path / "report.csv").chmod(0o644)
    previous = os.umask(0)
    try:
        with refusal_report(tmp_path / "report.csv"):
            pass
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "report.csv").stat().st_mode) == 0o600
