"""Fixtures of tests that send to a receiver."""

import gc
import warnings
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _collect_sockets() -> Iterator[None]:
    """Collect the sockets that pynetdicom leaves open after a killed or refused peer; else a later test fails."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
