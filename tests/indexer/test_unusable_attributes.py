"""Images with display attributes that cannot be used are indexed; their record and the report name them."""

import csv
from pathlib import Path

from pydicom.dataset import Dataset

from cbir.store import Collection
from tests.cbir.images.synthetic_dicom import dicom_set, written
from tests.indexer.commands import index


def test_record_and_report(tmp_path: Path) -> None:
    folder, target, report = tmp_path / "images", tmp_path / "collection", tmp_path / "report.csv"
    folder.mkdir()
    (folder / "plain.dcm").write_bytes(written(dicom_set()))
    useless = dicom_set(
        -dicom_set().pixel_array, VOILUTSequence=[Dataset()], WindowCenter=40, WindowWidth=400
    )
    (folder / "useless.dcm").write_bytes(written(useless))
    summary = index(folder, target, "--profile", "huang2012", "--report", report)
    assert (summary["indexed"], summary["refused"]) == (2, 0)
    with report.open(newline="") as file:
        (row,) = list(csv.reader(file))[1:]
    assert row == [
        str(folder / "useless.dcm"),
        "added, though it has display attributes that cannot be used: VOI LUT",
    ]
    with Collection(target) as collection:
        labels = {Path(record.source).name: record.labels for record in collection.records([1, 2]).values()}
    assert labels["useless.dcm"]["unusable"] == "VOI LUT"
    assert "unusable" not in labels["plain.dcm"]
