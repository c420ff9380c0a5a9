"""Results of a reader study for page, report and programs: preference, usefulness, agreement, and the answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cbir.evaluation.significance import randomisation_test
from service.features.annotate.active.annotator_agreement import (
    alpha_of_coincidences,
    cohen_kappa,
    coincidences,
)
from service.features.annotate.reader_study import tables as reader_studies
from service.features.annotate.reader_study.tables import ReaderAnswer, ReaderStudy, StudyItem
from service.state.database import StateDatabase

RESAMPLES = 10_000
ALPHA_RESAMPLES = 1000
SHARE = 0.95
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MeanOfReaders:
    """Mean over readers and items, with a 95 % interval, and p of it being 0; None without answers."""

    mean: float | None
    low: float | None
    high: float | None
    p: float | None


def answer_tables(answers: Sequence[ReaderAnswer]) -> tuple[list[int], list[int], dict[str, Floats]]:
    """Return readers, items and tables (readers, items) of preference, useful_a and useful_b; nan: no answer."""
    people = sorted({answer.reader for answer in answers})
    items = sorted({answer.item for answer in answers})
    tables = {
        name: np.full((len(people), len(items)), np.nan) for name in ("preference", "useful_a", "useful_b")
    }
    for answer in answers:
        where = people.index(answer.reader), items.index(answer.item)
        for name, table in tables.items():
            table[where] = getattr(answer, name)
    return people, items, tables


def mean_of_readers(table: Floats, seed: int = 0) -> MeanOfReaders:
    """Average a table with an interval for other readers and other queries.

    The interval is a percentile bootstrap that draws readers and queries, both with replacement and independently
    (Owen, The Pigeonhole Bootstrap, 2007); it is conservative. Of one reader only queries are drawn. p is that of the
    randomisation test of the means of the queries, which are independent; answers of two readers to a query are not.

    Parameters
    ----------
    table : (r, q) float64
        Nan: no answer.
    seed : int
    """
    table = table[:, (~np.isnan(table)).any(axis=0)] if table.size else table
    if not table.size:
        return MeanOfReaders(None, None, None, None)
    readers, queries = table.shape
    present, values = (~np.isnan(table)).astype(np.float64), np.nan_to_num(table)
    generator = np.random.default_rng(seed)
    of_readers = _draw(generator, readers) if readers > 1 else np.ones((RESAMPLES, 1))
    of_queries = _draw(generator, queries)
    totals = ((of_readers @ values) * of_queries).sum(axis=1)
    counts = ((of_readers @ present) * of_queries).sum(axis=1)
    means = totals[counts > 0] / counts[counts > 0]
    low, high = np.quantile(means, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    p = randomisation_test(np.nanmean(table, axis=0)[None, :], seed=seed)[0]
    return MeanOfReaders(float(np.nanmean(table)), float(low), float(high), float(p))


def _draw(generator: np.random.Generator, count: int) -> Floats:
    """Return how often each of `count` is drawn in each resample."""
    return generator.multinomial(count, np.full(count, 1 / count), RESAMPLES).astype(np.float64)


def query_preference(table: Floats) -> dict[str, Any]:
    """Count the queries for which most readers prefer a, neither, or b; test b against a.

    The sign test (Dixon & Mood 1946) leaves ties out, as the share of b with its Wilson interval (1927) does.

    Parameters
    ----------
    table : (r, q) float64
        -1 for a, 0, 1 for b; nan: no answer.
    """
    sums = np.nansum(table, axis=0)
    a, b = int((sums < 0).sum()), int((sums > 0).sum())
    counts = {"a": a, "equal": int((sums == 0).sum()), "b": b}
    if not a + b:
        return counts | {"share_b": None, "low": None, "high": None, "p": None}
    from scipy.stats import binomtest  # which takes a second to import

    test = binomtest(b, a + b)
    interval = test.proportion_ci(SHARE, method="wilson")
    return counts | {
        "share_b": b / (a + b), "low": float(interval.low), "high": float(interval.high), "p": float(test.pvalue),
    }  # fmt: skip


def alpha_with_interval(
    units: Sequence[Floats], level: Literal["nominal", "ordinal"], seed: int = 0
) -> dict[str, float | None]:
    """Return Krippendorff's alpha, with a 95 % bootstrap interval over the queries.

    Parameters
    ----------
    units : sequence of (r, u) float64
        Of each query the answers of r readers to its u questions; nan: no answer.
    level : str
        "nominal" or "ordinal".
    seed : int
    """
    values = np.unique(np.concatenate([np.empty(0), *(unit[~np.isnan(unit)] for unit in units)]))
    of_units = np.zeros((len(units), len(values), len(values)))
    for index, unit in enumerate(units):
        of_units[index] = coincidences(unit, values)
    of_all = alpha_of_coincidences(of_units.sum(axis=0), level)
    if of_all is None:
        return {"alpha": None, "low": None, "high": None}
    generator = np.random.default_rng(seed)
    drawn = generator.integers(0, len(units), (ALPHA_RESAMPLES, len(units)))
    resampled = [alpha_of_coincidences(of_units[rows].sum(axis=0), level) for rows in drawn]
    defined = [alpha for alpha in resampled if alpha is not None]
    low, high = np.quantile(defined, [(1 - SHARE) / 2, (1 + SHARE) / 2])
    return {"alpha": of_all, "low": float(low), "high": float(high)}


def relevance_units(answers: Sequence[ReaderAnswer], people: Sequence[int]) -> list[Floats]:
    """Return for each item a table (readers, images) of 1 and 0, nan for images that a reader did not judge."""
    by_item: dict[int, dict[int, dict[str, bool]]] = {}
    for answer in answers:
        by_item.setdefault(answer.item, {})[answer.reader] = answer.relevant
    units = []
    for of_item in by_item.values():
        images = sorted({image for relevant in of_item.values() for image in relevant})
        if images:
            rows = [[of_item.get(who, {}).get(image, np.nan) for image in images] for who in people]
            units.append(np.array(rows, np.float64))
    return units


def kappas(people: Sequence[int], table: Floats) -> list[dict[str, Any]]:
    """Return share of equal preferences and Cohen's kappa of each pair of readers.

    Parameters
    ----------
    people : sequence of int
        Numbers of the readers.
    table : (r, q) float64
        Preferences.
    """
    rows = []
    for (i, first), (j, second) in combinations(enumerate(people), 2):
        both = ~np.isnan(table[i]) & ~np.isnan(table[j])
        ours, theirs = table[i, both].astype(int).tolist(), table[j, both].astype(int).tolist()
        equal = float(np.mean(np.equal(ours, theirs))) if ours else None
        facts = {"one": first, "other": second, "items": len(ours), "equal": equal}
        rows.append(facts | {"kappa": cohen_kappa(ours, theirs)})
    return rows


def reader_study_results(
    study: ReaderStudy, items: Sequence[StudyItem], answers: Sequence[ReaderAnswer]
) -> dict[str, Any]:
    """Return all figures of a study, ready for JSON.

    Parameters
    ----------
    study : ReaderStudy
    items : sequence of StudyItem
    answers : sequence of ReaderAnswer
        Of all readers.
    """
    people, _, tables = answer_tables(answers)
    preference = tables["preference"]
    useful = [
        np.stack([tables["useful_a"][:, q], tables["useful_b"][:, q]], axis=1)
        for q in range(preference.shape[1])
    ]
    single = [preference[:, [q]] for q in range(preference.shape[1])]
    return {
        "study": {name: getattr(study, name) for name in ("name", "collection", "k", "readers", "seed")},
        "a": study.method_a,
        "b": study.method_b,
        "items": len(items),
        "same_answers": sum(each.a == each.b for each in items),
        "answers": len(answers),
        "preference": {
            "a": int((preference < 0).sum()), "equal": int((preference == 0).sum()), "b": int((preference > 0).sum()),
            "net": vars(mean_of_readers(preference, study.seed)),
            "by_query": query_preference(preference),
        },
        "usefulness": {
            "a": _mean(tables["useful_a"]), "b": _mean(tables["useful_b"]),
            "difference": vars(mean_of_readers(tables["useful_b"] - tables["useful_a"], study.seed)),
        },
        "relevant": relevant_shares(items, answers),
        "agreement": {
            "preference": alpha_with_interval(single, "ordinal", study.seed),
            "usefulness": alpha_with_interval(useful, "ordinal", study.seed),
            "relevance": alpha_with_interval(relevance_units(answers, people), "nominal", study.seed),
            "pairs": kappas(people, preference),
        },
        "side": _left_preference(answers),
        "by_reader": [_of_reader(who, [a for a in answers if a.reader == who]) for who in people],
    }  # fmt: skip


def _mean(table: np.ndarray[Any, Any]) -> float | None:
    return float(np.nanmean(table)) if table.size else None


def relevant_shares(items: Sequence[StudyItem], answers: Sequence[ReaderAnswer]) -> dict[str, Any]:
    """Return the share of the judged answers of each method that are relevant, and their number.

    Parameters
    ----------
    items : sequence of StudyItem
    answers : sequence of ReaderAnswer
    """
    lists = {each.item: {"a": set(each.a), "b": set(each.b)} for each in items}
    shares: dict[str, Any] = {}
    for side in ("a", "b"):
        values = [
            value
            for answer in answers
            for image, value in answer.relevant.items()
            if image in lists.get(answer.item, {}).get(side, ())
        ]
        shares[side] = float(np.mean(values)) if values else None
        shares[f"judged_{side}"] = len(values)
    return shares


def _left_preference(answers: Sequence[ReaderAnswer]) -> dict[str, Any]:
    """Return how often the left list was preferred: sides are random, so half of the times without a bias."""
    from scipy.stats import binomtest  # which takes a second to import

    lefts = [(answer.preference < 0) == answer.a_left for answer in answers if answer.preference]
    left, count = sum(lefts), len(lefts)
    return {"left": left, "right": count - left, "p": float(binomtest(left, count).pvalue) if count else None}


def _of_reader(reader: int, answers: Sequence[ReaderAnswer]) -> Mapping[str, Any]:
    preferences = [answer.preference for answer in answers]
    return {
        "reader": reader, "answers": len(answers),
        "a": preferences.count(-1), "equal": preferences.count(0), "b": preferences.count(1),
        "useful_a": float(np.mean([answer.useful_a for answer in answers])),
        "useful_b": float(np.mean([answer.useful_b for answer in answers])),
        "seconds": float(np.median([answer.seconds for answer in answers])),
    }  # fmt: skip


def reader_answer_rows(database: StateDatabase, study: ReaderStudy) -> list[list[Any]]:
    """Return the rows of the csv of answers, heads first."""
    queries = {item.item: item.query for item in reader_studies.read_items(database, study.name)}
    rows: list[list[Any]] = [
        ["reader", "item", "query", "a", "b", "useful_a", "useful_b", "preferred", "left", "relevant", "irrelevant",
         "seconds", "note"],
    ]  # fmt: skip
    for answer in reader_studies.read_answers(database, study.name):
        judged = [
            " ".join(image for image, value in answer.relevant.items() if value is kind)
            for kind in (True, False)
        ]
        cells = [
            answer.reader, answer.item, queries.get(answer.item, ""), study.method_a, study.method_b,
            answer.useful_a, answer.useful_b, {-1: "a", 0: "equal", 1: "b"}[answer.preference],
            "a" if answer.a_left else "b", *judged, f"{answer.seconds:.1f}", answer.note,
        ]  # fmt: skip
        rows.append(cells)
    return rows
