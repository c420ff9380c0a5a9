"""Settings of SVMs: a grid search for C and gamma on labelled images, and those that older collections lack."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir import rerank
from cbir.errors import InvalidInput
from cbir.evaluation.agreement_count import LabelledRows, draw_queries, read_labelled_rows, score_query
from cbir.rerank import read_choice
from cbir.rerank.eprf import SHARPNESS, Eprf
from cbir.rerank.kernel_expansion import kernel_gamma
from cbir.rerank.reranker import AUTO
from cbir.store import Collection, View
from cbir.store.base.profile import Profile, settings_of_new


def add_settings_of_new(profile: Profile) -> dict[str, Any]:
    """Return the settings of a profile with those of new collections, where it has none of that name."""
    return settings_of_new(profile) | profile.rerank


def setting_advice(collection: Collection) -> list[str]:
    """Return a line for each kind of settings that an earlier version left in a collection."""
    lines = []
    profile, auto = collection.profile, collection.auto_choice()
    if auto is not None and read_choice(auto, profile.descriptor).images is None:
        lines.append(
            "auto was chosen by an earlier version: the next `cbir index`, or `cbir collection tune`, chooses again"
        )
    new = settings_of_new(profile)
    if new.keys() - profile.rerank.keys():
        listed = " ".join(f"{key}={value:g}" for key, value in new[Eprf.name].items())
        lines.append(
            f"the settings of eprf are those of an earlier version, new collections have {listed}: "
            "`cbir collection tune` stores them"
        )
    return lines


METHODS = (
    "eprf",
    "fuzzy-eprf",
    "diffusion-eprf",
)  # have SVMs; settings of the first apply to its variants too

GAMMAS = (1e-6, 1e6)  # bounds of its gamma; the automatic one has none


@dataclass(frozen=True)
class GridTrial:
    """A point of the grid with its mean average precision."""

    C: float
    gamma: float
    mean_average_precision: float

    def __str__(self) -> str:
        return f"C={self.C:g} gamma={self.gamma:g}: {self.mean_average_precision:.4f}"


def tune_profile(
    collection: Collection, label_key: str, method: str, queries: int, progress: Callable[[int, int], None]
) -> tuple[Profile, list[GridTrial]]:
    """Return the profile with the best C and gamma of a method, and all trials, best first.

    Those of METHODS[0] apply to its variants too; for the others they are stored under their name. The other
    settings are those of new collections, unless the profile has some of its own.

    Parameters
    ----------
    collection, label_key, method, queries, progress
        As for `tune_svm`.
    """
    trials = tune_svm(collection, label_key, method=method, queries=queries, progress=progress)
    best: dict[str, Any] = {"C": trials[0].C, "gamma": trials[0].gamma}
    profile = collection.profile
    settings = add_settings_of_new(profile)
    rerank = profile.rerank
    if method == METHODS[0]:
        rerank = settings | best
    if method != METHODS[0] or method in settings:  # its own come before those of all
        rerank = rerank | {method: settings.get(method, {}) | best}
    return profile.model_copy(update={"rerank": rerank}), trials


def check_method(method: str) -> None:
    """Raise InvalidInput if `method` is none of METHODS."""
    if method not in METHODS:
        raise InvalidInput(f"{method} has no SVMs to tune; these have: {', '.join(METHODS)}")


def tune_svm(
    collection: Collection,
    label_key: str,
    *,
    method: str = METHODS[0],
    queries: int = 200,
    penalties: Sequence[float] = (),
    widths: Sequence[float] = (),
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[GridTrial]:
    """Try every C and gamma on leave-one-out queries, without images of the query's own patient.

    Parameters
    ----------
    collection : Collection
    label_key : str
        Images with the same value of this label are relevant to each other.
    method : str
        One of METHODS.
    queries : int
        Number of queries, drawn evenly from the classes, from the images with an even content hash: the others
        remain for reporting.
    penalties, widths : sequence of float
        Values of C and gamma; by default those that the re-ranker declares, gamma as multiples of the automatic one.
    progress : callable
        Gets the points done and their number.

    Returns
    -------
    list of GridTrial
        Best first.

    Raises
    ------
    InvalidInput
        If fewer than two images share a label, or the method is none of METHODS.
    """
    check_method(method)
    view = collection.view()
    labelled = read_labelled_rows(collection, view, label_key)
    indices = draw_queries(labelled, _usable_queries(collection, view, labelled), queries)
    if not len(indices):
        raise InvalidInput(f"no two images share a value of the label {label_key}, which tuning needs")
    kind = rerank.reranker_class(method)
    declared = kind.svm_grid
    automatic = _automatic_gamma(view, labelled.rows, indices[:50], getattr(kind, "sharpness", SHARPNESS))
    multiples = np.clip(automatic * np.array(declared["gamma"]), *GAMMAS)
    gammas = widths or list(dict.fromkeys(float(f"{gamma:.3g}") for gamma in multiples))
    grid = list(product(penalties or declared["C"], gammas))
    tuned = add_settings_of_new(collection.profile)
    trials = []
    for done, (C, gamma) in enumerate(grid):
        progress(done, len(grid))
        reranker = rerank.get_tuned(method, tuned, {"C": C, "gamma": gamma})
        scored = (score_query(view.gallery, labelled, index, [reranker]) for index in indices)
        defined = [quality[0, 0] for quality in scored if quality is not None]
        if not defined:
            raise InvalidInput(f"no image shares its {label_key} with an image of another patient")
        trials.append(GridTrial(C, gamma, float(np.mean(defined))))
    progress(len(grid), len(grid))
    return sorted(trials, key=lambda trial: -trial.mean_average_precision)


def _usable_queries(collection: Collection, view: View, labelled: LabelledRows) -> NDArray[np.bool_]:
    """Return True (n,) for images that can query and have an even content hash; for all that can if none has."""
    hashes = collection.content_hashes()
    even = np.array([int(hashes[n][-1], 16) % 2 == 0 for n in view.gallery.ids[labelled.rows].tolist()], bool)
    usable = labelled.can_query
    return usable & even if (usable & even).any() else usable


def _automatic_gamma(
    view: View, rows: NDArray[np.int64], indices: NDArray[np.int64], sharpness: float
) -> float:
    """Return the median of the gammas that the re-ranker would choose for some queries."""
    gallery = view.gallery
    queries = gallery.vectors(rows[indices])
    gammas = [kernel_gamma(AUTO, query, gallery, rows, sharpness) for query in queries]
    return float(np.median(gammas)) * gallery.dimensions
