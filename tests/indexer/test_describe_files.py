"""A file that kills its process is refused; the others are indexed."""

import os
from concurrent.futures import Future
from dataclasses import replace

import pytest

from cbir import images
from cbir.images import Limits
from cbir.ingest.description import DescribeTask, refused_file
from cbir.store.base import profile as profiles
from indexer.describe_files import AHEAD, AHEAD_PREPARED, CHUNK, FileTask, describe_in
from indexer.file_pools import describe_all
from tests.indexer.conftest import picture

KILLER = "killer.png"
TASK = FileTask(DescribeTask(profiles.get("tamura"), bytes(32), Limits()))


def hook_files(monkeypatch, tmp_path, name: str, action: str) -> None:
    """Make every new process that touches a file of this name run `action`."""
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import os, pathlib, time\n"
        "before = pathlib.Path.stat\n"
        "def stat(self, **options):\n"
        f"    if self.name == {name!r}: {action}\n"
        "    return before(self, **options)\n"
        "pathlib.Path.stat = stat\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(hook), prepend=os.pathsep)


@pytest.fixture
def deadly(monkeypatch, tmp_path):
    """Make every new process that touches KILLER die as if its decoder had crashed."""
    hook_files(monkeypatch, tmp_path, KILLER, "os._exit(11)")


@pytest.mark.slow
def test_only_the_deadly_file_is_refused(deadly, tmp_path):
    folder = tmp_path / "images"
    paths = [picture(folder / f"{seed:03d}.png", seed) for seed in range(5 * CHUNK)]
    paths.insert(37, picture(folder / KILLER, 999))
    results = list(describe_all(iter(paths), TASK, jobs=2))
    assert [path for path, _ in results] == paths
    refused = {path: described.refused for path, described in results if described.refused}
    assert list(refused) == [folder / KILLER]
    assert "crashed" in refused[folder / KILLER]


def test_results_have_the_order_of_the_files_whichever_process_ends_first(monkeypatch, tmp_path):
    """The order of the rows, and so the draw of `auto`, must not depend on how busy a core was."""
    folder = tmp_path / "images"
    paths = [picture(folder / f"{seed:03d}.png", seed) for seed in range(CHUNK + 1)]
    hook_files(monkeypatch, tmp_path, paths[0].name, "time.sleep(0.5)")
    assert [path for path, _ in describe_all(iter(paths), TASK, jobs=2)] == paths


class RefusingPool:
    """Refuses every file at once."""

    jobs = 2

    def submit(self, task):
        future = Future()
        future.set_result([refused_file("not tried") for _ in task])
        return future


@pytest.mark.parametrize(("prepare_only", "ahead"), [(False, AHEAD), (True, AHEAD_PREPARED)])
def test_files_are_read_a_bounded_number_ahead(tmp_path, prepare_only, ahead):
    task = replace(TASK, describe=replace(TASK.describe, prepare_only=prepare_only))
    taken = []

    def paths():
        for number in range(40 * CHUNK):
            taken.append(number)
            yield tmp_path / f"{number}.png"

    leads = [len(taken) - done for done, _ in enumerate(describe_in(RefusingPool(), paths(), task))]
    assert len(leads) == 40 * CHUNK
    assert max(leads) <= ahead * RefusingPool.jobs * CHUNK


def test_nothing_to_do(tmp_path):
    assert list(describe_all(iter([]), TASK, jobs=2)) == []


def test_vectors_and_records_belong_together(tmp_path):
    paths = [picture(tmp_path / f"{seed}.png", seed) for seed in range(3)]
    for path, described in describe_all(iter(paths), TASK, jobs=1):
        (image,) = images.read_images(path)
        assert [record.content_hash for record in described.records] == [image.content_hash]
        (vector,) = described.vectors
        assert vector.shape == (6,)
