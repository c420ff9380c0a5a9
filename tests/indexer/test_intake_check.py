"""The intake check of folders, C-STORE and the command that ends a quarantine."""

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from pydicom import Dataset
from pydicom.encaps import encapsulate
from pydicom.uid import JPEGBaseline8Bit

from cbir import settings
from cbir.images import Limits
from cbir.store import Collection
from cbir.store.records import originals
from cbir.store.upkeep.quarantine_release import read_quarantined, read_quarantined_picture
from cbir.store.upkeep.verify import verify_content
from indexer.describe_instance import Fate, InstanceFilter
from indexer.index_request import open_collection
from indexer.intake import Intake
from tests.indexer.commands import call, index
from tests.indexer.receiving import file_of, slices, with_meta


def written(pixels: np.ndarray, words: str) -> np.ndarray:
    """The picture with words in a strip at its top."""
    marked = pixels.copy()
    marked[:40] = 0
    cv2.putText(marked, words, (10, 30), cv2.FONT_HERSHEY_SIMPLEX, 0.6, int(pixels.max()), 1, cv2.LINE_AA)
    return marked


def texture(seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).integers(0, 256, (200, 300)).astype(np.uint8)
    return cv2.GaussianBlur(noise, (9, 9), 0)


def cut_jpeg(number: int = 3) -> bytes:
    """A JPEG file of 200 x 300 pixels that lacks bytes in its middle; a decoder goes on behind the gap."""
    coded = cv2.imencode(".jpg", texture(number))[1].tobytes()
    cut = len(coded) // 2
    return coded[:cut] + coded[cut + 500 :]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three pictures: a plain one, one with a name in it, one that is black."""
    images = {"plain": texture(1), "named": written(texture(2), "DOE JANE 1957"), "black": np.zeros((60, 60))}
    (tmp_path / "images").mkdir()
    for name, pixels in images.items():
        assert cv2.imwrite(str(tmp_path / "images" / f"{name}.png"), pixels)
    return tmp_path / "images"


def listed(collection: Path) -> dict[str, dict[str, Any]]:
    out, _ = call("collection", "quarantine", "--collection", collection, "--format", "json")
    return {Path(item["source"]).stem: item for item in json.loads(out)["items"]}


@pytest.mark.slow
@pytest.mark.features
def test_a_folder_is_quarantined_listed_released_and_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CBIR_INTAKE", "quarantine")
    target = tmp_path / "collection"
    summary = index(folder, target)
    assert (summary["indexed"], summary["quarantined"]) == (1, 2)
    items = listed(target)
    assert {name: item["findings"] for name, item in items.items()} == {"black": ["blank"], "named": ["text"]}
    with Collection(target) as collection:
        assert read_quarantined_picture(collection, items["named"]["image_id"]).startswith(b"\xff\xd8")
    with monkeypatch.context() as patch:  # neither is described again, whatever the setting
        patch.setenv("CBIR_INTAKE", "accept")
        patch.setattr("indexer.index_run.describe_in", lambda _, paths, __: iter([(p, None) for p in paths]))
        again = index(folder, target)
        assert (again["indexed"], again["already"], again["quarantined"]) == (0, 1, 2)
    chosen = "--release", items["named"]["image_id"], "--refuse", items["black"]["image_id"]
    out, _ = call("collection", "quarantine", "--collection", target, *chosen)
    assert out == "1 released, 1 refused\n"
    again = index(folder, target)
    assert (again["indexed"], again["quarantined"], again["deleted_earlier"]) == (0, 0, 1)
    _, errors = call("collection", "quarantine", "--collection", target, *chosen, code=2)
    assert errors.count("\n") == 1
    with Collection(target) as collection:
        assert len(collection) == len(collection.view()) == 2
        assert verify_content(collection) == []


@pytest.mark.slow
@pytest.mark.features
def test_a_folder_is_flagged(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "cut.jpg").write_bytes(cut_jpeg())
    monkeypatch.setenv("CBIR_INTAKE", "flag")
    summary = index(folder, tmp_path / "collection")
    assert (summary["indexed"], summary["flagged"], summary["quarantined"]) == (4, 3, 0)
    with Collection(tmp_path / "collection") as collection:
        labels = {Path(record.source).stem: record.labels for _, record in collection.iterate()}
    assert {name: found.get("intake") for name, found in labels.items()} == {
        "plain": None,
        "named": "text",
        "black": "blank",
        "cut": "damaged",
    }
    assert listed(tmp_path / "collection") == {}


def disc(seed: int) -> np.ndarray:
    """A bright disc on dark ground, somewhere."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 20, (64, 64)).astype(np.uint8)
    cv2.circle(pixels, [int(place) for place in random.integers(24, 40, 2)], 16, 200, -1)
    return cv2.GaussianBlur(pixels, (5, 5), 0)


@pytest.mark.slow
def test_a_negative_is_flagged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "collection"
    for name, pictures in {
        "first": {str(seed): disc(seed) for seed in range(110)},
        "second": {"plain": disc(200), "negative": 255 - disc(201)},
    }.items():
        (tmp_path / name).mkdir()
        for stem, pixels in pictures.items():
            assert cv2.imwrite(str(tmp_path / name / f"{stem}.png"), pixels)
    index(tmp_path / "first", target, "--profile", "huang2012")
    monkeypatch.setenv("CBIR_INTAKE", "flag")
    assert index(tmp_path / "second", target)["flagged"] == 1
    with Collection(target) as collection:
        flagged = [record for _, record in collection.iterate() if "intake" in record.labels]
    assert [(Path(record.source).stem, record.labels["intake"]) for record in flagged] == [
        ("negative", "inverted")
    ]


@pytest.mark.features
def test_accept_checks_nothing(folder: Path, tmp_path: Path) -> None:
    assert index(folder, tmp_path / "collection")["indexed"] == 3
    assert listed(tmp_path / "collection") == {}


def instance_with_text() -> Dataset:
    (instance,) = slices(1, 256, seed=7)
    pixels = cv2.GaussianBlur((instance.pixel_array // 16).astype(np.uint8), (9, 9), 0)
    instance.PixelData = (written(pixels, "DOE JANE 1957").astype("<u2") * 16).tobytes()
    return instance


def damaged_instance() -> Dataset:
    (instance,) = slices(1, 8, seed=8)
    instance.Rows, instance.Columns = 200, 300
    instance.BitsAllocated, instance.BitsStored, instance.HighBit = 8, 8, 7
    instance.WindowCenter, instance.WindowWidth = 128, 256
    instance.PixelData = encapsulate([cut_jpeg()])
    instance["PixelData"].VR = "OB"
    return with_meta(instance, JPEGBaseline8Bit)


@pytest.mark.slow
def test_an_instance_with_text_or_damage_is_answered_with_success_and_held(tmp_path: Path) -> None:
    plain, marked, damaged = next(slices(1, 256)), instance_with_text(), damaged_instance()
    chosen = settings.load(intake="quarantine", keep_originals=True)
    with open_collection(tmp_path / "collection") as opened:
        made = Intake(
            opened,
            instance_filter=InstanceFilter(),
            limits=Limits(),
            jobs=1,
            who="test",
            settings=chosen,
        )
        fates = [made.add(file_of(instance)).fate for instance in (plain, marked, marked, damaged)]
        made.close()
        assert fates == [Fate.stored, *[Fate.quarantined] * 3]
        items = {item.record.instance: item.record for item in read_quarantined(opened)}
        held = items[marked.SOPInstanceUID]
        assert held.labels["intake"] == "text"
        assert items[damaged.SOPInstanceUID].labels["intake"] == "damaged"
        assert originals.original_path(opened.folder, held.source).is_file()
        assert len(opened) == 1
