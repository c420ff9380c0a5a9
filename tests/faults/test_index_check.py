"""The check of vector indexes in the campaigns notices what it must."""

from unittest.mock import patch

import httpx
import numpy as np
import pytest
from reliability import index_check
from reliability.index_check import answer_problems, wait_until_followed

from tests.cbir.store.index.conftest import hnsw
from tests.cbir.store.index.followed import Followed, make_entries

__all__ = ["hnsw"]  # a fixture of the index's tests, used here too


def problems(followed: Followed) -> list[str]:
    with patch.object(index_check, "FOLLOWED_SECONDS", 0.0):
        return wait_until_followed(followed.collection.folder, followed.settings)[0]


def test_an_index_that_has_followed(hnsw: Followed) -> None:
    assert problems(hnsw.filled(40)) == []


def test_an_index_without_an_edition(hnsw: Followed) -> None:
    assert problems(hnsw) == ["other: no edition of the index answers"]


def test_images_that_the_index_lacks_or_kept(hnsw: Followed) -> None:
    hnsw.filled(40)
    with hnsw.collection.writer() as writer:
        writer.delete(hnsw.ids()[:3])
        writer.add(make_entries(50, 52))
    assert problems(hnsw) == ["the index lacks 2 images, and 3 came back or stayed after deletion"]
    assert hnsw.index.follower.follow()
    assert problems(hnsw) == []


def test_other_vectors(hnsw: Followed) -> None:
    index = hnsw.filled(40).index.current.opened().index
    numbers = np.array(sorted(hnsw.collection.image_ids()), np.int64)
    stored = index.vectors(numbers)
    with patch.object(type(index), "vectors", return_value=(numbers, stored[1] + 1)):
        assert problems(hnsw) == ["the index has other vectors"]


@pytest.mark.parametrize(
    ("status", "ids", "reason"),
    [
        (200, ["a", "b"], None),
        (200, ["a", "gone"], "1 images came back in an answer"),
        (200, ["a", "a"], "an image is twice in an answer"),
        (200, ["other"], "an answer has images that the collection lacks"),
        (500, [], "a search was answered with 500"),
    ],
)
def test_answers(status: int, ids: list[str], reason: str | None) -> None:
    answer = httpx.Response(status, json={"results": [{"image_id": name} for name in ids]})
    with patch.object(httpx, "post", return_value=answer):
        found = answer_problems(["http://127.0.0.1:1"], {"a", "b"}, {"gone"})
    assert found[:1] == ([reason] if reason else [])
