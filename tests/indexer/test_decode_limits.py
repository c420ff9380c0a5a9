"""Files that take too long or too much memory, or show burned-in text, while folders are indexed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cbir.images import Limits
from cbir.ingest.description import DescribedFile, DescribeTask, Refusal
from cbir.ingest.process_pool import ProcessPool, WorkerTimedOut
from cbir.store.base import profile as profiles
from indexer.describe_files import TOO_SLOW, FileTask, describe_files
from indexer.describe_instance import Fate, InstanceFilter, InstanceTask, describe_instance
from indexer.file_pools import describe_all
from tests import hostile_images as hostile

DESCRIBE = DescribeTask(profiles.get("huang2012"), bytes(32), Limits())


def described(folder: Path, task: DescribeTask) -> dict[str, DescribedFile]:
    """Index the files of a folder in processes."""
    paths = sorted(folder.iterdir())
    return {path.name: file for path, file in describe_all(iter(paths), FileTask(task), 2)}


@pytest.mark.slow
def test_only_the_file_that_takes_too_long_is_refused(tmp_path: Path) -> None:
    for number in range(6):
        pixels = np.full((64, 64), 10 * number, np.uint8)
        (tmp_path / f"{number}.png").write_bytes(hostile.saved(pixels, "PNG"))
    (tmp_path / "slow.jpg").write_bytes(hostile.jpeg_of_scans(9900, 9900, 90))
    files = described(tmp_path, replace(DESCRIBE, seconds=2.0))
    assert files.pop("slow.jpg").refused == TOO_SLOW
    assert len(files) == 6
    assert [file.refused for file in files.values()] == [None] * 6


@pytest.mark.slow
def test_many_frames_have_more_time_than_one_but_not_without_end(tmp_path: Path) -> None:
    pages = [np.full((500, 500), number, np.uint8) for number in range(100)]
    path, single = tmp_path / "pages.tif", tmp_path / "page.tif"
    first, *others = [hostile.PIL.Image.fromarray(page) for page in pages]
    first.save(single)
    first.save(path, save_all=True, append_images=others)
    slow = DescribeTask(profiles.get("huang2012"), bytes(32), Limits(), seconds=1.0)
    with ProcessPool(_describe, 1, seconds=slow.seconds) as pool:
        pool.run((single, replace(slow, seconds=60.0)))  # imports
        (file,) = pool.run((path, slow))
        assert len(file.records) == 100
        with pytest.raises(WorkerTimedOut):
            pool.run((path, replace(slow, seconds=0.001)))


def _describe(task: tuple[Path, DescribeTask]) -> list[DescribedFile]:
    return describe_files([task[0]], FileTask(task[1]))


def test_memory_for_a_file_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(hostile.png_of_zeros(9000))  # an image within the limits may take what its header tells
    (file,) = describe_files([path], FileTask(replace(DESCRIBE, memory_bytes=64 * 2**20)))
    assert file.refused is None
    content = bytes(120 * 2**20)  # beside a small frame
    element = b"\xe1\x7f\x10\x10OB\0\0" + len(content).to_bytes(4, "little") + content
    path.write_bytes(hostile.dicom(element, deflate=True))
    (file,) = describe_files([path], FileTask(replace(DESCRIBE, memory_bytes=64 * 2**20)))
    assert file.refused is not None
    assert "memory" in file.refused


def test_burned_in_text_is_refused_by_setting(tmp_path: Path) -> None:
    for answer in ("YES", "NO"):
        (tmp_path / answer).write_bytes(hostile.dicom(BurnedInAnnotation=answer))
    paths = sorted(tmp_path.iterdir())
    no, yes = describe_files(paths, FileTask(replace(DESCRIBE, refuse_burned_in=True)))
    assert (no.refusal, yes.refusal) == (None, Refusal.burned_in)
    assert all(file.refusal is None for file in describe_files(paths, FileTask(DESCRIBE)))


def test_frames_of_an_instance_are_counted_within_limits() -> None:
    task = InstanceTask(DESCRIBE, InstanceFilter(frames="middle"))
    outcome = describe_instance(hostile.dicom_of_items(300_000), task)
    assert outcome.fate is Fate.unreadable
    assert "items" in outcome.reason
