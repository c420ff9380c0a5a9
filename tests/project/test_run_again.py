"""A second run of failed tests says which of them pass only then."""

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pathlib, pytest
@pytest.mark.parametrize("name", ["a b", "c"])
def test_at_second_try(name):
    path = pathlib.Path(__file__).with_name(name)
    if not path.exists():
        path.touch()
        raise AssertionError
def test_right(): pass
@pytest.mark.parametrize("number", range(WRONG))
def test_wrong(number): raise AssertionError
"""
FLAKY = ("test_it.py::test_at_second_try[a b]", "test_it.py::test_at_second_try[c]")


def run(folder: Path, *command: str) -> tuple[int, list[str]]:
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=folder)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "code"), [(0, 0), (1, 1), (2, 1)])
def test_what_passes_only_on_the_second_run_is_listed_last(tmp_path: Path, wrong: int, code: int) -> None:
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "test_it.py").write_text(TESTS.replace("WRONG", str(wrong)))
    assert run(tmp_path, "pytest")[0] == 1
    again, said = run(Path.cwd(), "tests.run_again", str(tmp_path))
    assert again == code
    if wrong == 2:
        assert said == ["4 tests have failed: they are not run again"]
    else:
        assert said[-3:] == ["passed only on the second run:", *(f"  {name}" for name in FLAKY)]
