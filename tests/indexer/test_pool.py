"""A file that kills its process is refused; the others are indexed."""

import os
from pathlib import Path

import pytest

from cbir import images
from cbir.images import Limits
from indexer.extract import Task
from indexer.pool import CHUNK, extract_all
from tests.indexer.conftest import picture

KILLER = "killer.png"


@pytest.fixture
def deadly(monkeypatch, tmp_path):
    """Make every new process that touches KILLER die as if its decoder had crashed."""
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import os, pathlib\n"
        "before = pathlib.Path.stat\n"
        "def stat(self, **options):\n"
        f"    if self.name == {KILLER!r}: os._exit(11)\n"
        "    return before(self, **options)\n"
        "pathlib.Path.stat = stat\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(hook), prepend=os.pathsep)


def test_only_the_deadly_file_is_refused(deadly, tmp_path):
    folder = tmp_path / "images"
    paths = [picture(folder / f"{seed:03d}.png", seed) for seed in range(5 * CHUNK)]
    paths.insert(37, picture(folder / KILLER, 999))
    results = list(extract_all(iter(paths), Task("tamura", bytes(32), Limits()), jobs=2))
    assert sorted(result.path for result in results) == sorted(paths)
    refused = [result for result in results if result.refused]
    assert [result.path for result in refused] == [folder / KILLER]
    assert "crashed" in refused[0].refused


def test_nothing_to_do(tmp_path):
    assert list(extract_all(iter([]), Task("tamura", bytes(32), Limits()), jobs=2)) == []


def test_vectors_and_records_belong_together(tmp_path):
    paths = [picture(tmp_path / f"{seed}.png", seed) for seed in range(3)]
    for result in extract_all(iter(paths), Task("tamura", bytes(32), Limits()), jobs=1):
        (image,) = images.read_images(Path(result.path))
        assert [record.content_hash for record in result.records] == [image.content_hash]
        assert result.vectors.shape == (1, 6)
