"""Choose the re-ranker that `auto` stands for: compare candidates on labelled images of the collection itself.

`python -m cbir.evaluation.auto_choice COLLECTION PARENT` chooses again in a process of its own, which ends with its
parent.
"""

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import CbirError, CollectionBusy, describe_unexpected
from cbir.evaluation.agreement_count import (
    LabelledRows,
    LabelNames,
    content_order,
    count_agreement,
    draw_in_order,
    read_labels,
    score_query,
)
from cbir.evaluation.relevance import encode_values
from cbir.gallery.gallery import Gallery
from cbir.rerank import CANDIDATES, AutoChoice, default_choice, get_tuned, read_choice
from cbir.rerank.answer_evidence import group_name
from cbir.rerank.reranker import Reranker
from cbir.rerank.simple_rerankers import NoReranking
from cbir.settings import load as load_settings
from cbir.store import Collection, View
from cbir.store.records.records import PERSON_LABELS
from cbir.store.writing.writer import Writer
from cbir.system.threads import OneBlasThread, run_behind

LEAST_LABELLED = 100  # images in classes of two or more; with fewer the comparison is left to chance
LEAST_MEAN_CLASS = 3.0  # images; labels that nearly every image has for itself say nothing about relevance
MOST_QUERIES, LEAST_QUERIES = 150, 50
LEAST_SEARCHES, MOST_SEARCHES = 300, 2000  # in which agreement is counted, for each value
SEARCHED = 16_000_000  # such searches times images, about
KEYS = 50  # labels that it is counted for
COMPARED = 2_000_000  # queries times images, about: a second on one core for a method that reads all vectors
USUAL_LABEL = "label"  # the key that commands take by default
# Standard errors; with less, luck costs first answers: bench/results/auto_choice.md
CLEAR, CLEAR_FIRST = 1.0, 2.0
FIRST_WEIGHT = 0.5  # of P@1, which is several times as noisy as AP
PLAIN: tuple[str, Mapping[str, float]] = (NoReranking.name, {})
Quality = NDArray[np.float64]
ShowStage = Callable[[str, int, int], None]

GROWTH = 2  # a new choice when the collection has so many times the images
NICENESS = 19
BUSY_SECONDS = 600.0  # to wait for another writer
FAILED, ORPHANED = 1, 2  # exit codes

log = logging.getLogger(__name__)


def show_nothing(stage: str, done: int, total: int) -> None:
    """Ignore a stage, its steps `done` and their `total`."""


def update_choice(
    collection: Collection,
    writer: Writer,
    labels_changed: bool = False,
    show: ShowStage = show_nothing,
) -> AutoChoice:
    """Choose again if the snapshot or labels have changed since, by the same label; store and return the choice.

    That of an earlier version, which had other candidates, is replaced too. Where a vector index stands for the
    vectors, which are too many to load, the choice stays.

    Parameters
    ----------
    collection : Collection
    writer : Writer
        Of the collection.
    labels_changed : bool
        Choose again though the snapshot is the same.
    show : callable
        Receives the stage, steps done and all steps.
    """
    if collection.is_left_to_index():
        return read_choice(collection.auto_choice(), collection.profile.descriptor)
    view = collection.view()
    choice = read_choice(view.auto, collection.profile.descriptor)
    if choice.images is None or labels_changed or choice.generation != view.snapshot_generation:
        choice = choose(collection, choice.label, show)
        writer.set_auto(choice.to_json())
    return choice


def choose(
    collection: Collection, label_key: str | None = None, show: ShowStage = show_nothing
) -> AutoChoice:
    """Return the best candidate on leave-one-out queries, without images of the query's patient: `best_candidate`.

    Parameters
    ----------
    collection : Collection
    label_key : str, optional
        Label that relevant images share; by default "label", or the key with the most classes.
    show : callable
        Receives the stage, steps done and all steps.

    Returns
    -------
    AutoChoice
        The descriptor's default where fewer than LEAST_LABELLED images share a label. With how often its answers
        agree rightly.
    """
    return with_agreement(collection, _choose(collection, label_key, show), show)


def _choose(collection: Collection, label_key: str | None, show: ShowStage) -> AutoChoice:
    view = collection.view()
    default = replace(
        default_choice(collection.profile.descriptor),
        generation=view.snapshot_generation,
        label=label_key,
        images=len(view),
    )
    key_and_rows = labelled_rows(collection, view, label_key)
    if key_and_rows is None:
        return default
    key, labelled = key_and_rows
    count = int(np.clip(COMPARED // len(labelled.rows), LEAST_QUERIES, MOST_QUERIES))
    tuned = collection.profile.rerank
    rerankers = [get_tuned(method, tuned, parameters) for method, parameters in CANDIDATES]
    with OneBlasThread():  # more wait for each other, and take three times as long on cores that are busy
        drawn = draw_in_order(labelled, content_order(collection, view, labelled.rows), count)
        scored = compare_candidates(view.gallery, labelled, rerankers, drawn, show)
    if not len(scored):
        return default
    means = np.mean(scored, axis=0)  # (candidates, 2)
    usual = CANDIDATES.index((default.method, default.parameters))
    best = best_candidate(scored, usual, CANDIDATES.index(PLAIN))
    method, parameters = CANDIDATES[best]
    against = "no other method is clearly better"
    if best != usual:
        other = "other parameters" if method == default.method else default.method
        against = f"preferred to {other}"
    if CANDIDATES[best] == PLAIN != CANDIDATES[usual]:
        against = f"{default.method} does not gain"
    reason = f"{against} on {len(scored)} images by {key}: {_quality(means[best])}"
    if method != NoReranking.name:
        reason += f"; without re-ranking {_quality(means[CANDIDATES.index(PLAIN)])}"
    return replace(default, method=method, reason=reason, parameters=parameters)


def with_agreement(collection: Collection, choice: AutoChoice, show: ShowStage = show_nothing) -> AutoChoice:
    """Return the choice with how often its answers agree rightly, for each label that classes share."""
    view = collection.view()
    keys = sorted(_keys_of_pictures(collection))[:KEYS]
    labels = {key: each for key, each in read_labels(collection, view, keys) if _has_classes(each)}
    if not labels:
        return replace(choice, evidence={})
    rows = next(iter(labels.values())).rows
    order = content_order(collection, view, rows)
    labelled = np.any([each.label >= 0 for each in labels.values()], axis=0)
    queries = int(np.clip(SEARCHED // max(len(view), 1), LEAST_SEARCHES, MOST_SEARCHES))
    drawn = np.random.default_rng(0).permutation(order[labelled[order]])[:queries]
    reranker = get_tuned(choice.method, collection.profile.rerank, choice.parameters)
    names = _names(collection, view.gallery.ids[rows].tolist(), labels)
    with OneBlasThread():
        step = partial(show, "counting answers that agree")
        evidence = count_agreement(view.gallery, labels, names, reranker, drawn, step)
    return replace(choice, evidence=evidence)


def _names(collection: Collection, numbers: list[int], labels: Mapping[str, LabelledRows]) -> LabelNames:
    """Return the values of the codes of labels, and the modality and body part of each image, as cards show them."""
    shown = load_settings().card_labels
    existing = set(collection.label_keys())
    by_key = {
        key: collection.labels_by_number(key)
        for key in {*labels, *shown.modality, *shown.body_part} & existing
    }
    values: dict[str, list[str]] = {}
    for key, each in labels.items():
        by_code = dict(zip(each.label.tolist(), map(by_key[key].get, numbers), strict=True))
        values[key] = [str(by_code[code]) for code in range(max(by_code) + 1)]

    def part(number: int, keys: Sequence[str]) -> str | None:
        return next((by_key[key][number] for key in keys if by_key.get(key, {}).get(number)), None)

    groups = [group_name(part(number, shown.modality), part(number, shown.body_part)) for number in numbers]
    codes: dict[Any, int] = {}
    coded = encode_values(groups, codes)
    return LabelNames(values, coded, [str(name) for name in codes])


def best_candidate(scored: Quality, usual: int, plain: int) -> int:
    """Return the candidate with the best mAP and P@1 of those clearly better than the usual one.

    A candidate qualifies if its mAP is not below that of no re-ranking, and its P@1 is not either or, where first
    answers differ, above it by CLEAR_FIRST standard errors of the paired differences; the usual one, for which other
    collections speak, if neither is below. It gives way to one whose AP plus FIRST_WEIGHT times P@1 is higher by
    more than CLEAR standard errors, or to no re-ranking if it does not qualify. First answers are so noisy that the
    best of nine would often be the luckiest.

    Parameters
    ----------
    scored : (q, r, 2) float64
        AP and P@1 of q queries with r candidates.
    usual : int
        Candidate that stays unless another one is clearly better.
    plain : int
        Candidate that does not re-rank.
    """
    gains = scored - scored[:, plain : plain + 1]
    means, errors = gains.mean(axis=0), _standard_error(gains)
    qualified = (means[:, 0] >= 0.0) & (means[:, 1] >= CLEAR_FIRST * errors[:, 1])
    qualified[usual] = (means[usual] >= 0.0).all()
    if not qualified[usual]:
        usual = plain
    values = scored[:, :, 0] + FIRST_WEIGHT * scored[:, :, 1]
    leads = values - values[:, usual : usual + 1]
    lead = leads.mean(axis=0)
    better = qualified & (lead > CLEAR * _standard_error(leads))
    better[usual] = False
    return int(np.argmax(np.where(better, lead, -np.inf))) if better.any() else usual


def _standard_error(gains: Quality) -> Quality:
    """Return standard errors of means over the first axis."""
    return np.asarray(gains.std(axis=0) / np.sqrt(len(gains)))


def _quality(means: Quality) -> str:
    return f"mAP {means[0]:.3f}, P@1 {means[1]:.3f}"


def compare_candidates(
    gallery: Gallery,
    labelled: LabelledRows,
    rerankers: Sequence[Reranker],
    drawn: NDArray[np.int64],
    show: ShowStage = show_nothing,
) -> Quality:
    """Score leave-one-out queries, without images of the query's own patient.

    Parameters
    ----------
    gallery : Gallery
        Vectors of the collection.
    labelled : LabelledRows
        Its rows with their labels and patients.
    rerankers : sequence of Reranker
        r methods.
    drawn : (d,) int64
        Indices of `labelled` to query with.
    show : callable
        Receives the stage, queries done and all queries.

    Returns
    -------
    (q, r, 2) float64
        AP and P@1; queries without a relevant image are left out.
    """
    scored = []
    for done, index in enumerate(drawn):
        show("comparing re-rankers", done, len(drawn))
        scored.append(score_query(gallery, labelled, index, rerankers))
    show("comparing re-rankers", len(drawn), len(drawn))
    return np.array([quality for quality in scored if quality is not None])


def labelled_rows(
    collection: Collection, view: View, label_key: str | None
) -> tuple[str, LabelledRows] | None:
    """Return a label to compare by and the rows: `label_key`, "label" or the key with most classes; None without."""
    if label_key:
        keys = [label_key]
    else:
        keys = sorted(_keys_of_pictures(collection), key=lambda key: (key != USUAL_LABEL, key))
    usable: list[tuple[int, str, LabelledRows]] = []
    for key, labelled in read_labels(collection, view, keys):
        if _has_classes(labelled):
            sizes = np.bincount(labelled.label[labelled.label >= 0])
            usable.append((int(np.count_nonzero(sizes > 1)), key, labelled))
            if key == USUAL_LABEL:
                break
    if not usable:
        return None
    _, key, labelled = max(usable, key=lambda each: each[0])
    return key, labelled


def _keys_of_pictures(collection: Collection) -> list[str]:
    """Return the keys of labels but those of persons and protocols, by which no relevance is meant."""
    return [key for key in collection.label_keys() if key not in PERSON_LABELS]


def _has_classes(labelled: LabelledRows) -> bool:
    """Return whether enough images share a value of the label, and do not nearly all have one for themselves."""
    sizes = np.bincount(labelled.label[labelled.label >= 0], minlength=1)
    shared = sizes[sizes > 1]
    return bool(
        len(shared) > 1
        and shared.sum() >= LEAST_LABELLED
        and sizes.sum() >= LEAST_MEAN_CLASS * np.count_nonzero(sizes)
    )


def choice_is_due(collection: Collection) -> bool:
    """Return whether a collection with a snapshot has twice the images of the last choice, or has none yet."""
    choice = read_choice(collection.auto_choice(), collection.profile.descriptor)
    return collection.statistics() is not None and len(collection) >= GROWTH * (choice.images or 0)


class ChoiceUpdater:
    """Starts the process when a choice is due, one at a time. Thread-safe. One for each open collection."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._running = False
        self._tried: dict[Path, int] = {}  # by folder: images when the process was last started

    def wake(self, collection: Collection) -> None:
        """Start the process if a choice is due; after a failure, when the collection has doubled again."""
        folder = collection.folder
        with self._lock:
            tried = self._tried.get(folder, 0)
            if self._running or len(collection) < GROWTH * tried or not choice_is_due(collection):
                return
            self._running, self._tried[folder] = True, len(collection)
        Thread(target=self._run, args=[folder], name="choice of auto", daemon=True).start()

    def _run(self, folder: Path) -> None:
        command = [sys.executable, "-m", "cbir.evaluation.auto_choice", str(folder), str(os.getpid())]
        try:
            process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if process.returncode != 0:
                reason = next(iter(reversed(process.stderr.splitlines())), f"exit code {process.returncode}")
                log.warning("auto was not chosen again: %s", reason)
        except OSError as error:
            log.warning("auto was not chosen again: %s", error.strerror)
        finally:
            self._running = False


def update_when_due(folder: Path) -> None:
    """Choose while others may write, and store the choice unless another process has chosen meanwhile."""
    with Collection(folder) as collection:
        label = read_choice(collection.auto_choice(), collection.profile.descriptor).label
        text = choose(collection, label).to_json()
        until = time.monotonic() + BUSY_SECONDS
        while choice_is_due(collection):
            try:
                with collection.writer("choice of auto") as writer:
                    writer.set_auto(text)
                return
            except CollectionBusy:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)


def main() -> int:
    """Run at the lowest priority."""
    folder, parent = Path(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's affair
    run_behind(parent, NICENESS, ORPHANED)  # storing a choice is atomic
    try:
        update_when_due(folder)
    except CbirError as error:
        print(error, file=sys.stderr)
        return FAILED
    except Exception as error:
        print(describe_unexpected(error), file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
