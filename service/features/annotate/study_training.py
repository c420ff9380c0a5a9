"""Training of a study's ranker, run as a process: `python -m service.features.annotate.study_training`."""

import os
import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cbir import settings
from cbir.errors import CbirError
from cbir.learn.severity.stored_images import matching_records, read_grey_image
from cbir.store import Collection
from cbir.system.files import try_lock
from cbir.system.ownership import open_or_create
from cbir.system.threads import cores, run_behind
from service.features.annotate import study_files, study_plan
from service.features.annotate.active import judgement_journal
from service.features.annotate.active.judgement_journal import LABELS, ImageGrade, PairJudgement
from service.features.annotate.study_files import journal_path, read_arrays, write_arrays

if TYPE_CHECKING:
    from cbir.learn.severity.sampled_ranker import SampledRanker

Pictures = NDArray[np.uint8]
NICENESS = 5  # behind what people wait for, but a tenth of a busy core would take minutes to learn a round
STOPPED, NOTHING, FAILED = 3, 4, 5  # exit codes
LOCK, CACHE = "learning.lock", "pictures.npz"
Stop = Callable[[], bool]


def read_study_images(
    collection: Collection, ids: Sequence[str], side: int, cache: Path, stop: Callable[[], bool]
) -> tuple[list[str], Pictures]:
    """Read images of a collection, from the cache or their files.

    Parameters
    ----------
    collection : Collection
    ids : sequence of str
        Ids of the images to read.
    side : int
        Side length in pixels.
    cache : Path
        File for the next call; images that are not in `ids` are removed from it.
    stop : callable
        Checked before each image; once it returns True, reading ends and the cache is not written.

    Returns
    -------
    list of str
        Ids of the images that could be read.
    (n, side, side) uint8
        Their pixels.
    """
    cached = _read_cache(cache, side)
    records = {record.image_id: record for _, record in collection.iterate()}
    max_pixels = settings.load().max_pixels
    images: dict[str, Pictures] = {}
    for image_id in ids:
        if stop():
            break
        if image_id in cached:
            images[image_id] = cached[image_id]
        elif image_id in records:
            image = read_grey_image(collection, records[image_id], side, max_pixels)
            if image is not None:
                images[image_id] = image
    stack = np.stack(list(images.values())) if images else np.empty((0, side, side), np.uint8)
    if images.keys() != cached.keys() and not stop():
        write_arrays(cache, ids=np.array(list(images), str), pictures=stack)
    return list(images), stack


def _read_cache(path: Path, side: int) -> dict[str, Pictures]:
    try:
        arrays = read_arrays(path)
        ids, pictures = arrays["ids"].tolist(), arrays["pictures"]
    except (ValueError, KeyError):
        return {}  # missing or damaged
    fits = pictures.dtype == np.uint8 and pictures.shape == (len(ids), side, side)
    return dict(zip(ids, pictures, strict=True)) if fits else {}


def training_pairs(
    judgements: Sequence[PairJudgement], ids: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return pairs (m, 2) of rows of `ids` and labels (m,) 1, 0.5 or 0; skips and unknown images are left out."""
    row = {image_id: number for number, image_id in enumerate(ids)}
    usable = [each for each in judgements if each.answer in LABELS and row.keys() >= set(each.pair)]
    pairs = [(row[judgement.first], row[judgement.second]) for judgement in usable]
    labels = [LABELS[judgement.answer] for judgement in usable]
    return np.array(pairs, np.int64).reshape(-1, 2), np.array(labels, np.float32)


def training_grades(grades: Sequence[ImageGrade], ids: Sequence[str]) -> NDArray[np.float32] | None:
    """Return the mean grade of each of `ids` (n,) over the people who graded it, NaN without; None without any."""
    by_image: dict[str, list[float]] = {image_id: [] for image_id in ids}
    for each in grades:
        if each.grade is not None:
            by_image.get(each.image, []).append(each.grade)
    means = [np.mean(values) if values else np.nan for values in by_image.values()]
    return np.array(means, np.float32) if any(by_image.values()) else None


def train_study(collection: Path, study: Path, after: int, stop: Stop) -> bool:
    """Train on all valid judgements and grades, and store the ranker and its severity.

    Parameters
    ----------
    collection, study : Path
        Folders.
    after : int
        Number of the last complete round.
    stop : callable
        Training ends and nothing is stored once it returns True.

    Returns
    -------
    bool
        False if there is nothing to train on.

    Raises
    ------
    CbirError
    """
    from cbir.learn.severity import severity_rankers
    from service.features.annotate.active.pair_selection import severity_for_strategy  # imports torch

    settings = study_plan.read_plan(study)
    with Collection(collection) as opened:
        where = opened.conditions(settings.where)
        ids = [record.image_id for _, record in matching_records(opened, where)]
        ranker = _new_ranker(settings)
        if settings.encoder is None:
            ids, images = read_study_images(opened, ids, settings.side, study / CACHE, stop)
        else:
            encoded = severity_rankers.read_ranker_inputs(opened, ranker, where)
            ids, images = [record.image_id for record in encoded.records], encoded.inputs
    entries = judgement_journal.read_journal(journal_path(study))
    pairs, labels = training_pairs(judgement_journal.valid_judgements(entries), ids)
    grades = training_grades(judgement_journal.valid_grades(entries), ids)
    if not (len(pairs) or grades is not None) or stop():
        return False
    _leave_one_core()
    ranker.fit(images, pairs, labels, grades, stop=stop)
    severity = severity_for_strategy(settings.strategy, ranker, images)
    if not stop():
        study_files.store_trained_model(
            study, ranker, after, len(pairs), ids, severity, len(entries), settings.where
        )
    return True


def _new_ranker(plan: study_plan.StudyPlan) -> "SampledRanker":
    from cbir.learn.severity.severity_rankers import new_ranker

    names = ("passes", "epochs", "steps", "seed", *(() if plan.encoder else ("backbone", "side", "weights")))
    return new_ranker(plan.encoder, {name: getattr(plan, name) for name in names})


@contextmanager
def _exclusive(study: Path, stop: Stop) -> Iterator[None]:
    """Wait for an earlier process of the same study, which ends by itself once its server is gone."""
    with open(open_or_create(study / LOCK, os.O_WRONLY, 0o666), "wb") as file:
        while not (stop() or try_lock(file.fileno())):
            time.sleep(0.1)
        yield


def main() -> int:
    """Train at low priority; stop on a signal, or when the parent process is gone."""
    parser = ArgumentParser(description=main.__doc__)
    parser.add_argument("collection", type=Path)
    parser.add_argument("study", type=Path)
    parser.add_argument("after", type=int)
    parser.add_argument(
        "parent", type=int, help="id of the parent process, with which this one ends; 0 for none"
    )
    args = parser.parse_args()
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signal_, _: signals.append(signal_))

    def stop() -> bool:
        return bool(signals) or (args.parent != 0 and os.getppid() != args.parent)

    run_behind(args.parent or None, NICENESS, STOPPED)  # storing is atomic
    try:
        study_plan.read_plan(args.study)  # so that there is a folder for the lock
        with _exclusive(args.study, stop):
            trained = train_study(args.collection, args.study, args.after, stop)
    except CbirError as error:
        print(f"cbir: {error}", file=sys.stderr)
        return FAILED
    if stop():
        return STOPPED
    return 0 if trained else NOTHING


def _leave_one_core() -> None:
    """Leave one core to the server, if there are several."""
    import torch

    torch.set_num_threads(max(1, cores() - 1))


if __name__ == "__main__":
    sys.exit(main())
