"""Compare the vector index of a collection with the collection, and answers of services with both."""

import time
from pathlib import Path

import httpx
import numpy as np

from cbir.errors import IndexUnavailable
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.index.open_index import open_index

FOLLOWED_SECONDS = 60.0  # within which the index has what the collection has, and nothing else


def wait_until_followed(folder: Path, settings: Settings) -> tuple[list[str], float]:
    """Wait until the index holds the images of a collection; return what is wrong, and the seconds."""
    started = time.monotonic()
    while True:
        problem = index_problem(folder, settings)
        seconds = time.monotonic() - started
        if problem is None or seconds > FOLLOWED_SECONDS:
            return ([problem] if problem else []), seconds
        time.sleep(0.2)


def index_problem(folder: Path, settings: Settings) -> str | None:
    """Return how an index, read by itself, differs from its collection."""
    with Collection(folder) as collection:
        opened = open_index(collection, settings)
        assert opened
        numbers = np.array(sorted(collection.image_ids()), np.int64)
        everything = np.arange(1, numbers.max(initial=0) + 1000)
        try:
            edition = opened.current.find()
            if edition is None:
                return "other: no edition of the index answers"
            stored, vectors = edition.index.vectors(everything)
            count = len(edition.index)
        except IndexUnavailable as error:
            return f"the index does not answer: {error}"
        missing, additional = len(np.setdiff1d(numbers, stored)), len(np.setdiff1d(stored, numbers))
        if missing or additional:
            return f"the index lacks {missing} images, and {additional} came back or stayed after deletion"
        if count != len(numbers):
            return f"the index counts {count} images, not {len(numbers)}"
        expected = edition.statistics.normalise(collection.raw_vectors(numbers))
        return None if np.allclose(vectors, expected, atol=1e-6) else "the index has other vectors"


def answer_problems(addresses: list[str], stored: set[str], gone: set[str]) -> list[str]:
    """Search for an image at each service; return what is wrong with the answers."""
    problems = []
    query = min(stored)
    for address in addresses:
        request = {"image_id": query, "k": 1000, "rerank": "none"}
        answer = httpx.post(f"{address}/v1/search", json=request, timeout=60)
        if answer.status_code != 200:
            problems.append(f"a search was answered with {answer.status_code}")
            continue
        found = [hit["image_id"] for hit in answer.json()["results"]]
        if back := gone & set(found):
            problems.append(f"{len(back)} images came back in an answer")
        if len(set(found)) < len(found):
            problems.append("an image is twice in an answer")
        if not set(found) <= stored:
            problems.append("an answer has images that the collection lacks")
    return problems
