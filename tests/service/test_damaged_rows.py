"""A service over damaged rows is not ready, instead of answering wrongly, until they are repaired."""

from pathlib import Path

import numpy as np
import pytest

from cbir import settings
from cbir.store import Collection
from cbir.store.upkeep.repair import repair_rows
from service.app import create_app
from tests.service.conftest import problem


@pytest.mark.parametrize("value", [np.nan, 2.2e37, 0.5])
def test_damaged_vectors_are_not_ready(
    writable: Path, ids: list[str], pictures: list[Path], value: float
) -> None:
    with Collection(writable) as collection:
        vector = collection.vector(ids[2])
        vector[100] = value
        with collection._engine.begin() as connection:
            connection.exec_driver_sql(
                "UPDATE vectors SET vector = ? WHERE number = "
                "(SELECT number FROM images WHERE image_id = ?)", (vector.tobytes(), ids[2])
            )  # fmt: skip
    client = create_app(writable, settings.load()).test_client()
    detail = problem(client.get("/readyz"), 503)
    assert ids[2] in detail
    assert "verify --repair" in detail
    search = {"image": (pictures[-1].open("rb"), "image.png")}
    assert ids[2] in problem(client.post("/v1/search?k=3", data=search), 503)
    assert client.get("/healthz").status_code == 200
    with Collection(writable) as collection, collection.writer():
        assert repair_rows(collection).lost == []
    assert client.get("/readyz").status_code == 200
    again = {"image": (pictures[-1].open("rb"), "image.png")}
    assert len(client.post("/v1/search?k=3", data=again).json["results"]) == 3
