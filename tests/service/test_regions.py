"""Regions and windows over HTTP."""

import io
from pathlib import Path

import cv2
import numpy as np
import pytest
from pydicom.data import get_testdata_file

from cbir import settings
from cbir.images import read_images
from service.app import create_app
from tests.service.conftest import cbir, problem


def send(client, path, where="render", **parameters):
    data = Path(path).read_bytes()
    kind = "application/octet-stream"
    return client.post(f"/v1/{where}", data=data, content_type=kind, query_string=parameters)


def rendered(response):
    assert response.status_code == 200, response.text
    return cv2.imdecode(np.frombuffer(response.data, np.uint8), cv2.IMREAD_GRAYSCALE)


def test_a_region_is_rendered_and_searched_with(client, pictures):
    (full,) = read_images(pictures[-1])
    visible = send(client, pictures[-1], region="8,16,40,32")
    np.testing.assert_array_equal(rendered(visible), full.pixels[16:48, 8:48])
    assert visible.headers["Image-Size"] == "40,32"
    assert "Image-Window" not in visible.headers
    answer = send(client, pictures[-1], "search", region="8,16,40,32").json
    assert (answer["query"]["width"], answer["query"]["height"]) == (40, 32)
    assert answer["results"] != send(client, pictures[-1], "search").json["results"]


def test_one_pixel_is_a_region(client, pictures):
    assert send(client, pictures[-1], "search", region="3,3,1,1").status_code == 200


@pytest.mark.parametrize(
    "region", ["", "1,2,3", "1,2,3,4,5", "a,b,c,d", "0,0,0,5", "-1,0,5,5", "0,0,9999999,5", "1.5,0,5,5"]
)
def test_bad_regions_are_refused(client, pictures, region):
    for where in ("render", "search"):
        assert "region" in problem(send(client, pictures[-1], where, region=region), 422)


def test_the_window_of_a_scan_can_be_chosen(client):
    scan = get_testdata_file("CT_small.dcm")
    first = send(client, scan)
    least, greatest = map(float, first.headers["Image-Values"].split(","))
    assert least < greatest
    again = send(client, scan, window=first.headers["Image-Window"])
    np.testing.assert_array_equal(rendered(again), rendered(first))
    narrow = send(client, scan, window="40,80")
    assert narrow.headers["Image-Window"] == "40,80"
    assert (rendered(narrow) != rendered(first)).any()
    assert send(client, scan, "search", window="40,80").status_code == 200


@pytest.mark.parametrize("window", ["40", "40,0", "40,-1", "nan,5", "40,inf", "a,b"])
def test_bad_windows_are_refused(client, window):
    assert "window" in problem(send(client, get_testdata_file("CT_small.dcm"), window=window), 422)


def test_other_images_have_no_window(client, pictures):
    assert "only grey DICOM" in problem(send(client, pictures[-1], window="40,400"), 422)


@pytest.mark.slow
def test_a_region_of_an_image_of_the_collection_is_cut_from_its_file(tmp_path):
    large = np.random.default_rng(0).integers(
        0, 256, (60, 2500), np.uint8
    )  # wider than any picture that is shown
    cv2.imwrite(str(tmp_path / "large.png"), large)
    cbir(
        "index",
        tmp_path / "large.png",
        "--collection",
        tmp_path / "collection",
        "--jobs",
        "1",
        "--profile",
        "huang2012",
    )
    client = create_app(tmp_path / "collection", settings.load()).test_client()
    (listed,) = client.get("/v1/images").json["items"]
    region = [2300, 10, 150, 40]
    picture = client.get(f"/v1/images/{listed['image_id']}/picture?region=2300,10,150,40")
    np.testing.assert_array_equal(rendered(picture), large[10:50, 2300:2450])
    by_id = client.post("/v1/search", json={"image_id": listed["image_id"], "region": region}).json
    by_file = send(client, tmp_path / "large.png", "search", region="2300,10,150,40").json
    assert by_id["results"] == by_file["results"]
    assert by_id["query"] == by_file["query"]

    outside = client.post("/v1/search", json={"image_id": listed["image_id"], "region": [2400, 0, 150, 40]})
    assert "region" in problem(outside, 422)
    assert "region" in problem(client.get(f"/v1/images/{listed['image_id']}/picture?region=1,2"), 422)
    (tmp_path / "large.png").unlink()
    missing = client.post("/v1/search", json={"image_id": listed["image_id"], "region": region})
    assert "file of this image" in problem(missing, 410)
    full = client.post("/v1/search", json={"image_id": listed["image_id"]})
    assert full.status_code == 200


def test_a_region_of_an_image_that_was_sent_is_cut_from_what_was_kept(writable, pictures):
    client = create_app(writable, settings.load(keep_originals=True)).test_client()
    sent = client.post("/v1/images", data={"image": (io.BytesIO(pictures[-1].read_bytes()), "image")})
    body = {"image_id": sent.json["ids"][0], "region": "8,16,40,32"}
    answer = client.post("/v1/search", json=body)
    assert answer.json["results"] == send(client, pictures[-1], "search", region="8,16,40,32").json["results"]


def test_regions_of_pictures_are_cached_apart(client, ids):
    full, part = (client.get(f"/v1/images/{ids[0]}/picture{query}") for query in ("", "?region=0,0,9,9"))
    assert full.headers["ETag"] != part.headers["ETag"]
    again = client.get(
        f"/v1/images/{ids[0]}/picture?region=0,0,9,9", headers={"If-None-Match": full.headers["ETag"]}
    )
    assert again.status_code == 200
