"""Regions and windows over HTTP."""

import cv2
import numpy as np
import pytest
from pydicom.data import get_testdata_file

from cbir.images import read
from tests.service.conftest import problem


def send(client, path, where="render", **parameters):
    data = open(path, "rb").read()  # noqa: SIM115
    kind = "application/octet-stream"
    return client.post(f"/v1/{where}", data=data, content_type=kind, query_string=parameters)


def drawn(response):
    assert response.status_code == 200, response.text
    return cv2.imdecode(np.frombuffer(response.data, np.uint8), cv2.IMREAD_GRAYSCALE)


def test_a_region_is_rendered_and_searched_with(client, pictures):
    (whole,) = read(pictures[-1])
    shown = send(client, pictures[-1], region="8,16,40,32")
    np.testing.assert_array_equal(drawn(shown), whole.pixels[16:48, 8:48])
    assert shown.headers["Image-Size"] == "40,32"
    assert "Image-Window" not in shown.headers
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
    np.testing.assert_array_equal(drawn(again), drawn(first))
    narrow = send(client, scan, window="40,80")
    assert narrow.headers["Image-Window"] == "40,80"
    assert (drawn(narrow) != drawn(first)).any()
    assert send(client, scan, "search", window="40,80").status_code == 200


@pytest.mark.parametrize("window", ["40", "40,0", "40,-1", "nan,5", "40,inf", "a,b"])
def test_bad_windows_are_refused(client, window):
    assert "window" in problem(send(client, get_testdata_file("CT_small.dcm"), window=window), 422)


def test_other_images_have_no_window(client, pictures):
    assert "only grey DICOM" in problem(send(client, pictures[-1], window="40,400"), 422)
