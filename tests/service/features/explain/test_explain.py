"""Explanations over HTTP: maps of places, shares of parts, regions, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from cbir import settings
from cbir.api.collection_search import open as open_collection
from cbir.store import Collection
from service.app import create_app
from tests.service import wards
from tests.service.conftest import index_once, problem


@pytest.fixture(scope="module")
def of_encoder(pictures, tmp_path_factory):
    return index_once(pictures, tmp_path_factory, "indexed-lite0", "--profile", "lite0")


@pytest.fixture(scope="module")
def encoder_client(of_encoder):
    return create_app(of_encoder, settings.load()).test_client()


def send(client, path, answers, **fields):
    with Path(path).open("rb") as file:
        return client.post("/v1/explain", data={"image": (file, "image"), "answers": answers} | fields)


def test_the_parts_of_huang2012_are_shares_of_the_distance(client, ids):
    answer = client.post("/v1/explain", json={"image_id": ids[0], "answers": ids[1:3]}).json
    assert answer["kind"] == "parts"
    assert [item["image_id"] for item in answer["items"]] == ids[1:3]
    for item in answer["items"]:
        assert list(item["shares"]) == ["color_layout", "tamura", "edge_histogram"]
        assert sum(item["shares"].values()) == pytest.approx(1, abs=1e-5)
        assert np.shape(item["query_edges"]) == np.shape(item["answer_edges"]) == (4, 4, 5)
        assert item["query_map"] is None


def test_an_upload_has_the_shares_of_its_image(client, ids, pictures):
    by_id = client.post("/v1/explain", json={"image_id": ids[0], "answers": [ids[1]]}).json
    assert send(client, pictures[0], ids[1]).json == by_id
    part = send(client, pictures[0], ids[1], region="0,0,30,30").json
    assert part != by_id
    assert (
        client.post(
            "/v1/explain", json={"image_id": ids[0], "region": [0, 0, 30, 30], "answers": [ids[1]]}
        ).json
        == part
    )


@pytest.mark.parametrize(
    ("change", "status", "detail"),
    [
        ({"answers": []}, 422, "answers"),
        ({"answers": ["x"] * 21}, 422, "answers"),
        ({"answers": ["0" * 32]}, 404, "no image"),
        ({"image_id": "0" * 32}, 404, "no image"),
        ({"collection": "another"}, 404, "no collection"),
        ({"region": [0, 0, 10**6, 5]}, 422, "not inside the image"),
        ({"colour": "red"}, 422, "colour"),
    ],
)
def test_wrong_requests_are_refused(client, ids, change, status, detail):
    body = {"image_id": ids[0], "answers": [ids[1]]} | change
    assert detail in problem(client.post("/v1/explain", json=body), status)


def test_limited_callers_learn_nothing_of_other_images(tmp_path_factory):
    ward = wards.make(tmp_path_factory)
    visible, hidden = ward.visible[0].image_id, ward.hidden[0].image_id
    limited = ward.limited()
    for body in ({"image_id": visible, "answers": [hidden]}, {"image_id": hidden, "answers": [visible]}):
        assert limited.post("/v1/explain", json=body).status_code == 404


@pytest.mark.slow
def test_an_encoder_has_maps_of_what_matches(encoder_client, of_encoder, pictures):
    with Collection(of_encoder) as collection:
        first, second = [record.image_id for _, record in collection.iterate()][:2]
    answer = encoder_client.post("/v1/explain", json={"image_id": first, "answers": [second, first]}).json
    assert answer["kind"] == "places"
    maps = np.array([[item["query_map"], item["answer_map"]] for item in answer["items"]])
    assert maps.shape == (2, 2, 14, 14)
    assert 0 <= maps.min() <= maps.max() <= 1
    assert maps[1].max() == pytest.approx(1, abs=0.01)  # the image itself
    assert maps[1].mean() > maps[0].mean()
    with open_collection(of_encoder) as opened:
        own = opened.explain(pictures[0], second).maps
    assert np.abs(own.answer - maps[0, 1]).mean() < 0.05  # a thumbnail is used over HTTP


@pytest.mark.slow
def test_a_region_is_compared_in_its_image(encoder_client, of_encoder, pictures):
    with Collection(of_encoder) as collection:
        first, second = [record for _, record in collection.iterate()][:2]
    region = [first.width // 2, 0, first.width // 2, first.height // 2]
    body = {"image_id": first.image_id, "answers": [second.image_id], "region": region}
    item = encoder_client.post("/v1/explain", json=body).json["items"][0]
    query = np.array(item["query_map"])
    assert query[:7, 7:].any()
    assert not query[7:].any()
    assert not query[:, :6].any()
    sent = send(encoder_client, pictures[0], second.image_id, region=",".join(map(str, region))).json
    assert np.abs(np.array(sent["items"][0]["query_map"]) - query).mean() < 0.05
    assert "not inside" in problem(
        send(encoder_client, pictures[0], second.image_id, region="0,0,1000000,1"), 422
    )


@pytest.mark.slow
def test_a_result_without_picture_has_a_problem(of_encoder, pictures, tmp_path):
    from shutil import copytree

    folder = copytree(of_encoder, tmp_path / "own")
    with Collection(folder) as collection:
        records = [record for _, record in collection.iterate()][:2]
    moved = Path(records[1].source)
    hidden = moved.rename(moved.with_suffix(".hidden"))
    try:
        client = create_app(folder, settings.load()).test_client()
        body = {"image_id": records[0].image_id, "answers": [records[1].image_id]}
        item = client.post("/v1/explain", json=body).json["items"][0]
        assert "gone" in item["problem"]
        assert item["answer_map"] is None
    finally:
        hidden.rename(moved)


@pytest.mark.slow
def test_pictures_are_rendered_by_the_request_itself(of_encoder):
    with Collection(of_encoder) as collection:
        first, second = [record.image_id for _, record in collection.iterate()][:2]
    alone = settings.load(threads=1, queue=0)
    client = create_app(of_encoder, alone).test_client()
    answer = client.post("/v1/explain", json={"image_id": first, "answers": [second]})
    assert answer.status_code == 200, answer.json
    assert client.get(f"/v1/images/{first}/thumbnail").status_code == 200
