"""NIfTI volumes and files that are not read, from a folder to answers."""

from pathlib import Path

import nibabel
import numpy as np
import pytest
from pydicom.data import get_testdata_file
from typer.testing import CliRunner

from cbir import settings
from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.store import Collection
from service.app import create_app
from tests.cbir.images.test_other_files import tagged_tiff
from tests.indexer.commands import index

SHAPE = (24, 20, 6)


def write_volume(path: Path, seed: int, noise: int = 0) -> None:
    """Write a volume of blobs that `seed` places, with some noise."""
    random = np.random.default_rng(seed)
    coarse = random.normal(size=(6, 5, 3)) * 400
    values = coarse.repeat(4, 0).repeat(4, 1).repeat(2, 2) + np.random.default_rng(noise).normal(size=SHAPE)
    affine = np.diag([1.0, 1.0, 3.0, 1.0])
    nibabel.save(nibabel.Nifti1Image(values.astype(np.int16), affine), path)


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Index two pairs of similar volumes beside files that are not read; return the collection and the report."""
    root = tmp_path_factory.mktemp("volumes")
    folder = root / "files"
    folder.mkdir()
    for seed in (1, 2):
        write_volume(folder / f"first-{seed}.nii.gz", seed)
        write_volume(folder / f"second-{seed}.nii", seed, noise=seed)
    (folder / "film.mp4").write_bytes(b"\0\0\0\x20ftypisom" + bytes(200))
    (folder / "slide.svs").write_bytes(tagged_tiff(tiled=True, t270="Aperio"))
    (folder / "notes.txt").write_text("not an image")
    options = ("--profile", "huang2012", "--report", root / "report.csv")
    summary = index(folder, root / "collection", *options, code=3)
    assert summary["indexed"] == 4 * SHAPE[2]
    return root / "collection", (root / "report.csv").read_text()


def test_the_report_names_the_kinds(indexed: tuple[Path, str]) -> None:
    rows = sorted(indexed[1].splitlines()[1:])
    assert len(rows) == 2
    assert rows[0].endswith("film.mp4,film.mp4 is a video; export its frames as PNG")
    assert "slide.svs is a whole-slide image (Aperio SVS); whole-slide images are not read" in rows[1]


@pytest.mark.features
def test_series_that_are_similar(indexed: tuple[Path, str]) -> None:
    with Collection(indexed[0]) as collection:
        records = [record for _, record in collection.iterate()]
    series = {Path(record.source).name: record.series for record in records}
    assert len(set(series.values())) == 4
    assert sorted(record.frame for record in records if record.series == series["second-1.nii"]) == [
        1, 2, 3, 4, 5, 6,
    ]  # fmt: skip
    studies = {record.series: record.study for record in records}
    archive = {"archive_url": "http://127.0.0.1:9/dicom-web", "viewer_link": "http://127.0.0.1:9/?s={study}"}
    client = create_app(indexed[0], settings.load(**archive)).test_client()
    for seed in (1, 2):
        asked = series[f"first-{seed}.nii.gz"]
        query = {"study": studies[asked], "series": asked, "level": "series", "rerank": "none"}
        found = client.get("/v1/similar", query_string=query).json["results"]
        assert len(found) == 3
        assert found[0]["series"] == series[f"second-{seed}.nii"]
        assert found[0]["best"]["links"]["viewer"] is None  # no archive has it
    hit = next(record for record in records if record.frame == 4)
    answer = client.post("/v1/search", json={"image_id": hit.image_id, "k": 1, "rerank": "none"}).json
    assert answer["results"][0]["dicom"]["series"] in series.values()
    picture = client.get(f"/v1/images/{hit.image_id}/picture")
    assert (picture.status_code, picture.mimetype) == (200, "image/png")


def test_volumes_and_refusals_over_http(indexed: tuple[Path, str], tmp_path: Path) -> None:
    client = create_app(indexed[0], settings.load()).test_client()
    write_volume(tmp_path / "query.nii.gz", 2, noise=9)
    data = (tmp_path / "query.nii.gz").read_bytes()
    answer = client.post("/v1/search?frame=3&k=2", data=data, content_type="application/octet-stream").json
    assert (answer["query"]["format"], answer["query"]["frame"]) == ("nifti", 3)
    with Collection(indexed[0]) as collection:
        best = [collection.record(hit["image_id"]) for hit in answer["results"]]
    assert {Path(record.source).name for record in best} == {"first-2.nii.gz", "second-2.nii"}
    rendered = client.post("/v1/render?window=0,100", data=data, content_type="application/octet-stream")
    assert rendered.headers["Image-Window"] == "0,100"
    film = b"\0\0\0\x20ftypisom" + bytes(200)
    refused = client.post("/v1/search", data=film, content_type="application/octet-stream")
    assert refused.status_code == 422
    assert "is a video; export its frames" in refused.json["detail"]


@pytest.mark.features
def test_reports_leave_volumes_out(indexed: tuple[Path, str], tmp_path: Path) -> None:
    pytest.importorskip("highdicom")
    with Collection(indexed[0]) as collection:
        image_id = next(record.image_id for _, record in collection.iterate())
    written = ("--collection", indexed[0], "--out", tmp_path / "report.dcm")
    with pytest.raises(InvalidInput, match="is no DICOM image, so there is no study"):
        CliRunner().invoke(
            app, ["search", "--report", f"id:{image_id}", *map(str, written)], catch_exceptions=False
        )
    scan = get_testdata_file("CT_small.dcm", download=False)
    with pytest.raises(InvalidInput, match="no DICOM image is left to report"):
        CliRunner().invoke(app, ["search", "--report", str(scan), *map(str, written)], catch_exceptions=False)
    assert not (tmp_path / "report.dcm").exists()
