"""Imports that the documentation of 1.0 shows."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

from cbir.system.api_packages import MOVED, present_name


def test_names_of_submodules() -> None:
    assert present_name("cbir.models.linear.ranking_svm") == "cbir.learn.models.linear_rankers"
    assert present_name("cbir.losses.toprank") == "cbir.learn.losses.score_losses"
    assert present_name("cbir.models.backbones") == "cbir.descriptors.networks.backbones"
    assert present_name("cbir.search") is None


@pytest.mark.deep
def test_moved_modules_exist() -> None:
    assert [name for name in MOVED.values() if find_spec(name) is None] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("from cbir.client import ServiceError", "from service.client import ServiceError"),
        ("from cbir.grading import SNdcgRanker", "from cbir.learn.grading import SNdcgRanker"),
        (
            "from cbir.grading.interpolation import GradeInterpolator",
            "import cbir.learn.grading.interpolation",
        ),
        pytest.param(
            "import cbir.losses.ranknet", "import cbir.learn.losses.score_losses", marks=pytest.mark.deep
        ),
        ("from cbir.rerank.fuzzy_eprf import FuzzyEprf", "import cbir.rerank.eprf"),
        ("import cbir.encoders", "import cbir.descriptors.encoders"),
        (
            "from cbir.python_api.collection_images import CollectionVectors",
            "import cbir.api.collection_images",
        ),
        ("import cbir.models.linear.top_push", "import cbir.learn.models.linear_rankers"),
    ],
)
def test_an_earlier_import_warns_and_is_the_same_module(old: str, new: str) -> None:
    old_name, new_name = (statement.split()[1] for statement in (old, new))
    code = (
        f"import sys, warnings\n"
        f"with warnings.catch_warnings(record=True) as caught:\n"
        f"    warnings.simplefilter('always', DeprecationWarning)\n"
        f"    {old}\n"
        f"assert any({f'{old_name} is now'!r} in str(entry.message) for entry in caught), caught\n"
        f"{new}\n"
        f"assert sys.modules[{old_name!r}] is sys.modules[{new_name!r}]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
