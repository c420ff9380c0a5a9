"""Which tests a change needs."""

import subprocess
from pathlib import Path

import pytest

from tests import changed
from tests.changed import ALWAYS, EVERYTHING, OTHERS, changed_files, needed_tests
from tests.project.sources import ROOT


def test_a_feature_needs_its_own_tests() -> None:
    needed = needed_tests(["service/features/map/routes.py", "tests/e2e/features/map/test_page_map.py"])
    assert set(needed) == {*ALWAYS, "tests/service/features/map", "tests/e2e/features/map"}


def test_a_feature_needs_the_tests_of_those_that_import_it() -> None:
    needed = set(needed_tests(["service/features/annotate/study.py"]))
    assert {f"tests/service/features/{name}" for name in ("annotate", "label_studio", "monailabel")} < needed


@pytest.mark.parametrize(
    "name", ["cbir/errors.py", "indexer/index_run.py", "service/app.py", "service/features/__init__.py",
             "pyproject.toml", "tests/conftest.py", "tests/cbir/store/test_writer.py", "Makefile", "new.txt"],
)  # fmt: skip
def test_the_core_needs_everything(name: str) -> None:
    assert needed_tests(["service/features/map/routes.py", name]) == [EVERYTHING]


def test_documents_and_benchmarks_have_tests_of_their_own() -> None:
    assert set(needed_tests(["docs/map.md", "CHANGELOG.md"])) == {*ALWAYS, "tests/docs"}
    assert "tests/cbir/evaluation/test_bench_splits.py" in needed_tests(["bench/splits.py"])


def test_what_is_listed_exists() -> None:
    for name in (*ALWAYS, *OTHERS, *(test for tests in OTHERS.values() for test in tests)):
        assert (ROOT / name).exists(), name


def test_every_feature_has_tests() -> None:
    features = {path.parent.name for path in (ROOT / "service/features").glob("*/__init__.py")}
    assert len(features) > 10
    assert [name for name in features if not (ROOT / "tests/service/features" / name).is_dir()] == []


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_changes_are_those_since_the_branches_parted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "-b", "main")
    for name in ("moved.py", "changed.py", "same.py"):
        (tmp_path / name).write_text(name * 10)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    git(tmp_path, "checkout", "-b", "branch")
    git(tmp_path, "mv", "moved.py", "after.py")
    git(tmp_path, "commit", "-m", "second")
    (tmp_path / "changed.py").write_text("other")
    (tmp_path / "new file.py").write_text("new")
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    assert set(changed_files("main")) == {"moved.py", "after.py", "changed.py", "new file.py"}
