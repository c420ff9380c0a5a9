"""What was learnt after each round: the ranker, and what it says of every image of the collection."""

import io
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cbir.active.study.study_files import write_study_file
from cbir.atomic import sync_folder
from cbir.errors import InvalidInput
from cbir.severity.severity_estimate import SeverityEstimate
from cbir.store import Collection, severity_model
from cbir.store.writer_lock import writer_lock

if TYPE_CHECKING:
    from cbir.severity.bayesian_ranker import BayesianRanker

FOLDER, SEVERITY = "models", "severity.npz"
RANKER = (
    "severity.safetensors",
    "severity.json",
)  # as `cbir.severity.bayesian_files` has them, which needs torch


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """after: the round it was learnt after. judgements: it learnt from. ids: (n,) of the images of `severity`."""

    after: int
    judgements: int
    ids: tuple[str, ...]
    severity: SeverityEstimate

    def of(self, ids: Sequence[str]) -> tuple[SeverityEstimate, NDArray[np.bool_]]:
        """What is said of these images, zeros for those that it has not seen, and which it has (len(ids),)."""
        place = {image: row for row, image in enumerate(self.ids)}
        rows = np.array([place.get(image, -1) for image in ids], np.int64)
        seen = rows >= 0

        def take(values: NDArray[np.float32]) -> NDArray[np.float32]:
            found = np.zeros((len(ids), *values.shape[1:]), np.float32)
            found[seen] = values[rows[seen]]
            return found

        one = self.severity
        scores = None if one.scores is None else np.ascontiguousarray(take(one.scores.T).T)
        return SeverityEstimate(take(one.mean), take(one.variance), take(one.features), scores), seen


def store_model(
    folder: Path,
    ranker: "BayesianRanker",
    after: int,
    judgements: int,
    ids: Sequence[str],
    severity: SeverityEstimate,
) -> None:
    """Store ranker and severities of the study in `folder`, in one step; InvalidInput where one is no number."""
    if not (np.isfinite(severity.mean).all() and np.isfinite(severity.variance).all()):
        raise InvalidInput("what was learnt gives severities that are no finite numbers, so it is not kept")
    target = folder / FOLDER / f"{after:04d}"
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    ranker.save(partial, {"after": after, "judgements": judgements})
    scores = np.empty((0, len(ids)), np.float32) if severity.scores is None else severity.scores
    content = io.BytesIO()
    np.savez(
        content,
        after=after,
        judgements=judgements,
        ids=np.array(ids, str),
        mean=severity.mean,
        variance=severity.variance,
        features=severity.features,
        scores=scores,
    )
    write_study_file(partial / SEVERITY, content.getvalue())
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    sync_folder(target.parent)


def latest_model(folder: Path) -> TrainedModel | None:
    """What was learnt last in the study in `folder`; None where nothing was. Raises InvalidInput."""
    found = sorted((folder / FOLDER).glob("[0-9]*[0-9]"))
    return read_trained_model(found[-1] / SEVERITY) if found else None


def copy_ranker_to_collection(folder: Path, after: int, collection: Collection) -> None:
    """Copy the ranker learnt after that round into the collection, as `cbir.severity.stored_ranker.store_ranker` does, without torch.

    Raises CollectionBusy, StorageFull.
    """
    with writer_lock(collection.folder):
        for name in RANKER:
            content = (folder / FOLDER / f"{after:04d}" / name).read_bytes()
            write_study_file(collection.folder / severity_model.FOLDER / name, content)


def read_trained_model(path: Path) -> TrainedModel:
    """One file of severities; nothing is unpickled. Raises InvalidInput."""
    try:
        with np.load(path, allow_pickle=False) as held:
            scores = held["scores"] if len(held["scores"]) else None
            severity = SeverityEstimate(held["mean"], held["variance"], held["features"], scores)
            ids = tuple(held["ids"].tolist())
            made = TrainedModel(int(held["after"]), int(held["judgements"]), ids, severity)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInput(
            f"{path} is not what a study's ranker says; delete that folder to learn anew"
        ) from error
    if len(made.ids) != len(made.severity):
        raise InvalidInput(f"{path} is not what a study's ranker says; delete that folder to learn anew")
    return made
