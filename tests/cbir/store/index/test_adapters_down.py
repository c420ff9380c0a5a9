"""Indexes on a server: while it is down, after it has been killed and started again, and from another process."""

import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from cbir.errors import IndexUnavailable
from cbir.store.index.port import IndexPosition, IndexScope
from tests.cbir.store.index.subjects import DIMENSIONS, Subject, make_images, make_vectors

COUNT = 500
SERVERS = ("pgvector", "milvus")
POSITION = IndexPosition(1, COUNT, 1)

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("subject", SERVERS, indirect=True)]


@pytest.fixture
def server(subject: Subject, request: pytest.FixtureRequest) -> Any:
    """The server of the index."""
    name = request.node.callspec.params["subject"]
    return request.getfixturevalue("milvus" if name == "milvus" else "vector_server")


def calls(subject: Subject) -> list[Any]:
    """Every operation of an index, as a function."""
    index, vectors = subject.index, make_vectors(1)
    return [
        lambda: index.nearest(vectors, 3, IndexScope()),
        lambda: index.vectors(np.array([1])),
        lambda: index.put(make_images(1), vectors),
        lambda: index.delete(np.array([1])),
        index.position,
        lambda: index.set_position(POSITION),
        index.finish,
        lambda: len(index),
        index.drop,
        subject.opened,
    ]


def test_server_killed_and_started_again(subject: Subject, server: Any) -> None:
    subject.put(make_images(COUNT), make_vectors(COUNT))
    subject.index.finish()
    subject.index.set_position(POSITION)
    query = make_vectors(1, seed=1)[0]
    expected = subject.exact(query, 20)
    server.kill()
    try:
        for call in calls(subject):
            start = time.monotonic()
            with pytest.raises(IndexUnavailable) as raised:
                call()
            assert time.monotonic() - start < 120
            assert "\n" not in str(raised.value)
            assert "cannot be used" in str(raised.value)
    finally:
        server.start()
    (found,) = answer_of(subject, query)
    np.testing.assert_array_equal(np.sort(found.numbers), np.sort(expected.numbers))
    assert subject.index.position() == POSITION
    assert len(subject.index) == COUNT
    subject.delete([int(found.numbers[0])])
    assert int(found.numbers[0]) not in answer_of(subject, query)[0].numbers


def answer_of(subject: Subject, query: Any) -> Any:
    """The answer, once the server gives one: it may say that it is ready before its data are."""
    end = time.monotonic() + 120
    while True:
        try:
            return subject.index.nearest(query[None, :], 20, IndexScope())
        except IndexUnavailable:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def test_written_by_another_process(subject: Subject, server: Any) -> None:
    assert subject.index.position() is None
    script = f"""
import numpy as np
from cbir.store.index.port import IndexPosition
from tests.cbir.store.index.subjects import make_images, make_vectors
{opening(subject, server)}
index.put(make_images(50), make_vectors(50))
index.finish()
index.set_position(IndexPosition(7, 8, 9))
index.delete(np.array([1, 2]))
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=400)
    assert subject.opened().position() == IndexPosition(7, 8, 9)
    index = subject.opened()
    assert len(index) == 48
    assert not len(index.vectors(np.array([1, 2]))[0])


def opening(subject: Subject, server: Any) -> str:
    """Lines of Python that open the same index in another process."""
    edition = subject.index._edition  # type: ignore[attr-defined]
    if hasattr(server, "address"):
        return (
            "from cbir.store.index.milvus_collection import MilvusConnection\n"
            "from cbir.store.index.milvus_index import MilvusIndex\n"
            f"index = MilvusIndex(MilvusConnection({server.address!r}), {edition!r}, {DIMENSIONS})"
        )
    with subject.engine.connect() as connection:
        path = str(connection.exec_driver_sql("SHOW search_path").scalar()).replace(" ", "")
    return (
        "from sqlalchemy import create_engine\n"
        "from cbir.store.index.pgvector_index import PgvectorIndex\n"
        f"engine = create_engine({server.url!r}, connect_args={{'options': '-c search_path={path}'}})\n"
        f"index = PgvectorIndex(engine, {edition!r}, {DIMENSIONS})"
    )
