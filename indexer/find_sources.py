"""Files, objects and the manifest that a request names."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from cbir.errors import InvalidInput
from cbir.images import Limits
from cbir.ingest.image_files import find_images, require_image_files
from cbir.ingest.manifest import Manifest
from cbir.ingest.object_store import StoredObject, find_object, find_objects, is_object_url, read_url
from indexer.check_manifest import check_manifest
from indexer.index_request import IndexRequest


def find_sources(request: IndexRequest) -> Iterator[Path | StoredObject]:
    """Yield the images in the folders of a request, then those in its object stores; each object once."""
    yield from find_images(request.sources, request.within)
    for number, url in enumerate(request.objects):
        earlier = request.objects[:number]
        for stored in find_objects(url):
            if not any(is_below(stored.url, other) for other in earlier):
                yield stored


def require_images(request: IndexRequest) -> None:
    """Raise InvalidInput for a folder or prefix without an image, perhaps a disk that is not mounted."""
    require_image_files(request.sources, request.within)
    for url in request.objects:
        if next(find_objects(url), None) is None:
            raise InvalidInput(f"{url} has no images; name the prefix of the images, or leave it out")


def is_below(url: str, prefix: str) -> bool:
    """Return whether `url` is the object `prefix`, or below it."""
    return url == prefix or url.startswith(f"{prefix}/")


def read_manifest(request: IndexRequest) -> Manifest | None:
    """Read the manifest of a request and check that it names sources; raises InvalidInput if it names none."""
    labels = request.labels
    if labels is None:
        return None
    if isinstance(labels, Path):
        manifest = Manifest(labels)
    else:
        manifest = Manifest(
            PurePosixPath(labels).name, read_url(labels, Limits()), folder=labels.rpartition("/")[0]
        )
    if request.objects and any(
        is_below(str(path), url) for path, _ in manifest.texts() for url in request.objects
    ):
        return manifest
    check_manifest(manifest, request.sources, request.within)
    return manifest


def source_exists(source: str) -> bool:
    """Return whether the file or object that images come from is still there."""
    return find_object(source) is not None if is_object_url(source) else Path(source).exists()


def check_series_sources(request: IndexRequest) -> None:
    """Raise InvalidInput if CT series should come from an object store."""
    if request.objects:
        raise InvalidInput(
            f"CT series are read from folders, not from {request.objects[0]}; copy them to a folder"
        )
