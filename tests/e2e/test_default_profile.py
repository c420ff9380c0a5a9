"""The default profile, from `cbir index` without options to answers over HTTP and on the page."""

from pathlib import Path

from playwright import sync_api

from cbir.images import read_images
from cbir.store.writing.default_profile import DEFAULT_PROFILE
from service.client import Client
from tests.e2e.browsing import choose, ids
from tests.service.conftest import Served


def test_answers_over_http(served: Served, pictures: list[Path]) -> None:
    with Client(served.address) as client:
        profile = client.profile()
        assert profile.name == DEFAULT_PROFILE
        (image,) = read_images(pictures[0])
        answers = client.search(pictures[0], k=5, rerank="none")  # an image of the collection, from its file
        assert answers.query.image_id
        assert answers.query.width == image.width
        by_id = client.search(answers.query.image_id, k=5, rerank="none")
        assert [hit.image_id for hit in answers.results] == [hit.image_id for hit in by_id.results]
        distances = [hit.distance for hit in answers.results]
        assert distances == sorted(distances)
        assert 0.0 < distances[0] <= distances[-1] <= 2.0  # of vectors of length 1
        assert client.search(pictures[-1], k=5).results  # re-ranked, not in the collection


def test_answers_on_the_page(page: sync_api.Page, pictures: list[Path]) -> None:
    assert (
        page.evaluate("JSON.parse(document.getElementById('search').dataset.facts).profile")
        == DEFAULT_PROFILE
    )
    choose(page, pictures[-1])
    assert len(ids(page)) == 8
