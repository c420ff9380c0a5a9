"""`cbir collection redescribe` of a quarantine: carried over with new vectors, and decisions follow."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cbir import descriptors
from cbir.images import Limits, read_images
from cbir.ingest.decoder_tasks import describe_bytes
from cbir.ingest.description import DescribeTask
from cbir.ingest.intake_check import ReceivedFile, add_received_files
from cbir.store import Collection
from cbir.store.records import originals
from cbir.store.upkeep.quarantine_release import (
    read_quarantined,
    read_quarantined_picture,
    refuse_images,
    release_images,
)
from cbir.store.upkeep.verify import verify_collection
from tests.indexer.commands import index
from tests.indexer.conftest import picture
from tests.indexer.test_redescribe import redescribe

pytestmark = pytest.mark.slow

PATIENT = "ab" * 16


def quarantine_upload(folder: Path, path: Path, patient: str | None = None) -> str:
    """Send a picture to a collection, which quarantines it; its id."""
    with Collection(folder) as collection, collection.writer("a modality") as writer:
        data = path.read_bytes()
        task = DescribeTask(collection.profile, collection.secret, Limits())
        file = describe_bytes(data, path.name, originals.source_of(data), task, True)
        (record,), (thumbnail,) = file.records, file.thumbnails
        record = replace(record, labels={"intake": "text"}, patient_key=patient)
        writer.held_pictures = {record.content_hash: thumbnail}
        files = [ReceivedFile(data, replace(file, records=(record,)))]
        assert add_received_files(writer, files, keep_originals=True).quarantined == 1
        return record.content_hash


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A collection of one image."""
    picture(tmp_path / "images" / "0.png", 0)
    index(tmp_path / "images", tmp_path / "old", "--profile", "huang2012")
    return tmp_path / "old"


def test_the_quarantine_is_carried_over_and_decisions_follow(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    pictures = [picture(tmp_path / f"{seed}.png", seed) for seed in (60, 61, 62, 63)]
    ids = [quarantine_upload(old, path, PATIENT if path is pictures[3] else None) for path in pictures]
    summary = redescribe(old, new)
    assert (summary["described"], summary["quarantined"], summary["refused"]) == (1, 4, 0)
    with Collection(old) as source, Collection(new) as target:
        assert read_quarantined(target) == read_quarantined(source)
        assert read_quarantined_picture(target, ids[0]) == read_quarantined_picture(source, ids[0])
        assert verify_collection(target) == []
        assert len(target) == 1
        with source.writer() as writer:
            release_images(writer, [ids[0]])
            refuse_images(writer, [ids[1]])
            writer.erase_patient([PATIENT])
    summary = redescribe(old, new)
    assert (summary["described"], summary["quarantined"]) == (1, 0)
    with Collection(new) as target:
        assert [image.image_id for image in read_quarantined(target)] == [ids[2]]
        assert target.record(ids[0]).labels == {}
        assert len(list((new / originals.FOLDER).iterdir())) == 2
        assert verify_collection(target) == []
        with target.writer() as writer:
            release_images(writer, [ids[2]])
        (image,) = read_images(pictures[2])
        np.testing.assert_array_equal(target.vector(ids[2]), descriptors.get("tamura")(image))


def test_what_cannot_be_described_again_stays_behind_and_is_told(old: Path, tmp_path: Path) -> None:
    image_id = quarantine_upload(old, picture(tmp_path / "60.png", 60))
    for path in (old / originals.FOLDER).iterdir():
        path.unlink()
    summary = redescribe(old, tmp_path / "new", code=3)
    assert (summary["quarantined"], summary["refused"]) == (0, 1)
    assert summary["examples"][0][0] == image_id
    assert "in quarantine" in summary["examples"][0][1]


def test_an_image_erased_in_the_new_collection_does_not_come_back(old: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    quarantine_upload(old, picture(tmp_path / "60.png", 60), PATIENT)
    assert redescribe(old, new)["quarantined"] == 1
    with Collection(new) as target, target.writer() as writer:
        assert writer.erase_patient([PATIENT]) == 1
    assert redescribe(old, new)["quarantined"] == 0
    with Collection(new) as target:
        assert read_quarantined(target) == []
