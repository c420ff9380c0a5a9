"""A ranker learns from a study's judgements, in a process of its own: `python -m cbir.active.study.study_training`."""

import os
import signal
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import numpy as np
from numpy.typing import NDArray

from cbir.active import judgement_journal
from cbir.active.judgement_journal import PairAnswer, PairJudgement
from cbir.active.study import study_models, study_plan
from cbir.active.study.study import JOURNAL
from cbir.active.study.study_images import read_study_images
from cbir.errors import CbirError
from cbir.file_lock import try_lock
from cbir.store import Collection

NICENESS = 10
STOPPED, NOTHING, FAILED = 3, 4, 5  # exit codes
LABELS = {PairAnswer.first: 1.0, PairAnswer.alike: 0.5, PairAnswer.second: 0.0}
LOCK, CACHE = "learning.lock", "pictures.npz"

Stop = Callable[[], bool]


def training_pairs(
    judgements: Sequence[PairJudgement], ids: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Pairs (m, 2) of rows of `ids` and labels (m,) 1, 0.5 or 0; without skips and images that are not there."""
    row = {image: place for place, image in enumerate(ids)}
    told = [
        (row[one.first], row[one.second], LABELS[one.answer])
        for one in judgements
        if one.answer in LABELS and one.first in row and one.second in row
    ]
    pairs = np.array([(first, second) for first, second, _ in told], np.int64).reshape(-1, 2)
    return pairs, np.array([label for _, _, label in told], np.float32)


def train_study(collection: Path, study: Path, after: int, stop: Stop) -> bool:
    """Learn from all standing judgements and keep ranker and severities; False where there is nothing to learn from.

    Nothing is kept once `stop` says True. Raises CbirError.
    """
    settings = study_plan.read_plan(study)
    with Collection(collection) as opened:
        ids = [record.image_id for _, record in opened.iterate()]
        ids, images = read_study_images(opened, ids, settings.side, study / CACHE, stop)
    pairs, labels = training_pairs(
        judgement_journal.valid_judgements(judgement_journal.read_journal(study / JOURNAL)), ids
    )
    if not len(pairs) or stop():
        return False
    from cbir.severity.bayesian_ranker import BayesianRanker

    _leave_a_core()
    ranker = BayesianRanker(
        settings.backbone, settings.side, passes=settings.passes, epochs=settings.epochs, steps=settings.steps,
        weights=settings.weights, seed=settings.seed,
    ).fit(images, pairs, labels, stop=stop)  # fmt: skip
    severity = ranker.severity(images)
    if not stop():
        study_models.store_model(study, ranker, after, len(pairs), ids, severity)
    return True


@contextmanager
def _alone(study: Path, stop: Stop) -> Iterator[None]:
    """Wait for an earlier process that learns the same, which ends by itself once its server is gone."""
    with (study / LOCK).open("a") as file:
        while not stop():
            if try_lock(file.fileno()):
                break
            time.sleep(0.1)
        yield


def main() -> int:
    """Learn, out of the way of whoever judges; end once told to, or once the process that began it is gone."""
    parser = ArgumentParser(description=main.__doc__)
    parser.add_argument("collection", type=Path)
    parser.add_argument("study", type=Path)
    parser.add_argument("after", type=int)
    parser.add_argument("parent", type=int, help="number of the process that this one ends with; 0 for none")
    wanted = parser.parse_args()
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda signal_, _: told.append(signal_))
    os.nice(NICENESS)

    def stop() -> bool:
        return bool(told) or (wanted.parent != 0 and os.getppid() != wanted.parent)

    Thread(target=_end_with, args=[wanted.parent], daemon=True).start()
    try:
        study_plan.read_plan(wanted.study)  # or there is nowhere to put the lock
        with _alone(wanted.study, stop):
            learnt = train_study(wanted.collection, wanted.study, wanted.after, stop)
    except CbirError as error:
        print(f"cbir: {error}", file=sys.stderr)
        return FAILED
    if stop():
        return STOPPED
    return 0 if learnt else NOTHING


def _end_with(parent: int) -> None:
    """End where nobody asks whether to stop, too; what is kept is kept in one step, so nothing is left half done."""
    while not parent or os.getppid() == parent:
        time.sleep(0.5)
    os._exit(STOPPED)


def _leave_a_core() -> None:
    """One core for the page, where there are several."""
    import torch

    from cbir.threads import cores

    torch.set_num_threads(max(1, cores() - 1))


if __name__ == "__main__":
    sys.exit(main())
