"""One upload for all that a page shows of a query: `include`, and later searches by its vector alone."""

import base64
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import httpx
import numpy as np
import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.datastructures import MultiDict

import cbir
from cbir import settings
from cbir.errors import InvalidInput
from cbir.learn.grading import make_ranker
from cbir.learn.grading.grader import fit_grader
from cbir.store import Collection
from service.app import create_app
from service.client import Client
from tests.cbir.images.synthetic_dicom import dicom_set, written
from tests.service.conftest import cbir as command
from tests.service.conftest import problem

SLICES = 5  # of each study
EVERYTHING = ["cards", "before", "rendering", "pixels", "vector", "grade"]


def slice_file(patient: int, study: int, number: int) -> bytes:
    random = np.random.default_rng(patient)
    anatomy = cv2.resize(random.integers(0, 2000, (8, 8)).astype(np.float32), (64, 64))
    noise = np.random.default_rng([patient, study, number]).integers(0, 200, (64, 64))
    uid = f"1.2.{patient}.{study}"
    header = {
        "PatientID": f"patient {patient}", "PatientAge": "054Y", "PatientSex": "F", "Modality": "CT",
        "BodyPartExamined": "CHEST", "SeriesDescription": "lung kernel", "StudyInstanceUID": uid,
        "SeriesInstanceUID": f"{uid}.1", "SOPInstanceUID": f"{uid}.1.{90 - number}",
        "ImagePositionPatient": [0, 0, 2.5 * number], "ImageOrientationPatient": [1, 0, 0, 0, 1, 0],
    }  # fmt: skip
    return bytes(written(dicom_set((anatomy + noise).astype(np.int16), **header)))


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three patients with two studies of five slices, whose UIDs are in the opposite order of their places."""
    folder = tmp_path_factory.mktemp("studies")
    (folder / "images").mkdir()
    for patient in range(3):
        for study in range(2):
            for number in range(SLICES):
                name = f"{patient}-{study}-{number}.dcm"
                (folder / "images" / name).write_bytes(slice_file(patient, study, number))
    arguments = ["--jobs", "1", "--profile", "huang2012"]
    command("index", folder / "images", "--collection", folder / "own", *arguments)
    with Collection(folder / "own") as collection, collection.writer() as writer:
        for number, (_, record) in enumerate(collection.iterate()):
            writer.set_labels(record.image_id, {"severity": str(number / 10), "label": "nodule"})
    with Collection(folder / "own") as collection:
        fit_grader(collection, "severity", make_ranker("s-ndcg"))
    return folder / "own"


@pytest.fixture
def app(studies: Path) -> Flask:
    return create_app(studies, settings.load(rerank="aqe"))


@pytest.fixture
def in_studies(studies: Path) -> dict[tuple[str, int], str]:
    """Ids of images by study and slice."""
    with Collection(studies) as collection:
        return {
            (record.study, 90 - int(record.instance.rsplit(".", 1)[1])): record.image_id
            for _, record in collection.iterate()
        }


def upload(client: FlaskClient, *files: bytes, **fields: Any) -> Any:
    data = MultiDict([("image", (io.BytesIO(file), "x")) for file in files])
    for name, value in fields.items():
        for each in value if isinstance(value, list) else [value]:
            data.add(name, each)
    return client.post("/v1/search", data=data)


def again(client: FlaskClient, query: dict[str, Any], **fields: Any) -> Any:
    """Search with what the answer to an upload says of it."""
    body = {name: query[name] for name in ("vector", "profile", "origin")}
    return client.post("/v1/search", json=body | fields)


def ranked(answer: Any) -> list[tuple[str, float]]:
    assert answer.status_code == 200, answer.text
    return [(hit["image_id"], hit["score"]) for hit in answer.json["results"]]


NEW = slice_file(1, 0, 9)  # another slice of a study that is there


def test_nothing_more_unless_asked_for(client: FlaskClient) -> None:
    answer = upload(client, NEW).json
    assert (answer["before"], answer["extras"]) == (None, {})
    assert {
        answer["query"][name] for name in ("card", "rendering", "pixels", "vector", "profile", "origin")
    } == {None}
    assert {(hit["card"], hit["rank_before"]) for hit in answer["results"]} == {(None, None)}


@pytest.mark.features
def test_one_upload_has_everything(client: FlaskClient) -> None:
    answer = upload(client, NEW, include=EVERYTHING, k=4).json
    query = answer["query"]
    picture = cv2.imdecode(
        np.frombuffer(base64.b64decode(query["rendering"]["data"]), np.uint8), cv2.IMREAD_GRAYSCALE
    )
    rendered = client.post("/v1/render", data={"image": (io.BytesIO(NEW), "x")})
    assert np.array_equal(picture, cv2.imdecode(np.frombuffer(rendered.data, np.uint8), cv2.IMREAD_GRAYSCALE))
    facts = query["pixels"]["facts"]
    pixels = client.post("/v1/render", data={"image": (io.BytesIO(NEW), "x"), "pixels": "true"})
    assert base64.b64decode(query["pixels"]["data"]) == pixels.data
    assert (facts["type"], facts["modality"], query["rendering"]["facts"]["modality"]) == (
        "int16",
        "CT",
        "CT",
    )
    grade = client.post("/v1/grade", data={"image": (io.BytesIO(NEW), "x")})
    assert answer["extras"] == {"grade": grade.json}
    assert query["origin"][0]["study"] == "1.2.1.0"
    assert "patient" not in str(query["origin"])


@pytest.mark.parametrize(
    "fields",
    [
        {"k": 7},
        {"k": 30, "rerank": "none"},
        {"where": ["modality=CT"], "group_by": "patient"},
        {"exclude_own_study": True, "k": 30},
        {"rerank": "diffusion", "parameters": {"damping": 0.9}, "group_by": "study", "group_size": 2},
        {"max_distance": 30},
    ],
)
def test_a_later_search_by_vector_is_that_of_the_file(client: FlaskClient, fields: dict[str, Any]) -> None:
    query = upload(client, NEW, include=["vector"]).json["query"]
    form = {name: value for name, value in fields.items() if name != "parameters"}
    if "parameters" in fields:
        form["parameters"] = [f"{name}={value}" for name, value in fields["parameters"].items()]
    with_file, by_vector = upload(client, NEW, **form), again(client, query, **fields)
    assert ranked(by_vector) == ranked(with_file)
    for name in ("image_id", "width", "height", "format", "frame", "likeness"):
        assert by_vector.json["query"][name] == with_file.json["query"][name]


def test_copies_of_the_file_are_left_out_by_vector_too(client: FlaskClient, in_studies: Any) -> None:
    indexed = slice_file(0, 1, 2)
    answer = upload(client, indexed, include=["vector", "cards"])
    own = in_studies["1.2.0.1", 2]
    assert answer.json["query"]["image_id"] == own
    assert answer.json["query"]["card"]["slice"]["number"] == 3
    later = again(client, answer.json["query"], k=30)
    assert later.json["query"]["image_id"] == own
    assert own not in dict(ranked(later))
    bare = client.post("/v1/search", json={"vector": answer.json["query"]["vector"], "k": 30})
    assert own in dict(ranked(bare))


def test_several_files_are_one_query(client: FlaskClient) -> None:
    files = NEW, slice_file(2, 0, 9)
    answer = upload(client, *files, include=["vector", "before"], k=9)
    query = answer.json["query"]
    assert (len(query["vector"]), len(query["origin"])) == (2, 2)
    assert ranked(again(client, query, k=9)) == ranked(answer)
    assert "2 vectors" in problem(again(client, query | {"origin": query["origin"][:1]}), 422)


def test_what_a_search_cannot_have(client: FlaskClient, in_studies: Any) -> None:
    own = next(iter(in_studies.values()))
    assert "before" in problem(upload(client, NEW, include="pictures"), 422)
    for name in ("rendering", "pixels", "vector"):
        assert name in problem(client.post("/v1/search", json={"image_id": own, "include": [name]}), 422)
    origin = {"content_hash": own, "width": 1, "height": 1, "format": "png"}
    assert "vector" in problem(client.post("/v1/search", json={"image_id": own, "origin": origin}), 422)
    batch = upload_batch(client, NEW, include=["rendering"])
    assert "include" in problem(batch, 422)


def upload_batch(client: FlaskClient, file: bytes, **fields: Any) -> Any:
    return client.post("/v1/search/batch", data={"image": (io.BytesIO(file), "x"), **fields})


def test_the_order_before_is_that_of_a_search_without_reranking(client: FlaskClient, in_studies: Any) -> None:
    own = in_studies["1.2.0.0", 0]
    for search in (
        lambda **fields: client.post("/v1/search", json={"image_id": own} | fields),
        lambda **fields: upload(client, NEW, **fields),
    ):
        answer = search(k=4, include=["before", "cards"])
        plain = search(k=20, rerank="none")
        before = answer.json["before"]
        assert before["depth"] == 20
        listed = [hit["image_id"] for hit in plain.json["results"]]
        assert [hit["image_id"] for hit in before["results"]] == listed[:4]
        assert all(hit["card"]["finding"] == "nodule" for hit in before["results"])
        for hit in answer.json["results"]:
            assert hit["rank_before"] == listed.index(hit["image_id"]) + 1
        assert ranked(answer) == ranked(search(k=4))
    assert search(rerank="none", include=["before"]).json["before"] is None


def test_cards(client: FlaskClient, in_studies: Any) -> None:
    own = in_studies["1.2.0.0", 1]
    answer = client.post("/v1/search", json={"image_id": own, "k": 30, "include": ["cards"]}).json
    places = {image_id: number for (_, number), image_id in in_studies.items()}
    for hit in answer["results"]:
        number = places[hit["image_id"]]
        assert hit["card"] == {
            "finding": "nodule", "modality": "CT", "body_part": "CHEST", "age": "54", "sex": "F", "year": None,
            "series_description": "lung kernel", "patient_images": 2 * SLICES - 1,
            "slice": {"number": number + 1, "count": SLICES, "position_mm": 2.5 * number, "stack": 1},
        }  # fmt: skip
    assert answer["query"]["card"]["slice"]["number"] == 2


def test_cards_of_lists_and_records(client: FlaskClient, in_studies: Any) -> None:
    series = "/v1/images?study=1.2.2.1&series=1.2.2.1.1&cards=true"
    items = client.get(series).json["items"]
    assert [item["card"]["slice"]["number"] for item in items] == [1, 2, 3, 4, 5]
    assert [item["card"]["slice"]["position_mm"] for item in items] == [0, 2.5, 5, 7.5, 10]
    own = items[2]["image_id"]
    assert client.get(f"/v1/images/{own}?cards=true").json["card"] == items[2]["card"]
    by_ids = client.post("/v1/images/records?cards=true", json={"ids": [own]}).json["items"]
    assert by_ids[0]["card"] == items[2]["card"]
    assert client.get(f"/v1/images/{own}").json["card"] is None


def test_labels_of_cards_are_a_setting(studies: Path) -> None:
    labels = {"finding": ["severity"], "year": ["label"]}
    client = create_app(studies, settings.load(card_labels=labels)).test_client()
    card = upload(client, NEW, include="cards", k=1).json["results"][0]["card"]
    assert float(card["finding"]) >= 0
    assert (card["year"], card["modality"]) == ("nodule", "CT")
    with pytest.raises(InvalidInput, match="card_labels"):
        settings.load(card_labels={"diagnosis": ["label"]})


def test_limited_callers_count_their_images(studies: Path, tmp_path: Path) -> None:
    from service.access.token_stores import Scope, TokenStore

    state = tmp_path / "state"
    tokens = TokenStore(state)
    client = create_app(studies, settings.load(require_tokens=True, state_folder=state)).test_client()
    _, text = tokens.create([Scope.search], where=["severity<0.25"])
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
    for hit in upload(client, NEW, include="cards", k=30).json["results"]:
        assert (hit["card"]["patient_images"], hit["card"]["slice"]["count"]) == (2, 3)


def test_own_study_is_left_out(client: FlaskClient, in_studies: Any, studies: Path) -> None:
    others = {image_id for (study, _), image_id in in_studies.items() if study != "1.2.1.0"}
    own = in_studies["1.2.1.0", 0]
    query = upload(client, NEW, include=["vector"]).json["query"]
    for answer in (
        upload(client, NEW, k=60, exclude_own_study="true"),
        again(client, query, k=60, exclude_own_study=True),
        client.post("/v1/search", json={"image_id": own, "k": 60, "exclude_own_study": True}),
        client.post(
            "/v1/search",
            json={"image_id": own, "region": [0, 0, 40, 40], "k": 60, "exclude_own_study": True},
        ),
    ):
        assert set(dict(ranked(answer))) == others
    with cbir.open(studies) as db:
        assert {hit.id for hit in db.search(own, k=60, exclude_own_study=True)} == others
        assert {hit.id for hit in db.search(NEW, k=60, exclude_own_study=True)} == others
    assert len(ranked(upload(client, NEW, k=60))) == len(in_studies)


def test_the_patient_of_an_image_of_the_collection_is_known_and_on_the_page_that_of_an_upload(
    client: FlaskClient, in_studies: Any, studies: Path
) -> None:
    """An upload may claim any patient: with the key, identifiers could be tried, so they are counted."""
    of_image = client.post("/v1/search", json={"image_id": in_studies["1.2.1.0", 0], "k": 60}).json
    patients = [hit["patient"] for hit in of_image["results"]]
    assert patients.count(of_image["query"]["patient"]) == 2 * SLICES - 1
    assert upload(client, NEW).json["query"]["patient"] is None
    known = upload(client, NEW, include="cards", k=60).json
    assert known["query"]["patient"] == of_image["query"]["patient"]
    assert known["query"]["patient"] in [hit["patient"] for hit in known["results"]]
    other = upload(client, NEW, include="cards", k=60, exclude_patient=known["query"]["patient"]).json
    assert other["query"]["patient"] is None  # none of them is in the answer
    (studies / "patient.key").rename(studies / "kept.key")
    try:
        with cbir.open(studies) as db:
            assert db.search(NEW).query.patient is None
    finally:
        (studies / "kept.key").rename(studies / "patient.key")


def test_without_a_study_the_patient_is_left_out(indexed: Path, ids: list[str], pictures: list[Path]) -> None:
    client = create_app(indexed, settings.load()).test_client()
    body = {"image_id": ids[5], "k": 60, "exclude_own_study": True}
    assert set(dict(ranked(client.post("/v1/search", json=body)))) == set(ids) - set(ids[4:8])
    found = upload(client, pictures[-1].read_bytes(), k=60, exclude_own_study="true")
    assert set(dict(ranked(found))) == set(ids)


@pytest.mark.features
def test_no_grade_is_no_failure(client: FlaskClient, indexed: Path, in_studies: Any) -> None:
    colour = cv2.imencode(".png", np.zeros((64, 64, 3), np.uint8))[1].tobytes()
    answer = upload(client, colour, include="grade")
    assert answer.status_code == 200
    own = next(iter(in_studies.values()))
    graded = client.post("/v1/search", json={"image_id": own, "include": ["grade"]}).json["extras"]["grade"]
    assert graded == client.post("/v1/grade", json={"image_id": own}).json
    bare = create_app(indexed, settings.load()).test_client()
    assert upload(bare, NEW, include="grade").json["extras"] == {"grade": None}


@pytest.fixture
def asking(app: Flask) -> Iterator[Client]:
    with Client("http://localhost", transport=httpx.WSGITransport(app=app)) as client:
        yield client


def test_the_client_goes_on_without_the_file(asking: Client) -> None:
    first = asking.search(NEW, include=["vector", "cards"], k=5)
    query = first.query
    later = asking.search(
        vector=query.vector, origin=query.origin, profile=query.profile, k=5, include="cards"
    )
    assert [hit.id for hit in later] == [hit.id for hit in first]
    assert later[0].card == first[0].card
    with pytest.raises(InvalidInput, match="over HTTP"):
        cbir_search_with_include(asking)


def cbir_search_with_include(asking: Client) -> None:
    from cbir.api.collection_search import request_of
    from cbir.search.search_options import SearchOptions

    request_of(SearchOptions(include=["cards"]))


def test_the_audit_log_has_what_is_shown(studies: Path, tmp_path: Path) -> None:
    import json

    from service.access.token_stores import Scope, TokenStore

    state = tmp_path / "state"
    tokens = TokenStore(state)
    client = create_app(studies, settings.load(require_tokens=True, state_folder=state, rerank="aqe"))
    caller = client.test_client()
    _, text = tokens.create([Scope.search])
    caller.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
    answer = upload(caller, NEW, include=["before"], k=3).json
    shown = {hit["image_id"] for hit in answer["results"] + answer["before"]["results"]}
    lines = [json.loads(line) for line in (state / "audit.jsonl").read_text().splitlines()]
    assert shown <= set(lines[-1]["images"])


def test_links_name_the_collection(studies: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(studies, tmp_path / "other"))
    client = create_app([studies, other], settings.load(rerank="aqe")).test_client()
    answer = client.post(
        "/v1/collections/other/search", data={"image": (io.BytesIO(NEW), "x"), "include": "before", "k": "3"}
    ).json
    for hit in answer["results"] + answer["before"]["results"]:
        assert hit["links"]["image"].startswith("/v1/collections/other/")
