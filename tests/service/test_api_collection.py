"""What the service tells of a collection, and of itself."""

from pathlib import Path

import pytest
from flask.testing import FlaskClient

from cbir import settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from service.app import create_app
from tests.service.conftest import COUNT, problem, refusal


def test_info(client: FlaskClient, indexed: Path) -> None:
    detail = client.get("/v1/collection").json
    with Collection(indexed) as collection:
        assert detail == {"name": "collection"} | collection.info()
    assert str(indexed) not in client.get("/v1/collection").text


def test_profile(client: FlaskClient) -> None:
    detail = client.get("/v1/collection/profile").json
    assert detail["name"] == "huang2012"
    assert sum(detail["parts"].values()) == detail["dimensions"]
    assert len(detail["hash"]) == 16


def test_statistics(client: FlaskClient, ids: list[str]) -> None:
    detail = client.get("/v1/collection/statistics").json
    assert detail["images"] == len(ids)
    assert detail["patients"] == 8
    assert detail["without_patient"] == 0
    assert detail["formats"] == {"png": len(ids)}
    assert detail["labels"]["label"] == {"even": 15, "odd": 15}
    assert len(detail["labels"]["severity"]) == len(ids)
    assert detail["normalisation"]["fitted_on"] == len(ids)
    assert len(detail["normalisation"]["mean"]) == client.get("/v1/collection/profile").json["dimensions"]


def test_statistics_of_nothing(tmp_path: Path) -> None:
    Collection.create(tmp_path / "empty", profiles.get("tamura")).close()
    detail = (
        create_app(tmp_path / "empty", settings.load()).test_client().get("/v1/collection/statistics").json
    )
    assert detail["images"] == detail["patients"] == detail["without_patient"] == 0
    assert detail["normalisation"] is None


def test_history_names_images_and_no_patient(writable: Path, pictures: list[Path], ids: list[str]) -> None:
    client = create_app(writable, settings.load()).test_client()
    data = pictures[-1].read_bytes()
    new = client.post("/v1/images", data=data, content_type="image/png").json["ids"][0]
    client.patch(f"/v1/images/{new}", json={"labels": {"view": "AP"}})
    client.delete(f"/v1/images/{new}")
    key = client.get(f"/v1/images/{ids[0]}").json["patient_key"]
    client.delete(f"/v1/patients/{key}")
    detail = client.get("/v1/collection/history").json
    assert [item["what"] for item in detail["items"]][:4] == ["erased", "deleted", "labelled", "added"]
    assert {item["who"] for item in detail["items"][:4]} == {"service"}
    assert detail["items"][-1]["who"] == "command line"
    assert detail["items"][1]["image_ids"] == [new]
    assert detail["next"] is None
    text = client.get("/v1/collection/history").text
    assert key not in text
    assert not any(image_id in text for image_id in ids[:4])
    first = client.get("/v1/collection/history?limit=2").json
    rest = client.get(f"/v1/collection/history?limit=1000&cursor={first['next']}").json
    assert first["items"] + rest["items"] == detail["items"]
    problem(client.get("/v1/collection/history?cursor=x"), 400)


@pytest.mark.parametrize("path", ["", "/profile", "/statistics", "/history"])
def test_unknown_collection_and_parameter(client: FlaskClient, path: str) -> None:
    problem(client.get(f"/v1/collection{path}?collection=other"), 404)
    problem(client.get(f"/v1/collection{path}?colour=red"), 422)


def test_liveness(client: FlaskClient) -> None:
    assert client.get("/livez").json == client.get("/healthz").json == {"status": "ok"}
    assert client.get("/readyz").json["images"] == COUNT - 6


def test_metrics(writable: Path, ids: list[str]) -> None:
    client = create_app(writable, settings.load()).test_client()
    client.post("/v1/search", json={"image_id": ids[0]})
    client.get(f"/v1/images/{ids[0]}")
    client.get("/v1/images/none-such")
    client.get("/nowhere/Jane-Doe")
    answer = client.get("/metrics")
    assert answer.mimetype == "text/plain"
    for line in (
        'cbir_requests_total{method="POST",route="/v1/search",status="200"} 1.0',
        'cbir_requests_total{method="GET",route="/v1/images/<image_id>",status="404"} 1.0',
        'cbir_requests_total{method="any",route="none",status="404"} 1.0',
        'cbir_query_stage_seconds_count{stage="rerank"} 1.0',
        f'cbir_collection_images{{collection="own"}} {COUNT - 6}.0',
        'cbir_collection_ready{collection="own"} 1.0',
        "cbir_queue_length 0.0",
        'cbir_jobs{state="running"} 0.0',
    ):
        assert line in answer.text
    assert ids[0] not in answer.text
    assert "Jane" not in answer.text


def test_metrics_without_a_collection(tmp_path: Path) -> None:
    answer = create_app(tmp_path / "none", settings.load()).test_client().get("/metrics")
    assert 'cbir_collection_ready{collection="none"} 0.0' in answer.text


def test_two_collections_of_one_name(indexed: Path, tmp_path: Path) -> None:
    Collection.create(tmp_path / "collection", profiles.get("huang2012")).close()
    both = ["--collection", indexed, "--collection", tmp_path / "collection"]
    assert "folder name collection" in refusal("serve", *both, "--port", "0")
