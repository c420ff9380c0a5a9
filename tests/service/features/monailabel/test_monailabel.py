"""Active learning for plugins of MONAI Label: next samples, images, segmentations, and their login."""

import importlib.util
import json
import shutil
import sys
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any, NoReturn

import cv2
import numpy as np
import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.serving import make_server

from cbir import settings
from cbir.store import Collection
from cbir.store.index.open_index import open_index
from cbir.store.views.view_cache import ViewCache
from service.access import sessions
from service.access.token_list import TokenStorage
from service.access.token_stores import Scope, open_tokens
from service.app import create_app
from service.features.monailabel import segmentation_files
from service.features.monailabel.choose_sample import STRATEGIES
from service.features.monailabel.segmentation_files import MAX_SEGMENTATIONS, erase_segmentations
from service.state.database import open_state
from tests.indexer.commands import call
from tests.service import dicom_collection
from tests.service.conftest import problem

pytestmark = pytest.mark.slow
SEGMENTATION = b"NRRD0004\n"


@dataclass
class Site:
    """A service that stores segmentations. ids: of the images of its collection."""

    app: Flask
    folder: Path
    settings: settings.Settings
    tokens: TokenStorage
    ids: list[str]

    def client(self, *scopes: Scope, **limits: Any) -> FlaskClient:
        """Return a client, with a new token if it has scopes."""
        client = self.app.test_client()
        if scopes:
            client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {self.token(*scopes, **limits)}"
        return client

    def token(self, *scopes: Scope, **limits: Any) -> str:
        return self.tokens.create(scopes, **limits)[1]


def make_site(indexed: Path, place: Path, keep: int = 0, **options: Any) -> Site:
    """Serve a copy of a collection, of its first `keep` images only if that is not 0."""
    folder = Path(shutil.copytree(indexed, place / "collection"))
    active = settings.load(
        **{"annotation_folder": place / "segmentations", "state_folder": place / "state", "job_workers": 0}
        | options
    )
    with Collection(folder) as collection:
        ids = [record.image_id for _, record in collection.iterate()]
        if keep:
            with collection.writer() as writer:
                writer.delete(ids[keep:])
            del ids[keep:]
        if index := open_index(collection, active):
            assert index.follower.follow()
    return Site(create_app(folder, active), folder, active, open_tokens(active, open_state(active)), ids)


@pytest.fixture
def site(indexed: Path, tmp_path: Path) -> Site:
    return make_site(indexed, tmp_path)


@pytest.fixture
def closed(indexed: Path, tmp_path: Path) -> Site:
    """The service with tokens needed, and an audit log."""
    return make_site(indexed, tmp_path, require_tokens=True, audit_log=tmp_path / "audit.log")


def next_sample(client: FlaskClient, strategy: str = "first") -> Any:
    answer = client.post(f"/monailabel/activelearning/{strategy}", json={"client_id": "user-xyz"})
    assert answer.status_code == 200, answer.text
    return answer.json


def save(client: FlaskClient, image: str, tag: str = "final", name: str = "label.seg.nrrd") -> Any:
    form = {"params": json.dumps({"label_info": []}), "label": (BytesIO(SEGMENTATION), name)}
    return client.put("/monailabel/datastore/label", query_string={"image": image, "tag": tag}, data=form)


def test_each_strategy_proposes_every_image_once(indexed: Path, tmp_path: Path) -> None:
    site = make_site(indexed, tmp_path, keep=7)
    client = site.client()
    proposed = []
    for number in range(len(site.ids)):
        sample = next_sample(client, list(STRATEGIES)[number % len(STRATEGIES)])
        proposed.append(sample["id"])
        assert save(client, sample["id"]).status_code == 200
    assert sorted(proposed) == sorted(site.ids)
    assert all(next_sample(client, strategy) == {} for strategy in STRATEGIES)
    stats = {"total": len(site.ids), "completed": len(site.ids), "label_tags": {"final": len(site.ids)}}
    assert client.get("/monailabel/datastore/").json == stats


def test_core_set_looks_for_what_is_unlike_the_annotated_images(site: Site) -> None:
    client = site.client()
    with Collection(site.folder) as collection:
        vectors = np.array([collection.view().gallery.vectors(np.arange(len(site.ids)))])[0].astype(
            np.float64
        )
    for annotated in site.ids[:3]:
        save(client, annotated)
    distances = ((vectors[3:, None] - vectors[None, :3]) ** 2).sum(axis=2).min(axis=1)
    assert next_sample(client, "core-set")["id"] == site.ids[3 + int(distances.argmax())]


def test_first_and_random(site: Site) -> None:
    client = site.client()
    assert next_sample(client)["id"] == site.ids[0]
    assert len({next_sample(client, "random")["id"] for _ in range(20)}) > 5
    said = problem(client.post("/monailabel/activelearning/none", json={}), 404)
    assert "available: random, first, core-set" in said
    problem(client.post("/monailabel/activelearning/first", data=b"[1]"), 422)
    assert client.post("/monailabel/activelearning/first").status_code == 200


def test_info(site: Site) -> None:
    info = site.client().get("/monailabel/info/").json
    assert set(info["strategies"]) == set(STRATEGIES)
    assert info["datastore"] == {"total": len(site.ids), "completed": 0, "label_tags": {}}
    assert info["models"] == info["trainers"] == info["train_stats"] == {}
    assert "config" not in info, "Slicer takes it for a server that is too old"
    assert site.client().get("/monailabel/train/?check_if_running=true").status_code == 404, (
        "200 means: it runs"
    )


def test_an_image_is_sent_as_png(site: Site) -> None:
    answer = site.client().get("/monailabel/datastore/image", query_string={"image": site.ids[0]})
    assert answer.mimetype == "image/png"
    assert cv2.imdecode(np.frombuffer(answer.data, np.uint8), cv2.IMREAD_UNCHANGED) is not None
    problem(site.client().get("/monailabel/datastore/image?image=none"), 404)
    problem(site.client().get("/monailabel/datastore/image"), 422)


def test_dicom_images_name_their_study(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, slices = dicom_collection.make(tmp_path_factory)
    site = make_site(folder, tmp_path, archive_url="https://pacs.example.org/dicom-web")
    with Collection(folder) as collection:
        record = next(each for _, each in collection.iterate() if each.study == slices[0].StudyInstanceUID)
    info = site.client().get("/monailabel/datastore/image/info", query_string={"image": record.image_id}).json
    assert (info["StudyInstanceUID"], info["SeriesInstanceUID"]) == (record.study, record.series)
    assert info["RetrieveURL"].endswith(f"/studies/{record.study}/series/{record.series}")
    assert "PatientID" not in info
    assert "StudyDate" not in info


def test_segmentations_are_stored(site: Site) -> None:
    client, image = site.client(), site.ids[5]
    assert save(client, image, "original", "a.nii.gz").json == {"image": image, "label": image}
    assert next_sample(client)["id"] == site.ids[0], "a model's proposal does not count"
    save(client, image, "final", "b.nii.gz")
    save(client, image, "final", "c.nrrd")
    names = sorted(path.name for path in (site.settings.annotation_folder or Path()).glob("*/*"))
    assert names == ["SHA256SUMS", "final.nrrd", "original.nii.gz"]
    entry = client.get("/monailabel/datastore/?output=all").json["objects"][image]
    assert {tag: label["ext"] for tag, label in entry["labels"].items()} == {
        "final": ".nrrd",
        "original": ".nii.gz",
    }
    answer = client.get(f"/monailabel/datastore/label?label={image}&tag=final")
    assert answer.data == SEGMENTATION
    assert f'filename="{image}.nrrd"' in answer.headers["Content-Disposition"]
    erase_segmentations(site.settings, [], [image, site.ids[0]])
    problem(client.get(f"/monailabel/datastore/label?label={image}&tag=final"), 404)
    assert not list((site.settings.annotation_folder or Path()).glob("[!.]*"))


def test_the_number_of_segmentations_of_an_image_is_limited(site: Site) -> None:
    client, ids, folder = site.client(), site.ids, site.settings.annotation_folder
    assert folder
    statuses = [save(client, ids[0], f"tag-{number}").status_code for number in range(MAX_SEGMENTATIONS)]
    assert set(statuses) == {200}
    assert "at most 16 segmentations" in problem(save(client, ids[0], "one-more"), 422)
    assert save(client, ids[0], "tag-3", "label.nii.gz").status_code == 200, "replaces one"
    assert save(client, ids[1], "one-more").status_code == 200
    assert len(list((folder / ids[0]).glob("*.*"))) == MAX_SEGMENTATIONS


def test_erasing_waits_for_a_segmentation_that_is_written(site: Site) -> None:
    folder = site.settings.annotation_folder or Path()
    save(site.client(), site.ids[0], "final")
    with segmentation_files._only_writer(folder):
        erasing = threading.Thread(target=erase_segmentations, args=(site.settings, [], {site.ids[0]}))
        erasing.start()
        erasing.join(0.5)
        assert (folder / site.ids[0]).exists()
    erasing.join()
    assert not (folder / site.ids[0]).exists()


def test_segmentations_that_arrive_at_once_are_counted_one_after_the_other(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    image, both, write = site.ids[0], Barrier(2), segmentation_files.write_bytes
    for number in range(MAX_SEGMENTATIONS - 1):
        save(site.client(), image, f"tag-{number}")

    def write_together(path: Path, content: bytes) -> None:
        with suppress(BrokenBarrierError):
            both.wait(1)
        write(path, content)

    monkeypatch.setattr(segmentation_files, "write_bytes", write_together)
    clients = [site.client(), site.client()]
    with ThreadPoolExecutor(2) as threads:
        answers = list(threads.map(save, clients, [image, image], ["one", "other"]))
    assert sorted(answer.status_code for answer in answers) == [200, 422]


def test_deleting_images_deletes_their_segmentations(site: Site) -> None:
    client, folder = site.client(), site.settings.annotation_folder
    assert folder is not None
    for image in site.ids[:5]:
        save(client, image)
    assert client.delete(f"/v1/images/{site.ids[0]}").status_code == 204
    assert client.post("/v1/images/delete", json={"ids": site.ids[1:3]}).status_code == 200
    call(
        "collection",
        "delete",
        site.ids[3],
        "--collection",
        site.folder,
        "--yes",
        CBIR_ANNOTATION_FOLDER=str(folder),
    )
    assert [path.name for path in folder.glob("[!.]*")] == [site.ids[4]]


def test_large_segmentations_are_refused(indexed: Path, tmp_path: Path) -> None:
    site = make_site(indexed, tmp_path, max_upload_bytes=len(SEGMENTATION))
    assert save(site.client(), site.ids[0]).status_code == 200
    form = {"label": (BytesIO(SEGMENTATION + b" "), "a.nrrd")}
    problem(
        site.client().put("/monailabel/datastore/label", query_string={"image": site.ids[1]}, data=form), 413
    )
    assert next_sample(site.client())["id"] == site.ids[1]


def test_what_is_no_segmentation_is_refused(site: Site, indexed: Path, tmp_path: Path) -> None:
    client, image = site.client(), site.ids[0]
    for tag, name in (("../up", "a.nrrd"), ("final", "a.exe"), ("final", "label.bin"), ("final", "")):
        assert save(client, image, tag, name).status_code == 422, (tag, name)
    problem(save(client, "0" * 32), 404)
    problem(save(client, "../../etc"), 404)
    problem(client.put(f"/monailabel/datastore/label?image={image}", data={"label": "text"}), 422)
    problem(client.get(f"/monailabel/datastore/label?label={image}&tag=../up"), 422)
    assert next_sample(client)["id"] == image
    without = make_site(indexed, tmp_path / "without", annotation_folder=None)
    assert "annotation_folder" in problem(save(without.client(), image), 403)
    assert next_sample(without.client())["id"] == image


def test_tokens_by_the_login_of_the_plugins(closed: Site) -> None:
    client, token = closed.client(), closed.token(Scope.search)
    assert client.get("/monailabel/auth/").json["enabled"] is True
    form = {"username": "x", "password": token, "grant_type": "password"}
    answer = client.post("/monailabel/auth/token", data=form)
    assert answer.json == {"access_token": token, "token_type": "Bearer"}
    problem(client.post("/monailabel/auth/token", data={"username": "x", "password": "wrong"}), 401)
    problem(client.get("/monailabel/auth/token/valid"), 401)
    headers = {"Authorization": f"Bearer {token}"}
    assert client.get("/monailabel/auth/token/valid", headers=headers).status_code == 200
    assert client.get("/monailabel/info/", headers=headers).status_code == 200
    problem(client.get("/monailabel/info/"), 401)


def test_a_ticket_opens_one_image_for_a_while(closed: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    person = closed.client(Scope.search)
    ticket, stranger = next_sample(person)["id"], closed.client()
    assert ticket.startswith(closed.ids[0] + ".")
    fetch = {"image": ticket}
    assert stranger.get("/monailabel/datastore/image", query_string=fetch).status_code == 200
    for wrong in (closed.ids[0], ticket[:-1], ticket.replace(closed.ids[0], closed.ids[1]), "."):
        problem(stranger.get("/monailabel/datastore/image", query_string={"image": wrong}), 401)
    problem(stranger.get("/monailabel/datastore/image/info", query_string=fetch), 401)
    problem(stranger.get("/monailabel/datastore/label", query_string={"label": ticket}), 401)
    problem(save(stranger, ticket), 401)
    lines = [json.loads(line) for line in Path(closed.settings.audit_log or "").read_text().splitlines()]
    assert [line["action"] for line in lines if line["images"] == [closed.ids[0]]][:2] == [
        "next-sample",
        "picture",
    ]
    assert len({line["token"] for line in lines[:2]}) == 1
    closed.tokens.revoke(lines[0]["token"])
    problem(stranger.get("/monailabel/datastore/image", query_string=fetch), 401)
    ticket = next_sample(closed.client(Scope.search))["id"]
    monkeypatch.setattr(sessions, "TICKET_SECONDS", -1)
    problem(stranger.get("/monailabel/datastore/image", query_string={"image": ticket}), 401)


def test_scopes(closed: Site) -> None:
    reader, annotator = closed.client(Scope.search), closed.client(Scope.search, Scope.annotate)
    sample = next_sample(annotator)
    problem(save(reader, sample["id"]), 403)
    assert save(annotator, sample["id"]).status_code == 200
    assert next_sample(annotator)["id"].partition(".")[0] == closed.ids[1]


def test_limited_callers_see_and_mark_their_images(closed: Site) -> None:
    visible, hidden = set(closed.ids[1::2]), closed.ids[0]
    with Collection(closed.folder) as collection, collection.writer() as writer:
        for number, image_id in enumerate(closed.ids):
            writer.set_labels(image_id, {"site": str(number % 2)})
    client = closed.client(Scope.search, Scope.annotate, where=["site=1"])
    for strategy in STRATEGIES:
        assert next_sample(client, strategy)["id"].partition(".")[0] in visible
    assert client.get("/monailabel/info/").json["datastore"]["total"] == len(visible)
    everything = closed.client(Scope.search, Scope.annotate)
    ticket = next_sample(everything)["id"]
    assert ticket.startswith(hidden + ".")
    assert save(everything, ticket).status_code == 200
    assert client.get("/monailabel/datastore/").json["completed"] == 0
    assert client.get("/monailabel/datastore/?output=all").json["objects"].keys() == visible
    problem(client.get("/monailabel/datastore/image", query_string={"image": hidden}), 404)
    problem(client.get("/monailabel/datastore/image/info", query_string={"image": hidden}), 404)
    problem(client.get("/monailabel/datastore/label", query_string={"label": hidden}), 404)
    for image in (hidden, ticket):
        problem(save(client, image), 404)
    assert save(client, max(visible)).status_code == 200


def test_an_index_proposes_without_loading_all_vectors(
    indexed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(indexed, tmp_path, index="hnsw", exact_limit=5, indexed_candidates=5)

    def load(_: ViewCache) -> NoReturn:
        raise AssertionError("the vectors of the whole collection were loaded")

    monkeypatch.setattr(ViewCache, "view", load)
    proposed = []
    for strategy in ("core-set", "random") * 4:
        proposed.append(next_sample(site.client(), strategy)["id"])
        save(site.client(), proposed[-1])
    assert len(set(proposed)) == len(proposed)


@pytest.fixture(scope="module")
def client_module() -> Any:
    """The file of MONAI Label's own client, which needs requests only; its package would import MONAI and torch."""
    if sys.version_info >= (3, 13):
        pytest.skip("MONAI Label's client imports cgi, which Python 3.13 lacks")
    package = importlib.util.find_spec("monailabel")
    if package is None or not package.submodule_search_locations:
        pytest.skip("MONAI Label's client is not installed: pip install --no-deps monailabel")
    file = Path(package.submodule_search_locations[0], "client", "client.py")
    spec = importlib.util.spec_from_file_location("monailabel_client", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of cgi
        spec.loader.exec_module(module)
    return module


@pytest.fixture
def address(closed: Site) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, closed.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/monailabel"
    server.shutdown()
    thread.join()
    server.server_close()


def test_monai_labels_own_client(client_module: Any, address: str, closed: Site, tmp_path: Path) -> None:
    token = closed.token(Scope.search, Scope.annotate)

    def connect() -> Any:
        """Return a client with a login; Slicer makes a new one for each call too."""
        client = client_module.MONAILabelClient(address, str(tmp_path), "user-xyz")
        assert client.auth_enabled()
        client.update_auth(client.auth_token("radiologist", token))
        assert client.auth_valid_token()
        return client

    assert set(connect().info()["strategies"]) == set(STRATEGIES)
    sample = connect().next_sample("core-set", {})
    assert connect().train_status(check_if_running=True) is False
    label = tmp_path / "mine.nrrd"
    label.write_bytes(SEGMENTATION)
    saved = connect().save_label(sample["id"], str(label), params={"label_info": []})
    assert saved["image"] == sample["id"].partition(".")[0]
    objects = connect().datastore()["objects"]
    assert objects[saved["image"]]["labels"]["final"]["ext"] == ".nrrd"
    assert Path(connect().download_label(saved["image"], "final")).read_bytes() == SEGMENTATION
    assert connect().info()["datastore"]["completed"] == 1
    with pytest.raises(client_module.MONAILabelClientException):
        connect().next_sample("none", {})
