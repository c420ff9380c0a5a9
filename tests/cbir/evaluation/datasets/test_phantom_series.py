"""Drawn CT series: the same for the same numbers, with the lesion where the manifest says."""

import csv
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pydicom
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import CbirError, InvalidInput
from cbir.evaluation.datasets.phantoms import draw_series, series_facts, write_phantom_series
from cbir.evaluation.datasets.phantoms.body_volume import (
    FIELD,
    KIND_NAMES,
    NO_LESION,
    REGION_NAMES,
    SLICE_DISTANCE,
    VISITS,
)
from cbir.images import read_images

KINDS = len(KIND_NAMES)


def rows(manifest: Path) -> list[dict[str, str]]:
    with manifest.open(newline="") as file:
        return list(csv.DictReader(file))


def density_error(number: int, size: int) -> float:
    """Smallest difference of a patch's median near the lesion's place from the lesion's density, in HU."""
    series = draw_series(number, 0, 24, size)
    assert series.lesion is not None
    x, y, z = series.lesion.centre
    index = int(np.abs(np.array(series.positions) - z).argmin())
    errors = []
    for row in range(1, size - 1):  # the pose shifts and turns the body a little
        for column in range(1, size - 1):
            at = ((np.array([column, row]) + 0.5) / size - 0.5) * FIELD
            if np.hypot(*(at - (x, y))) < 14 + 9:
                patch = np.median(series.voxels[index, row - 1 : row + 2, column - 1 : column + 2])
                errors.append(abs(float(patch) - series.lesion.kind.core))
    return min(errors)


def test_the_same_numbers_give_the_same_series() -> None:
    first, again = draw_series(5, 3, 4, 32), draw_series(5, 3, 4, 32)
    np.testing.assert_array_equal(first.voxels, again.voxels)
    assert first.voxels.dtype == np.int16
    assert first.voxels.shape == (4, 32, 32)
    for other in (draw_series(4, 3, 4, 32), draw_series(5, 2, 4, 32)):
        assert np.abs(other.voxels.astype(int) - first.voxels).mean() > 5


def test_series_of_a_patient_show_one_body_with_one_lesion() -> None:
    facts = [series_facts(number) for number in range(VISITS * KINDS * len(REGION_NAMES))]
    for first, second in zip(facts[::2], facts[1::2], strict=True):
        assert (first.patient, first.region, first.kind) == (second.patient, second.region, second.kind)
        assert (first.visit, second.visit) == (0, 1)
        if first.lesion and second.lesion:
            np.testing.assert_array_equal(first.lesion.centre, second.lesion.centre)
            assert 0.6 < first.lesion.radius / second.lesion.radius < 1.6
    assert {(item.region, item.kind) for item in facts} == {(r, k) for r in REGION_NAMES for k in KIND_NAMES}
    assert len({item.patient for item in facts}) == len(facts) / VISITS
    assert all((item.lesion is None) == (item.kind == NO_LESION) == (not any(item.shows)) for item in facts)
    assert series_facts(3, slices=9) == series_facts(3, slices=9)


@pytest.mark.parametrize("patient", [0, 2, 4, 8, 10, 16, 22])
def test_the_lesion_is_where_the_truth_says(patient: int) -> None:
    assert density_error(VISITS * patient, 96) < 30


def test_slices_that_show_the_lesion_are_around_its_centre() -> None:
    for number in range(0, VISITS * KINDS, 2):
        facts = series_facts(number)
        if facts.lesion is None:
            continue
        z = np.array(facts.positions)
        inside = np.abs(z - facts.lesion.centre[2]) < facts.lesion.radii[2]
        assert set(np.flatnonzero(facts.shows)) <= set(np.flatnonzero(inside))
        assert any(facts.shows)
        assert np.allclose(np.diff(z), SLICE_DISTANCE)


def test_a_folder_of_series_and_its_manifest(tmp_path: Path) -> None:
    progress: list[int] = []
    manifest = write_phantom_series(
        tmp_path / "new" / "folder", 4, size=32, slices=6, on_progress=progress.append
    )
    table = rows(manifest)
    assert progress == [1, 2, 3, 4]
    assert len(table) == 24
    assert {row["path"] for row in table} == {
        str(path.relative_to(manifest.parent)) for path in manifest.parent.rglob("*.dcm")
    }
    studies: dict[str, set[str]] = {}
    for index, row in enumerate(table):
        series, facts = draw_series(index // 6, 0, 6, 32), series_facts(index // 6, 0, 6)
        ds = pydicom.dcmread(manifest.parent / row["path"])
        heights = ds.pixel_array * float(ds.RescaleSlope) + float(ds.RescaleIntercept)
        np.testing.assert_array_equal(heights, series.voxels[index % 6])
        assert ds.PixelSpacing == [FIELD / 32] * 2
        corner = (FIELD / 32 - FIELD) / 2  # the centre of the first pixel, so that the body's axis is at 0
        assert ds.ImagePositionPatient == [corner, corner, index % 6 * SLICE_DISTANCE]
        assert ds.SeriesInstanceUID == row["series"]
        assert (int(row["slice"]), ds.InstanceNumber) == (index % 6 + 1, index % 6 + 1)
        assert ds.PatientID == row["patient"] == facts.patient
        assert row["label"] == (facts.kind if facts.shows[index % 6] else NO_LESION)
        assert row["series_lesion"] == facts.kind
        assert float(row["body_z"]) == pytest.approx(facts.positions[index % 6], abs=0.06)
        studies.setdefault(ds.StudyInstanceUID, set()).add(ds.SeriesInstanceUID)
        (image,) = read_images(manifest.parent / row["path"])
        assert image.dicom is not None
        assert (image.dicom.modality, image.dicom.series) == ("CT", row["series"])
    assert [len(series) for series in studies.values()] == [1] * 4
    assert len({row["series"] for row in table}) == 4


@pytest.mark.skipif(shutil.which("dciodvfy") is None, reason="dicom3tools is not installed")
def test_slices_are_valid_ct_images(tmp_path: Path) -> None:
    write_phantom_series(tmp_path, 1, size=32, slices=1)
    path = tmp_path / "series-00000" / "slice-001.dcm"
    done = subprocess.run(["dciodvfy", path], capture_output=True, text=True, check=False)
    assert (done.stdout + done.stderr).splitlines() == ["CTImage"]
    assert pydicom.dcmread(path).PatientPosition == "HFS"


def test_bytes_are_the_same_every_time_and_writing_continues(tmp_path: Path) -> None:
    for folder in "ab":
        write_phantom_series(tmp_path / folder, 2, size=32, slices=3)
    first = tmp_path / "a" / "series-00000" / "slice-002.dcm"
    stamp = first.stat().st_mtime_ns
    (tmp_path / "a" / "series-00001" / "slice-001.dcm").unlink()
    write_phantom_series(tmp_path / "a", 3, size=32, slices=3)
    assert first.stat().st_mtime_ns == stamp
    for path in (tmp_path / "b").rglob("*.dcm"):
        assert path.read_bytes() == (tmp_path / "a" / path.relative_to(tmp_path / "b")).read_bytes()
    with pytest.raises(InvalidInput, match="another folder"):
        write_phantom_series(tmp_path / "a", 2, size=32, slices=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "at least 1 series"),
        ({"count": 1, "size": 16}, "32 to 4096"),
        ({"count": 1, "slices": 0}, "1 to 200"),
        ({"count": 1, "slices": 201}, "1 to 200"),
        ({"count": 1, "seed": -1}, "negative"),
        ({"count": 1, "slices": 200, "size": 4096}, "200 slices of 4096 x 4096 pixels"),
    ],
)
def test_values_out_of_range(tmp_path: Path, options: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        write_phantom_series(tmp_path / "out", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_the_command(tmp_path: Path) -> None:
    options = ["--series", "--count", "2", "--size", "32", "--slices", "2"]
    done = CliRunner().invoke(app, ["dataset", "phantoms", str(tmp_path / "out"), *options])
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "out").rglob("*.dcm"))) == 4
    assert "2 series in" in done.stdout
    for wrong, message in ((["--slices", "3"], "--series"), (["--series", "--format", "png"], "DICOM")):
        refused = CliRunner().invoke(app, ["dataset", "phantoms", str(tmp_path / "b"), *wrong])
        assert isinstance(refused.exception, CbirError)
        assert message in str(refused.exception)
