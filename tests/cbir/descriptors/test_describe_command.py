"""The command `cbir describe`, as a process."""

import json
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from cbir import descriptors
from cbir.api.commands.show_commands import printable_values
from cbir.images import Image
from cbir.store.writing.default_profile import DEFAULT_PROFILE
from tests.cbir.descriptors.pictures import draw


@pytest.fixture
def png(tmp_path: Path) -> Path:
    path = tmp_path / "a picture.png"
    cv2.imwrite(str(path), draw("smooth", (90, 120), 2))
    return path


def run(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "cbir.api.main", "describe", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", descriptors.names())
def test_json(png: Path, name: str):
    done = run(png, "--descriptor", name, "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    expected = descriptors.get(name)(Image(draw("smooth", (90, 120), 2)))
    assert answer["descriptor"] == name
    assert np.array(answer["values"], np.float32).tolist() == expected.tolist()
    whole = name in ("color_layout", "edge_histogram")
    assert all(isinstance(value, int if whole else float) for value in answer["values"])


def test_text_has_a_line_for_every_part(png: Path):
    done = run(png, "--profile", "huang2012")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [(line[0], len(line) - 1) for line in lines] == [
        ("color_layout", 12),
        ("tamura", 6),
        ("edge_histogram", 150),
    ]


def test_the_default_is_that_of_new_collections(png: Path):
    values = [run(png, *more, "--format", "json").stdout for more in ((), ("--descriptor", DEFAULT_PROFILE))]
    assert values[0] == values[1] != ""


def test_frames(tmp_path: Path):
    path = tmp_path / "pages.tif"
    pages = [draw("smooth", (40, 50), seed) for seed in (1, 2)]
    cv2.imwritemulti(str(path), pages)
    second = json.loads(run(path, "--frame", 2, "--format", "json", "--descriptor", "huang2012").stdout)
    expected = descriptors.get("huang2012")(Image(pages[1]))
    assert np.array(second["values"], np.float32).tolist() == expected.tolist()
    assert run(path, "--format", "json").stdout == run(path, "--frame", 1, "--format", "json").stdout
    refused(run(path, "--frame", 3), "no frame 3")


def test_refusals(png: Path, tmp_path: Path):
    (tmp_path / "broken.png").write_bytes(b"no image")
    refused(run(tmp_path / "missing.png"), "missing.png")
    refused(run(tmp_path / "broken.png"), "broken.png")
    refused(run(png, "--descriptor", "sift"), "huang2012")


def refused(done: subprocess.CompletedProcess, words: str) -> None:
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


def test_decimals_are_short_and_exact():
    vector = np.array([0.1, 1 / 3, 2.0], np.float32)
    assert printable_values(vector)[0] == 0.1
    assert np.array(printable_values(vector), np.float32).tolist() == vector.tolist()
