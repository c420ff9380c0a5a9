"""Prepare an IRMA release for its benchmark: extract, write manifests, index the training images."""

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cbir.errors import InvalidInput, NotFound
from cbir.evaluation.datasets.irma.codes import CodeTree
from cbir.evaluation.datasets.irma.release import Release, read_release, write_irma_manifest
from cbir.evaluation.datasets.irma.release_archive import extract_release
from cbir.images import Limits
from cbir.settings import Settings
from cbir.system.files import private_folder
from indexer.index_progress import IndexSummary, ProgressReport
from indexer.index_request import IndexRequest
from indexer.index_run import run_request

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
