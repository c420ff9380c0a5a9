"""Damaged objects by C-STORE: the status each is answered with, and what is in the collection afterwards."""

import json
from collections import Counter
from pathlib import Path

import pytest
from pydicom import dcmread
from pynetdicom import AE, _config
from pynetdicom.presentation import build_context

from cbir.store import Collection
from cbir.store.upkeep.verify import verify_collection
from indexer.describe_instance import Fate
from indexer.receive.storage_service import MISMATCH, STATUS
from tests.e2e.test_full_disk import disk, fill, make_room
from tests.indexer.damaged import DAMAGED
from tests.indexer.receiving import file_of, instances_in, receiver, send, slices

__all__ = ["disk"]  # a fixture


def _send_as_it_is(port: int, path: Path) -> int:
    """The status that the bytes of a file are answered with, whatever they are."""
    meta = dcmread(path, stop_before_pixels=True, force=True).file_meta
    entity = AE("SENDER")
    entity.requested_contexts = [build_context(meta.MediaStorageSOPClassUID, meta.TransferSyntaxUID)]
    made = entity.associate("127.0.0.1", port, ae_title="CBIR")
    assert made.is_established
    try:
        return int(made.send_c_store(path).Status)
    finally:
        made.release()


def _false() -> bytes:
    """A file whose meta information, and so the request, names another instance than it holds."""
    (ds,) = slices(1, 32)
    uid = ds.SOPInstanceUID.encode()
    return file_of(ds).replace(uid, uid[:-1] + b"9", 1)


def test_each_is_answered_with_a_status_that_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_config, "STORE_SEND_CHUNKED_DATASET", True)  # the bytes as they are
    place, path = tmp_path / "collection", tmp_path / "sent.dcm"
    with receiver(place) as started:
        for name, (data, fate) in DAMAGED.items():
            path.write_bytes(data)
            assert _send_as_it_is(started.port, path) == STATUS[fate], name
        path.write_bytes(_false())
        assert _send_as_it_is(started.port, path) == MISMATCH
        monkeypatch.undo()
        assert send(started.port, list(slices(1, 32))) == [0]  # and the receiver is well
        said = json.loads(started.stop())
        log = started.log.read_text()
    expected = Counter(fate for _, fate in DAMAGED.values())
    expected += Counter((Fate.stored, Fate.unreadable))
    assert said == {fate.value: number for fate, number in expected.items()}
    assert len(instances_in(place)) == expected[Fate.stored]
    assert "SECRET" not in log
    assert "secret-patient" not in log


def test_without_room_the_sender_is_told_to_come_again(disk: Path) -> None:
    place = disk / "collection"
    several = list(slices(4, 200))
    with receiver(place) as started:
        assert send(started.port, several[:1]) == [0]
        fill(disk)
        assert send(started.port, several[1:3]) == [STATUS[Fate.full]] * 2
        make_room(disk)
        assert send(started.port, several) == [0] * 4
        started.stop()
    assert len(instances_in(place)) == 4
    with Collection(place) as collection:
        assert verify_collection(collection) == []
