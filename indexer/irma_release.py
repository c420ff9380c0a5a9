"""Prepare an IRMA release for its benchmark: extract it with bounds, write manifests, index the training images."""

import shutil
import stat
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cbir.errors import InvalidInput, NotFound, StorageFull
from cbir.evaluation.datasets.dataset_manifests import claim_folder
from cbir.evaluation.datasets.irma.codes import CodeTree
from cbir.evaluation.datasets.irma.release import Release, read_release, write_irma_manifest
from cbir.images import Limits
from cbir.settings import Settings
from cbir.system.files import private_folder, write_bytes
from indexer.index_progress import IndexSummary, ProgressReport
from indexer.index_request import IndexRequest
from indexer.index_run import run_request

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


Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class PreparedRelease:
    """A release with its manifests, train.csv and test.csv of `folder`, and the collection to be."""

    release: Release
    folder: Path

    @property
    def collection(self) -> Path:
        """Folder of the collection of the training images."""
        return self.folder / "collection"


def prepare_release(
    source: Path,
    folder: Path,
    year: str | None,
    labelling: str | None,
    tree: CodeTree | None,
    progress: Progress,
) -> PreparedRelease:
    """Extract a release, unless it is a folder, and write the manifests of its training and test images.

    Parameters
    ----------
    source : Path
        Zip or folder of the release.
    folder : Path
        Folder of the results, created if needed.
    year, labelling, tree
        As for `read_release`.
    progress : callable
        Gets the stage, steps done and steps in all.

    Raises
    ------
    NotFound, InvalidInput
        For a source that is missing or no release, or lacks training or test images.
    """
    if not source.exists():
        raise NotFound(f"there is no zip or folder {source}")
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file; the results need a folder")
    images = source
    if not source.is_dir():
        if not zipfile.is_zipfile(source):
            raise InvalidInput(f"{source} is no zip file; extract other archives, and name the folder")
        images = folder / "release"
        extract_release(source, images, lambda done, total: progress("extracting", done, total))
    release = read_release(images, year, labelling, tree)
    private_folder(folder)
    for split in ("train", "test"):
        if not write_irma_manifest(release, folder / f"{split}.csv", tree, split):
            raise InvalidInput(f"{source} has no usable image in the part {split}")
    return PreparedRelease(release, folder)


def index_training_images(
    prepared: PreparedRelease, profile: str | None, jobs: int, settings: Settings, progress: ProgressReport
) -> IndexSummary:
    """Index the training images, copies of pictures too; continues an interrupted run.

    Parameters
    ----------
    prepared : PreparedRelease
    profile : str or None
        Of a new collection; None for the default.
    jobs : int
        Number of processes.
    settings : Settings
    progress : ProgressReport
    """
    request = IndexRequest(
        [item.path for item in prepared.release.items if item.split == "train"],
        prepared.collection,
        profile,
        labels=prepared.folder / "train.csv",
        jobs=jobs,
        limits=Limits.from_settings(settings),
        decoder_bytes=settings.decoder_bytes,
        decode_seconds=settings.index_decode_seconds,
        device=settings.device,
        duplicates=True,
    )
    return run_request(request, progress, lambda path, reason: None)
