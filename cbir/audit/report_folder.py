"""The folder of an audit's report, which appears as a whole or not at all."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from cbir.atomic import SUFFIX, atomic_text, sync_folder
from cbir.errors import InvalidInput

MARK = "audit.json"  # a folder with it is a report
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700  # the pictures are of patients


def check_report_folder(folder: Path, names: frozenset[str]) -> None:
    """Raise InvalidInput unless a report, of files `names`, may be written to `folder`; call it before long work."""
    if not folder.exists():
        if not folder.absolute().parent.is_dir():
            raise InvalidInput(f"{folder}: its folder does not exist")
        return
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is a file; name a folder")
    present = {entry.name for entry in folder.iterdir()}
    if present and (MARK not in present or not present <= names):
        raise InvalidInput(f"{folder} holds other files than a report of an audit; name an empty folder")


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
    folder = folder.absolute()
    partial, earlier = folder.with_name(folder.name + SUFFIX), folder.with_name(f"{folder.name}.earlier")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(PRIVATE_FOLDER)
    try:
        for name, text in files.items():
            with atomic_text(partial / name, permissions=PRIVATE_FILE) as file:
                file.write(text)
        if folder.exists():
            folder.replace(earlier)
        partial.replace(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        if earlier.exists() and not folder.exists():
            earlier.replace(folder)
        raise
    shutil.rmtree(earlier, ignore_errors=True)
    sync_folder(folder.parent)
