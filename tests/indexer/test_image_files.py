"""Which files are found."""

import errno
import os
import time
from pathlib import Path

import pytest

from cbir.errors import NotFound
from cbir.ingest.image_files import file_stamp, find_images, looks_like_image
from indexer.index_request import source_exists
from tests.indexer.conftest import picture


def test_folders_are_walked_in_order(folder):
    found = list(find_images([folder]))
    assert len(found) == 30
    assert found == sorted(found)
    assert all(path.is_absolute() and path.suffix == ".png" for path in found)


def test_what_is_named_twice_comes_once(folder):
    one = folder / "a" / "01.png"
    assert len(list(find_images([folder, folder / "a", one, folder]))) == 30
    again = list(find_images([folder / "a", one, folder]))
    assert len(again) == len(set(again)) == 30
    assert list(find_images([one, one])) == [one.resolve()]


def test_a_file_named_outright_is_tried_whatever_it_is(folder):
    assert list(find_images([folder / "notes.txt"])) == [(folder / "notes.txt").resolve()]


def test_a_missing_source_is_named(folder):
    with pytest.raises(NotFound, match="nowhere"):
        list(find_images([folder, folder / "nowhere"]))


def test_an_empty_folder_has_nothing(tmp_path):
    assert list(find_images([tmp_path])) == []


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("scan.PNG", b"", True),
        ("IM0001", bytes(128) + b"DICM" + bytes(10), True),
        ("IM0002", b"\x08\x00\x05\x00CS\x0a\x00ISO_IR 100", True),
        ("1.2.840.10008", bytes(128) + b"DICM", True),
        ("picture", b"\x89PNG\r\n\x1a\n", True),
        ("README", b"read me", False),
        ("table.csv", b"path,label\n", False),
        ("empty", b"", False),
    ],
)
def test_images_are_known_by_suffix_or_first_bytes(tmp_path, name, content, expected):
    path = tmp_path / name
    path.write_bytes(content)
    assert looks_like_image(path) is expected


def test_the_stamp_changes_with_the_file(tmp_path):
    path = picture(tmp_path / "x.png", 1)
    before = file_stamp(path)
    assert file_stamp(path) == before
    picture(path, 2, size=41)
    assert file_stamp(path) != before


def test_links_to_folders_are_followed_once(folder, tmp_path):
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "study").symlink_to(folder)
    (folder / "circle").symlink_to(folder)
    assert len(list(find_images([tmp_path / "linked"]))) == 30


def test_a_pipe_is_no_image_and_does_not_stop_the_walk(folder):
    os.mkfifo(folder / "pipe")
    os.mkfifo(folder / "pipe.png")
    assert len(list(find_images([folder]))) == 30


def test_many_files_named_outright_take_linear_time(folder, tmp_path):
    paths = [picture(tmp_path / "many" / f"{n}.png", 0, size=8) for n in range(3000)]
    started = time.perf_counter()
    assert len(list(find_images(paths))) == 3000
    assert time.perf_counter() - started < 15


def test_a_file_that_there_is_no_permission_to_see_is_not_gone(folder, monkeypatch):
    """Its image keeps it as its source."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    assert not source_exists(str(folder / "gone.png"))
    monkeypatch.setattr(Path, "stat", refuse)
    assert source_exists(str(folder / "a" / "01.png"))
