"""Duplicates and near-duplicates: candidates by vector and picture, proved by aligning the pictures."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import cv2
import numpy as np

from cbir import settings
from cbir.images.suppress_logs import suppress_decoder_logs
from cbir.learn.severity.stored_images import matching_records
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import Condition
from cbir.system.cancellation import checkpoint
from cbir.system.threads import cores
from service.features.audit.checks.duplicate_candidates import find_candidate_pairs
from service.features.audit.checks.duplicate_changes import name_changes
from service.features.audit.checks.duplicate_comparison import compare_pairs
from service.features.audit.checks.duplicate_groups import (
    REFERENCE,
    DuplicateGroup,
    DuplicateMember,
    Duplicates,
    group_by_reference,
)
from service.features.audit.checks.duplicate_pictures import PictureReader, Pictures
from service.features.audit.checks.duplicate_proof import Proof, prove
from service.features.audit.checks.pair_orientation import list_pairs, orient_pairs
from service.features.audit.checks.picture_signatures import ORIENTATIONS, Signatures
from service.features.audit.checks.picture_workers import picture_workers
from service.features.audit.checks.signed_pictures import read_signed_pictures

GROUPS_AT_ONCE = 128  # named between two checkpoints

Progress = Callable[[str, int, int], None]


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
        tuple(_name_all(numbered, pictures, proofs, groups, partial(progress, "naming changes"))),
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


def _name_all(
    numbered: Sequence[tuple[int, Record]],
    pictures: Pictures,
    proofs: dict[tuple[int, int], Proof],
    groups: Sequence[Sequence[int]],
    progress: Callable[[int, int], None],
) -> Iterator[DuplicateGroup]:
    """Yield the groups with the changes of their members."""
    with ThreadPoolExecutor(cores()) as executor:
        for begin in range(0, len(groups), GROUPS_AT_ONCE):
            checkpoint()
            some = groups[begin : begin + GROUPS_AT_ONCE]
            yield from executor.map(partial(_group, numbered, pictures, proofs), some)
            progress(begin + len(some), len(groups))


def _group(
    numbered: Sequence[tuple[int, Record]],
    pictures: Pictures,
    proofs: dict[tuple[int, int], Proof],
    rows: Sequence[int],
) -> DuplicateGroup:
    reference = rows[0]
    members = []
    for row in rows:
        number, record = numbered[row]
        change, confidence = REFERENCE, 1.0
        if row != reference:
            change, confidence = _describe(numbered, pictures, proofs, reference, row)
        members.append(
            DuplicateMember(number, record.image_id, record.source, record.frame, change, confidence)
        )
    return DuplicateGroup(tuple(members))


def _describe(
    numbered: Sequence[tuple[int, Record]],
    pictures: Pictures,
    proofs: dict[tuple[int, int], Proof],
    reference: int,
    row: int,
) -> tuple[str, float]:
    """Return change and confidence of a row against its reference."""
    records = numbered[reference][1], numbered[row][1]
    if records[0].content_hash == records[1].content_hash:
        return "identical", 1.0
    side = pictures.fine_side(reference, row)
    proof = proofs.get((reference, row)) or proofs[row, reference].reversed(side)
    turned = ORIENTATIONS[proof.orientation]
    fine = pictures.fine(reference, side), turned.apply(pictures.fine(row, side))
    return name_changes(records, fine, turned, proof.alignment), proof.confidence
