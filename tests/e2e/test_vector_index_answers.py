"""Answers through a vector index on a server, and in a file, are those of a comparison with all images."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.collection_address import collection_folder
from cbir.store.index.open_index import open_index
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from tests.service import wards
from tests.service.conftest import command
from tests.service.wards import HIDDEN, VISIBLE, Ward

FEW = 4  # candidates; a search for more results reads as many as it is asked for
ALL = 1000  # results, more than there are images

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Ward:
    return wards.make(tmp_path_factory)


@pytest.fixture(params=["hnsw", "pgvector", "milvus"])
def clients(
    request: pytest.FixtureRequest, ward: Ward, tmp_path: Path
) -> Iterator[dict[str, list[FlaskClient]]]:
    """For tokens of all images and of a part: clients of a service that compares all images, and by the index."""
    index = request.getfixturevalue("milvus").address if request.param == "milvus" else request.param
    if request.param == "pgvector":
        server = request.getfixturevalue("vector_server")
        address = server.new_address()
        code, _, said = command("collection", "copy", ward.folder, address)
        assert code == 0, said
        folder = collection_folder(address)
    else:
        folder = Path(shutil.copytree(ward.folder, tmp_path / "hand"))
    tokens = TokenStore(tmp_path / "state")
    common: dict[str, Any] = {"require_tokens": True, "state_folder": tmp_path / "state", "rerank": "none"}
    indexed = Settings(index=index, indexed_candidates=FEW, indexed_sample=FEW, exact_limit=FEW, **common)
    with Collection(folder) as collection:
        opened = open_index(collection, indexed)
        assert opened
        assert opened.follower.follow()
        apps = [create_app(folder, settings) for settings in (Settings(**common), indexed)]
        texts = {
            name: tokens.create((Scope.search, Scope.originals), where=where)[1]
            for name, where in (("all", []), ("part", [f"site={VISIBLE}"]))
        }
        yield {name: [client_of(app, text) for app in apps] for name, text in texts.items()}
        opened.follower.drop()


def client_of(app: Any, token: str) -> FlaskClient:
    client: FlaskClient = app.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return client


def requests(ward: Ward) -> dict[str, tuple[str, dict[str, Any] | None]]:
    seen = next(record for record in ward.visible if record.instance)
    query = {"image_id": seen.image_id, "k": ALL, "rerank": "none"}
    similar = f"/v1/similar?study={seen.study}&rerank=none&limit={ALL}&depth={ALL}"
    return {
        "everything": ("/v1/search", query),
        "filter": ("/v1/search", query | {"where": ["severity>=10"]}),
        "without a label": ("/v1/search", query | {"where": ["!marker?"]}),
        "no match": ("/v1/search", query | {"where": [f"site={HIDDEN}", f"site={VISIBLE}"]}),
        "without the patient": ("/v1/search", query | {"exclude_patient": seen.patient_key}),
        "the same patient": ("/v1/search", query | {"same_patient": True}),
        "examples": ("/v1/search", query | {"examples": [ward.visible[1].image_id]}),
        "groups": ("/v1/search", query | {"group_by": "patient"}),
        "instances": (f"{similar}&exclude=series", None),
        "series": (f"{similar}&level=series", None),
        "studies": (f"{similar}&level=study&exclude=patient&where=severity>=5", None),
        "DICOM": (f"/dicomweb/studies/{seen.study}/similar?level=study&rerank=none", None),
    }


def answer(client: FlaskClient, address: str, body: dict[str, Any] | None) -> Any:
    given = client.post(address, json=body) if body else client.get(address)
    if given.status_code == 503:  # the server of the index has only just been filled
        time.sleep(1)
        given = client.post(address, json=body) if body else client.get(address)
    assert given.status_code in (200, 204, 404), given.text
    return given


def results(given: Any) -> Any:
    """Return what an answer says of the images, to five digits."""
    if given.status_code != 200:
        return given.status_code
    if isinstance(given.json, list):
        return [dataset["00080018" if "00080018" in dataset else "0020000D"] for dataset in given.json]
    found = given.json["results"]
    return [
        (hit.get("image_id") or hit.get("best", {}).get("image_id"), round(hit["score"], 4)) for hit in found
    ]


def test_answers_are_those_of_all_images(clients: dict[str, list[FlaskClient]], ward: Ward) -> None:
    answered = 0
    for caller, (exact, indexed) in clients.items():
        for name, (address, body) in requests(ward).items():
            expected = results(answer(exact, address, body))
            assert results(answer(indexed, address, body)) == expected, (caller, name)
            answered += bool(expected)
    assert answered > 16


def test_who_may_see_a_part_learns_nothing_of_the_rest(
    clients: dict[str, list[FlaskClient]], ward: Ward
) -> None:
    _, indexed = clients["part"]
    hidden = {record.image_id for record in ward.hidden}
    for name, (address, body) in requests(ward).items():
        text = answer(indexed, address, body).text
        assert not [image_id for image_id in hidden if image_id in text], name
    found = answer(indexed, *requests(ward)["everything"]).json
    assert str(len(ward.visible) + len(hidden)) not in found["rerank"]["scope"]
