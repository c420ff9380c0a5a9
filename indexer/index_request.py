"""A request to index sources into a collection: from the command line, or from a job of the service."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from cbir.errors import InvalidInput, NotFound
from cbir.images import Limits
from cbir.ingest.intake_check import require_packages
from cbir.ingest.object_store import check_object_url, check_there
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.collection_address import address_or_folder
from cbir.store.writing.default_profile import profile_of_new
from cbir.system.device import Device, resolve_device
from cbir.system.files import is_inside


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
