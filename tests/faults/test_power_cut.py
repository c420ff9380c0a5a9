"""What the simulated power cut may lose, and what not."""

import random
import signal
from pathlib import Path

import pytest
from reliability import shim
from reliability.power_cut import Call, Disk, read_trace

from tests.benches import FOLDER

TRIES = 200


def after_cuts(disk: Disk, folder: Path) -> set[tuple[tuple[str, bytes], ...]]:
    """The states of the disk that many cuts leave."""
    states = set()
    for seed in range(TRIES):
        target = folder / f"cut-{seed}"
        disk.after_cut(random.Random(seed), target)
        files = sorted(path for path in target.rglob("*") if path.is_file())
        states.add(tuple((str(path.relative_to(target)), path.read_bytes()) for path in files))
    return states


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """A disk with one file, whose inode is 1."""
    root = tmp_path / "disk"
    root.mkdir()
    (root / "a").write_bytes(b"old")
    disk = Disk(root)
    disk.inodes = {1: disk.inodes[(root / "a").stat().st_ino]}
    return disk


def call(kind: str, inode: int = 0, first: bytes = b"", offset: int = 0, second: bytes = b"") -> Call:
    return Call(kind, inode, offset, first, second)


def test_what_is_synced_stays(disk: Disk, tmp_path: Path) -> None:
    disk.apply(call("W", 1, b"new"))
    disk.apply(call("S", 1))
    assert after_cuts(disk, tmp_path) == {(("a", b"new"),)}


def test_what_is_not_synced_may_be_lost_in_any_order(disk: Disk, tmp_path: Path) -> None:
    disk.apply(call("W", 1, b"1"))
    disk.apply(call("W", 1, b"2", offset=1))
    assert after_cuts(disk, tmp_path) == {(("a", text),) for text in (b"old", b"1ld", b"o2d", b"12d")}


def test_a_long_write_may_be_torn(disk: Disk, tmp_path: Path) -> None:
    disk.apply(call("W", 1, b"x" * 2048))
    lengths = {len(dict(state)["a"]) for state in after_cuts(disk, tmp_path)}
    assert lengths == {3, 512, 1024, 1536, 2048}


def test_a_name_is_durable_with_its_folder(disk: Disk, tmp_path: Path) -> None:
    disk.apply(call("C", 2, f"{disk.root}/b".encode()))
    disk.apply(call("W", 2, b"content"))
    disk.apply(call("S", 2))
    disk.apply(call("R", first=f"{disk.root}/b".encode(), second=f"{disk.root}/a".encode()))
    assert after_cuts(disk, tmp_path) == {
        (("a", b"old"),),
        (("a", b"old"), ("b", b"content")),
        (("a", b"content"),),
    }
    disk.apply(call("D", first=disk.root.encode()))
    (tmp_path / "again").mkdir()
    assert after_cuts(disk, tmp_path / "again") == {(("a", b"content"),)}


def test_traces_of_a_process(tmp_path: Path) -> None:
    if reason := shim.obstacle():
        pytest.skip(reason)
    script = tmp_path / "script.py"
    script.write_text(f"""
import os, sys
sys.path.insert(0, {str(FOLDER)!r})
from pathlib import Path
from reliability.shim import Mode, Shim
folder, shim = Path({str(tmp_path)!r}), Shim()
(folder / "watched").mkdir()
shim.watch(folder / "watched")
shim.trace(folder / "trace")
file = os.open(folder / "watched" / "a", os.O_WRONLY | os.O_CREAT, 0o600)
os.write(file, b"hello")
shim.arm(1, Mode.short)
assert os.write(file, b"world!") == 3
shim.arm(2, Mode.once, 28)
os.fsync(file)
try:
    os.fsync(file)
except OSError as error:
    assert error.errno == 28
assert (shim.calls, shim.fired) == (2, 1)
shim.disarm()
os.rename(folder / "watched" / "a", folder / "watched" / "b")
shim.mark("end")
(folder / "elsewhere").write_text("not counted")
""")
    handler = signal.getsignal(signal.SIGINT)
    assert shim.run_preloaded(str(script), [], tmp_path) == 0
    assert signal.getsignal(signal.SIGINT) is handler
    calls = read_trace(tmp_path / "trace")
    assert [one.kind for one in calls] == list("CWWSRK")
    assert [one.first for one in calls[1:3]] == [b"hello", b"wor"]
    assert calls[2].offset == 5
    assert calls[4].paths == (f"{tmp_path}/watched/a", f"{tmp_path}/watched/b")
    assert calls[5].first == b"end"
