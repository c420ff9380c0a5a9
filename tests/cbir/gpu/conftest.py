"""A collection, and the state of tests that search on a device: its locks, and remembered failures of a GPU."""

from collections.abc import Iterator

import numpy as np
import pytest
from cbir.gpu import device_search

from cbir.hardware import device_failure
from cbir.images import from_array
from cbir.store import Collection
from cbir.store import profile as profiles
from cbir.store.records import add_labels, describe_record


@pytest.fixture(autouse=True, scope="module")
def _closed_locks() -> Iterator[None]:
    """Close the files of device locks, which a process holds until it ends."""
    yield
    while device_search._device_locks:
        device_search._device_locks.popitem()[1].close()


@pytest.fixture(autouse=True)
def _sound_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget failures of a GPU before and after each test."""
    monkeypatch.setattr(device_failure, "_failures", device_failure._FailureLog())


def entry(created: Collection, number: int, vector: np.ndarray):
    picture = np.random.default_rng(number).integers(0, 256, (8, 8), np.uint8)
    record = describe_record(
        from_array(picture), source=f"/{number}", source_stamp="1", secret=created.secret
    )
    return add_labels(record, {"side": "left" if number % 3 else "right"}, created.secret), vector


@pytest.fixture(scope="module")
def collection(tmp_path_factory) -> Collection:
    """400 images with a snapshot and 40 after it, of which every eleventh was deleted."""
    created = Collection.create(tmp_path_factory.mktemp("device") / "collection", profiles.get("tamura"))
    random = np.random.default_rng(0)
    vectors = (random.integers(0, 3, (440, 1)) + 0.3 * random.standard_normal((440, 6))).astype(np.float32)
    with created.writer() as writer:
        writer.add([entry(created, number, vectors[number]) for number in range(400)])
        writer.finish()
        writer.compact()
        writer.add([entry(created, number, vectors[number]) for number in range(400, 440)])
        ids = [record.image_id for _, record in created.iterate()]
        writer.delete(ids[::11])
    return created
