"""Every operation of the API and every page where searches use an index: none loads the vectors of the collection."""

import shutil
from pathlib import Path
from typing import NoReturn

import pytest
from flask import Flask

from cbir.search.query_parts import read_vectors
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.index.open_index import open_index
from cbir.store.limited_collection import LimitedViews
from cbir.store.views.view_cache import ViewCache
from service.access.token_stores import Scope, TokenStore
from service.app import create_app
from service.collections.app_state import EXTENSION
from tests.service import wards
from tests.service.test_access_walk import PAGES, methods, walk
from tests.service.wards import Ward

READING_BY_POST = {
    "search", "search_batch", "vectors", "map_places", "image_records", "grade", "explain", "render",
    "export_images",
}  # fmt: skip
TOO_LARGE = ("map", "map_labels", "map_places")  # read all images


class Loaded(Exception):
    """The vectors of a whole collection were loaded."""


@pytest.fixture
def ward(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ward:
    """Serve a copy of the collections with a built index, as one that is too large to load."""
    made = wards.make(tmp_path_factory)
    folders = [shutil.copytree(folder, tmp_path / folder.name) for folder in (made.folder, made.other)]
    settings = Settings(
        index="hnsw",
        indexed_candidates=len(made.visible) // 5,  # no list is short enough to be re-ranked as a whole
        exact_limit=len(made.visible) + 1,
        require_tokens=True,
        state_folder=tmp_path / "state",
    )
    for folder in folders:
        with Collection(folder) as collection:
            assert len(collection) > settings.exact_limit
            index = open_index(collection, settings)
            assert index
            assert index.follower.follow()

    def load(_: ViewCache) -> NoReturn:
        raise Loaded

    monkeypatch.setattr(ViewCache, "view", load)
    monkeypatch.setattr(LimitedViews, "view", load)
    tokens = TokenStore(tmp_path / "state")
    return made._replace(
        folder=folders[0], other=folders[1], app=create_app(folders, settings), tokens=tokens
    )


def state_of(app: Flask):
    return app.extensions[EXTENSION]


@pytest.mark.slow
def test_no_request_loads_the_collection(ward: Ward, caplog: pytest.LogCaptureFixture) -> None:
    operations = methods(ward)
    whole = ward.client(Scope.admin, *wards.READING)
    for client, image in ((whole, ward.hidden[0]), (ward.limited(), ward.visible[0])):
        refused, answered = set(), set()
        for name, calls in walk(ward, image, next(r for r in ward.visible if r.instance)).items():
            method = operations[name][0]
            if method != "GET" and name not in READING_BY_POST:
                continue
            for address, options in calls:
                answer = client.open(address, method=method, **options)
                assert answer.status_code < 500, (name, address, options.get("json"), answer.text)
                if answer.status_code == 422 and "exact_limit" in answer.json["detail"]:
                    refused.add(name)
                elif answer.status_code == 200:
                    answered.add(name)
        assert {name.removeprefix("deprecated_") for name in refused} == set(TOO_LARGE)
        assert answered >= {"search", "explain", "ready", "similar", "collection", "labels", "vectors"}
        slices = client.get(f"/v1/similar?study={ward.visible[0].study}&level=series&combine=maxsim")
        assert "exact_limit" in slices.json["detail"]
        for page in PAGES:
            answer = client.get(page.format(study=ward.visible[0].study))
            assert answer.status_code < 500, (page, answer.text)
    assert "Loaded" not in caplog.text


def test_start_loads_nothing(ward: Ward, caplog: pytest.LogCaptureFixture) -> None:
    state = state_of(ward.app)
    state.warm_up()
    assert not caplog.messages
    handle = state.collections[ward.folder.name]
    assert handle.image_count() == len(ward.visible) + len(ward.hidden)
    assert not handle.loads_all()


def test_start_without_an_index_that_answers_loads_nothing(
    ward: Ward, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(index="milvus://127.0.0.1:9", exact_limit=10**6, indexed_candidates=3)
    create_app(ward.folder, settings).extensions[EXTENSION].warm_up()
    assert "Loaded" not in caplog.text


def test_vectors_are_those_of_the_view(ward: Ward, monkeypatch: pytest.MonkeyPatch) -> None:
    with Collection(ward.folder) as collection:
        ids = [record.image_id for record in (*ward.hidden, *ward.visible)]
        vectors = read_vectors(collection, ids)
        numbers = collection.numbers_of(ids)
        monkeypatch.undo()
        view = collection.view()
        assert (vectors == view.gallery.vectors(view.rows_of(numbers))[numbers.argsort().argsort()]).all()
