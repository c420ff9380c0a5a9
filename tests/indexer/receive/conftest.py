"""Fixtures of tests that send to a receiver."""

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

LEFT_OPEN = "ignore:unclosed <s:ResourceWarning"  # sockets of pynetdicom after a killed or refusing peer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(LEFT_OPEN))


@pytest.fixture(autouse=True)
def _collect_sockets() -> Iterator[None]:
    """Collect the sockets that pynetdicom leaves open; else a later test fails."""
    gc.freeze()  # what was there before need not be searched
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
