"""A Milvus server behind TLS, with a certificate that a private authority has signed."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cbir.errors import IndexUnavailable, InvalidInput
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.index.milvus_collection import MilvusConnection
from cbir.store.index.milvus_index import MilvusIndex
from cbir.store.index.open_index import open_index
from cbir.store.index.port import IndexScope
from tests.cbir.store.index.subjects import DIMENSIONS, make_images, make_vectors
from tests.indexer.dicomweb.small_archive import certificate
from tests.milvus_server import MilvusServer
from tests.tls_relay import tls_relay

SECRET = "hospital-secret"


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, Path]:
    return certificate(tmp_path)


@pytest.fixture
def address(milvus: MilvusServer, signed: tuple[Path, Path]) -> Iterator[str]:
    with tls_relay(milvus.port, *signed) as port:
        yield f"milvus://cbir@127.0.0.1:{port}?tls=true"


@pytest.mark.slow
def test_answers_over_tls(address: str, signed: tuple[Path, Path]) -> None:
    connection = MilvusConnection(address, SECRET, signed[0])
    index = MilvusIndex(connection, f"cbir_{secrets.token_hex(8)}_1", DIMENSIONS)
    vectors = make_vectors(50)
    try:
        index.put(make_images(50), vectors)
        index.finish()
        (found,) = index.nearest(vectors[7:8], 3, IndexScope())
        assert found.numbers[0] == 8
        np.testing.assert_allclose(index.vectors(np.array([8]))[1], vectors[7:8], atol=2e-3)
    finally:
        index.drop()
        connection.close()


@pytest.mark.slow
def test_certificate_of_an_unknown_authority(
    address: str, signed: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cbir.store.index.milvus_collection.SECONDS", 3.0)
    other = tmp_path / "other"
    other.mkdir()
    for ca in (None, certificate(other)[0]):
        connection = MilvusConnection(address, SECRET, ca)
        with pytest.raises(
            IndexUnavailable, match=r"the Milvus server 127\.0\.0\.1:\d+ cannot be used"
        ) as failed:
            connection.call("list_collections", timeout=3.0)
        assert SECRET not in str(failed.value)
    plain = MilvusConnection(address.partition("?")[0], SECRET)
    with pytest.raises(IndexUnavailable):
        plain.call("list_collections", timeout=3.0)


def test_authority_that_cannot_be_read(tmp_path: Path) -> None:
    wrong = tmp_path / "ca.pem"
    wrong.write_text("no certificate")
    with Collection.create(tmp_path / "collection", profiles.get("tamura")) as collection:
        for file in (wrong, tmp_path / "missing.pem"):
            settings = Settings(index="milvus://127.0.0.1:9?tls=true", index_ca_file=file)
            with pytest.raises(InvalidInput, match="the setting index_ca_file"):
                open_index(collection, settings)
