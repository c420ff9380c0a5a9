"""Check that a manifest names files that are being indexed."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from cbir.errors import InvalidInput
from cbir.ingest.image_files import find_images
from cbir.ingest.manifest import Manifest
from cbir.system.files import is_inside

LOOKUP = 512  # files looked up at a time


def check_manifest(manifest: Manifest, sources: Sequence[Path], within: Sequence[Path]) -> None:
    """Raise InvalidInput if a manifest has no row, or none names a file or folder among the sources.

    Parameters
    ----------
    manifest : Manifest
    sources : sequence of Path
        Folders and files to index.
    within : sequence of Path
        See `find_images`.
    """
    if not len(manifest):
        raise InvalidInput(f"{manifest.path} has no row below its first line; write one for each image")
    if any(is_inside(path, sources) and path.exists() for path, _ in manifest.rows()):
        return  # nearly always the first row
    images = find_images(sources, within)
    while paths := list(islice(images, LOOKUP)):  # links may lead out of the sources
        if manifest.labels([*paths, *{path.parent for path in paths}]):
            return
    first, _ = next(manifest.rows())
    raise InvalidInput(
        f"none of the {len(manifest)} rows of {manifest.path} names a file among the sources; paths are relative "
        f"to the folder of the csv: the first one is {first}"
    )
