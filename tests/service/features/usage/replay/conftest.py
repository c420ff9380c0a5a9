"""Fixtures of the tests of evaluation, used here too."""

from tests.cbir.evaluation.conftest import collection, pictures

__all__ = ["collection", "pictures"]
