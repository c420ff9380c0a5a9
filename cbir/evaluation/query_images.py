"""The queries of an evaluation: images of the collection itself, or files named by a csv."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir.datasets.manifest import Manifest
from cbir.errors import InvalidInput, UnreadableImage
from cbir.evaluation.candidates import Candidates
from cbir.evaluation.relevance import Relevance
from cbir.evaluation.search_pool import DescribedQuery
from cbir.store import Record
from cbir.store.records import hash_patient

NAMED = 5  # files that an error lists

Labels = Mapping[str, str]


@dataclass(frozen=True, eq=False)
class EvalQuery:
    """One query.

    name: in the run files: its image id; of a file, which is not in the collection, the id it would have there.
    image_id: set for an image of the collection. patient: the key, never the identifier. source, frame: where
    the picture is; burned_in: whether DICOM says that it holds text. row: of the csv, from 1. raw: (d,) float32,
    what the descriptor said of a file.
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


def leave_one_out(candidates: Candidates, places: Iterable[int]) -> list[EvalQuery]:
    """The candidates at these places, each as a query against all others."""
    return [_of_collection(candidates.records[place]) for place in places]


def _of_collection(record: Record) -> EvalQuery:
    return EvalQuery(
        name=record.image_id,
        image_id=record.image_id,
        content=record.content_hash,
        patient=record.patient_key,
        labels=record.labels,
        source=record.source,
        frame=record.frame,
        burned_in=record.burned_in,
    )


def read_query_list(path: Path) -> list[tuple[Path, dict[str, str]]]:
    """Files (absolute) and labels of a csv with a column `path`, in its order; raises InvalidInput."""
    entries = list(Manifest(path).rows())
    if not entries:
        raise InvalidInput(f"{path} names no queries; it needs a line for each image")
    return entries


def queries_from_files(
    entries: Sequence[tuple[Path, dict[str, str]]],
    rows: Sequence[int],
    described: Sequence[DescribedQuery],
    secret: bytes,
) -> list[EvalQuery]:
    """Queries of the csv's rows (from 0) that were described; raises UnreadableImage, naming the first such files.

    secret: of the collection, with which patients become keys; the csv's come before those of DICOM.
    """
    refused = [
        (entries[row][0], it.refused) for row, it in zip(rows, described, strict=True) if it.raw is None
    ]
    if refused:
        named = "; ".join(f"{file}: {why}" for file, why in refused[:NAMED])
        raise UnreadableImage(
            f"{len(refused)} of the query files cannot be read; mend them or take their lines out: {named}"
        )
    names = unique_names([it.content for it in described])
    made = []
    for name, row, it in zip(names, rows, described, strict=True):
        file, labels = entries[row]
        patient = hash_patient(secret, labels.get("patient", "")) or it.patient
        kept = {key: value for key, value in labels.items() if key != "patient"}
        made.append(
            EvalQuery(
                name=name,
                image_id=None,
                content=it.content,
                patient=patient,
                labels=kept,
                source=str(file),
                frame=it.frame,
                burned_in=it.burned_in,
                row=row + 1,
                raw=it.raw,
            )
        )
    return made


def unique_names(names: Sequence[str]) -> list[str]:
    """Names made different: later ones of equal names end with -2, -3, ..."""
    seen: Counter[str] = Counter()
    made = []
    for name in names:
        seen[name] += 1
        made.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return made


def sample_queries(
    labelled: Sequence[Labels], relevance: Relevance, sample: int | None, seed: int
) -> list[int]:
    """Places of the queries to run, ascending: those with the labels that relevance needs, or a sample of them.

    A sample takes one of each class in turn until there are enough. Raises InvalidInput where none is left.
    """
    members: dict[tuple[str, ...], list[int]] = {}
    for place, labels in enumerate(labelled):
        its_class = relevance.class_of(labels)
        if its_class is not None:
            members.setdefault(its_class, []).append(place)
    if not members:
        raise InvalidInput(
            f"no query has the labels that relevance by '{relevance.text}' needs: {', '.join(relevance.needs)}"
        )
    if sample is None:
        return sorted(place for places in members.values() for place in places)
    generator = np.random.default_rng(seed)
    shuffled = [generator.permutation(places).tolist() for places in members.values()]
    turns = [
        places[turn] for turn in range(max(map(len, shuffled))) for places in shuffled if turn < len(places)
    ]
    return sorted(turns[:sample])
