"""The map over HTTP: computed by a job, kept in step, limited to what the caller may see."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flask.testing import FlaskClient

from cbir import settings
from cbir.store import Collection
from cbir.store.snapshot.derived_files import MAP_FILE, StoredMap, drop_map, read_map, write_map
from service.app import create_app
from service.features.map.collection_map import compute_map, transform_name
from service.features.map.routes import MapCache
from service.jobs.job_queue import JobQueue
from service.state.database import StateDatabase
from tests.service import wards
from tests.service.conftest import problem
from tests.service.wards import Ward

MAP, PLACES = "/v1/map", "/v1/map/places"


def mapped(folder: Path) -> Path:
    """The folder of a collection, with a map of it computed here."""
    with Collection(folder) as collection:
        write_map(folder, compute_map(collection.view(), collection.profile))
    return folder


@pytest.fixture
def client(writable: Path) -> FlaskClient:
    return create_app(mapped(writable), settings.load()).test_client()


def ready(client: FlaskClient) -> dict[str, Any]:
    """The map once there is one."""
    for _ in range(600):
        answer: dict[str, Any] = client.get(MAP).json
        if answer["state"] != "computing":
            return answer
        time.sleep(0.1)
    raise AssertionError(answer)


@pytest.mark.slow
def test_the_first_request_starts_a_job_and_later_ones_wait_for_it(writable: Path) -> None:
    (writable / MAP_FILE).unlink(missing_ok=True)
    client = create_app(writable, settings.load(job_workers=0)).test_client()  # the job waits
    assert '"map": {"computed": false}' in client.get("/browse").text
    assert client.get("/v1/jobs").json["items"] == []  # the page alone starts none
    first, second = client.get(MAP).json, client.get(MAP).json
    assert (first["state"], first["ids"]) == ("computing", [])
    assert first["job"] == second["job"]
    assert client.post(PLACES, json={"ids": [_ids(client)[0]]}).json == {"items": [], "query": None}
    client = create_app(writable, settings.load()).test_client()  # runs it
    answer = ready(client)
    assert answer["state"] == "ready", answer
    assert len(answer["ids"]) == len(answer["x"]) == len(answer["y"]) == answer["images"]
    assert max(map(abs, answer["x"] + answer["y"])) == 1
    (job,) = client.get("/v1/jobs").json["items"]
    assert (job["kind"], job["job"]) == ("map", first["job"])
    assert (writable / MAP_FILE).is_file()
    assert client.get(MAP).json["job"] is None  # nothing is computed again
    assert '"map": {"computed": true}' in client.get("/browse").text


def _ids(client: FlaskClient) -> list[str]:
    return [item["image_id"] for item in client.get("/v1/images?limit=1000").json["items"]]


@pytest.mark.slow
def test_a_damaged_map_is_computed_again(client: FlaskClient, writable: Path) -> None:
    (writable / MAP_FILE).write_bytes(b"damaged")
    assert client.get(MAP).json["state"] == "computing"
    assert ready(client)["state"] == "ready"


def test_labels_follow_the_order_of_the_map(client: FlaskClient) -> None:
    answer = client.get(MAP).json
    assert answer["ids"] == _ids(client)
    labels = client.get(f"{MAP}/labels/label").json
    assert labels["generation"] == answer["generation"]
    values = [None if code < 0 else labels["values"][code] for code in labels["codes"]]
    records = {item["image_id"]: item["labels"] for item in client.get("/v1/images?limit=1000").json["items"]}
    assert values == [records[name].get("label") for name in answer["ids"]]
    assert "no image has a label 'labl'" in problem(client.get(f"{MAP}/labels/labl"), 422)


def test_a_limit_shows_an_evenly_spread_sample_and_its_labels(client: FlaskClient) -> None:
    every = client.get(MAP).json
    few = client.get(MAP, query_string={"limit": 5}).json
    positions = [every["ids"].index(name) for name in few["ids"]]
    assert len(positions) == 5
    assert positions[0] == 0
    assert positions[-1] == len(every["ids"]) - 1
    assert few["x"] == [every["x"][position] for position in positions]
    codes = client.get(f"{MAP}/labels/label", query_string={"limit": 5}).json
    all_codes = client.get(f"{MAP}/labels/label").json
    named = [codes["values"][code] for code in codes["codes"]]
    assert named == [all_codes["values"][all_codes["codes"][position]] for position in positions]
    for limit in (0, 200_001):
        problem(client.get(MAP, query_string={"limit": limit}), 422)


def test_places_of_results_and_of_a_query_among_them(client: FlaskClient) -> None:
    every = client.get(MAP).json
    asked = [every["ids"][at] for at in (4, 1, 2)]
    answer = client.post(PLACES, json={"ids": asked}).json
    places = {name: (x, y) for name, x, y in zip(every["ids"], every["x"], every["y"], strict=True)}
    assert [(i["image_id"], (i["x"], i["y"])) for i in answer["items"]] == [(n, places[n]) for n in asked]
    middle = np.median([places[name] for name in asked], axis=0)
    assert (answer["query"]["x"], answer["query"]["y"]) == pytest.approx(tuple(middle), abs=1e-4)
    assert "0" * 32 in problem(client.post(PLACES, json={"ids": ["0" * 32]}), 404)
    problem(client.post(PLACES, json={"ids": []}), 422)
    problem(client.post(PLACES, json={"ids": asked * 400}), 422)


def test_a_deleted_image_vanishes_at_once_and_an_added_one_appears(
    client: FlaskClient, pictures: list[Path]
) -> None:
    before = client.get(MAP).json["ids"]
    assert client.delete(f"/v1/images/{before[3]}").status_code == 204
    assert client.get(MAP).json["ids"] == before[:3] + before[4:]
    added = client.post("/v1/images", data=pictures[-1].read_bytes(), content_type="image/png")
    assert added.status_code in (200, 201), added.text
    after = client.get(MAP).json
    assert after["ids"][:-1] == before[:3] + before[4:]
    assert after["images"] == len(after["ids"])
    assert after["job"] is None  # few images: no new map
    assert max(map(abs, after["x"] + after["y"])) <= 1


def test_without_the_extra_the_answer_names_it(writable: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openTSNE", None)
    drop_map(writable)  # other tests may have had one computed for the collection that this is a copy of
    client = create_app(writable, settings.load()).test_client()
    answer = client.get(MAP).json
    assert (answer["state"], answer["job"]) == ("unavailable", None)
    assert answer["reason"].startswith("this needs openTSNE: pip install '.[map]'")
    with Collection(writable) as collection:  # a map from elsewhere is shown, even an outdated one
        places = np.zeros((len(collection), 2), np.float32)
        write_map(writable, StoredMap(collection.view().gallery.ids, places, "another profile"))
    assert client.get(MAP).json["state"] == "ready"


def test_limited_callers_see_their_images_only(tmp_path_factory: pytest.TempPathFactory) -> None:
    ward: Ward = wards.make(tmp_path_factory)
    assert read_map(ward.folder) is not None
    answer = ward.limited().get(MAP).json
    assert sorted(answer["ids"]) == sorted(record.image_id for record in ward.visible)
    assert answer["images"] == len(ward.visible)
    labels = ward.limited().get(f"{MAP}/labels/site").json
    assert labels["values"] == [wards.VISIBLE]
    assert labels["codes"] == [0] * len(ward.visible)
    problem(ward.limited().post(PLACES, json={"ids": [ward.hidden[0].image_id]}), 404)
    whole = ward.client(wards.Scope.search, collections=[ward.folder.name]).get(MAP).json
    assert len(whole["ids"]) == len(ward.visible) + len(ward.hidden)


def test_a_limited_caller_hides_from_no_one_that_a_new_map_is_due(writable: Path, tmp_path: Path) -> None:
    with Collection(writable) as collection:
        view = collection.view()
        few = StoredMap(
            view.gallery.ids[:2], np.zeros((2, 2), np.float32), transform_name(view, collection.profile)
        )
        write_map(writable, few)
        placed = MapCache(JobQueue(StateDatabase(tmp_path))).placed(
            collection, replace(view, rows=np.arange(2))
        )
        assert placed is not None
        assert placed.outdated


def test_records_come_in_the_order_of_their_ids(client: FlaskClient) -> None:
    ids = _ids(client)
    asked = [ids[3], "0" * 32, ids[0], ids[3]]
    items = client.post("/v1/images/records", json={"ids": asked}).json["items"]
    assert [item["image_id"] for item in items] == [ids[3], ids[0]]
    assert items[0] == client.get(f"/v1/images/{ids[3]}").json
    problem(client.post("/v1/images/records", json={"ids": ids[:1] * 1001}), 422)
