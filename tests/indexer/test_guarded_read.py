"""Files are read below the allowed folders only, and links that change meanwhile do not help."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from cbir.errors import UnreadableImage
from cbir.images import Limits
from cbir.ingest.description import DescribeTask
from cbir.ingest.image_files import find_images
from cbir.store.base import profile as profiles
from cbir.system.files import is_inside
from indexer.describe_files import OUTSIDE, FileTask, describe_files, read_inside
from tests.indexer.conftest import picture


@pytest.fixture
def root(tmp_path: Path) -> Path:
    picture(tmp_path / "root" / "in.png", 1)
    return tmp_path / "root"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A picture elsewhere, in a folder whose name begins as the root's."""
    return picture(tmp_path / "root-2" / "out.png", 2)


def test_inside(root: Path, outside: Path, tmp_path: Path) -> None:
    (root / "link").symlink_to(outside)
    (root / "up").symlink_to("..")
    (root / "self").symlink_to(root / "in.png")
    (root / "loop").symlink_to(root / "loop")
    (tmp_path / "door").symlink_to(root)
    for path in (root, root / "in.png", root / "none-such", root / "self", tmp_path / "door" / "in.png"):
        assert is_inside(path, [root]), path
        assert is_inside(path, [tmp_path / "other", tmp_path / "door"]), path
        assert not is_inside(path, []), path
    for path in (tmp_path, outside, root / "link", root / "up", root / ".." / "root-2", Path("/")):
        assert not is_inside(path, [root]), path


def test_what_is_read(root: Path, outside: Path) -> None:
    (root / "link.png").symlink_to(outside)
    limits = Limits()
    (image,) = read_inside(root / "in.png", [root], limits)
    (linked,) = read_inside(root / "link.png", [], limits)
    (same,) = read_inside(root / "link.png", [root, outside.parent], limits)
    assert same.content_hash == linked.content_hash != image.content_hash
    assert image.source == "in.png"
    with pytest.raises(UnreadableImage, match="index_roots"):
        list(read_inside(root / "link.png", [root], limits))
    with pytest.raises(UnreadableImage, match=r"in\.png has"):
        list(read_inside(root / "in.png", [root], Limits(bytes=10)))
    with pytest.raises(OSError, match="No such file"):
        list(read_inside(root / "none.png", [root], limits))


def test_a_pipe_in_the_place_of_a_file_does_not_stop_it(root: Path) -> None:
    os.mkfifo(root / "pipe.png")
    with pytest.raises(UnreadableImage):
        list(read_inside(root / "pipe.png", [root], Limits()))


def test_a_link_that_leads_out_comes_by_its_own_name(root: Path, outside: Path) -> None:
    (root / "folder").symlink_to(outside.parent)
    (root / "file").symlink_to(outside)
    found = list(find_images([root], [root]))
    assert set(found) == {root / "folder", root / "file", root / "in.png"}
    assert outside in find_images([root])


def test_extraction_looks_again(root: Path, outside: Path) -> None:
    (root / "link.png").symlink_to(outside)
    task = FileTask(DescribeTask(profiles.get("tamura"), bytes(32), Limits()), (root,))
    good, bad = describe_files([root / "in.png", root / "link.png"], task)
    assert good.refused is None
    assert bad.refused == OUTSIDE
    assert bad.records == ()


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="this system does not say what a file is")
def test_a_link_that_changes_once_the_file_is_open(
    root: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What counts is the file that was opened, not where its name leads a moment later."""
    (root / "folder").symlink_to(outside.parent)

    def change_and_look(path: Path, roots: Sequence[Path]) -> bool:
        (root / "folder").unlink()
        picture(root / "folder" / "out.png", 1)
        return is_inside(path, roots)

    monkeypatch.setattr("indexer.describe_files.is_inside", change_and_look)
    with pytest.raises(UnreadableImage, match="index_roots"):
        list(read_inside(root / "folder" / "out.png", [root], Limits()))
    assert is_inside(root / "folder" / "out.png", [root])
