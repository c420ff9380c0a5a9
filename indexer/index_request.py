"""A request to index sources into a collection, and the files, objects and manifest that it names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Self

from cbir.errors import InvalidInput, NotFound
from cbir.images import Limits
from cbir.ingest.image_files import find_images, require_image_files
from cbir.ingest.intake_check import require_packages
from cbir.ingest.manifest import Manifest
from cbir.ingest.object_store import (
    StoredObject,
    check_object_url,
    check_there,
    find_object,
    find_objects,
    is_object_url,
    read_url,
)
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.collection_address import address_or_folder
from cbir.store.writing.default_profile import profile_of_new
from cbir.system.device import Device, resolve_device
from cbir.system.files import is_inside, may_exist


@dataclass(frozen=True)
class IndexRequest:
    """Settings of an indexing run.

    sources: folders, walked, and files. collection: its folder, created if needed. profile, weights: of a new
    collection. labels: a manifest. within: folders that links may not lead out of; empty: no restriction.
    actor: name in the collection's history. decoder_bytes, decode_seconds: memory for a file, time for a frame.
    refuse_burned_in: refuse images that declare burned-in text. intake, study_days: as the settings. objects:
    prefixes and objects in object stores, after the sources. ray: address of a Ray cluster that describes the
    images. jobs: processes, on a cluster on each node; None: the number of cores.
    """

    sources: Sequence[Path]
    collection: Path
    profile: str | None = None
    weights: dict[str, float] = field(default_factory=dict)
    labels: Path | str | None = None
    jobs: int | None = 1
    limits: Limits = field(default_factory=Limits)
    device: Device = "auto"
    duplicates: bool = False
    restore: bool = False
    within: tuple[Path, ...] = ()
    actor: str = "command line"
    decoder_bytes: int = 512 * 2**20
    decode_seconds: float = 60.0
    refuse_burned_in: bool = False
    intake: Literal["accept", "flag", "quarantine"] = "accept"
    study_days: bool = True
    objects: Sequence[str] = ()
    ray: str | None = None

    @classmethod
    def with_settings(
        cls,
        settings: Settings,
        sources: Sequence[str | Path],
        collection: Path,
        labels: str | Path | None = None,
        **options: Any,
    ) -> Self:
        """Return a request with the limits and the device of settings.

        Parameters
        ----------
        settings : Settings
        sources : sequence of str or Path
            Folders, files, and addresses in object stores.
        collection : Path
            Folder of the collection.
        labels : str or Path, optional
            A manifest: a file, or the address of an object.
        **options
            The other fields.
        """
        names = [(source, _is_address(source)) for source in sources]
        return cls(
            [Path(source) for source, is_address in names if not is_address],
            collection,
            labels=check_object_url(str(labels)) if _is_address(labels) else Path(labels) if labels else None,
            objects=tuple(check_object_url(str(source)) for source, is_address in names if is_address),
            limits=Limits.from_settings(settings),
            decoder_bytes=settings.decoder_bytes,
            decode_seconds=settings.index_decode_seconds,
            refuse_burned_in=settings.burned_in == "refuse",
            intake=settings.intake,
            study_days=settings.study_days,
            device=settings.device,
            **options,
        )

    def check(self) -> None:
        """Raise NotFound or InvalidInput for a missing source, one outside the allowed folders, or a missing GPU."""
        require_packages(self.intake)
        if self.device == "cuda" and self.ray is None:
            resolve_device(self.device)
        for path in [*self.sources, *([self.labels] if isinstance(self.labels, Path) else [])]:
            if self.within and not is_inside(path, self.within):
                raise InvalidInput(f"{path} lies in none of the folders that may be indexed")
        for source in self.sources:
            if not source.exists():
                raise NotFound(f"there is no file or folder {source}")
        for url in self.objects:
            check_there(url)


def _is_address(source: str | Path | None) -> bool:
    return isinstance(source, str) and "://" in source


def open_collection(
    folder: Path, profile: str | None = None, weights: dict[str, float] | None = None
) -> Collection:
    """Open a collection, or create it.

    Parameters
    ----------
    folder : Path
        Folder of the collection.
    profile : str, optional
        Encoder, descriptor or trained embedding; that of `profile_of_new` for a new collection by default.
    weights : dict, optional
        Factor of each part's share of the distance.

    Raises
    ------
    InvalidInput
        If the collection has another profile, or what a new collection needs is missing.
    """
    weights = weights or {}
    if not Collection.exists(folder):
        return Collection.create(folder, profile_of_new(profile, weights))
    collection = Collection(folder)
    existing = collection.profile
    if profile:
        requested = profiles.get(profile, weights)
    else:
        requested = existing.model_copy(update={"weights": existing.weights | weights})
    if existing.hash != requested.hash:
        raise InvalidInput(
            f"{address_or_folder(folder)} has profile {existing.name} (hash {existing.hash}), not "
            f"{requested.name} (hash {requested.hash}); leave --profile and --weight out, or name another collection"
        )
    return collection


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
    if any(is_inside(path, sources) and may_exist(path) for path, _ in manifest.rows()):
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
    return find_object(source) is not None if is_object_url(source) else may_exist(Path(source))


def check_series_sources(request: IndexRequest) -> None:
    """Raise InvalidInput if CT series should come from an object store."""
    if request.objects:
        raise InvalidInput(
            f"CT series are read from folders, not from {request.objects[0]}; copy them to a folder"
        )
