"""A collection as a FiftyOne folder and back; shapes as FiftyOne 1.22 writes them."""

import base64
import csv
import io
import json
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from cbir import settings
from cbir.api.main import app
from cbir.errors import InvalidInput
from cbir.evaluation.datasets.dataset_manifests import write_fiftyone_manifest
from cbir.evaluation.datasets.phantoms import draw_phantom, write_phantoms
from cbir.images import read_images
from cbir.store import Collection
from indexer.index_job import index_images
from service.features.fiftyone import fiftyone_folder as documents
from service.features.fiftyone.fiftyone_folder import write_fiftyone_folder


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fiftyone")
    write_phantoms(folder / "images", 6, size=64)
    index_images(
        folder / "images",
        folder / "collection",
        labels=folder / "images" / "manifest.csv",
        profile="tamura",
        jobs=1,
    )
    return folder / "collection"


def unpacked(vector: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Return a vector as FiftyOne reads it (`deserialize_numpy_array` of fiftyone.core.utils)."""
    data = zlib.decompress(base64.b64decode(vector["$binary"]["base64"]))
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))


def samples_of(folder: Path) -> list[dict[str, Any]]:
    return list(json.loads((folder / "samples.json").read_text(encoding="utf-8"))["samples"])


def test_a_collection_goes_out_and_comes_back(collection: Path, tmp_path: Path) -> None:
    out = tmp_path / "voxels"
    stale = tmp_path / "voxels.partial" / "data" / "of-another-collection.png"
    stale.parent.mkdir(parents=True)
    stale.write_bytes(b"left by an interrupted export")
    arguments = ["collection", "to-fiftyone", str(out), "--collection", str(collection), "--format", "json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["samples"] == 6
    samples = samples_of(out)
    assert {path.name for path in (out / "data").iterdir()} == {
        Path(each["filepath"]).name for each in samples
    }
    with Collection(collection) as opened:
        view = opened.view()
        ids = {sample["image_id"]: row for row, sample in enumerate(samples)}
        vectors = np.array([unpacked(sample["cbir_vector"]) for sample in samples])
        order = [ids[opened.image_ids()[number]] for number in view.gallery.ids.tolist()]
        assert np.array_equal(vectors[order], view.gallery.vectors(np.arange(6)))
        for sample in samples:
            record = opened.record(sample["image_id"])
            image = next(iter(read_images(out / sample["filepath"])))
            assert image.content_hash == record.content_hash
            assert sample["metadata"]["width"] == image.width
            assert sample["label"]["label"] == record.labels["label"]
            assert record.source not in json.dumps(sample)
    metadata = json.loads((out / "metadata.json").read_text(encoding="utf-8"))
    fields = {field["name"] for field in metadata["sample_fields"]}
    assert {key for sample in samples for key in sample if not key.startswith("_")} <= fields
    assert len({sample["_id"]["$oid"] for sample in samples}) == 6
    assert (out.stat().st_mode & 0o077, (out / "samples.json").stat().st_mode & 0o077) == (0, 0)
    manifest = tmp_path / "manifest.csv"
    assert CliRunner().invoke(app, ["dataset", "fiftyone", str(out), str(manifest)]).exit_code == 0
    with manifest.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["label"] for row in rows] == [sample["label"]["label"] for sample in samples]
    assert rows[0]["patient"] == samples[0]["patient_key"]
    assert rows[0]["path"] == f"voxels/{samples[0]['filepath']}"
    with Collection(collection) as opened, pytest.raises(InvalidInput, match="not an empty folder"):
        write_fiftyone_folder(opened, out, settings.load())


def test_images_with_text_and_large_collections(
    collection: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.features.fiftyone.fiftyone_folder.findings_of", lambda record: ["text"])
    with Collection(collection) as opened:
        assert write_fiftyone_folder(opened, tmp_path / "out", settings.load()) == (0, 6)
        assert samples_of(tmp_path / "out") == []
        with pytest.raises(InvalidInput, match="up to 5 images"):
            write_fiftyone_folder(
                opened, tmp_path / "other", settings.load().model_copy(update={"exact_limit": 5})
            )
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_pictures_are_looked_at_if_asked(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    written = np.zeros((240, 320), np.uint8)
    cv2.putText(written, "OKAFOR NGOZI", (20, 60), cv2.FONT_HERSHEY_SIMPLEX, 1, 255, 2)
    cv2.imwrite(str(tmp_path / "images" / "written.png"), written)
    cv2.imwrite(str(tmp_path / "images" / "clean.png"), draw_phantom(0, size=240).pixels)
    index_images(tmp_path / "images", tmp_path / "collection", profile="tamura", jobs=1)
    with Collection(tmp_path / "collection") as opened:
        assert write_fiftyone_folder(opened, tmp_path / "all", settings.load()) == (2, 0)
        assert write_fiftyone_folder(opened, tmp_path / "some", settings.load(), find_text=True) == (1, 1)
        (left,) = samples_of(tmp_path / "some")
        assert opened.record(left["image_id"]).source.endswith("clean.png")


def test_fields_that_fiftyone_would_refuse() -> None:
    names = documents.field_names(
        ["id", "body part", "body_part", "3d", "_x", "image_id", "größe", "modality"]
    )
    assert len(set(names.values())) == len(names)
    assert all(name.isascii() and name.isidentifier() and not name.startswith("_") for name in names.values())
    assert not {*names.values()} & {*documents.RESERVED, documents.IMAGE_ID}
    assert names["modality"] == "modality"


def write_folder(folder: Path, samples: Any, metadata: Any = None) -> Path:
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "a.png").write_bytes(b"any")
    (folder / "metadata.json").write_text(json.dumps(metadata or {"media_type": "image"}))
    (folder / "samples.json").write_text(json.dumps(samples))
    return folder


def test_fields_of_other_data_sets(tmp_path: Path) -> None:
    sample = {
        "filepath": "data/a.png", "tags": ["train", "checked"], "_media_type": "image", "patient_id": "P7",
        "metadata": {"_cls": "ImageMetadata", "width": 3}, "created_at": {"$date": "2026-03-02T10:00:00Z"},
        "ground_truth": {"_cls": "Classification", "label": "knee"}, "weather": None, "age": 61, "seen": True,
        "PatientID": "P8", "path": "a/b", "score": float("nan"),
        "predictions": {"_cls": "Detections", "detections": []}, "empty": {"_cls": "Classification", "label": None},
    }  # fmt: skip
    write_fiftyone_manifest(write_folder(tmp_path / "f", {"samples": [sample]}), tmp_path / "m.csv")
    with (tmp_path / "m.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.DictReader(file)) == [
            {
                "path": "f/data/a.png",
                "age": "61",
                "ground_truth": "knee",
                "label_path": "a/b",
                "patient": "P8",
                "seen": "True",
                "tags": "train+checked",
            }
        ]


@pytest.mark.parametrize(
    ("samples", "metadata", "message"),
    [
        ({"samples": []}, None, "no samples"),
        ([], None, "no JSON of FiftyOne"),
        ({"samples": [1]}, None, "no samples"),
        ({"samples": [{"filepath": "data/b.png"}]}, None, "missing: data/b.png"),
        ({"samples": [{}]}, None, "missing"),
        ({"samples": [{"filepath": "../other.png"}]}, None, r"is not in .*: \.\./other"),
        ({"samples": [{"filepath": "/etc/passwd"}]}, None, "is not in"),
        ({"samples": [{"filepath": "data/a.png"}, {"filepath": "data/../data/a.png"}]}, None, "of 2 samples"),
        ({"samples": [{"filepath": "data/a.png"}]}, {"media_type": "video"}, "video; only images"),
    ],
)
def test_other_folders_are_refused(tmp_path: Path, samples: Any, metadata: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        write_fiftyone_manifest(write_folder(tmp_path / "f", samples, metadata), tmp_path / "m.csv")
    assert not (tmp_path / "m.csv").exists()


def test_a_folder_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"metadata\.json cannot be read"):
        write_fiftyone_manifest(tmp_path, tmp_path / "m.csv")
