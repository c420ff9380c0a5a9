"""Rankers of a study, one per training, with their severity of all images."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput
from cbir.learn.severity.judged_pairs import SeverityEstimate
from cbir.store import Collection
from cbir.store.base import stored_models
from cbir.store.base.collection_folder import share_with_group, writer_lock
from cbir.system.files import sync_folder
from service.features.annotate.active import strategies
from service.features.annotate.study.study_files import read_arrays, write_arrays, write_study_file

if TYPE_CHECKING:
    from cbir.learn.severity.sampled_ranker import SampledRanker

FOLDER, SEVERITY = "models", "severity.npz"
RANKER = ("severity.safetensors", "severity.json")  # the names in `sampled_ranker`, which imports torch


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """Result of the training after round `after`, from so many `judgements`: the `severity` of the images `ids`.

    `folder` has its ranker. It was trained on the first `entries` entries of the journal; 0 if an earlier version did
    not store the number.
    """

    folder: Path
    after: int
    judgements: int
    entries: int
    ids: tuple[str, ...]
    severity: SeverityEstimate

    def serves(self, strategy: str) -> bool:
        """Return False if `strategy` needs the encoder's features, and an earlier one did not."""
        return self.severity.encoder_features is not None or not strategies.strategy(strategy).needs_encoder

    def of(self, ids: Sequence[str]) -> tuple[SeverityEstimate, NDArray[np.bool_]]:
        """Return the severity of `ids`, zeros for unknown images, and a mask of the known ones."""
        row_of = {image_id: row for row, image_id in enumerate(self.ids)}
        rows = np.array([row_of.get(image_id, -1) for image_id in ids], np.int64)
        is_known = rows >= 0

        def take(values: NDArray[np.float32]) -> NDArray[np.float32]:
            selected = np.zeros((len(ids), *values.shape[1:]), np.float32)
            selected[is_known] = values[rows[is_known]]
            return selected

        severity = self.severity
        scores = None if severity.scores is None else np.ascontiguousarray(take(severity.scores.T).T)
        mean, variance, features = map(take, (severity.mean, severity.variance, severity.features))
        encoded = None if severity.encoder_features is None else take(severity.encoder_features)
        return SeverityEstimate(mean, variance, features, scores, encoded), is_known


def store_trained_model(
    folder: Path, ranker: "SampledRanker", after: int, judgements: int, ids: Sequence[str],
    severity: SeverityEstimate, entries: int = 0, where: Sequence[str] = (),
) -> None:  # fmt: skip
    """Store a trained ranker and its severity atomically.

    Parameters
    ----------
    folder : Path
        Folder of the study.
    ranker : SampledRanker
    after : int
        Number of the last round it was trained on.
    judgements : int
        Number of pairs it was trained on.
    ids : sequence of str
        Ids of the images of `severity`.
    severity : SeverityEstimate
    entries : int
        Number of entries of the journal when training began.
    where : sequence of str
        Conditions on the images of the study, which the card of the ranker names.

    Raises
    ------
    InvalidInput
        If a severity is not finite.
    """
    if not (np.isfinite(severity.mean).all() and np.isfinite(severity.variance).all()):
        raise InvalidInput("the trained ranker gives severities that are not finite, so it is not stored")
    target = folder / FOLDER / f"{after:04d}-{entries:08d}"
    partial = target.with_name(f"{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    ranker.save(partial, {"after": after, "judgements": judgements, "where": list(where)})
    values = {name: getattr(severity, name) for name in ("mean", "variance", "features")}
    values["scores"] = np.empty((0, len(ids)), np.float32) if severity.scores is None else severity.scores
    if severity.encoder_features is not None:
        values["encoder_features"] = severity.encoder_features
    counts = {"after": after, "judgements": judgements, "entries": entries}
    write_arrays(partial / SEVERITY, ids=np.array(ids, str), **counts, **values)
    earlier = sorted(target.parent.glob(f"{after:04d}*[0-9]"))
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)
    sync_folder(target.parent)
    for old in earlier[:-1]:  # the last one may be read at this moment
        shutil.rmtree(old, ignore_errors=True)


def latest_model(folder: Path) -> TrainedModel | None:
    """Return the latest model of the study in `folder`, None before the first; raise InvalidInput if damaged."""
    folders = sorted((folder / FOLDER).glob("[0-9]*[0-9]"))
    return read_trained_model(folders[-1] / SEVERITY) if folders else None


def copy_ranker_to_collection(model: TrainedModel, collection: Collection) -> None:
    """Copy the ranker of `model` into `collection`.

    Like `stored_ranker.store_ranker`, but without torch. Raises CollectionBusy, StorageFull.
    """
    with writer_lock(collection.folder):
        stored_models.forget_ranker(collection.folder)
        for name in RANKER:
            content = (model.folder / name).read_bytes()
            write_study_file(collection.folder / stored_models.SEVERITY_FOLDER / name, content)
        stored_models.note_ranker(collection.folder)
        share_with_group(collection.folder / stored_models.SEVERITY_FOLDER)


def read_trained_model(path: Path) -> TrainedModel:
    """Read a file of severities, without unpickling; raise InvalidInput if it is damaged."""
    try:
        arrays = read_arrays(path)
        ids, scores = tuple(arrays["ids"].tolist()), arrays["scores"] if len(arrays["scores"]) else None
        severity = SeverityEstimate(
            arrays["mean"], arrays["variance"], arrays["features"], scores, arrays.get("encoder_features")
        )
        if len(ids) != len(severity):
            raise ValueError
        after, judgements = int(arrays["after"]), int(arrays["judgements"])
        return TrainedModel(path.parent, after, judgements, int(arrays.get("entries", 0)), ids, severity)
    except (ValueError, KeyError) as error:
        raise InvalidInput(
            f"{path} is not a valid model of a study; delete its folder to train again"
        ) from error
