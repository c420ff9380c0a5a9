"""Queries of an evaluation, relevance judgements (qrels), and runs in memory: ranked answers with their gains."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput, UnreadableImage
from cbir.evaluation.relevance import Candidates, Relevance, encode_values
from cbir.ingest.description import DescribedFile
from cbir.ingest.manifest import Manifest
from cbir.store import Record
from cbir.store.records.filter_conditions import parse_filters
from cbir.store.records.records import hash_patient

LISTED = 5  # files in an error message
Labels = Mapping[str, str]
Ints = NDArray[np.int64]
BLOCK = 256  # queries at a time: some megabytes


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


@dataclass(frozen=True, eq=False)
class Qrels:
    """Relevance by labels, complete except for images without the required labels.

    queries: those with a relevant image. classes: (n,) of the candidates and query_classes (q,): equal if all
    criteria, the grade included, agree; -1: not judged. titles: of the classes by number. positions: for each query
    the ascending positions (m,) of the candidates with a gain, gains: (m,) of them. level: the smallest gain that
    counts as relevant for binary metrics. spread: largest minus smallest grade, 0 without grades.
    without_relevant: queries without a relevant image, which no average includes.
    """

    relevance: Relevance
    queries: Sequence[EvalQuery]
    classes: Ints
    query_classes: Ints
    titles: Sequence[str]
    positions: Sequence[Ints]
    gains: Sequence[Ints]
    level: int
    spread: int
    without_relevant: Sequence[EvalQuery]

    @cached_property
    def relevant(self) -> Ints:
        """Number of relevant images of each query, (q,)."""
        return np.array([np.count_nonzero(gains >= self.level) for gains in self.gains], np.int64)

    @property
    def unjudged(self) -> int:
        """Number of candidates without the labels; they count as not relevant."""
        return int((self.classes < 0).sum())


def build_qrels(
    candidates: Candidates,
    queries: Sequence[EvalQuery],
    relevance: Relevance,
    *,
    level: int | None = None,
    same_patient: bool = False,
) -> Qrels:
    """Judge every candidate for every query by their labels.

    Parameters
    ----------
    candidates : Candidates
    queries : sequence of EvalQuery
        They must have the labels that `relevance` needs. A query's own picture is never relevant to it.
    relevance : Relevance
    level : int, optional
        Smallest gain that counts as relevant; by default 1, or the largest gain (an equal grade) with grades.
    same_patient : bool
        Judge images of the query's own patient too.

    Raises
    ------
    InvalidInput
        If labels or level do not fit, or no query has a relevant image.
    """
    n = len(candidates)
    rows = [record.labels for record in candidates.records] + [query.labels for query in queries]
    titles: dict[tuple[str, ...], int] = {}
    groups = encode_values((relevance.group(labels) for labels in rows), {})
    grades = np.array([relevance.grade_of(labels) or 0 for labels in rows], np.int64)
    classes = encode_values((relevance.class_of(labels) for labels in rows), titles)
    judged = grades[:n][groups[:n] >= 0]
    spread = int(np.ptp(judged)) if len(judged) else 0
    level = _resolve_level(level, spread, relevance)
    answerable, without, positions, gains = [], [], [], []
    relevant = _relevant_candidates(candidates, queries, groups, same_patient)
    for row, (query, answers) in enumerate(zip(queries, relevant, strict=True), start=n):
        # Without grades they and their spread are 0, and every gain is 1.
        gain = max(spread, 1) - np.abs(grades[answers] - grades[row])
        if (gain >= level).any():
            answerable.append(row)
            positions.append(answers[gain > 0])
            gains.append(gain[gain > 0])
        else:
            without.append(query)
    if not answerable:
        raise InvalidInput(f"by '{relevance.text}' no image of the collection is relevant to any query")
    return Qrels(
        relevance=relevance, queries=[queries[row - n] for row in answerable], classes=classes[:n],
        query_classes=classes[answerable], titles=[" / ".join(values) for values in titles],
        positions=positions, gains=gains, level=level, spread=spread, without_relevant=without,
    )  # fmt: skip


def _relevant_candidates(
    candidates: Candidates, queries: Sequence[EvalQuery], groups: Ints, same_patient: bool
) -> Iterator[Ints]:
    """Yield for each query the ascending positions of its group, without its picture and its patient's images."""
    records, n = candidates.records, len(candidates)
    contents = encode_values([r.content_hash for r in records] + [query.content for query in queries], {})
    patients = encode_values([r.patient_key for r in records] + [query.patient for query in queries], {})
    order = np.argsort(groups[:n], kind="stable")
    bounds = np.searchsorted(groups[order], np.arange(groups.max(initial=-1) + 2))
    for row, query in enumerate(queries, start=n):
        positions = order[bounds[groups[row]] : bounds[groups[row] + 1]]
        allowed = contents[positions] != contents[row]
        if query.patient and not same_patient:
            allowed &= patients[positions] != patients[row]
        yield positions[allowed]


def _resolve_level(level: int | None, spread: int, relevance: Relevance) -> int:
    if relevance.grade and not spread:
        raise InvalidInput(
            f"relevance by grade needs images of at least two grades in the label {relevance.grade}"
        )
    largest = max(spread, 1)
    if level is not None and not 1 <= level <= largest:
        raise InvalidInput(f"the level must be from 1 to {largest}, the largest gain; got {level}")
    return level or largest


@dataclass(frozen=True, eq=False)
class RunMatrix:
    """Answers to q queries.

    positions: (q, k) int32 of candidates, best first; -1 after the last answer of a query.
    """

    positions: NDArray[np.int32]

    @property
    def depth(self) -> int:
        """Number of answers to each query, k."""
        return int(self.positions.shape[1])


@dataclass(frozen=True, eq=False)
class JudgedBlock:
    """Relevance of the answers to q queries, best first.

    gains: (q, k), 0 if an answer is not relevant and after the last one. hits: (q, k), gain at least the level.
    classes: (q, k) of the answers, -1: not judged or after the last one. query_classes: (q,).
    relevant: (q,) number of relevant images in the collection, retrieved or not, at least 1. most_relevant: the
    largest such number of all queries of the run.
    """

    gains: Ints
    hits: NDArray[np.bool_]
    classes: Ints
    query_classes: Ints
    relevant: Ints
    most_relevant: int


def judged_blocks(run: RunMatrix, qrels: Qrels) -> Iterator[tuple[slice, JudgedBlock]]:
    """Yield the relevance of the answers of `run` by `qrels`, a slice of the queries at a time."""
    relevant = qrels.relevant
    gain_of = np.zeros(len(qrels.classes) + 1, np.int64)  # the last element is for "no answer"
    class_of = np.append(qrels.classes, -1)
    for start in range(0, len(run.positions), BLOCK):
        queries = slice(start, min(start + BLOCK, len(run.positions)))
        positions = run.positions[queries]
        gains = np.empty(positions.shape, np.int64)
        for row, query in enumerate(range(queries.start, queries.stop)):
            gain_of[qrels.positions[query]] = qrels.gains[query]
            np.take(gain_of, positions[row], out=gains[row], mode="wrap")
            gain_of[qrels.positions[query]] = 0
        yield (
            queries,
            JudgedBlock(
                gains,
                gains >= qrels.level,
                class_of[positions],
                qrels.query_classes[queries],
                relevant[queries],
                int(relevant.max()),
            ),
        )
