"""Duplicates of a collection, and leaks between the parts of a split."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import cv2
import numpy as np

from cbir import settings
from cbir.errors import InvalidInput
from cbir.images.reading import suppress_decoder_logs
from cbir.learn.severity.stored_images import matching_records
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import Condition
from cbir.system.threads import checkpoint, cores, with_checkpoints
from service.features.audit.duplicate_candidates import find_candidate_pairs, list_pairs, orient_pairs
from service.features.audit.duplicate_pictures import PictureReader, Pictures, picture_workers
from service.features.audit.duplicate_proof import Proof, compare_pairs, name_changes, prove
from service.features.audit.picture_signatures import ORIENTATIONS, Signatures, read_signed_pictures

REFERENCE = "reference"
GROUPS_AT_ONCE = 128  # named between two checkpoints
Progress = Callable[[str, int, int], None]
Kind = Literal["patient", "study", "picture", "near-duplicate"]


@dataclass(frozen=True)
class DuplicateMember:
    """An image of a group.

    change: "reference", or how the image differs from the reference: "identical", "resized", "recompressed", "gamma",
    "rotated", "inverted", "flipped", "cropped", "text", several of them joined by "+". confidence: from 0 to 1.
    """

    number: int
    image_id: str
    source: str
    change: str
    confidence: float


@dataclass(frozen=True)
class DuplicateGroup:
    """Duplicates of one picture; the first is the reference that the others are compared with."""

    members: tuple[DuplicateMember, ...]


@dataclass(frozen=True)
class Duplicates:
    """Groups of duplicates in a collection.

    unread: ids of images whose picture cannot be read; of these only identical ones are found. pairs: pairs of
    pictures that were compared.
    """

    groups: tuple[DuplicateGroup, ...]
    unread: tuple[str, ...]
    pairs: int


def group_by_reference(
    pairs: set[tuple[int, int]],
    preference: Callable[[int], tuple[int, ...]],
    is_duplicate: Callable[[int, int], bool],
) -> list[list[int]]:
    """Group rows so that each is a duplicate of its group's first, the reference; chains are cut there.

    Parameters
    ----------
    pairs : set of (int, int)
        Proved duplicates.
    preference : callable
        Key of a row; the row with the smallest becomes the reference.
    is_duplicate : callable
        Compares a reference with a row that only others connect to it.
    """
    linked: dict[int, set[int]] = {}
    for first, second in pairs:
        linked.setdefault(first, set()).add(second)
        linked.setdefault(second, set()).add(first)
    left = set(linked)
    groups = []
    for reference in with_checkpoints(sorted(linked, key=preference)):
        if reference not in left:
            continue
        others = sorted(_connected(reference, linked, left) - {reference})
        members = [row for row in others if row in linked[reference] or is_duplicate(reference, row)]
        if members:
            groups.append([reference, *members])
        left -= {reference, *members}
    return groups


def _connected(start: int, linked: dict[int, set[int]], left: set[int]) -> set[int]:
    """Return the rows of `left` that pairs connect with `start`, itself included."""
    reached, open_rows = {start}, [start]
    while open_rows:
        for row in linked[open_rows.pop()]:
            if row in left and row not in reached:
                reached.add(row)
                open_rows.append(row)
    return reached


@contextmanager
def _one_opencv_thread() -> Iterator[None]:
    """Let OpenCV share no operation between threads: on small pictures that takes longer."""
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        yield
    finally:
        cv2.setNumThreads(threads)


@suppress_decoder_logs()  # once: each time, logging forgets which of its loggers are enabled
@_one_opencv_thread()
def find_duplicates(
    collection: Collection,
    where: Sequence[Condition] = (),
    progress: Progress = lambda stage, done, total: None,
    max_pixels: int | None = None,
) -> Duplicates:
    """Find groups of images that show the same picture, changed or not.

    Parameters
    ----------
    collection : Collection
    where : sequence of Condition
        Conditions on the images.
    progress : callable
        Called with stage, done and total; what it raises ends the search.
    max_pixels : int, optional
        Of a file that is read; that of the settings by default.

    Raises
    ------
    CbirError
        If a process that reads and compares pictures dies.
    """
    view = collection.view()
    numbered = matching_records(collection, where)
    numbers = np.array([number for number, _ in numbered], np.int64)
    rows = view.rows_of(numbers)
    in_view = set(view.gallery.ids[rows].tolist())
    numbered = [(number, record) for number, record in numbered if number in in_view]  # not added meanwhile
    records = [record for _, record in numbered]
    reader = PictureReader(collection, max_pixels or settings.load().max_pixels)
    proofs: dict[tuple[int, int], Proof] = {}
    compared = 0
    with picture_workers(reader, len(numbered)) as workers:
        signed = read_signed_pictures(workers, numbered, partial(progress, "reading pictures"))
        if len(numbered) > 1:
            progress("finding similar images", 0, 1)
            candidates = find_candidate_pairs(
                view.gallery.vectors(rows), view.gallery.space, signed.signatures
            )
            show = partial(progress, "comparing pictures")
            for pair, proof in compare_pairs(workers, signed.squares, candidates, show):
                if pair not in proofs or proof.confidence > proofs[pair].confidence:
                    proofs[pair] = proof
            compared = len(candidates.pairs)
    pictures = Pictures(reader, signed.squares, dict(numbered))
    groups = group_by_reference(
        _identical(records) | set(proofs),
        lambda row: (-records[row].width * records[row].height, row),
        partial(_is_duplicate, pictures, records, signed.signatures, proofs),
    )
    return Duplicates(
        tuple(_GroupNames(numbered, pictures, proofs).name_all(groups, partial(progress, "naming changes"))),
        tuple(records[row].image_id for row in np.flatnonzero(~signed.readable)),
        compared,
    )


def _identical(records: Sequence[Record]) -> set[tuple[int, int]]:
    """Return pairs of the first image with a content hash and each other that has it."""
    first: dict[str, int] = {}
    pairs = set()
    for row, record in enumerate(records):
        earlier = first.setdefault(record.content_hash, row)
        if earlier != row:
            pairs.add((earlier, row))
    return pairs


def _is_duplicate(
    pictures: Pictures,
    records: Sequence[Record],
    signatures: Signatures,
    proofs: dict[tuple[int, int], Proof],
    reference: int,
    row: int,
) -> bool:
    """Compare a reference with a row that only others connect to it, placed in the likeliest ways."""
    if records[reference].content_hash == records[row].content_hash:
        return True
    placed = orient_pairs(np.array([[reference, row]]), signatures, (0, 0))
    results = (prove(pictures, pair._replace(unmoved=True)) for pair in list_pairs(placed))
    best = max((proof for proof in results if proof), key=lambda proof: proof.confidence, default=None)
    if best is not None:
        proofs[reference, row] = best
    return best is not None


class _GroupNames(NamedTuple):
    """Names of the changes of duplicates: images, their pictures, and the proofs of pairs of rows."""

    numbered: Sequence[tuple[int, Record]]
    pictures: Pictures
    proofs: dict[tuple[int, int], Proof]

    def name_all(
        self, groups: Sequence[Sequence[int]], progress: Callable[[int, int], None]
    ) -> Iterator[DuplicateGroup]:
        """Yield the groups with the changes of their members."""
        with ThreadPoolExecutor(cores()) as executor:
            for begin in range(0, len(groups), GROUPS_AT_ONCE):
                checkpoint()
                some = groups[begin : begin + GROUPS_AT_ONCE]
                yield from executor.map(self._group, some)
                progress(begin + len(some), len(groups))

    def _group(self, rows: Sequence[int]) -> DuplicateGroup:
        members = []
        for row in rows:
            number, record = self.numbered[row]
            change, confidence = (REFERENCE, 1.0) if row == rows[0] else self._describe(rows[0], row)
            members.append(DuplicateMember(number, record.image_id, record.source, change, confidence))
        return DuplicateGroup(tuple(members))

    def _describe(self, reference: int, row: int) -> tuple[str, float]:
        """Return change and confidence of a row against its reference."""
        records = self.numbered[reference][1], self.numbered[row][1]
        if records[0].content_hash == records[1].content_hash:
            return "identical", 1.0
        side = self.pictures.fine_side(reference, row)
        proof = self.proofs.get((reference, row)) or self.proofs[row, reference].reversed(side)
        turned = ORIENTATIONS[proof.orientation]
        fine = self.pictures.fine(reference, side), turned.apply(self.pictures.fine(row, side))
        return name_changes(records, fine, turned, proof.alignment), proof.confidence


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


def find_leaks(collection: Collection, split: str, duplicates: Duplicates) -> list[Leak]:
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

    Raises
    ------
    InvalidInput
        If no image has the label.
    """
    records = [record for _, record in matching_records(collection, ()) if record.labels.get(split)]
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
