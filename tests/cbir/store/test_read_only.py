"""A collection where nothing can be written: a read-only mount, or another user's folder."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cbir.errors import InvalidInput
from cbir.store import Collection
from cbir.store.upkeep.restore import open_or_fallback
from cbir.store.upkeep.verify import verify_collection
from tests.cbir.store.conftest import MakeEntries
from tests.rights import obeying_rights, without_rights


@pytest.fixture
def full(collection: Collection, entries: MakeEntries) -> Collection:
    with collection.writer() as writer:
        writer.add(entries(0, 30))
        writer.compact()
    return collection


@pytest.fixture
def mounted(full: Collection, tmp_path: Path) -> Iterator[Path]:
    """The collection's folder, mounted read-only."""
    mount = tmp_path / "mount"
    mount.mkdir()
    commands = (["mount", "--bind", full.folder, mount], ["mount", "-o", "remount,bind,ro", mount])
    for command in commands:
        if not hasattr(os, "geteuid") or subprocess.run(command, capture_output=True, check=False).returncode:
            subprocess.run(["umount", mount], capture_output=True, check=False)
            pytest.skip("this system lets no one mount a folder here")
    yield mount
    subprocess.run(["umount", "-l", mount], check=True)


def test_a_read_only_mount_is_searched_and_verified(full: Collection, mounted: Path) -> None:
    full.close()
    before = sorted(path.name for path in full.folder.iterdir())
    with Collection(mounted) as opened:
        assert len(opened.view().gallery) == len(opened) == 30
        assert not verify_collection(opened)
        with pytest.raises(InvalidInput, match="read-only"):
            opened.writer().__enter__()
    assert sorted(path.name for path in full.folder.iterdir()) == before


def test_changes_made_elsewhere_are_seen(full: Collection, mounted: Path, entries: MakeEntries) -> None:
    full.close()
    with Collection(mounted) as opened:
        assert len(opened.view().gallery) == 30
        with Collection(full.folder) as other, other.writer() as writer:
            writer.add(entries(30, 33))
            assert len(opened.view().gallery) == 33  # from the log, which is there while others write
            writer.compact()
        assert len(opened.view().gallery) == 33


def test_the_last_good_copy_of_a_read_only_mount_is_searched(full: Collection, mounted: Path) -> None:
    full.close()
    (full.folder / "collection.sqlite").write_bytes(b"")
    with open_or_fallback(mounted) as opened:
        assert opened.fallback_for
        assert len(opened.view().gallery) == 30


def test_a_folder_that_may_only_be_read_is_searched(full: Collection) -> None:
    full.close()
    paths = [full.folder, *full.folder.rglob("*")]

    def search() -> tuple[int, list[str]]:
        with Collection(full.folder) as opened:
            return len(opened.view().gallery), verify_collection(opened)

    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(without_rights(path, 0o500 if path.is_dir() else 0o400))
        assert obeying_rights(search) == (30, [])
