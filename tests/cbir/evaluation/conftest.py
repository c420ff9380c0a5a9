"""A small collection to evaluate on, not to be changed."""

import pytest

from tests.cbir.evaluation.small_run import index


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    return tmp_path_factory.mktemp("pictures")


@pytest.fixture(scope="session")
def collection(tmp_path_factory, pictures):
    return index(tmp_path_factory.mktemp("indexed") / "collection", pictures)
