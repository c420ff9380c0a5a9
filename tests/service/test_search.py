"""POST /v1/search: every way to send an image, every parameter, every refusal."""

import io
import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import PIL.Image
import pydicom.data
import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.datastructures import MultiDict

from cbir import rerank, settings
from cbir.images import read_images
from cbir.search import Request, Searcher, Stopwatch
from cbir.store import Collection
from service.app import create_app
from tests.service.conftest import problem

SEARCH = "/v1/search"


def post(client: FlaskClient, path: Path, kind: str = "image/png", **parameters: Any) -> Any:
    return client.post(SEARCH, data=path.read_bytes(), content_type=kind, query_string=parameters)


def by_id(client: FlaskClient, image_id: str, **parameters: Any) -> Any:
    return client.post(SEARCH, json={"image_id": image_id} | parameters)


def form(path: Path, **fields: Any) -> dict[str, Any]:
    return {"image": (io.BytesIO(path.read_bytes()), "query.png"), **fields}


def results(response: Any) -> list[str]:
    assert response.status_code == 200, response.text
    return [hit["image_id"] for hit in response.json["results"]]


def test_answer_is_that_of_the_search_path(client: FlaskClient, indexed: Path, pictures: list[Path]) -> None:
    with Collection(indexed) as collection:
        searcher = Searcher(collection, settings.load())
        image = next(iter(read_images(pictures[-1])))
        expected = searcher.by_image(image, Request(k=7), Stopwatch()).model_dump(mode="json")
    answer = post(client, pictures[-1], k=7).json
    assert set(answer) == {
        "query", "rerank", "agreement", "results", "timings_ms", "grouping", "sites", "before", "extras",
    }  # fmt: skip
    assert answer["sites"] is None
    assert set(answer["timings_ms"]) == {"decode", "describe", "search", "rerank", "total"}
    for part in ("query", "rerank", "results"):
        assert answer[part] == expected[part]
    assert [hit["rank"] for hit in answer["results"]] == list(range(1, 8))


@pytest.mark.parametrize("kind", ["image/png", "image/x-anything", "application/octet-stream"])
def test_raw_body(client: FlaskClient, pictures: list[Path], kind: str) -> None:
    assert len(results(post(client, pictures[-1], kind, k=3))) == 3


def test_multipart_answers_as_raw(client: FlaskClient, pictures: list[Path]) -> None:
    sent = client.post(SEARCH, data=form(pictures[-1], k="4"))
    assert results(sent) == results(post(client, pictures[-1], k=4))


def test_jpeg_tiff_and_bmp(client: FlaskClient, pictures: list[Path], tmp_path: Path) -> None:
    pixels = cv2.imread(str(pictures[-1]), cv2.IMREAD_GRAYSCALE)
    for suffix, kind in ((".jpg", "jpeg"), (".tif", "tiff"), (".bmp", "bmp")):
        path = tmp_path / f"query{suffix}"
        cv2.imwrite(str(path), pixels)
        answer = post(client, path, f"image/{kind}", k=1)
        assert answer.json["query"]["format"] == kind
        assert len(results(answer)) == 1


def test_dicom_body(client: FlaskClient) -> None:
    path = Path(str(pydicom.data.get_testdata_file("CT_small.dcm", download=False)))
    answer = post(client, path, "application/dicom", k=2)
    assert len(results(answer)) == 2
    assert answer.json["query"]["format"] == "dicom"
    assert (answer.json["query"]["width"], answer.json["query"]["height"]) == (128, 128)


def test_frame_of_a_file_with_several(client: FlaskClient, pictures: list[Path], tmp_path: Path) -> None:
    pages = [PIL.Image.open(path) for path in pictures[:3]]
    path = tmp_path / "pages.tif"
    pages[0].save(path, save_all=True, append_images=pages[1:])
    first, third = (post(client, path, "image/tiff", **values).json for values in ({}, {"frame": 3}))
    assert first["query"]["frame"] == 1
    assert third["query"]["frame"] == 3
    assert third["query"]["image_id"] == post(client, pictures[2]).json["query"]["image_id"]
    assert "no frame 4" in problem(post(client, path, "image/tiff", frame=4), 422)
    assert "frame" in problem(post(client, path, "image/tiff", frame=0), 422)


def test_image_of_the_collection_is_left_out_of_its_own_answer(
    client: FlaskClient, ids: list[str], pictures: list[Path]
) -> None:
    by_name = by_id(client, ids[0], k=100)
    assert len(results(by_name)) == len(ids) - 1
    assert ids[0] not in results(by_name)
    assert results(post(client, pictures[0], k=100)) == results(by_name)
    assert post(client, pictures[0]).json["query"]["image_id"] == ids[0]


def test_rerank_by_name(client: FlaskClient, ids: list[str]) -> None:
    plain = by_id(client, ids[0], rerank="none", k=30).json
    assert plain["rerank"]["method"] == "none"
    distances = [hit["distance"] for hit in plain["results"]]
    assert distances == sorted(distances)
    assert by_id(client, ids[0], rerank="pearson").json["rerank"]["method"] == "pearson"
    assert by_id(client, ids[0]).json["rerank"]["method"] == rerank.resolve_name(settings.load().rerank)


def test_filters_hold_together(client: FlaskClient, ids: list[str], pictures: list[Path]) -> None:
    odd = {"where": "label=odd"}
    for response in (
        by_id(client, ids[0], k=100, **odd),
        by_id(client, ids[0], k=100, where=["label=odd"]),
        post(client, pictures[0], k=100, **odd),
        client.post(SEARCH, data=form(pictures[0], k="100", **odd)),
    ):
        assert set(results(response)) == set(ids[1::2])
    several = MultiDict([("where", "label=odd"), ("where", "severity<1"), ("k", "100")])
    narrowed = client.post(
        SEARCH, data=pictures[0].read_bytes(), content_type="image/png", query_string=several
    )
    assert set(results(narrowed)) == set(ids[1:10:2])
    assert results(by_id(client, ids[0], where=["label=nobody"])) == []


def test_filter_may_contain_a_comma(client: FlaskClient, ids: list[str]) -> None:
    assert len(results(by_id(client, ids[0], k=100, where="label!=odd,even"))) == len(ids) - 1


def test_excluding_a_patient(client: FlaskClient, pictures: list[Path], ids: list[str]) -> None:
    key = client.get(f"/v1/images/{ids[0]}").json["patient_key"]
    for patient in (key, "patient-0"):
        left = results(by_id(client, ids[0], k=100, exclude_patient=patient))
        assert set(left) == set(ids[4:])
    in_form = client.post(SEARCH, data=form(pictures[0], k="100", exclude_patient="patient-0"))
    assert set(results(in_form)) == set(ids[4:])


def test_an_address_names_a_patient_by_key_only(
    client: FlaskClient, pictures: list[Path], ids: list[str]
) -> None:
    key = client.get(f"/v1/images/{ids[0]}").json["patient_key"]
    assert set(results(post(client, pictures[0], k=100, exclude_patient=key))) == set(ids[4:])
    for identifier in ("patient-0", "", key.upper(), key[1:], f"{key}\n", " "):
        said = problem(post(client, pictures[0], exclude_patient=identifier), 422)
        assert said.startswith("exclude_patient: an address")
        assert "patient-0" not in said
    twice = MultiDict([("exclude_patient", key), ("exclude_patient", "patient-0")])
    for wrong in (twice, {"exclude_patient": "patient-0"}):
        by_json = client.post(SEARCH, json={"image_id": ids[0]}, query_string=wrong)
        assert "an address may hold" in problem(by_json, 422)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "image_id"),
        ({"image_id": 7}, "image_id"),
        ({"image_id": "x", "colour": 1}, "colour"),
        ({"image_id": "x", "frame": 1}, "frame"),
        ({"image_id": "x", "k": 0}, "k"),
        ({"image_id": "x", "k": 1001}, "at most 1000"),
        ({"image_id": "x", "k": 10**40}, "k"),
        ({"image_id": "x", "k": "many"}, "k"),
        ({"image_id": "x", "k": None}, "k"),
        ({"image_id": "x", "where": [1]}, "where"),
        ({"image_id": "x", "where": {"label": "odd"}}, "where"),
        ({"image_id": "x", "where": ["a=1"] * 33}, "where"),
        (["image_id"], "object"),
        ("image_id", "object"),
    ],
)
def test_json_that_does_not_fit(client: FlaskClient, body: Any, message: str) -> None:
    assert message in problem(client.post(SEARCH, json=body), 422)


NO_JSON = [b"", b"{", b"\xff\xfe", b"9" * 5000, b'{"image_id": "\\ud800"}']


@pytest.mark.parametrize("text", NO_JSON)
def test_json_that_is_none(client: FlaskClient, text: bytes) -> None:
    problem(client.post(SEARCH, data=text, content_type="application/json"), 400)


def test_json_that_is_no_object(client: FlaskClient) -> None:
    problem(client.post(SEARCH, data=b"NaN", content_type="application/json"), 422)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rerank": "magic"}, "there are: auto, none"),
        ({"where": "label"}, "key=value"),
        ({"where": "severity<high"}, "number"),
    ],
)
def test_values_the_search_refuses(
    client: FlaskClient, ids: list[str], values: dict[str, Any], message: str
) -> None:
    assert message in problem(by_id(client, ids[0], **values), 422)


def test_parameters_of_an_image_that_do_not_fit(client: FlaskClient, pictures: list[Path]) -> None:
    assert "rernak" in problem(post(client, pictures[0], rernak="none"), 422)
    assert "image_id" in problem(post(client, pictures[0], image_id="x"), 422)
    assert "k: sent more than once" in problem(
        client.post(SEARCH + "?k=3", data=form(pictures[0], k="4")), 422
    )
    twice = MultiDict([("k", "1"), ("k", "2")])
    sent = client.post(SEARCH, data=pictures[0].read_bytes(), content_type="image/png", query_string=twice)
    assert "more than once" in problem(sent, 422)


def test_form_without_its_file(client: FlaskClient, pictures: list[Path]) -> None:
    assert "image" in problem(client.post(SEARCH, data={"k": "3"}, content_type="multipart/form-data"), 422)
    assert "sent as a file" in problem(
        client.post(SEARCH, data=form(pictures[0]) | {"image": "text"}, content_type="multipart/form-data"),
        422,
    )
    wrong = {"picture": (io.BytesIO(b"x"), "x.png")}
    assert "picture" in problem(client.post(SEARCH, data=wrong), 422)
    two = MultiDict([("image", (io.BytesIO(b"x"), "x")), ("image", (io.BytesIO(b"y"), "y"))])
    assert "not a PNG" in problem(client.post(SEARCH, data=two), 422)


def test_unknown_image(client: FlaskClient) -> None:
    assert "nothing-like-it" in problem(by_id(client, "nothing-like-it"), 404)


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "application/xml", ""])
def test_other_content_types(client: FlaskClient, kind: str) -> None:
    assert "multipart/form-data" in problem(client.post(SEARCH, data=b"x", content_type=kind), 415)


@pytest.mark.parametrize(
    "data", [b"", b"a text", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0rest", b"\0" * 4096]
)
def test_bodies_that_are_no_image(client: FlaskClient, data: bytes) -> None:
    detail = problem(client.post(SEARCH, data=data, content_type="image/png"), 422)
    assert "the image sent" in detail


def test_file_name_of_an_upload_is_not_repeated(client: FlaskClient) -> None:
    sent = client.post(SEARCH, data={"image": (io.BytesIO(b"a text"), "Doe_Jane_1960.png")})
    problem(sent, 422)
    assert "Doe" not in sent.text


def test_upload_limit(indexed: Path, pictures: list[Path]) -> None:
    size = pictures[0].stat().st_size
    for limit, status in ((size, 200), (size - 1, 413), (10, 413)):
        client = create_app(indexed, settings.load(max_upload_bytes=limit)).test_client()
        for sent in (post(client, pictures[0]), client.post(SEARCH, data=form(pictures[0]))):
            assert sent.status_code == status
            if status == 413:
                problem(sent, 413)
    problem(client.post(SEARCH, data=bytes(100_000), content_type="image/png"), 413)


def test_pixel_limit(indexed: Path) -> None:
    client = create_app(indexed, settings.load(max_pixels=100)).test_client()
    _, picture = cv2.imencode(".png", np.zeros((20, 20), np.uint8))
    sent = client.post(SEARCH, data=picture.tobytes(), content_type="image/png")
    assert "at most 100" in problem(sent, 422)


def test_empty_collection_answers_nothing(tmp_path: Path, pictures: list[Path]) -> None:
    from cbir.store.base import profile

    Collection.create(tmp_path / "empty", profile.get("huang2012")).close()
    client = create_app(tmp_path / "empty", settings.load()).test_client()
    assert results(post(client, pictures[0])) == []


# werkzeug's test request leaves its own temporary file open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_uploads_stay_in_memory(app: Flask, pictures: list[Path]) -> None:
    large = pictures[0].read_bytes() + bytes(2**20)  # beyond what is usually kept in memory
    sent = {"image": (io.BytesIO(large), "query.png")}
    with app.test_request_context(SEARCH, method="POST", data=sent) as context:
        assert isinstance(context.request.files["image"].stream, io.BytesIO)


def test_answer_is_strict_json(client: FlaskClient, ids: list[str]) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(by_id(client, ids[0]).text, parse_constant=refuse)


def test_words_need_a_text_tower(client: FlaskClient) -> None:
    detail = problem(client.post(SEARCH, json={"text": "knee"}), 422)
    assert detail.startswith(
        "text: the profile huang2012 has no text tower; search with an image, or index with"
    )
    assert 'id="words"' not in client.get("/").text
