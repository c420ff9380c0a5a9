"""What only the index in Milvus has: its fields, when it is loaded, and what it does not serve."""

import secrets
from collections.abc import Iterator

import numpy as np
import pytest

from cbir.store.index import milvus_index
from cbir.store.index.milvus_collection import MilvusConnection
from cbir.store.index.milvus_index import MilvusIndex
from cbir.store.index.port import IndexPosition, IndexScope
from cbir.store.records.filter_conditions import Condition
from tests.cbir.store.index.subjects import DIMENSIONS, make_images, make_vectors
from tests.milvus_server import MilvusServer

pytestmark = pytest.mark.slow


@pytest.fixture
def connection(milvus: MilvusServer) -> MilvusConnection:
    return MilvusConnection(milvus.address)


@pytest.fixture
def name(connection: MilvusConnection) -> Iterator[str]:
    """A name of a Milvus collection, which is dropped at the end."""
    name = f"cbir_{secrets.token_hex(8)}_1"
    yield name
    connection.call("drop_collection", name)


def test_collection_with_other_fields_is_made_anew(connection: MilvusConnection, name: str) -> None:
    connection.call("create_collection", name, dimension=DIMENSIONS, timeout=60)
    index = MilvusIndex(connection, name, DIMENSIONS)
    assert index.position() is None
    index.put(make_images(30), make_vectors(30))
    index.finish()
    index.set_position(IndexPosition(1, 30, 1))
    assert len(MilvusIndex(connection, name, DIMENSIONS)) == 30


def test_is_loaded_when_filled(connection: MilvusConnection, name: str) -> None:
    index = MilvusIndex(connection, name, DIMENSIONS)
    index.put(make_images(50), make_vectors(50))
    again = MilvusIndex(connection, name, DIMENSIONS)  # as after a crash
    again.put(make_images(100), make_vectors(100))
    assert "NotLoad" in str(connection.call("get_load_state", name)["state"])
    again.finish()
    assert len(again) == 100
    connection.call("release_collection", name)
    assert len(MilvusIndex(connection, name, DIMENSIONS)) == 100


def test_image_with_many_long_labels(connection: MilvusConnection, name: str) -> None:
    index = MilvusIndex(connection, name, DIMENSIONS)
    image = make_images(1)[0]
    labels = {f"{number}" + "k" * 200: f"{number}" + "v" * 1000 for number in range(2000)}
    index.put([image.__class__(1, "f" * 32, labels=labels)], make_vectors(1))
    index.finish()
    for number in (0, 1999):
        condition = Condition(f"{number}" + "k" * 200, "=", f"{number}" + "v" * 1000)
        assert index.nearest(make_vectors(1), 3, IndexScope((condition,)))[0].numbers.tolist() == [1]
    assert np.array_equal(index.vectors(np.array([1]))[1], make_vectors(1))


def test_calls_have_few_images_with_many_labels() -> None:
    long = {f"{number}": "1" for number in range(2000)}
    images = [
        *make_images(4500),
        *(image.__class__(image.number, "f" * 32, labels=long) for image in make_images(700)),
    ]
    batches = list(milvus_index._batches(images, DIMENSIONS))
    assert [image for batch in batches for image in images[batch]] == images
    sizes = [batch.stop - batch.start for batch in batches]
    assert sizes[:2] == [2000, 2000]
    assert max(sizes[2:]) < 800
    assert min(sizes) > 0
    assert list(milvus_index._batches([], DIMENSIONS)) == []
    assert len(list(milvus_index._batches(images[:3], 10**8))) == 3


def test_sends_vectors_with_answers(
    connection: MilvusConnection, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, vectors = MilvusIndex(connection, name, DIMENSIONS), make_vectors(50)
    index.put(make_images(50), vectors)
    index.finish()
    index.set_position(IndexPosition(1, 50, 1))
    monkeypatch.setattr(milvus_index, "ANSWER_BYTES", 3 * 4 * DIMENSIONS * 11)  # of three queries
    for answer in index.nearest(make_vectors(7, seed=1), 10, IndexScope()):
        assert len(answer.numbers) == 10
        np.testing.assert_array_equal(answer.vectors, vectors[answer.numbers - 1])
    for answer in index.nearest(make_vectors(2, seed=1), 40, IndexScope()):
        assert len(answer.numbers) == 40
        assert answer.vectors is None  # too large
