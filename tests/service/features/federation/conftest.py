"""Three hospitals and the collection that has the images of all."""

from pathlib import Path

import pytest

from tests.service.features.federation.exchange.collections import entries
from tests.service.features.federation.hospitals import make_collections


@pytest.fixture(scope="module")
def collections(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Collections south, north and east, and pooled; not to be changed."""
    return make_collections(tmp_path_factory.mktemp("hospitals"), entries(90), ["south", "north", "east"])
