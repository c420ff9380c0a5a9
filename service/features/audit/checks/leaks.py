"""Leaks between the parts of a split: the same patient, study or picture in several of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from cbir.errors import InvalidInput
from cbir.learn.severity.stored_images import matching_records
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import Condition
from service.features.audit.checks.duplicate_groups import Duplicates

Kind = Literal["patient", "study", "picture", "near-duplicate"]


@dataclass(frozen=True)
class LeakedImage:
    """An image of a leak, and the part of the split that it is in."""

    image_id: str
    source: str
    part: str


@dataclass(frozen=True)
class Leak:
    """Images of several parts of a split that share a patient, a study, or what they show."""

    kind: Kind
    images: tuple[LeakedImage, ...]

    @property
    def parts(self) -> tuple[str, ...]:
        """Parts of the split, in alphabetical order."""
        return tuple(sorted({image.part for image in self.images}))


def find_leaks(
    collection: Collection, split: str, duplicates: Duplicates, where: Sequence[Condition] = ()
) -> list[Leak]:
    """Find what the parts of a split share: patients, then studies, pictures and near-duplicates.

    Images with the same pixels are a leak of the kind "picture", and not a near-duplicate too unless their group has
    others.

    Parameters
    ----------
    collection : Collection
    split : str
        Label whose values are the parts; images without it are in none.
    duplicates : Duplicates
        Groups of the collection's duplicates.
    where : sequence of Condition
        Conditions on the images.

    Raises
    ------
    InvalidInput
        If no image has the label.
    """
    records = [record for _, record in matching_records(collection, where) if record.labels.get(split)]
    if not records:
        raise InvalidInput(
            f"no image has the label {split}; name the label of the split, see `cbir collection labels`"
        )
    by_id = {record.image_id: record for record in records}
    leaks: list[Leak] = []
    leaks += _shared("patient", records, split, lambda record: record.patient_key or "")
    leaks += _shared("study", records, split, lambda record: record.study)
    leaks += _shared("picture", records, split, lambda record: record.content_hash)
    for group in duplicates.groups:
        members = [by_id[member.image_id] for member in group.members if member.image_id in by_id]
        if len({record.content_hash for record in members}) > 1:
            leaks += _leak("near-duplicate", members, split)
    return leaks


def _shared(kind: Kind, records: Iterable[Record], split: str, key: Callable[[Record], str]) -> list[Leak]:
    """Return the leaks of images with the same key, which is not empty."""
    sharing: dict[str, list[Record]] = {}
    for record in records:
        if value := key(record):
            sharing.setdefault(value, []).append(record)
    return [leak for group in sharing.values() for leak in _leak(kind, group, split)]


def _leak(kind: Kind, records: Iterable[Record], split: str) -> list[Leak]:
    """Return the leak that images are, none if they are all in the same part."""
    images = tuple(LeakedImage(record.image_id, record.source, record.labels[split]) for record in records)
    return [Leak(kind, images)] if len({image.part for image in images}) > 1 else []
