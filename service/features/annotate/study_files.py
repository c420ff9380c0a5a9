"""Files of a study: its rounds with their pairs, and a ranker for each training with its severity of all images."""

import io
import shutil
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cbir.descriptors.networks.model_card import read_model_card, read_verified
from cbir.errors import InvalidInput, find_denied
from cbir.learn.severity.judged_pairs import SeverityEstimate
from cbir.settings import Settings
from cbir.store import Collection
from cbir.store.base import stored_models
from cbir.store.base.collection_folder import share_with_group, writer_lock
from cbir.store.base.damage import raise_when_full
from cbir.system.files import os_errors, private_folder, sync_folder, write_bytes
from service.features.annotate.active import strategies
from service.features.annotate.active.judgement_journal import HEADER, ImageGrade, PairJudgement, read_journal
from service.features.annotate.reader_study.tables import images_in_studies
from service.state.database import open_state

if TYPE_CHECKING:
    from cbir.learn.severity.sampled_ranker import SampledRanker

ROUNDS = "rounds"
JOURNAL = "judgements.jsonl"
MODELS, SEVERITY = "models", "severity.npz"
RANKER = ("severity.safetensors", "severity.json")  # the names in `sampled_ranker`, which imports torch


def write_study_file(path: Path, content: bytes) -> None:
    """Write `content` to `path` atomically and durably; raise StorageFull on a full disk."""
    with raise_when_full(path.parent):
        private_folder(path.parent)
        write_bytes(path, content)


def write_arrays(path: Path, **arrays: ArrayLike) -> None:
    """Write named `arrays` to the npz file `path`, like `write_study_file`."""
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]  # numpy's other parameters have other types
    write_study_file(path, content.getvalue())


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays in `path` by name, without unpickling; raise ValueError if it is missing or damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(str(error)) from error


class AskedPair(NamedTuple):
    """A pair to judge; `first` is shown on the left, `everybody` is True if each annotator judges it."""

    first: str
    second: str
    everybody: bool = False

    @property
    def pair(self) -> tuple[str, str]:
        """Both image ids in ascending order."""
        return (self.first, self.second) if self.first < self.second else (self.second, self.first)


class StudyRound(BaseModel):
    """A round, numbered from 1; `provisional` if selected before the training on the previous rounds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int = Field(ge=1)
    provisional: bool
    pairs: tuple[AskedPair, ...]


def read_rounds(folder: Path) -> list[StudyRound]:
    """Return the rounds of the study in `folder`, in order; raise InvalidInput if one is missing or damaged."""
    rounds = []
    for path in sorted((folder / ROUNDS).glob("[0-9]*.json")):
        try:
            rounds.append(StudyRound.model_validate_json(path.read_bytes()))
        except ValidationError as error:
            raise InvalidInput(f"{path} is not a round of a study; restore it from a backup") from error
    if [round_.number for round_ in rounds] != list(range(1, len(rounds) + 1)):
        raise InvalidInput(f"rounds are missing in {folder / ROUNDS}; restore them from a backup")
    return rounds


def store_round(folder: Path, round_: StudyRound) -> None:
    """Write `round_` of the study in `folder`, replacing an earlier version; raise StorageFull on a full disk."""
    write_study_file(folder / ROUNDS / f"{round_.number:04d}.json", round_.model_dump_json().encode() + b"\n")


def images_in_all_studies(settings: Settings) -> dict[str, set[str]]:
    """Return the ids of all images in studies of readers, and in each annotation study."""
    database, root = open_state(settings), settings.annotation_studies
    mentions = {"reader studies": images_in_studies(database)} if database.exists() else {}
    if root and (denied := find_denied(root)):  # which a search for files would pass over
        raise denied
    for path in sorted(root.glob(f"*/{JOURNAL}")) if root else ():
        folder = path.parent
        mentions[f"annotation study {folder.name}"] = _judged_images(path).union(
            image for round_ in read_rounds(folder) for question in round_.pairs for image in question.pair
        )
    return mentions


def _judged_images(journal: Path) -> set[str]:
    images: set[str] = set()
    for entry in read_journal(journal):
        if isinstance(entry, PairJudgement):
            images.update(entry.pair)
        elif isinstance(entry, ImageGrade):
            images.add(entry.image)
    return images


def journal_path(folder: Path) -> Path:
    """Return the path of the journal of the study in `folder`; raise InvalidInput if it is gone.

    A journal is on disk before the first round.
    """
    path = folder / JOURNAL
    has_rounds = any((folder / ROUNDS).glob("[0-9]*.json"))
    if has_rounds and not (path.is_file() and path.stat().st_size >= len(HEADER)):
        raise InvalidInput(
            f"the judgements {path} are missing or empty, though people were asked; restore the file from a backup, "
            "or name another folder for a new study"
        )
    return path


def require_no_judgements(folder: Path) -> None:
    """Raise InvalidInput if the study in `folder`, which has no rounds, has judgements: its rounds are gone."""
    if has_judgements(folder):
        raise InvalidInput(
            f"the rounds in {folder / ROUNDS} are missing, though there are judgements; restore them from a backup"
        )


def has_judgements(folder: Path) -> bool:
    """Return whether the journal of the study in `folder` has any entry."""
    path = folder / JOURNAL
    return path.is_file() and path.stat().st_size > len(HEADER)


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
    target = folder / MODELS / f"{after:04d}-{entries:08d}"
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
    folders = sorted((folder / MODELS).glob("[0-9]*[0-9]"))
    return read_trained_model(folders[-1] / SEVERITY) if folders else None


def copy_ranker_to_collection(model: TrainedModel, collection: Collection) -> None:
    """Copy the ranker of `model` into `collection`.

    Like `stored_ranker.store_ranker`, but without torch. Raises CollectionBusy, StorageFull, and NotFound or
    InvalidInput if its files are missing, cannot be read or do not match; the collection keeps its ranker then.
    """
    contents = _read_ranker(model.folder)
    with writer_lock(collection.folder):
        stored_models.forget_ranker(collection.folder)
        for name, content in contents.items():
            write_study_file(collection.folder / stored_models.SEVERITY_FOLDER / name, content)
        stored_models.note_ranker(collection.folder)
        share_with_group(collection.folder / stored_models.SEVERITY_FOLDER)


def _read_ranker(folder: Path) -> dict[str, bytes]:
    """Return the files of a ranker by name, the weights as their card describes them."""
    weights, card = RANKER
    with os_errors(f"the ranker in {folder} cannot be read"):
        remedy = "training again (delete the folder)"
        facts = read_model_card(folder / card, "a ranker", remedy, lambda of: isinstance(of["sha256"], str))
        return {
            weights: read_verified(folder / weights, facts["sha256"]),
            card: (folder / card).read_bytes(),
        }


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
