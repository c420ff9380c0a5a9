"""A folder of images whose indexing cannot end before a test lets it, however fast the machine is.

Processes that are started meanwhile import a hook: each file takes a while, and the last one waits for `release`.
The process that stores the images waits for it too, once it has stored a part of the others, so that a signal ends it
in order.
"""

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

COUNT = 800
HOOK = """
import pathlib, time
is_file, stat = pathlib.Path.is_file, pathlib.Path.stat
def waits(path):
    return path.suffix == ".png" and not path.with_name("released").exists()
def slow_is_file(self):
    if waits(self): time.sleep(0.02)
    return is_file(self)
def held_stat(self, **options):
    while self.name == "last.png" and waits(self): time.sleep(0.02)
    return stat(self, **options)
pathlib.Path.is_file, pathlib.Path.stat = slow_is_file, held_stat
"""

HOLD_OPENING = """
import os, sys, time
def hold(event, arguments):
    if event == "open" and str(arguments[0]).startswith({path!r}):
        while not os.path.exists({released!r}): time.sleep(0.02)
sys.addaudithook(hold)
"""


def noise(folder: Path, count: int) -> Path:
    """A folder of pictures that differ."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(count)
    for number in range(count):
        cv2.imwrite(str(folder / f"{number:03d}.png"), random.integers(0, 256, (48, 48), np.uint8))
    return folder


def held_files(folder: Path, patch: pytest.MonkeyPatch, count: int = COUNT) -> int:
    """Write images into `folder`, and beside it the hook for processes to come; return how many images.

    Of 800 new images 512 are stored before the last one is reached, and mostly some earlier: `describe_in` reads 256
    files ahead, and those of a second are stored together, or 512.
    """
    hook = folder.with_name(f"hook-of-{folder.name}")
    hook.mkdir(parents=True)
    (hook / "sitecustomize.py").write_text(HOOK)
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(hook), os.environ.get("PYTHONPATH")))))
    noise(folder, count)
    (folder / f"{count - 1:03d}.png").rename(folder / "last.png")
    return count


def release(folder: Path) -> None:
    """Let the images of `folder` be read at once, also the last one."""
    (folder / "released").touch()


def hold_opening(path: Path, patch: pytest.MonkeyPatch) -> None:
    """Let processes that are started from now on wait where they open a file whose path begins with `path`.

    They wait until `release` is called for its folder, or a signal ends them.
    """
    hook = path.parent.with_name(f"hook-of-{path.name}")
    hook.mkdir(parents=True, exist_ok=True)
    (hook / "sitecustomize.py").write_text(
        HOLD_OPENING.format(path=str(path), released=str(path.parent / "released"))
    )
    patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(hook), os.environ.get("PYTHONPATH")))))
