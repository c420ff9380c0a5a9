"""Results of a reader study, for the page, the report and programs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from service.features.annotate.reader_study.reader_statistics import (
    alpha_with_interval,
    answer_tables,
    kappas,
    mean_of_readers,
    query_preference,
    relevance_units,
)
from service.features.annotate.reader_study.tables import ReaderAnswer, ReaderStudy, StudyItem


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
