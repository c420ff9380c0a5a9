"""Damaged DICOM objects in a folder that is indexed: each is refused with a reason that names no patient."""

import csv
from pathlib import Path

import pytest

from indexer.describe_instance import Fate
from tests.indexer.commands import index
from tests.indexer.damaged import DAMAGED
from tests.indexer.receiving import instances_in

SAID = {
    "cut": "truncated",
    "cut in the header": "has no pixels, though it is of class CT Image Storage",
    "not compressed though it says so": "in RLE Lossless, that are damaged",
    "another order of bytes than it says": "has no pixels, though",
    "too few pixels": "truncated or do not fit its header",
    "65535 rows and columns": "65535 x 65535 pixels",
    "report": "has no pixels: it is of class Basic Text SR Storage",
}


@pytest.mark.slow
def test_each_is_refused_with_its_reason_and_the_good_ones_are_taken(tmp_path: Path) -> None:
    folder, target = tmp_path / "images", tmp_path / "collection"
    folder.mkdir()
    for name, (data, _) in DAMAGED.items():
        (folder / f"{name}.dcm").write_bytes(data)
    good = [name for name, (_, fate) in DAMAGED.items() if fate is Fate.stored]
    summary = index(folder, target, "--report", tmp_path / "report.csv", code=3)
    assert (summary["files"], summary["indexed"]) == (len(DAMAGED), len(good))
    assert summary["refused"] == len(SAID) == len(DAMAGED) - len(good)
    assert len(instances_in(target)) == len(good)
    with (tmp_path / "report.csv").open(newline="") as file:
        refused = {Path(row[0]).stem: row[1] for row in list(csv.reader(file))[1:]}
    assert refused.keys() == SAID.keys()
    for name, reason in refused.items():
        assert SAID[name] in reason
        assert "SECRET" not in reason
        assert "secret-patient" not in reason
