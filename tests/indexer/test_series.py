"""CT series from folders to answers, described by a network that only computes means."""

import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pydicom
import pytest

from cbir import settings
from cbir.store import Collection
from service.app import create_app
from tests.cbir.images.synthetic_series import stack, write_nifti, write_series
from tests.indexer.block_means import write_block_means
from tests.indexer.commands import call, index

SHAPE, SPACING = (40, 48, 48), (6.0, 5.0, 5.0)


@pytest.fixture(scope="module")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoders")
    write_block_means(folder)
    return folder


@pytest.fixture(autouse=True)
def use_block_means(encoder_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CBIR_ENCODER_FOLDER", str(encoder_folder))


def write_body(folder: Path, seed: int, number: int, **more) -> list[Path]:
    return write_series(folder, stack(SHAPE, SPACING, seed), SPACING, uid=f"1.2.{number}", **more)


@pytest.fixture(scope="module")
def indexed(
    tmp_path_factory: pytest.TempPathFactory, encoder_folder: Path
) -> tuple[Path, Path, dict[str, object]]:
    """Index four bodies, the first with noise again, the second as NIfTI too, beside other files."""
    root = tmp_path_factory.mktemp("series")
    images = root / "images"
    for seed in range(1, 5):
        write_body(images / f"body{seed}", seed, seed, order_seed=seed)
    again = stack(SHAPE, SPACING, 1) + np.random.default_rng(0).integers(-9, 10, SHAPE, np.int16)
    write_series(images / "again", again, SPACING, uid="1.2.10", slope=0.5)
    write_nifti(images / "second.nii.gz", np.clip(stack(SHAPE, SPACING, 2) + 3, -1000, 3000), SPACING)
    write_body(images / "magnet", 7, 20, Modality="MR")
    (images / "labels.csv").write_text("path,label,patient\nbody1,first,A\nbody2/0003.dcm,second,B\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBIR_ENCODER_FOLDER", str(encoder_folder))
        summary = index(
            images, root / "c", "--profile", "ct-volume", "--labels", images / "labels.csv", code=3
        )
    return images, root / "c", summary


def records(folder: Path) -> dict[str, object]:
    with Collection(folder) as collection:
        found = collection.records(range(1, 20))
        return {Path(record.source).parent.name: record for record in found.values()}


def search(folder: Path, *queries: object) -> list[str]:
    options = ("--collection", folder, "--format", "json", "-k", 3, "--rerank", "none")
    answer = json.loads(call("search", *queries, *options)[0])
    with Collection(folder) as collection:
        ids = [hit["image_id"] for hit in answer["results"]]
        known = collection.records_by_id(ids)
        return [Path(known[image_id].source).parent.name for image_id in ids]


def test_one_record_for_each_series(indexed):
    _, folder, summary = indexed
    assert (summary["indexed"], summary["refused"]) == (6, SHAPE[0])
    assert "modality MR" in summary["examples"][0][1]
    stored = records(folder)
    assert len(stored) == 6
    first = stored["body1"]
    assert (first.series, first.study, first.labels["modality"]) == ("1.2.1", "1.2.1.9", "CT")
    assert first.instance == f"1.2.1.{SHAPE[0] // 2 + 1}"
    assert first.labels["label"] == "first"
    assert stored["body2"].labels["label"] == "second"
    assert first.patient_key != stored["body3"].patient_key
    assert stored["images"].format == "nifti"


def test_similar_series_are_found(indexed):
    images, folder, _ = indexed
    stored = records(folder)
    assert search(folder, f"id:{stored['body1'].image_id}")[0] == "again"
    assert search(folder, images / "second.nii.gz")[0] == "body2"
    assert search(folder, images / "again")[0] == "body1"


def test_the_same_series_elsewhere_is_a_duplicate(indexed, tmp_path):
    _, folder, _ = indexed
    write_body(tmp_path / "copy", 3, 3, order_seed=9)
    summary = index(tmp_path / "copy", folder)
    assert (summary["indexed"], summary["duplicates"]) == (0, 1)


def test_again_and_grown(indexed, tmp_path):
    """Nothing is described twice; slices that come later replace the vector of their series."""
    paths = write_body(tmp_path / "images" / "a", 5, 30)
    late = {path: path.read_bytes() for path in paths[25:]}
    for path in late:
        path.unlink()
    collection = tmp_path / "c"
    assert index(tmp_path / "images", collection, "--profile", "ct-volume")["indexed"] == 1
    (before,) = records(collection).values()
    assert index(tmp_path / "images", collection)["already"] == 1
    for path, data in late.items():
        path.write_bytes(data)
    index(tmp_path / "images", collection)
    (after,) = records(collection).values()
    assert (after.series, after.source) == (before.series, before.source)
    assert after.content_hash != before.content_hash
    assert index(tmp_path / "images", collection)["already"] == 1


def test_killed_and_continued(tmp_path):
    for seed in range(1, 5):
        write_body(tmp_path / "images" / str(seed), seed, 40 + seed)
    options = ("--collection", tmp_path / "c", "--profile", "ct-volume", "--jobs", 1)
    command = [sys.executable, "-m", "cbir.api.main", "index", tmp_path / "images", *options]
    process = subprocess.Popen([str(part) for part in command], stderr=subprocess.DEVNULL)
    while process.poll() is None and not (Collection.exists(tmp_path / "c") and records(tmp_path / "c")):
        time.sleep(0.02)
    process.kill()
    process.wait()
    stored = len(records(tmp_path / "c"))
    summary = index(tmp_path / "images", tmp_path / "c")
    assert (summary["already"], summary["indexed"]) == (stored, 4 - stored)
    assert {record.series for record in records(tmp_path / "c").values()} == {
        f"1.2.4{n}" for n in range(1, 5)
    }


@pytest.mark.parametrize(("query", "reason"), [
    ("body1/0003.dcm", "0003.dcm is one slice; search with a folder or ZIP archive of its series"),
    ("", "holds 6 series or passes; search with the files of one of them"),
    ("magnet", "is of modality MR"),
    ("none", "there is no file or folder"),
])  # fmt: skip
def test_queries_that_are_no_series(indexed, query, reason):
    images, folder, _ = indexed
    _, errors = call("search", images / query, "--collection", folder, code=2)
    assert reason in errors
    assert "Traceback" not in errors


def test_describe_gives_the_vector(indexed):
    images, *_ = indexed
    dicom, nifti = (
        np.array(
            json.loads(call("describe", path, "--descriptor", "ct-volume", "--format", "json")[0])["values"]
        )
        for path in (images / "body2", images / "second.nii.gz")
    )
    assert dicom.shape == (2048,)
    assert np.abs(dicom - nifti).max() < 0.05 * np.abs(dicom).max()


@pytest.mark.parametrize(("arguments", "reason"), [
    (("index", "{images}", "--collection", "{other}", "--profile", "ct-volume+huang2012"), "use ct-volume alone"),
    (("collection", "redescribe", "{other}", "--collection", "{folder}"), "index their folders again"),
    (("search", "{images}/body1", "--collection", "{folder}", "--frame", 2), "frame: is for single images"),
    (("search", "{images}", "--collection", "{folder}", "--frame", 2, "--output", "{other}.csv"), "frame: is for"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(indexed, tmp_path, arguments, reason):
    images, folder, _ = indexed
    names = {"images": images, "folder": folder, "other": tmp_path / "other"}
    _, errors = call(*(str(text).format(**names) for text in arguments), code=2)
    assert reason in errors
    assert not (tmp_path / "other").exists()


@pytest.mark.features
def test_over_http(indexed):
    images, folder, _ = indexed
    stored = records(folder)
    client = create_app(folder, settings.load()).test_client()
    first = stored["body1"].image_id
    assert client.get(f"/v1/images/{first}/thumbnail").status_code == 200
    found = client.post("/v1/search", json={"image_id": first, "rerank": "none"}).get_json()["results"]
    assert found[0]["image_id"] == stored["again"].image_id
    region = client.post("/v1/search", json={"image_id": first, "region": [0, 0, 9, 9]})
    assert (region.status_code, "have no regions" in region.get_json()["detail"]) == (422, True)
    uids = {"study": "1.2.1.9", "series": "1.2.1", "level": "series", "rerank": "none"}
    near = client.get("/v1/similar", query_string=uids)
    assert near.get_json()["results"][0]["series"] == "1.2.10"
    qido = client.get("/dicomweb/studies/1.2.1.9/series/1.2.1/similar?level=series&rerank=none").get_json(
        force=True
    )
    assert qido[0]["0020000E"]["Value"] == ["1.2.10"]
    for path in (images / "body1" / "0003.dcm", images / "second.nii.gz"):
        answer = client.post("/v1/images", data=path.read_bytes(), content_type="application/octet-stream")
        assert answer.status_code == 422
        assert "describes CT series, not single images; index the folder" in answer.get_json()["detail"]


def test_two_passes_are_two_records_and_every_file_is_in_one_or_reported(tmp_path):
    for number, folder in enumerate(("a", "b"), start=1):
        for path in write_body(tmp_path / "ct" / folder, number, 1, AcquisitionNumber=number):
            rename_instance(path, number)
    write_series(
        tmp_path / "ct" / "copy",
        stack(SHAPE, SPACING, 1)[:2],
        SPACING,
        uid="1.2.1",
        SOPInstanceUID="1.2.1.1.1",
    )
    for path in write_body(tmp_path / "ct" / "scout", 1, 1, ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"])[
        2:
    ]:
        path.unlink()
    options = ("--profile", "ct-volume", "--report", tmp_path / "report.csv")
    summary = index(tmp_path / "ct", tmp_path / "c", *options, code=3)
    assert (summary["indexed"], summary["refused"]) == (2, 4)
    with open(tmp_path / "report.csv", newline="") as file:
        reported = {row["path"]: row["reason"] for row in csv.DictReader(file)}
    assert {Path(path).parent.name for path in reported} == {"copy", "scout"}
    assert len(summary["examples"]) == len(reported) == 4
    assert set(records(tmp_path / "c")) == {"a", "b"}
    again = index(tmp_path / "ct", tmp_path / "c", *options, code=3)
    assert (again["indexed"], again["already"]) == (0, 2)
    errors = call("search", tmp_path / "ct", "--collection", tmp_path / "c", code=2)[1]
    assert "holds 2 series or passes" in errors


def rename_instance(path, number):
    dataset = pydicom.dcmread(path)
    dataset.SOPInstanceUID = f"1.2.1.{number}.{dataset.SOPInstanceUID.rpartition('.')[2]}"
    dataset.save_as(path)
