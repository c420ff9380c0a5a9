"""Records, thumbnails and rendered queries."""

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from flask.testing import FlaskClient
from numpy.typing import NDArray

from cbir import settings
from cbir.images.scaling import shrink
from cbir.store import Collection
from service.app import create_app
from service.collections.image_sources import LruCache
from tests.service.conftest import cbir, problem


def decoded(response: Any) -> NDArray[np.uint8]:
    assert response.status_code == 200, response.text
    results = cv2.imdecode(np.frombuffer(response.data, np.uint8), cv2.IMREAD_UNCHANGED)
    return np.asarray(results, np.uint8)


def test_record_says_all_but_the_source(client: FlaskClient, indexed: Path, ids: list[str]) -> None:
    answer = client.get(f"/v1/images/{ids[3]}")
    with Collection(indexed) as collection:
        record = collection.record(ids[3])
    assert answer.json["labels"] == record.labels
    assert answer.json["content_hash"] == record.content_hash
    assert answer.json["width"] == record.width
    assert "source" not in answer.json
    assert str(Path(record.source).parent) not in answer.text
    assert client.get(answer.json["links"]["image"]).json == answer.json
    assert client.get(answer.json["links"]["thumbnail"]).status_code == 200


@pytest.mark.parametrize("path", ["/v1/images/none-such", "/v1/images/none-such/thumbnail"])
def test_unknown_image(client: FlaskClient, path: str) -> None:
    assert "none-such" in problem(client.get(path), 404)


@pytest.mark.parametrize(
    "path",
    [
        "/v1/images/../../etc/passwd",
        "/v1/images/..%2f..%2fetc%2fpasswd/thumbnail",
        "/v1/images/%2e%2e/thumbnail",
        "/v1/images/%00/thumbnail",
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/pyproject.toml",
        "/static//etc/passwd",
        "/static/",
        "/templates/index.html",
    ],
)
def test_paths_lead_nowhere_else(client: FlaskClient, path: str) -> None:
    problem(client.get(path), 404)


def test_thumbnail_is_the_picture_in_small(client: FlaskClient, ids: list[str], pictures: list[Path]) -> None:
    small = decoded(client.get(f"/v1/images/{ids[0]}/thumbnail"))
    original = cv2.imread(str(pictures[0]), cv2.IMREAD_GRAYSCALE)
    assert max(small.shape) == min(256, max(original.shape))
    expected = cv2.resize(original, small.shape[::-1], interpolation=cv2.INTER_AREA)
    assert np.abs(small.astype(int) - expected).mean() < 3


def test_thumbnail_is_not_sent_twice(client: FlaskClient, ids: list[str]) -> None:
    first = client.get(f"/v1/images/{ids[0]}/thumbnail")
    assert "private" in first.headers["Cache-Control"]
    again = client.get(f"/v1/images/{ids[0]}/thumbnail", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    assert again.data == b""
    other = client.get(f"/v1/images/{ids[1]}/thumbnail", headers={"If-None-Match": first.headers["ETag"]})
    assert other.status_code == 200


@pytest.fixture(scope="module")
def one_image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a collection of one colour picture, large.png."""
    folder = tmp_path_factory.mktemp("one")
    write_colours(folder / "large.png")
    cbir(
        "index",
        folder / "large.png",
        "--collection",
        folder / "collection",
        "--jobs",
        "1",
        "--profile",
        "huang2012",
    )
    return folder


def write_colours(file: Path) -> None:
    pixels = np.zeros((300, 600, 3), np.uint8)
    pixels[:, :300] = (0, 0, 255)  # BGR: red on the left
    cv2.imwrite(str(file), pixels)


@pytest.fixture
def mine(one_image: Path) -> Path:
    """The folder of a collection of one colour picture, large.png, that a test may change."""
    write_colours(one_image / "large.png")
    return one_image


def thumbnail(folder: Path) -> Any:
    with Collection(folder / "collection") as collection:
        image_id = next(record.image_id for _, record in collection.iterate())
    return (
        create_app(folder / "collection", settings.load())
        .test_client()
        .get(f"/v1/images/{image_id}/thumbnail")
    )


@pytest.mark.slow
def test_colours_and_proportions_are_kept(mine: Path) -> None:
    small = decoded(thumbnail(mine))
    assert small.shape == (128, 256, 3)
    assert small[64, 40, 2] > 200 > 50 > small[64, 40, 0]


@pytest.mark.slow
def test_source_that_is_gone(mine: Path) -> None:
    (mine / "large.png").unlink()
    answer = thumbnail(mine)
    assert "no longer where it was" in problem(answer, 410)
    assert "large" not in answer.text


@pytest.mark.slow
def test_source_that_is_no_image_any_more(mine: Path) -> None:
    (mine / "large.png").write_text("nothing")
    assert "no longer" in problem(thumbnail(mine), 410)


@pytest.mark.slow
def test_source_that_shows_something_else(mine: Path) -> None:
    cv2.imwrite(str(mine / "large.png"), np.full((300, 600, 3), 9, np.uint8))
    assert "another picture" in problem(thumbnail(mine), 410)


def test_render_shows_the_query(client: FlaskClient, pictures: list[Path]) -> None:
    sent = client.post("/v1/render", data=pictures[0].read_bytes(), content_type="image/png")
    assert sent.mimetype == "image/png"
    np.testing.assert_array_equal(decoded(sent), cv2.imread(str(pictures[0]), cv2.IMREAD_GRAYSCALE))


def test_render_refuses_as_search_does(client: FlaskClient) -> None:
    problem(client.post("/v1/render", data=b"text", content_type="image/png"), 422)
    problem(client.post("/v1/render", json={"image_id": "x"}), 415)
    problem(client.post("/v1/render?k=3", data=b"text", content_type="image/png"), 422)


@pytest.mark.parametrize(
    ("shape", "small"),
    [((100, 50), (100, 50)), ((512, 256), (256, 128)), ((1, 5000), (1, 256)), ((257, 257, 3), (256, 256, 3))],
)
def test_shrink(shape: tuple[int, ...], small: tuple[int, ...]) -> None:
    shrunk = shrink(np.full(shape, 7, np.uint8), 256)
    assert shrunk.shape == small
    assert (shrunk == 7).all()


def test_cache_forgets_what_was_not_asked_for_longest() -> None:
    cache = LruCache(10)
    cache.put("a", b"1234")
    cache.put("b", b"1234")
    assert cache.get("a") == b"1234"
    cache.put("c", b"1234")
    assert cache.get("b") is None
    assert (cache.get("a"), cache.get("c")) == (b"1234", b"1234")
    cache.put("c", b"12")
    assert cache.size == 6
    cache.put("d", b"more than there is room for")
    assert (cache.get("d"), cache.size) == (None, 0)
