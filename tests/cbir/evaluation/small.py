"""Small candidates and queries for the tests of evaluation."""

import numpy as np

from cbir.evaluation.qrels import EvalQuery, RunMatrix, build_qrels
from cbir.evaluation.relevance import Candidates, parse_relevance
from cbir.store import Record


def record(number, labels, patient=None, content=None):
    return Record(
        content or f"content{number}", f"/{number}.png", "1", "png", 8, 8,
        patient_key=patient, labels=labels, image_id=f"image{number}",
    )  # fmt: skip


def pool(labels, patients=None, contents=None):
    """Candidates with these labels."""
    count = len(labels)
    patients, contents = patients or [None] * count, contents or [None] * count
    records = [record(number, labels[number], patients[number], contents[number]) for number in range(count)]
    return Candidates(1, np.arange(1, count + 1), records)


def ask(name, labels, patient=None, content="none of these"):
    return EvalQuery(name, None, content, patient, labels, f"/{name}.png")


def judged(relevant_at, total, depth, classes=None):
    """One query's answers 0, 1, 2, ...: relevant at these places (from 1), `total` relevant images in all.

    classes: of the answers, where only their names matter; the query's is "own".
    """
    names = classes or ["own" if place + 1 in relevant_at else "other" for place in range(depth)]
    extra = total - names.count("own")
    among = pool([{"label": name} for name in names] + [{"label": "own"}] * extra)
    qrels = build_qrels(among, [ask("q", {"label": "own"})], parse_relevance("label"))
    return RunMatrix(np.arange(depth, dtype=np.int32)[None, :]), qrels
