"""POST /v1/grade: the same grade as the command line gives, and what is refused."""

import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from flask import Flask
from flask.testing import FlaskClient
from typer.testing import CliRunner

from cbir import settings
from cbir.api.main import app as commands
from cbir.errors import InvalidInput
from cbir.learn.grading import make_ranker
from cbir.learn.grading.grader import Grader, fit_grader
from cbir.store import Collection
from service.app import create_app
from service.client import Client, ServiceError
from tests.service.conftest import problem


def learn(folder: Path, column: str = "severity", name: str = "s-ndcg") -> None:
    """What `cbir grade fit` does."""
    with Collection(folder) as collection:
        fit_grader(collection, column, make_ranker(name))


@pytest.fixture(scope="module")
def graded(indexed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection that has learnt from the label `severity`; not to be changed."""
    folder = Path(shutil.copytree(indexed, tmp_path_factory.mktemp("graded") / "own"))
    learn(folder)
    return folder


@pytest.fixture
def app(graded: Path) -> Flask:
    return create_app(graded, settings.load())


@pytest.fixture
def asking(app: Flask) -> Iterator[Client]:
    with Client("http://localhost", transport=httpx.WSGITransport(app=app)) as dicom_collection:
        yield dicom_collection


def test_as_the_command_line(client: FlaskClient, graded: Path, pictures: list[Path]) -> None:
    with pictures[-1].open("rb") as file:
        results = client.post("/v1/grade", data={"image": file})
    assert results.status_code == 200, results.text
    options = ["--grade-column", "severity", "--collection", str(graded), "--format", "json"]
    printed = CliRunner().invoke(commands, ["grade", "predict", str(pictures[-1]), *options])
    assert results.json == json.loads(printed.stdout)
    assert results.json["low"] <= results.json["grade"] <= results.json["high"]
    for side in ("lighter", "severer"):
        if results.json[side]:
            assert client.get(results.json[side]["links"]["thumbnail"]).status_code == 200
            record = client.get(results.json[side]["links"]["image"]).json
            assert float(record["labels"]["severity"]) == results.json[side]["grade"]


def test_the_body_itself_and_the_address(client: FlaskClient, pictures: list[Path]) -> None:
    data = pictures[-1].read_bytes()
    item = client.post("/v1/grade", data={"image": (io.BytesIO(pictures[-1].read_bytes()), "image")})
    other = client.post("/v1/grade?grade_column=severity", data=data, content_type="image/png")
    assert other.json == item.json


def test_an_image_of_the_collection(client: FlaskClient, graded: Path, ids: list[str]) -> None:
    results = client.post("/v1/grade", json={"image_id": ids[0], "grade_column": "severity"}).json
    with Collection(graded) as collection:
        assert results == Grader(collection, "severity").by_id(ids[0]).model_dump(mode="json")
    assert results["graded"] == len(ids) - 4  # its patient's four are left out


def test_client(asking: Client, pictures: list[Path], ids: list[str]) -> None:
    results = asking.grade(pictures[-1], grade_column="severity", region=(0, 0, 100, 100))
    assert results.grade_column == "severity"
    assert asking.grade(ids[0]).graded == len(ids) - 4
    assert asking.grade(pictures[0], exclude_patient="patient-0").graded == len(ids) - 4
    with pytest.raises(InvalidInput, match="frame"):
        asking.grade(ids[0], frame=2)
    with pytest.raises(ServiceError, match="no image"):
        asking.grade("0" * 32)


def test_refused(client: FlaskClient, pictures: list[Path], ids: list[str]) -> None:
    data = pictures[-1].read_bytes()

    def sent(query: str = "", **more: object) -> object:
        return client.post(f"/v1/grade{query}", data=data, content_type="image/png", **more)

    assert "no grade model" in problem(sent("?grade_column=label"), 404)
    assert "there are: severity" in problem(sent("?grade_column=label"), 404)
    problem(sent(f"?grade_column={'x' * 101}"), 422)
    problem(sent("?collection=nowhere"), 404)
    assert "patient key" in problem(sent("?exclude_patient=patient-0"), 422)
    problem(sent("?k=3"), 422)
    problem(client.post("/v1/grade", json={"image_id": "0" * 32}), 404)
    problem(client.post("/v1/grade", json={}), 422)
    problem(client.post("/v1/grade", data=b"no image", content_type="image/png"), 422)
    problem(client.post("/v1/grade", data="x", content_type="text/plain"), 415)
    problem(
        client.post(
            "/v1/grade", data={"image": [(io.BytesIO(p.read_bytes()), "image") for p in pictures[:2]]}
        ),
        422,
    )


def test_nothing_learnt_yet(indexed: Path, ids: list[str]) -> None:
    client = create_app(indexed, settings.load()).test_client()
    assert "cbir grade fit" in problem(client.post("/v1/grade", json={"image_id": ids[0]}), 404)


@pytest.mark.slow
def test_several_labels_and_what_is_learnt_while_it_serves(writable: Path, ids: list[str]) -> None:
    client = create_app(writable, settings.load()).test_client()
    learn(writable, name="ranking-svm")
    assert client.post("/v1/grade", json={"image_id": ids[0]}).json["ranker"] == "ranking-svm"
    learn(writable, name="rankboost")
    assert client.post("/v1/grade", json={"image_id": ids[0]}).json["ranker"] == "rankboost"
    with Collection(writable) as collection, collection.writer() as writer:
        for number, image_id in enumerate(ids):
            writer.set_labels(image_id, {"age": str(number)})
    learn(writable, "age")
    assert "age, severity" in problem(client.post("/v1/grade", json={"image_id": ids[0]}), 422)
    assert (
        client.post("/v1/grade", json={"image_id": ids[0], "grade_column": "age"}).json["grade_column"]
        == "age"
    )


def test_links_name_the_collection(graded: Path, indexed: Path, ids: list[str]) -> None:
    client = create_app([indexed, graded], settings.load()).test_client()
    results = client.post("/v1/grade", json={"image_id": ids[5], "collection": graded.name}).json
    neighbour = results["lighter"] or results["severer"]
    assert neighbour["links"]["image"].startswith(f"/v1/collections/{graded.name}/images/")
    assert client.get(neighbour["links"]["thumbnail"]).status_code == 200


def test_long_grading_is_cancelled(graded: Path, ids: list[str]) -> None:
    client = create_app(graded, settings.load(query_seconds=1e-6)).test_client()
    body = {"image_id": ids[0], "grade_column": "severity"}
    assert "query_seconds" in problem(client.post("/v1/grade", json=body), 504)
