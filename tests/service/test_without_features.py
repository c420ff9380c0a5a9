"""The core's commands and pages, where no feature is installed."""

import json
import os
import subprocess
from pathlib import Path

import httpx
import pytest

from cbir.store import Collection
from tests.service.conftest import CBIR, problem, serving
from tests.without_features import write_metadata

ROOT = Path(__file__).parents[2]
FAST = ("--jobs", "1", "--no-pictures")


@pytest.fixture(scope="module", name="paths")
def fixture_paths(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PYTHONPATH of processes that find no feature."""
    folder = tmp_path_factory.mktemp("metadata")
    write_metadata(folder)
    return os.pathsep.join([str(folder), str(ROOT)])


def run(paths: str, *arguments: str | Path) -> str:
    done = subprocess.run(
        [*CBIR, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_images_are_indexed_searched_evaluated_and_deleted(paths: str, tmp_path: Path) -> None:
    scans, collection = tmp_path / "scans", tmp_path / "collection"
    assert "Learn severity from comparisons" not in run(paths, "--help")  # the summary of `cbir annotate`
    assert "quarantine" not in run(paths, "collection", "--help")
    run(paths, "dataset", "phantoms", scans, "--count", 24)
    run(paths, "index", scans, "--labels", scans / "manifest.csv", "--collection", collection)
    image = next(scans.glob("*.png"))
    found = run(paths, "search", image, "--collection", collection, "-k", 3, "--format", "json")
    hits = json.loads(found)["results"]
    assert len(hits) == 3
    out = tmp_path / "out"
    asked = ("--collection", collection, "--relevance", "anatomy", "--rerank", "none")
    run(paths, "evaluate", "run", *asked, "--out", out, *FAST)
    assert list(out.rglob("*.run"))
    image_id = hits[0]["image_id"]
    assert "deleted" in run(paths, "collection", "delete", "--yes", image_id, "--collection", collection)


@pytest.mark.slow
@pytest.mark.deep
def test_a_model_is_trained(paths: str, tmp_path: Path) -> None:
    scans, model = tmp_path / "scans", tmp_path / "model"
    run(paths, "dataset", "phantoms", scans, "--count", 120, "--size", 96)
    small = ("--side", 32, "--backbone", "small", "--classes", 2, "--images", 2, "--epochs", 1)
    data = ("--data", scans / "manifest.csv", "--column", "anatomy")
    run(paths, "train", "embedding", *data, "--out", model, *small)
    assert (model / "embedding.json").exists()


@pytest.mark.slow
def test_pages_and_searches_are_served(paths: str, indexed: Path) -> None:
    with Collection(indexed) as collection:
        search = {"image_id": next(iter(collection.image_ids().values())), "k": 3}
    with (
        serving(indexed, PYTHONPATH=paths) as served,
        httpx.Client(base_url=served.address) as client,
    ):
        for address in ("/", "/browse", "/admin", "/docs", "/openapi.json", "/v1/images", "/readyz"):
            assert client.get(address).status_code == 200, address
        page = client.get("/").text
        assert "/static/search/search.js" in page
        for part in (
            "map_link.js",
            "saved_search.js",
            "grade.js",
            "explain.js",
            "usage.js",
            "priors.js",
            "other_sites.js",
        ):
            assert part not in page
        assert client.get("/map").headers["Location"] == "/browse"  # without its part
        for address in ("/cases", "/cohorts", "/audit", "/static/map_link.js", "/v1/cohorts"):
            assert client.get(address).status_code == 404, address
        assert len(client.post("/v1/search", json=search).json()["results"]) == 3
        refused = client.post("/v1/search", json=search | {"federated": True})
        assert "no feature that asks other services" in problem(refused, 422)
