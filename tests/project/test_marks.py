"""The lists of files with a mark name files that exist, and marks that pyproject.toml describes."""

import pytest

from tests.conftest import FEATURES, MARKED, MODULES, OF_FEATURES, SLOW_FILES, TESTS


def test_marked_files_exist() -> None:
    listed = (*MARKED, *OF_FEATURES, *sorted(SLOW_FILES))
    assert [name for name in listed if not (TESTS / name).exists()] == []


def test_marks_are_described(pytestconfig: pytest.Config) -> None:
    described = {line.partition(":")[0] for line in pytestconfig.getini("markers")}
    assert {*MARKED.values(), *MODULES, FEATURES} <= described
