"""Images listed, added, shown, labelled and deleted over HTTP."""

import gzip
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

from cbir import settings
from cbir.store import Collection
from cbir.store.base.collection_folder import writer_lock
from cbir.store.records import originals
from service.app import create_app
from service.collections.app_state import EXTENSION
from tests.service.conftest import problem

IMAGES = "/v1/images"


@pytest.fixture
def mine(writable: Path) -> FlaskClient:
    """A client of a collection to be changed."""
    return create_app(writable, settings.load()).test_client()


def send(client: FlaskClient, *paths: Path, headers: dict[str, str] | None = None, **fields: Any) -> Any:
    form = MultiDict([("image", (io.BytesIO(path.read_bytes()), "image")) for path in paths])
    form.update(fields)
    return client.post(IMAGES, data=form, headers=headers)


def listed(client: FlaskClient, **values: Any) -> list[str]:
    results: list[str] = []
    while True:
        page = client.get(IMAGES, query_string=values).json
        results += [item["image_id"] for item in page["items"]]
        if page["next"] is None:
            return results
        values["cursor"] = page["next"]


@pytest.mark.parametrize("limit", [1, 7, 30, 1000])
def test_pages_hold_every_image_once(client: FlaskClient, ids: list[str], limit: int) -> None:
    assert listed(client, limit=limit) == ids


def test_list_by_labels(client: FlaskClient, ids: list[str]) -> None:
    assert listed(client, where="label=odd", limit=4) == ids[1::2]
    assert listed(client, where=["label=odd", "severity<1"]) == ids[1:10:2]
    assert listed(client, where="label=nobody") == []


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"cursor": "x"}, 400),
        ({"cursor": "-1"}, 400),
        ({"cursor": "9" * 40}, 400),
        ({"limit": 0}, 422),
        ({"limit": 1001}, 422),
        ({"where": "label"}, 422),
        ({"colour": 1}, 422),
        ({"collection": "other"}, 404),
    ],
)
def test_lists_that_cannot_be_given(client: FlaskClient, values: dict[str, Any], status: int) -> None:
    problem(client.get(IMAGES, query_string=values), status)


def test_add_one_as_the_body(mine: FlaskClient, writable: Path, pictures: list[Path]) -> None:
    new = pictures[-1]
    sent = mine.post(
        IMAGES,
        data=new.read_bytes(),
        content_type="image/png",
        query_string={"labels": '{"label": "new", "patient": "Jane"}'},
    )
    assert sent.status_code == 201, sent.text
    image_id = sent.json["ids"][0]
    assert sent.json["images"] == [
        {"file": 1, "frame": None, "outcome": "added", "image_id": image_id, "reason": None}
    ]
    with Collection(writable) as collection:  # on the disk, for every other reader
        record = collection.record(image_id)
    assert record.labels["label"] == "new"
    assert record.patient_key
    assert "patient" not in record.labels
    assert "Jane" not in mine.get(f"{IMAGES}/{image_id}").text
    again = mine.post("/v1/search", data=new.read_bytes(), content_type="image/png").json
    assert again["query"]["image_id"] == image_id
    like = again["results"][0]["image_id"]
    answers = mine.post("/v1/search", json={"image_id": like, "k": 100}).json["results"]
    assert image_id in [hit["image_id"] for hit in answers]


@pytest.mark.slow
def test_thumbnail_of_what_was_sent(mine: FlaskClient, pictures: list[Path]) -> None:
    image_id = send(mine, pictures[-1]).json["ids"][0]
    answer = mine.get(f"{IMAGES}/{image_id}/thumbnail")
    small = cv2.imdecode(np.frombuffer(answer.data, np.uint8), cv2.IMREAD_UNCHANGED)
    original = cv2.imread(str(pictures[-1]), cv2.IMREAD_GRAYSCALE)
    expected = cv2.resize(original, small.shape[::-1], interpolation=cv2.INTER_AREA)
    assert np.abs(small.astype(int) - expected).mean() < 3
    problem(mine.get(f"{IMAGES}/{image_id}/original"), 410)
    assert mine.get(f"{IMAGES}/{image_id}").json["original"] is False


def test_add_many_with_labels_of_their_own(mine: FlaskClient, pictures: list[Path], tmp_path: Path) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    values = json.dumps([{"view": "AP"}, {}, {}, {"view": "PA"}])
    sent = send(mine, pictures[-1], pictures[0], bad, pictures[-2], labels=values)
    assert sent.status_code == 201
    assert [entry["outcome"] for entry in sent.json["images"]] == ["added", "duplicate", "refused", "added"]
    assert sent.json["images"][2]["reason"]
    first, second = sent.json["ids"]
    assert mine.get(f"{IMAGES}/{first}").json["labels"]["view"] == "AP"
    assert mine.get(f"{IMAGES}/{second}").json["labels"]["view"] == "PA"


def test_duplicates(mine: FlaskClient, pictures: list[Path], ids: list[str]) -> None:
    same = send(mine, pictures[0])
    assert same.status_code == 200
    assert same.json["ids"] == []
    assert same.json["images"][0]["image_id"] == ids[0]
    expected_value = send(mine, pictures[0], duplicates="true")
    assert expected_value.status_code == 201
    assert expected_value.json["ids"] == [f"{ids[0]}-2"]


def test_deleted_earlier(mine: FlaskClient, pictures: list[Path], ids: list[str]) -> None:
    assert mine.delete(f"{IMAGES}/{ids[0]}").status_code == 204
    problem(mine.get(f"{IMAGES}/{ids[0]}"), 404)
    problem(mine.delete(f"{IMAGES}/{ids[0]}"), 404)
    problem(send(mine, pictures[0]), 409)
    assert send(mine, pictures[0], restore="true").status_code == 201


def test_frames_become_images(mine: FlaskClient, pictures: list[Path], tmp_path: Path) -> None:
    pages = [PIL.Image.open(path) for path in pictures[-3:]]
    path = tmp_path / "pages.tif"
    pages[0].save(path, save_all=True, append_images=pages[1:])
    sent = send(mine, path)
    assert [entry["frame"] for entry in sent.json["images"]] == [1, 2, 3]
    assert len(set(sent.json["ids"])) == 3


def test_dicom_says_what_it_is(mine: FlaskClient) -> None:
    path = Path(str(pydicom.data.get_testdata_file("CT_small.dcm", download=False)))
    sent = mine.post(IMAGES, data=path.read_bytes(), content_type="application/dicom")
    detail = mine.get(f"{IMAGES}/{sent.json['ids'][0]}").json
    assert detail["labels"]["modality"] == "CT"
    assert len(detail["patient_key"]) == 32


def test_originals_are_kept_where_wanted(writable: Path, pictures: list[Path]) -> None:
    client = create_app(writable, settings.load(keep_originals=True)).test_client()
    sent = send(client, pictures[-1], pictures[-2], labels=json.dumps([{"patient": "a"}, {}]))
    first, second = sent.json["ids"]
    answer = client.get(f"{IMAGES}/{first}/original")
    assert answer.data == pictures[-1].read_bytes()
    assert answer.mimetype == "application/octet-stream"
    assert "attachment" in answer.headers["Content-Disposition"]
    record = client.get(f"{IMAGES}/{first}").json
    assert record["original"] is True
    key = record["patient_key"]
    assert len(list((writable / originals.FOLDER).iterdir())) == 2
    assert client.delete(f"/v1/patients/{key}").json["erased"] == 1
    assert client.delete(f"{IMAGES}/{second}").status_code == 204
    assert list((writable / originals.FOLDER).iterdir()) == []
    data = pictures[-1].read_bytes()
    assert not any(data[:200] in file.read_bytes() for file in writable.rglob("*") if file.is_file())


def test_idempotency_key(mine: FlaskClient, pictures: list[Path]) -> None:
    once = {"Idempotency-Key": "batch 1"}
    first = send(mine, pictures[-1], headers=once, duplicates="true")
    second = send(mine, pictures[-1], headers=once, duplicates="true")
    assert (first.status_code, second.status_code) == (201, 201)
    assert second.json == first.json
    assert second.headers["Idempotency-Replayed"] == "true"
    assert len(listed(mine)) == 31
    assert "another request" in problem(send(mine, pictures[-2], headers=once), 422)
    assert (
        send(mine, pictures[-1], headers={"Idempotency-Key": "batch 2"}, duplicates="true").json != first.json
    )
    for wrong in ("", "x" * 256):
        problem(send(mine, pictures[-1], headers={"Idempotency-Key": wrong}), 400)


def test_replies_outlive_the_erasure_of_other_patients(mine: FlaskClient, pictures: list[Path]) -> None:
    def sent(picture: Path, patient: str) -> Any:
        labels = json.dumps({"patient": patient})
        return send(
            mine, picture, headers={"Idempotency-Key": f"of {patient}"}, duplicates="true", labels=labels
        )

    of_ann, of_bob = sent(pictures[-1], "Ann"), sent(pictures[-2], "Bob")
    assert (of_ann.status_code, of_bob.status_code) == (201, 201)
    patient = mine.get(f"{IMAGES}/{of_ann.json['ids'][0]}").json["patient_key"]
    assert mine.delete(f"/v1/patients/{patient}").json["erased"] == 1
    again = sent(pictures[-2], "Bob")
    assert again.json == of_bob.json
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "deleted earlier" in problem(sent(pictures[-1], "Ann"), 409)  # the reply named the erased image


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("{", "JSON"),
        ("[]", "0 objects for 1"),
        ("[{}, {}]", "2 objects for 1"),
        ('"x"', "text"),
        ('{"a": 1}', "text"),
        ('{"": "x"}', "key"),
        ('{"a=b": "x"}', "key"),
        ('{" a": "x"}', "key"),
        ('{"a": ""}', "value"),
        ('{"a": "\\ud800"}', "surrogate"),
        ('{"a": "%s"}' % ("x" * 1001), "value"),
    ],
)
def test_labels_that_do_not_fit(mine: FlaskClient, pictures: list[Path], labels: str, message: str) -> None:
    assert message in problem(send(mine, pictures[-1], labels=labels), 422)
    assert len(listed(mine)) == 30


def test_adds_that_are_refused(mine: FlaskClient, writable: Path, pictures: list[Path]) -> None:
    problem(mine.post(IMAGES, data=b"no image", content_type="image/png"), 422)
    problem(mine.post(IMAGES, data=b"", content_type="image/png"), 422)
    problem(mine.post(IMAGES, data={}, content_type="multipart/form-data"), 422)
    problem(mine.post(IMAGES, json={}), 415)
    problem(mine.post(f"{IMAGES}?collection=other", data=b"x", content_type="image/png"), 404)
    problem(mine.post(f"{IMAGES}?colour=x", data=b"x", content_type="image/png"), 422)
    small = create_app(writable, settings.load(max_upload_bytes=100)).test_client()
    problem(send(small, pictures[-1]), 413)


def test_another_writer(mine: FlaskClient, writable: Path, pictures: list[Path], ids: list[str]) -> None:
    with writer_lock(writable):
        for refused in (
            send(mine, pictures[-1]),
            mine.delete(f"{IMAGES}/{ids[0]}"),
            mine.patch(f"{IMAGES}/{ids[0]}", json={"labels": {"a": "b"}}),
        ):
            problem(refused, 503)
            assert int(refused.headers["Retry-After"]) >= 1
            assert refused.json["type"].endswith("#collection-busy")
        assert mine.post("/v1/search", json={"image_id": ids[0]}).status_code == 200
    assert send(mine, pictures[-1]).status_code == 201


def test_labels_changed(mine: FlaskClient, ids: list[str]) -> None:
    address = f"{IMAGES}/{ids[1]}"
    before = mine.get(address)
    tag = before.headers["ETag"]
    assert mine.get(address, headers={"If-None-Match": tag}).status_code == 304
    change = {"labels": {"label": "better", "severity": None, "view": "AP"}}
    after = mine.patch(address, json=change, headers={"If-Match": tag})
    assert after.status_code == 200
    stored = {key: value for key, value in before.json["labels"].items() if key != "severity"}
    assert after.json["labels"] == stored | {"label": "better", "view": "AP"}
    assert mine.get(address).json == after.json
    assert mine.get(address).headers["ETag"] == after.headers["ETag"] != tag
    problem(mine.patch(address, json=change, headers={"If-Match": tag}), 412)
    patch = "application/merge-patch+json"
    anyway = mine.patch(
        address, data='{"labels": {"view": null}}', content_type=patch, headers={"If-Match": "*"}
    )
    assert "view" not in anyway.json["labels"]
    assert listed(mine, where="label=better") == [ids[1]]


def test_if_match_compares_strongly(mine: FlaskClient, ids: list[str]) -> None:
    address, change = f"{IMAGES}/{ids[1]}", {"labels": {f"note {number}": "x" * 900 for number in range(3)}}
    tag = mine.patch(address, json=change).headers["ETag"]
    assert mine.get(address, headers={"Accept-Encoding": "gzip"}).headers["ETag"] == tag
    for other in ("", ",", '"', '"other"', f"W/{tag}", f'"other", W/{tag}'):
        problem(mine.patch(address, json=change, headers={"If-Match": other}), 412)
        problem(mine.get(address, headers={"If-Match": other}), 412)
    assert mine.patch(address, json=change, headers={"If-Match": f'"other", {tag}'}).status_code == 200
    assert mine.get(address, headers={"If-Match": tag, "If-None-Match": tag}).status_code == 304


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"labels": {"patient": "x"}}, 422),
        ({"labels": {"a": 1}}, 422),
        ({"labels": []}, 422),
        ({}, 422),
        ([], 422),
        ({"labels": {"a<": "1"}}, 422),
    ],
)
def test_labels_that_cannot_be_set(mine: FlaskClient, ids: list[str], body: Any, status: int) -> None:
    problem(mine.patch(f"{IMAGES}/{ids[0]}", json=body), status)


def test_patches_that_are_none(mine: FlaskClient, ids: list[str]) -> None:
    problem(mine.patch(f"{IMAGES}/{ids[0]}", data=b"{", content_type="application/json"), 400)
    problem(mine.patch(f"{IMAGES}/{ids[0]}", data=b"{}", content_type="text/plain"), 415)
    problem(mine.patch(f"{IMAGES}/none-such", json={"labels": {}}), 404)


def test_collections_side_by_side(
    indexed: Path, writable: Path, pictures: list[Path], ids: list[str]
) -> None:
    client = create_app([indexed, writable], settings.load()).test_client()
    assert client.get("/v1/collections").json == {
        "collections": ["collection", "own"],
        "default": "collection",
    }
    new = client.post(
        f"{IMAGES}?collection=own", data=pictures[-1].read_bytes(), content_type="image/png"
    ).json
    image_id = new["ids"][0]
    problem(client.get(f"{IMAGES}/{image_id}"), 404)
    hits = client.post("/v1/search", json={"image_id": image_id, "collection": "own"}).json["results"]
    assert len(hits) == 20
    for name in ("thumbnail", "image"):
        address = hits[0]["links"][name]
        assert "/collections/own/" in address
        assert client.get(address).status_code == 200
    picture = pictures[-1].read_bytes()
    sent = client.post("/v1/search?collection=own", data=picture, content_type="image/png")
    assert sent.json["query"]["image_id"] == image_id
    elsewhere = client.post("/v1/search", data=picture, content_type="image/png").json
    assert elsewhere["query"]["image_id"] is None
    problem(client.post("/v1/search?collection=none", data=picture, content_type="image/png"), 404)
    assert client.get("/readyz").json["collections"] == {"collection": "ready", "own": "ready"}


def test_answers_are_packed(client: FlaskClient, ids: list[str]) -> None:
    plain = client.get(IMAGES)
    packed = client.get(IMAGES, headers={"Accept-Encoding": "gzip"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in packed.headers["Vary"]
    assert gzip.decompress(packed.data) == plain.data
    assert len(packed.data) < len(plain.data) / 3
    for small in (
        client.get("/healthz", headers={"Accept-Encoding": "gzip"}),
        client.get(f"{IMAGES}/{ids[0]}/thumbnail", headers={"Accept-Encoding": "gzip"}),
        client.get(IMAGES, headers={"Accept-Encoding": "gzip;q=0"}),
    ):
        assert "Content-Encoding" not in small.headers


def test_erasing_forgets_thumbnails_in_memory(writable: Path, ids: list[str]) -> None:
    app: Flask = create_app(writable, settings.load())
    client = app.test_client()
    assert client.get(f"{IMAGES}/{ids[0]}/thumbnail").status_code == 200
    assert app.extensions[EXTENSION].thumbnails.size > 0
    key = client.get(f"{IMAGES}/{ids[0]}").json["patient_key"]
    assert client.delete(f"/v1/patients/{key}").json["erased"] == 4
    assert app.extensions[EXTENSION].thumbnails.size == 0
    problem(client.get(f"{IMAGES}/{ids[0]}/thumbnail"), 404)
    assert client.delete(f"/v1/patients/{key}").json["erased"] == 0
    problem(client.delete("/v1/patients/Jane Doe"), 422)


def test_what_the_client_has_is_not_sent_again(writable: Path, pictures: list[Path]) -> None:
    """For all that has an ETag: 304 where the client has it, 412 where it means another state."""
    client = create_app(writable, settings.load(keep_originals=True)).test_client()
    sent = client.post("/v1/images", data=pictures[-1].read_bytes(), content_type="image/png").json
    for what in ("", "/thumbnail", "/picture", "/original"):
        path = f"/v1/images/{sent['ids'][0]}{what}"
        first = client.get(path)
        tag = first.headers["ETag"]
        existing = client.get(path, headers={"If-None-Match": f'"other", {tag}'})
        assert (existing.status_code, existing.data, existing.headers["ETag"]) == (304, b"", tag)
        assert client.get(path, headers={"If-None-Match": '"other"'}).data == first.data
        for expected in (tag, "*"):
            matching = client.get(path, headers={"If-Match": expected})
            assert (matching.status_code, matching.data) == (200, first.data)
        assert "If-Match" in problem(client.get(path, headers={"If-Match": '"other"'}), 412)
        # Ranges are not offered: the whole comes, and no answer of a form that nothing documents.
        for expected_value in ("bytes=0-9", "bytes=99999999-", "lines=1"):
            ranged = client.get(path, headers={"Range": expected_value})
            assert (ranged.status_code, ranged.data) == (200, first.data)
