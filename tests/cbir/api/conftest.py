"""A collection of drawn images, opened from Python, and a query."""

import pytest

import cbir
from tests.cbir.evaluation.small_run import draw
from tests.cbir.evaluation.small_run import index as index_drawn


@pytest.fixture(scope="package")
def folder(tmp_path_factory):
    pictures = tmp_path_factory.mktemp("pictures")
    index_drawn(tmp_path_factory.mktemp("indexed") / "collection", pictures).close()
    return pictures


@pytest.fixture(scope="package")
def db(folder, tmp_path_factory):
    made = index_drawn(tmp_path_factory.mktemp("searched") / "collection", folder)
    made.close()
    with cbir.open(made.folder) as opened:
        yield opened


@pytest.fixture
def query(tmp_path):
    path = tmp_path / "query.png"
    draw(path, 101)
    return path
