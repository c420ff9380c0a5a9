"""The intake check over HTTP: quarantined images are no answers; they are listed, shown, released and refused."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from flask.testing import FlaskClient

from cbir import settings
from service.app import create_app
from tests.indexer.receiving import file_of
from tests.indexer.test_intake_check import cut_jpeg, damaged_instance, instance_with_text
from tests.service.test_stow import SENT, post

QUARANTINE = "/v1/quarantine"


def picture(words: str) -> bytes:
    pixels = np.full((200, 300), 30, np.uint8)
    pixels[60:180, 40:260] = np.random.default_rng(len(words)).integers(60, 140, (120, 220))
    cv2.putText(pixels, words, (10, 30), cv2.FONT_HERSHEY_SIMPLEX, 0.6, 255, 1, cv2.LINE_AA)
    return cv2.imencode(".png", pixels)[1].tobytes()


@pytest.fixture
def client(writable: Path) -> FlaskClient:
    return create_app(writable, settings.load(intake="quarantine")).test_client()


@pytest.mark.slow
def test_an_image_with_text_is_kept_out_until_it_is_released(client: FlaskClient) -> None:
    answer = client.post("/v1/images", data=picture("DOE JANE 1957"), content_type="image/png")
    assert answer.status_code == 202
    (added,) = answer.json["images"]
    assert added["outcome"] == "quarantined"
    image = added["image_id"]
    assert client.get(f"/v1/images/{image}").status_code == 404
    (item,) = client.get(QUARANTINE).json["items"]
    assert item["image_id"] == image
    assert "text" in item["findings"]
    assert client.get(f"{QUARANTINE}/{image}/thumbnail").data.startswith(b"\xff\xd8")
    assert client.get("/quarantine").headers["Location"] == "/quality#quarantine"
    assert client.post(f"{QUARANTINE}/{image}/release").status_code == 204
    assert client.get(QUARANTINE).json["items"] == []
    assert "intake" not in client.get(f"/v1/images/{image}").json["labels"]
    assert client.post(f"{QUARANTINE}/{image}/release").status_code == 404


@pytest.mark.slow
def test_an_instance_of_stow_is_stored_in_quarantine(client: FlaskClient) -> None:
    answer = post(client, file_of(instance_with_text()))
    assert answer.status_code == 200
    assert len(answer.json[SENT]["Value"]) == 1
    (item,) = client.get(QUARANTINE).json["items"]
    assert "text" in item["findings"]
    assert client.get(f"/v1/images/{item['image_id']}").status_code == 404


@pytest.mark.slow
def test_damaged_files_are_held_however_they_are_sent(client: FlaskClient) -> None:
    (sent,) = client.post("/v1/images", data=cut_jpeg(5), content_type="image/jpeg").json["images"]
    assert sent["outcome"] == "quarantined"
    assert post(client, file_of(damaged_instance())).status_code == 200
    assert [item["findings"] for item in client.get(QUARANTINE).json["items"]] == [["damaged"]] * 2


@pytest.mark.slow
def test_a_refused_image_does_not_come_back(client: FlaskClient) -> None:
    data = picture("SMITH 4711123")
    image = client.post("/v1/images", data=data, content_type="image/png").json["images"][0]["image_id"]
    assert client.delete(f"{QUARANTINE}/{image}").status_code == 204
    assert client.delete(f"{QUARANTINE}/{image}").status_code == 404
    assert client.post("/v1/images", data=data, content_type="image/png").status_code == 409


@pytest.mark.slow
def test_flagged_images_have_a_label_that_filters_find(writable: Path) -> None:
    client = create_app(writable, settings.load(intake="flag")).test_client()
    answer = client.post("/v1/images", data=picture("DOE JANE 1957"), content_type="image/png")
    assert answer.status_code == 201
    labels = client.get(f"/v1/images/{answer.json['ids'][0]}").json["labels"]
    assert "text" in labels["intake"].split("+")
    where = client.get("/v1/images", query_string={"where": f"intake={labels['intake']}"}).json["items"]
    assert [item["image_id"] for item in where] == answer.json["ids"]
    assert client.get(QUARANTINE).json["items"] == []
