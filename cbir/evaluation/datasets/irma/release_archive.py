"""Zip files of IRMA releases, extracted with bounds: names from a stranger must not choose where files go."""

import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from cbir.errors import InvalidInput, StorageFull
from cbir.evaluation.datasets.dataset_manifests import claim_folder
from cbir.system.files import private_folder, write_bytes

SUFFIXES = {".png", ".csv", ".txt"}
MAX_MEMBERS = 100_000
MAX_MEMBER_BYTES = 64 * 2**20
MAX_TOTAL_BYTES = 16 * 2**30


def extract_release(
    archive: Path, folder: Path, on_progress: Callable[[int, int], None] | None = None
) -> int:
    """Extract the pictures and label files of a release; repeat an interrupted call to continue it.

    Parameters
    ----------
    archive : Path
        The zip. Only .png, .csv and .txt files are extracted, and no hidden ones.
    folder : Path
        Folder, created if needed, which belongs to this zip from then on.
    on_progress : callable, optional
        Gets the number of files so far, and of all.

    Returns
    -------
    int
        Number of files.

    Raises
    ------
    InvalidInput
        If the file is no zip or damaged, has names that lead out of the folder, links or encrypted files, is larger
        than a release can be, or the folder belongs to another zip.
    StorageFull
        If the disk lacks the space.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            members = _check_members(archive, opened.infolist())
            claim_folder(archive, folder)
            missing = [member for member in members if not _is_complete(folder / member.filename, member)]
            _check_space(folder, sum(member.file_size for member in missing))
            for done, member in enumerate(missing, start=1 + len(members) - len(missing)):
                path = folder / member.filename
                private_folder(path.parent)
                write_bytes(path, opened.read(member), durable=False)
                if on_progress is not None:
                    on_progress(done, len(members))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InvalidInput(f"{archive} is no zip file, or damaged: {error}") from error
    except OSError as error:
        raise InvalidInput(f"{error.filename or archive}: {error.strerror}") from error
    return len(members)


def _check_members(archive: Path, members: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """Return the files to extract; raise InvalidInput for one that no release has."""
    if len(members) > MAX_MEMBERS:
        raise InvalidInput(f"{archive} has {len(members)} files; at most {MAX_MEMBERS} are extracted")
    usable, names, total = [], set(), 0
    for member in members:
        path = PurePosixPath(member.filename)
        outside = (
            path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in member.filename
        )
        if outside or stat.S_ISLNK(member.external_attr >> 16):
            raise InvalidInput(
                f"{archive}: {member.filename!r} leads out of the folder; nothing is extracted"
            )
        if (
            member.is_dir()
            or path.suffix.lower() not in SUFFIXES
            or any(p.startswith(".") for p in path.parts)
        ):
            continue
        if member.flag_bits & 1:
            raise InvalidInput(f"{archive} is encrypted; extract it with its password, and name the folder")
        if member.file_size > MAX_MEMBER_BYTES:
            raise InvalidInput(f"{archive}: {member.filename!r} has more than {MAX_MEMBER_BYTES} bytes")
        if str(path) in names:
            raise InvalidInput(f"{archive} has two files {member.filename!r}")
        names.add(str(path))
        total += member.file_size
        usable.append(member)
    if total > MAX_TOTAL_BYTES:
        raise InvalidInput(f"{archive} has {total} bytes once extracted; at most {MAX_TOTAL_BYTES} are")
    if not usable:
        raise InvalidInput(f"{archive} has no picture or label file; is it an IRMA release?")
    return usable


def _is_complete(path: Path, member: zipfile.ZipInfo) -> bool:
    return path.is_file() and path.stat().st_size == member.file_size


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StorageFull(f"{folder} needs {needed} bytes for the release, and {free} are free")
