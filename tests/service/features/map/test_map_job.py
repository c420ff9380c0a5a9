"""Jobs that compute a map: what a worker needs for them, and what it gets."""

from pathlib import Path

import pytest

from cbir import settings
from service.features.map import tsne
from service.features.map.job import MapRequest, new_map_job
from service.jobs.job_work import WorkerPlace
from tests.service.test_worker_place import candidate


@pytest.fixture(name="knees")
def fixture_knees(tmp_path: Path) -> Path:
    (tmp_path / "knees").mkdir()
    return tmp_path / "knees"


def test_a_worker_needs_the_extra(knees: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, job = WorkerPlace({"knees": knees}, settings.load()), candidate(new_map_job("knees", knees))
    monkeypatch.setattr(tsne, "is_installed", lambda: False)
    assert "extra map" in (place.obstacle(job) or "")
    monkeypatch.setattr(tsne, "is_installed", lambda: True)
    assert place.obstacle(job) is None
    assert place.work(job).request == MapRequest(knees)


def test_maps_of_a_collection_in_postgresql_are_computed_one_at_a_time(knees: Path) -> None:
    (knees / "database.json").write_text("{}")
    new = new_map_job("knees", knees)  # a file of this machine
    assert new.place
    assert new.lane == f"map {new.place}"
