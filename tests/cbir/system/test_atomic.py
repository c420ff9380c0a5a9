"""Atomic writes and file locks."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cbir.system.files import atomic_binary, atomic_text, copy_file, try_lock, write_bytes


def test_the_new_content_replaces_the_old_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"old")

    def interrupted() -> None:
        with atomic_binary(path) as file:
            file.write(b"half")
            file.flush()
            assert path.read_bytes() == b"old"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_text_is_utf_8_with_its_own_line_ends(tmp_path: Path) -> None:
    with atomic_text(tmp_path / "file") as file:
        file.write("é\r\n1\n")
    assert (tmp_path / "file").read_bytes() == b"\xc3\xa9\r\n1\n"


def test_a_leftover_of_a_killed_process_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "file.partial").write_bytes(b"left over, and longer than the new content")
    write_bytes(tmp_path / "file", b"new", permissions=0o600)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600
    assert not (tmp_path / "file.partial").exists()


def test_a_copy_has_the_same_content(tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(bytes(range(256)) * 1000)
    copy_file(tmp_path / "source", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == (tmp_path / "source").read_bytes()


def test_a_lock_excludes_other_processes_until_it_is_closed(tmp_path: Path) -> None:
    code = (
        "import os, sys; from cbir.system.files import try_lock; "
        "print(try_lock(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)))"
    )

    def other_process() -> str:
        path = str(tmp_path / "lock")
        return subprocess.run(
            [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
        ).stdout.strip()

    file = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    assert try_lock(file)
    assert other_process() == "False"
    os.close(file)
    assert other_process() == "True"
