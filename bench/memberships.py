"""Measure where fuzzy memberships act in EPRF, and what they bring: the figures of bench/results/memberships.md.

A membership mu acts where a multiplier reaches its bound C mu. For each setting: the share of positives at their
bound and the standard deviation of the memberships, mAP and P@1, and the differences from the same SVMs with all
memberships 1 and from no re-ranking, in points with 95 % intervals. Images of the query's patient are left out.

A collection is a folder, or an .npz file of unit vectors, labels and patients (empty: unknown), measured with the
settings that collections of unit vectors store.

    python bench/memberships.py COLLECTION... [--queries 400] [--label KEY] [--settings TITLE...]
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.errors import CbirError, InvalidInput
from cbir.evaluation.agreement_count import LabelledRows, draw_queries, read_labelled_rows, score_query
from cbir.evaluation.relevance import encode_values
from cbir.evaluation.significance import bootstrap_intervals
from cbir.gallery.gallery import Gallery
from cbir.rerank.eprf import Eprf, FuzzyEprf, PlainEnsemble
from cbir.rerank.reranker import Reranker
from cbir.rerank.simple_rerankers import NoReranking
from cbir.rerank.svm_ensemble import TrainingSets
from cbir.store import Collection
from cbir.store.base.profile import UNIT_EPRF

AT_BOUND = 1.0 - 1e-6  # share of its bound that a multiplier at the bound has
Doubles = NDArray[np.float64]
Settings = tuple[dict[str, Any], ...]
EPRF: Settings = ({"C": 10.0}, {"C": 0.1}, {"C": 0.1, "P": 15})
FUZZY: Settings = ({}, {"C": 10.0})
COLUMNS = (
    "setting", "at bound", "deviation of mu", "mAP", "P@1", "minus all 1: mAP", "P@1", "minus none: mAP", "P@1",
)  # fmt: skip


class MembershipLog:
    """Memberships of each query, and the positives whose multipliers reach their bound."""

    memberships: ClassVar[list[Doubles]] = []
    at_bound: ClassVar[list[Doubles]] = []


def log(svms: Eprf, training_sets: TrainingSets, memberships: Doubles) -> Doubles:
    """Add the ensemble that the memberships give to `MembershipLog`; return the memberships."""
    ensemble = training_sets.train(slice(svms.T1, None), svms.C, memberships)
    positives = ensemble.coefficients[:, : len(memberships)]
    MembershipLog.memberships.append(memberships)
    MembershipLog.at_bound.append((positives >= AT_BOUND * svms.C * memberships).mean(axis=1))
    return memberships


class LoggedEprf(Eprf):
    """EPRF as published."""

    def memberships(
        self, training_sets: TrainingSets, rho: Doubles, others: Sequence[float] | Doubles = ()
    ) -> Doubles:
        return log(self, training_sets, super().memberships(training_sets, rho, others))


class LoggedFuzzyEprf(FuzzyEprf):
    """EPRF with memberships that act."""

    def memberships(
        self, training_sets: TrainingSets, rho: Doubles, others: Sequence[float] | Doubles = ()
    ) -> Doubles:
        return log(self, training_sets, super().memberships(training_sets, rho, others))


def pairs(stored: Mapping[str, Any]) -> list[tuple[str, Reranker, Reranker]]:
    """Return each setting with its re-ranker and the same with all memberships 1.

    stored: settings of the collection's profile; those under the name of a method are measured too.
    """
    published = [
        (_title("eprf", setting), LoggedEprf(**setting), PlainEnsemble(**setting)) for setting in EPRF
    ]
    fuzzy = [
        (
            _title("fuzzy-eprf", setting),
            LoggedFuzzyEprf(**setting),
            FuzzyEprf(**{**setting, "power": 0.0}),
        )
        for setting in FUZZY
    ]
    if Eprf.name in stored:
        own = stored[Eprf.name]
        published.append(("eprf stored", LoggedEprf(**own), PlainEnsemble(**own)))
    if FuzzyEprf.name in stored:
        own = stored[FuzzyEprf.name]
        fuzzy.append(("fuzzy-eprf stored", LoggedFuzzyEprf(**own), FuzzyEprf(**{**own, "power": 0.0})))
    return [*published, *fuzzy]


def _title(name: str, setting: dict[str, Any]) -> str:
    return " ".join([name, *(f"{key}={value:g}" for key, value in setting.items())])


class Images(NamedTuple):
    """Vectors with their labels, and the stored settings of re-ranking."""

    gallery: Gallery
    labelled: LabelledRows
    stored: Mapping[str, Any]


def read_images(path: Path, label: str) -> Images:
    """Read a collection, or an .npz file of unit vectors."""
    if path.suffix != ".npz":
        with Collection(path) as collection:
            view = collection.view()
            labelled = read_labelled_rows(collection, view, label)
            return Images(view.gallery, labelled, collection.profile.rerank)
    content = np.load(path)
    vectors = content["vectors"].astype(np.float32)
    rows = np.arange(len(vectors))
    codes = (encode_values((v or None for v in content[key].tolist()), {}) for key in ("label", "patient"))
    return Images(Gallery((vectors,), rows, projected=True), LabelledRows(rows, *codes), UNIT_EPRF)


def measure(images: Images, queries: int, titles: Sequence[str]) -> Iterator[str]:
    """Yield a table line of each setting among `titles`, of all if there are none."""
    drawn = draw_queries(images.labelled, images.labelled.can_query, queries)
    if not len(drawn):
        raise InvalidInput("no two images share a value of the label")
    none: Doubles | None = None
    for title, fuzzy, plain in pairs(images.stored):
        if titles and title not in titles:
            continue
        MembershipLog.memberships.clear()
        MembershipLog.at_bound.clear()
        methods = [fuzzy, plain] if none is not None else [fuzzy, plain, NoReranking()]
        scored = [score_query(images.gallery, images.labelled, index, methods) for index in drawn]
        quality = 100.0 * np.array([scores for scores in scored if scores is not None])
        if none is None:
            none = quality[:, 2]
            yield _line(["none", "", "", *_means(none), "", "", "", ""])
        deviation = np.mean([memberships.std() for memberships in MembershipLog.memberships])
        cells = [f"{np.mean(MembershipLog.at_bound):.0%}", f"{deviation:.2f}", *_means(quality[:, 0])]
        cells += _differences(quality[:, 0] - quality[:, 1]) + _differences(quality[:, 0] - none)
        yield _line([title, *cells])


def _means(quality: Doubles) -> list[str]:
    return [f"{mean / 100.0:.3f}" for mean in quality.mean(axis=0)]


def _differences(differences: Doubles) -> list[str]:
    low, high = bootstrap_intervals(differences.T)
    means = differences.mean(axis=0)
    return [f"{m:+.1f} ({a:+.1f} to {b:+.1f})" for m, a, b in zip(means, low, high, strict=True)]


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("collections", nargs="+", type=Path)
    options.add_argument("--queries", type=int, default=400, help="queries, drawn from each class in turn")
    options.add_argument("--settings", nargs="+", default=[], help="titles of settings; default: all")
    options.add_argument("--label", default="label", help="label that relevant images share")
    values = options.parse_args()
    for path in values.collections:
        print(f"\n## {path.stem}\n\n{_line(list(COLUMNS))}\n|{' --- |' * len(COLUMNS)}")
        try:
            for line in measure(read_images(path, values.label), values.queries, values.settings):
                print(line, flush=True)
        except CbirError as error:
            raise SystemExit(f"error: {path}: {error}") from None


if __name__ == "__main__":
    main()
