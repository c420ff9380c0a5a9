"""A service over two collections, for tokens that are limited to a part of them."""

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flask import Flask
from flask.testing import FlaskClient

from cbir import settings
from cbir.learn.grading import make_ranker
from cbir.learn.grading.grader import fit_grader
from cbir.store import Collection, Record
from cbir.store.records import originals
from cbir.store.snapshot.derived_files import write_map
from service.access.token_list import TokenStorage
from service.access.token_stores import Scope, TokenStore, open_tokens
from service.app import create_app
from service.features.map.collection_map import compute_map
from service.state.database import open_state
from tests.service import dicom_collection

VISIBLE, HIDDEN = "ward-a", "ward-b"
UNKNOWN = "0" * 32
READING = (Scope.search, Scope.annotate, Scope.originals)


class Ward(NamedTuple):
    """A service over two collections; half of the first one's images have the label site=ward-a."""

    folder: Path
    other: Path
    app: Flask
    tokens: TokenStorage
    visible: list[Record]
    hidden: list[Record]

    def client(self, *scopes: Scope, **limits: Any) -> FlaskClient:
        """Return a client that sends a new token."""
        client = self.app.test_client()
        _, text = self.tokens.create(scopes, **limits)
        client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {text}"
        return client

    def limited(self) -> FlaskClient:
        """Return a client that may see the images of one site in one collection."""
        return self.client(*READING, collections=[self.folder.name], where=[f"site={VISIBLE}"])


def with_own_state(ward: Ward, state: Path) -> Ward:
    """Return the service without tokens and saved cases; its state is in a folder, or in the shared database."""
    active = settings.load(require_tokens=True, state_folder=state)
    app = create_app([ward.folder, ward.other], active)
    return ward._replace(app=app, tokens=open_tokens(active, open_state(active)))


_cache: list[Ward] = []


def make(temporary: pytest.TempPathFactory) -> Ward:
    """Return the service, whose collections are not to be changed; made once for all tests."""
    if not _cache:
        _cache.append(_build(temporary))
    return _cache[0]


def _build(temporary: pytest.TempPathFactory) -> Ward:
    made, _ = dicom_collection.make(temporary)
    folder = temporary.mktemp("wards")
    one, two = folder / "hand", folder / "secret-collection"
    shutil.copytree(made, one)
    with Collection(one) as collection, collection.writer() as writer:
        records = [record for _, record in collection.iterate()]
        for number, record in enumerate(records):
            site = (VISIBLE, HIDDEN)[number % 2]
            marker = {"marker": f"{site}-{number}", "severity": str(number), f"key-{site}": "x"}
            writer.set_labels(record.image_id, {"site": site, **marker})
        for record in records:
            original = originals.original_path(one, record.source)
            assert original is None
    with Collection(one) as collection:
        fit_grader(collection, "severity", make_ranker("s-ndcg"))
        write_map(one, compute_map(collection.view(), collection.profile))
        records = [record for _, record in collection.iterate()]
    shutil.copytree(one, two)
    tokens = TokenStore(folder / "state")
    active = settings.load(require_tokens=True, state_folder=tokens.file.parent)
    sites = {site: [r for r in records if r.labels["site"] == site] for site in (VISIBLE, HIDDEN)}
    return Ward(one, two, create_app([one, two], active), tokens, sites[VISIBLE], sites[HIDDEN])
