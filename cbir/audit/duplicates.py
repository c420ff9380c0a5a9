"""Duplicates and near-duplicates: candidates by vector and picture, proved by aligning the pictures."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import cv2
import numpy as np

from cbir.audit.duplicate_candidates import find_candidate_pairs
from cbir.audit.duplicate_changes import name_changes
from cbir.audit.duplicate_groups import (
    REFERENCE,
    DuplicateGroup,
    DuplicateMember,
    Duplicates,
    group_by_reference,
)
from cbir.audit.duplicate_pictures import Pictures
from cbir.audit.duplicate_proof import Proof, prove
from cbir.audit.pair_orientation import PlacedPairs, list_pairs, orient_pairs
from cbir.audit.picture_signatures import ORIENTATIONS, Signatures, sign_pictures
from cbir.cancellation import checkpoint
from cbir.images.suppress_logs import suppress_decoder_logs
from cbir.severity.stored_images import matching_records
from cbir.store import Collection, Record
from cbir.store.filter_conditions import Condition
from cbir.threads import cores

AT_ONCE = 2048  # pairs between two calls of `progress`
GROUPS_AT_ONCE = 128  # named between two checkpoints
TOGETHER = 64  # pairs that a thread compares one after the other

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
) -> Duplicates:
    """Find groups of images that show the same picture, changed or not.

    Parameters
    ----------
    collection : Collection
    where : sequence of Condition
        Conditions on the images.
    progress : callable
        Called with stage, done and total; what it raises ends the search.
    """
    view = collection.view()
    numbered = matching_records(collection, where)
    numbers = np.array([number for number, _ in numbered], np.int64)
    rows = view.rows_of(numbers)
    in_view = set(view.gallery.ids[rows].tolist())
    numbered = [(number, record) for number, record in numbered if number in in_view]  # not added meanwhile
    records = [record for _, record in numbered]
    pictures = Pictures(collection, records, partial(progress, "reading pictures"))
    signatures = sign_pictures(pictures.squares)
    signatures.frequencies[~pictures.shown] = 0  # like nothing
    identical = _identical(records)
    proofs: dict[tuple[int, int], Proof] = {}
    compared = 0
    if len(records) > 1:
        progress("finding similar images", 0, 1)
        candidates = find_candidate_pairs(view.gallery.vectors(rows), view.gallery.space, signatures)
        for pair, proof in _prove_all(pictures, candidates, progress):
            if pair not in proofs or proof.confidence > proofs[pair].confidence:
                proofs[pair] = proof
        compared = len(candidates.pairs)
    groups = group_by_reference(
        identical | set(proofs),
        lambda row: (-records[row].width * records[row].height, row),
        partial(_is_duplicate, pictures, records, signatures, proofs),
    )
    return Duplicates(
        tuple(_name_all(numbered, pictures, proofs, groups)),
        tuple(records[row].image_id for row in np.flatnonzero(~pictures.readable)),
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


def _prove_all(
    pictures: Pictures, candidates: PlacedPairs, progress: Progress
) -> Iterator[tuple[tuple[int, int], Proof]]:
    """Yield the candidates that are duplicates, with their proofs."""
    pairs = list_pairs(candidates)

    def prove_some(start: int) -> list[tuple[tuple[int, int], Proof]]:
        proofs = ((pair, prove(pictures, pair)) for pair in pairs[start : start + TOGETHER])
        return [((pair.first, pair.second), proof) for pair, proof in proofs if proof]

    with ThreadPoolExecutor(cores()) as executor:
        for begin in range(0, len(pairs), AT_ONCE):
            checkpoint()
            end = min(begin + AT_ONCE, len(pairs))
            for proofs in executor.map(prove_some, range(begin, end, TOGETHER)):
                yield from proofs
            progress("comparing pictures", end, len(pairs))


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
) -> Iterator[DuplicateGroup]:
    """Yield the groups with the changes of their members."""
    with ThreadPoolExecutor(cores()) as executor:
        for begin in range(0, len(groups), GROUPS_AT_ONCE):
            checkpoint()
            some = groups[begin : begin + GROUPS_AT_ONCE]
            yield from executor.map(partial(_group, numbered, pictures, proofs), some)


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
