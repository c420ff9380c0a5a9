"""Locks of tests that search on a device."""

from collections.abc import Iterator

import pytest

from cbir.gpu import device_search


@pytest.fixture(autouse=True, scope="module")
def _closed_locks() -> Iterator[None]:
    """Close the files of device locks, which a process holds until it ends."""
    yield
    while device_search._device_locks:
        device_search._device_locks.popitem()[1].close()
