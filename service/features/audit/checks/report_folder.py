"""The folder of an audit's report, which appears as a whole or not at all."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp

from cbir.errors import InvalidInput
from cbir.system.files import OWNER_FOLDER, SUFFIX, atomic_text, sync_folder

MARK = "audit.json"  # a folder with it is a report
NEW, EARLIER = "new", "earlier"  # folders beside a report while it is replaced


def check_report_folder(folder: Path, names: frozenset[str]) -> None:
    """Raise InvalidInput unless a report, of files `names`, may be written to `folder`; call it before long work."""
    target = folder.resolve()
    if target.exists():
        if not target.is_dir():
            raise InvalidInput(f"{folder} is a file; name a folder")
        if os.path.ismount(target):  # cannot be renamed; Path.is_mount fails on Windows before Python 3.12
            raise InvalidInput(
                f"{folder} is where a disk is mounted; name a folder in it, such as {folder / 'audit'}"
            )
        try:
            present = {entry.name for entry in target.iterdir()}
        except OSError as error:
            raise InvalidInput(
                f"{folder} cannot be read: {error.strerror}; name a folder elsewhere"
            ) from error
        if present and (MARK not in present or not present <= names):
            raise InvalidInput(f"{folder} holds other files than a report of an audit; name an empty folder")
    elif not target.parent.is_dir():
        raise InvalidInput(f"{folder}: its folder does not exist")
    staging = _staging(target)
    if os.path.lexists(staging) and not _is_left_over(staging, names):
        raise InvalidInput(
            f"{staging} is needed while the report is written; move it away, or name another folder"
        )
    for each in (target.parent, target) if target.exists() else (target.parent,):
        try:
            Path(mkdtemp(dir=each)).rmdir()
        except OSError as error:
            raise InvalidInput(
                f"{folder}: nothing can be written to {each}: {error.strerror}; name a folder elsewhere"
            ) from error


def write_report_folder(folder: Path, files: Mapping[str, str], names: frozenset[str]) -> None:
    """Write files to a folder that only its owner can read, in place of an earlier report.

    Parameters
    ----------
    folder : Path
    files : mapping
        Texts by name.
    names : frozenset of str
        Files that a report may have; a folder with others is refused.

    Raises
    ------
    InvalidInput
        As `check_report_folder`.
    """
    check_report_folder(folder, names)
    folder = folder.resolve()
    staging = _staging(folder)
    new, earlier = staging / NEW, staging / EARLIER
    if earlier.exists() and not folder.exists():  # the process before was killed between two renames
        earlier.replace(folder)
    shutil.rmtree(staging, ignore_errors=True)
    try:
        for each in (staging, new):
            each.mkdir(OWNER_FOLDER)
        for name, text in files.items():
            with atomic_text(new / name) as file:
                file.write(text)
        if folder.exists():
            folder.replace(earlier)
        new.replace(folder)
    except BaseException:
        if earlier.exists() and not folder.exists():
            earlier.replace(folder)
        shutil.rmtree(staging, ignore_errors=True)
        raise
    shutil.rmtree(staging, ignore_errors=True)
    sync_folder(folder.parent)


def _staging(folder: Path) -> Path:
    """Return the folder where a report is written, and where an earlier one goes."""
    return folder.with_name(folder.name + SUFFIX)


def _is_left_over(staging: Path, names: frozenset[str]) -> bool:
    """Return whether a folder holds nothing but reports, of files `names`, that were not finished."""
    if staging.is_symlink() or not staging.is_dir():
        return False
    entries = list(staging.iterdir())
    return {entry.name for entry in entries} <= {NEW, EARLIER} and all(
        entry.is_dir() and {file.name.partition(SUFFIX)[0] for file in entry.iterdir()} <= names
        for entry in entries
    )
