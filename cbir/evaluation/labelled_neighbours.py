"""Images to be classified in a submission, and their labelled neighbours, by ordinary searches."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput, NotFound, UnreadableImage
from cbir.evaluation.code_voting import NeighbourLabels
from cbir.evaluation.datasets.irma.codes import CLUTTER, strip_zeros
from cbir.evaluation.datasets.irma.label_files import label_kind, normalise_label
from cbir.images import Limits, read_images
from cbir.ingest.manifest import Manifest
from cbir.search import Answer, Request, Searcher, Stopwatch, select_frame
from cbir.store import Record
from cbir.store.records.filter_conditions import Condition
from cbir.store.records.records import hash_patient
from cbir.system.threads import cores

SUFFIXES = {".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".dcm"}


@dataclass(frozen=True)
class IrmaQuery:
    """One image.

    label: the true one as written; patient: the identifier; "" if unknown.
    """

    path: Path
    image_id: str
    label: str = ""
    patient: str = ""


def find_irma_queries(source: Path, key: str) -> list[IrmaQuery]:
    """Return the images of a manifest (csv with `path`, and irma_id unless it is the file name) or of a folder.

    `key` is the column with the true label. Raises InvalidInput if there is none, or two have the same id.
    """
    if source.is_dir():
        queries = [IrmaQuery(path, strip_zeros(path.stem)) for path in _find_images(source)]
    elif source.is_file():
        queries = _read_manifest(source, key)
    else:
        raise NotFound(f"there is no folder or manifest {source}")
    seen: dict[str, Path] = {}
    for query in queries:
        if query.image_id in seen:
            raise InvalidInput(
                f"two images have the id {query.image_id}: {seen[query.image_id]} and {query.path}"
            )
        seen[query.image_id] = query.path
    if not queries:
        raise InvalidInput(f"{source} contains no image")
    return queries


def _find_images(folder: Path) -> list[Path]:
    return sorted(
        Path(parent) / name
        for parent, _, names in os.walk(folder)
        for name in names
        if Path(name).suffix.lower() in SUFFIXES and not name.startswith(".")
    )


def _read_manifest(path: Path, key: str) -> list[IrmaQuery]:
    return [
        IrmaQuery(
            file,
            strip_zeros(labels.get("irma_id") or file.stem),
            labels.get(key, ""),
            labels.get("patient", ""),
        )
        for file, labels in Manifest(path).rows()
    ]


Progress = Callable[[int], None]

Q = TypeVar("Q")

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Labelled images of a collection, to learn from.

    key: name of the label. numbers: of each distinct label in its usual form. images: record and label's number.
    """

    key: str
    labelling: str
    numbers: dict[str, int]
    images: list[tuple[Record, int]]

    def number(self, text: str) -> int:
        """Return the number of a label in any spelling, -1 if no training image has it."""
        return self.numbers.get(normalise_label(text, self.labelling) or "", -1)


def labelled_images(
    searcher: Searcher, key: str, labelling: str, where: Sequence[str | Condition] = ()
) -> LabelledImages:
    """Return the images of the collection with a usable label; clutter has no vote.

    Parameters
    ----------
    searcher : Searcher
    key : str
        Name of the label.
    labelling : {"2008", "2005"}
        Codes or classes.
    where : sequence of str or Condition
        Conditions on the images.

    Raises
    ------
    InvalidInput
        If fewer than two images remain.
    """
    collection = searcher.collection
    conditions = collection.conditions(where)
    selected = set(collection.matching_numbers(conditions).tolist()) if where else None
    usable, unusable = [], []
    for number, record in collection.iterate():
        text = record.labels.get(key, "")
        label = normalise_label(text, labelling)
        if selected is not None and number not in selected:
            continue
        if label and label != CLUTTER:
            usable.append((record, label))
        elif text and not label:
            unusable.append(text)
    if len(usable) < 2:
        kind = label_kind(labelling)
        raise InvalidInput(
            f"{collection.folder} has {len(usable)} images to learn from by the label {key}"
            + (f", whose values are no IRMA {kind}, such as {unusable[0]!r}" if unusable else "")
            + "; index training images with their manifest (cbir irma manifest), or name the label with --label"
        )
    distinct = sorted({label for _, label in usable}, key=lambda label: (len(label), label))
    numbers = {label: number for number, label in enumerate(distinct)}
    return LabelledImages(key, labelling, numbers, [(record, numbers[label]) for record, label in usable])


def neighbours_of_training(
    searcher: Searcher, learned: LabelledImages, request: Request, count: int, seed: int, progress: Progress
) -> tuple[NeighbourLabels, NDArray[np.int64]]:
    """Search a random sample of training images, without copies of the picture and images of the same patient.

    Parameters
    ----------
    searcher : Searcher
    learned : LabelledImages
        Training images.
    request : Request
    count : int
        Size of the sample.
    seed : int
    progress : callable
        Gets the number of searches done.

    Returns
    -------
    NeighbourLabels, (n,) int64
        Neighbours, and numbers of the true labels.
    """
    generator = np.random.default_rng(seed)
    rows = generator.permutation(len(learned.images))[:count]
    sample = [learned.images[row] for row in rows.tolist()]

    def search(record: Record) -> Answer:
        without = request.model_copy(update={"exclude_patient": record.patient_key})
        return searcher.by_id(record.image_id, without, Stopwatch())

    answers = _map_on_all_cores(search, [record for record, _ in sample], progress)
    return _collect(answers, learned, request.k), np.array([label for _, label in sample], np.int64)


def neighbours_of_files(
    searcher: Searcher,
    learned: LabelledImages,
    request: Request,
    queries: Sequence[IrmaQuery],
    progress: Progress,
) -> tuple[NeighbourLabels, dict[Path, str]]:
    """Search image files, without images of the patient that the manifest or DICOM names.

    Parameters
    ----------
    searcher : Searcher
    learned : LabelledImages
        Training images.
    request : Request
    queries : sequence of IrmaQuery
    progress : callable
        Gets the number of searches done.

    Returns
    -------
    NeighbourLabels, dict of Path to str
        Neighbours, and reasons why files cannot be read; those have no neighbours.
    """
    limits, secret = Limits.from_settings(searcher.settings), searcher.collection.secret
    refused: dict[Path, str] = {}

    def search(query: IrmaQuery) -> Answer | None:
        try:
            image = select_frame(read_images(query.path, limits=limits), None, str(query.path))
        except UnreadableImage as error:
            refused[query.path] = str(error)
            return None
        patient = query.patient or (image.dicom.patient_id if image.dicom else "")
        without = request.model_copy(update={"exclude_patient": hash_patient(secret, patient)})
        return searcher.by_image(image, without, Stopwatch())

    return _collect(_map_on_all_cores(search, queries, progress), learned, request.k), refused


def _map_on_all_cores(search: Callable[[Q], A], queries: Sequence[Q], progress: Progress) -> list[A]:
    answers = []
    with ThreadPoolExecutor(cores()) as executor:
        for answer in executor.map(search, queries):
            answers.append(answer)
            progress(len(answers))
    return answers


def _collect(answers: Sequence[Answer | None], learned: LabelledImages, k: int) -> NeighbourLabels:
    labels = np.full((len(answers), k), -1, np.int64)
    distances = np.full((len(answers), k), np.inf)
    for row, answer in enumerate(answers):
        for rank, hit in enumerate(answer.results if answer else ()):
            labels[row, rank] = learned.number(hit.labels.get(learned.key, ""))
            distances[row, rank] = hit.distance
    return NeighbourLabels(labels, distances)
