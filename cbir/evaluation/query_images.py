"""Queries of an evaluation: images of the collection itself, or files that a csv lists."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput, UnreadableImage
from cbir.evaluation.relevance import Candidates, Relevance
from cbir.ingest.description import DescribedFile
from cbir.ingest.manifest import Manifest
from cbir.store import Record
from cbir.store.records.filter_conditions import parse_filters
from cbir.store.records.records import hash_patient

LISTED = 5  # files in an error message

Labels = Mapping[str, str]


@dataclass(frozen=True, eq=False)
class EvalQuery:
    """One query.

    name: in run files: the image id, which a file that is not in the collection would have there. image_id: of an
    image of the collection. content: hash of the picture. patient: the key, never the identifier. source, frame:
    of the picture; burned_in: DICOM says that it holds text. row: of the csv, from 1. raw: (d,) float32, vector of
    a file.
    """

    name: str
    image_id: str | None
    content: str
    patient: str | None
    labels: Labels
    source: str
    frame: int | None = None
    burned_in: bool = False
    row: int | None = None
    raw: NDArray[np.float32] | None = None


def leave_one_out(candidates: Candidates, positions: Iterable[int]) -> list[EvalQuery]:
    """Return the candidates at `positions` as queries, each against all others."""
    records = [candidates.records[position] for position in positions]
    return [_to_query(record, record.image_id, record.labels, image_id=record.image_id) for record in records]


def _to_query(record: Record, name: str, labels: Labels, **more: Any) -> EvalQuery:
    values = {"image_id": None, "patient": record.patient_key, "source": record.source} | more
    return EvalQuery(
        name=name, content=record.content_hash, labels=labels, frame=record.frame, burned_in=record.burned_in,
        **values,
    )  # fmt: skip


def read_query_list(path: Path) -> list[tuple[Path, dict[str, str]]]:
    """Return absolute paths and labels of a csv with a column `path`, in its order; raise InvalidInput if empty."""
    entries = list(Manifest(path).rows())
    if not entries:
        raise InvalidInput(f"{path} names no queries; it needs a line for each image")
    return entries


def matching_entries(
    entries: Sequence[tuple[Path, dict[str, str]]], where: Sequence[str], source: Path
) -> list[int]:
    """Return the indices of the rows of a csv that fulfil every condition.

    Parameters
    ----------
    entries : sequence of (path, labels)
    where : sequence of str
        Conditions such as "split=test".
    source : Path
        The csv, for messages.

    Raises
    ------
    InvalidInput
        If no row is left.
    """
    conditions = parse_filters(where)
    matching = [
        index
        for index, (_, labels) in enumerate(entries)
        if all(condition.holds_for(labels) for condition in conditions)
    ]
    if not matching:
        raise InvalidInput(f"{source} names no query with {' and '.join(where)}")
    return matching


def queries_from_files(
    entries: Sequence[tuple[Path, dict[str, str]]],
    rows: Sequence[int],
    described: Sequence[DescribedFile],
    secret: bytes,
) -> list[EvalQuery]:
    """Return the described rows of a csv as queries.

    Parameters
    ----------
    entries : sequence of (path, labels)
        All rows; a label `patient` takes precedence over the patient in DICOM.
    rows : sequence of int
        Indices of the described rows.
    described : sequence of DescribedFile
        One for each of `rows`.
    secret : bytes
        Key of the collection's patient hashes.

    Raises
    ------
    UnreadableImage
        If files were refused; names the first of them.
    """
    refused = [
        (entries[row][0], file.refused)
        for row, file in zip(rows, described, strict=True)
        if file.refused is not None
    ]
    if refused:
        reasons = "; ".join(f"{path}: {reason}" for path, reason in refused[:LISTED])
        raise UnreadableImage(
            f"{len(refused)} query files cannot be read; repair them or remove their lines: {reasons}"
        )
    names = unique_names([file.records[0].content_hash for file in described])
    queries = []
    for name, row, file in zip(names, rows, described, strict=True):
        path, labels = entries[row]
        record = file.records[0]
        patient = hash_patient(secret, labels.get("patient", "")) or record.patient_key
        labels = {key: value for key, value in labels.items() if key != "patient"}
        more = {"patient": patient, "source": str(path), "row": row + 1, "raw": file.vectors[0]}
        queries.append(_to_query(record, name, labels, **more))
    return queries


def unique_names(names: Sequence[str]) -> list[str]:
    """Return `names` made unique: repeated ones end with -2, -3, ..."""
    seen: Counter[str] = Counter()
    result = []
    for name in names:
        seen[name] += 1
        result.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return result


def sample_queries(
    labels: Sequence[Labels], relevance: Relevance, sample: int | None, seed: int
) -> list[int]:
    """Select the queries to run.

    Parameters
    ----------
    labels : sequence of mappings
        Labels of all queries; those without the labels that relevance needs are left out.
    relevance : Relevance
        Defines the classes.
    sample : int or None
        Number of queries, drawn from each class in turn; None: all.
    seed : int

    Returns
    -------
    list of int
        Ascending indices.

    Raises
    ------
    InvalidInput
        If no query has the labels.
    """
    members: dict[tuple[str, ...], list[int]] = {}
    for index, of_query in enumerate(labels):
        class_name = relevance.class_of(of_query)
        if class_name is not None:
            members.setdefault(class_name, []).append(index)
    if not members:
        raise InvalidInput(
            f"no query has the labels that relevance by '{relevance.text}' needs: {', '.join(relevance.needs)}"
        )
    if sample is None:
        return sorted(index for indices in members.values() for index in indices)
    generator = np.random.default_rng(seed)
    shuffled = [generator.permutation(indices).tolist() for indices in members.values()]
    rounds = zip_longest(*shuffled)
    turns = [index for indices in rounds for index in indices if index is not None]
    return sorted(turns[:sample])
