"""Bound what images of the query's patient give where patients are unknown: by source, with nearest images left out.

Where patients are known, their images are left out. Where they are not, an image as near to the query as half of the
nearest images of the same patient are, where those are known, may be of its patient: the columns "near ones left out"
leave all such images out, of every source.

    OMP_NUM_THREADS=1 python bench/same_patient.py COLLECTION [--queries N]

The collection has the labels `label` and `source`.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cbir import rerank
from cbir.evaluation.agreement_count import LabelledRows, draw_queries, read_labelled_rows
from cbir.evaluation.rank_metrics import average_precision
from cbir.evaluation.significance import bootstrap_intervals
from cbir.gallery.gallery import Gallery, rank, top_k
from cbir.rerank.query_list import QueryList
from cbir.rerank.reranker import Reranker
from cbir.store import Collection
from cbir.system.threads import OneBlasThread

SAME = 0.5  # share of the images of known patients whose nearest of the same patient is at least as near
SEEN = 1000  # images by which the distance is found


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("collection", type=Path)
    options.add_argument(
        "--queries", type=int, default=200, help="of each source, drawn evenly from its classes"
    )
    values = options.parse_args()
    with Collection(values.collection) as collection, OneBlasThread():
        view = collection.view()
        gallery = view.gallery
        labelled = read_labelled_rows(collection, view, "label")
        source_of = collection.labels_by_number("source")
        sources = np.array([source_of.get(number) or "" for number in gallery.ids[labelled.rows].tolist()])
        auto = rerank.default_choice(collection.profile.descriptor)
        methods = [rerank.get("none"), rerank.get(auto.method, **auto.parameters)]

        codes, counts = np.unique(labelled.patient, return_counts=True)
        known = np.isin(labelled.patient, codes[(counts > 1) & (codes >= 0)])
        nearest = []
        for index in draw_queries(labelled, known & labelled.can_query, SEEN).tolist():
            same = labelled.patient == labelled.patient[index]
            same[index] = False
            query = gallery.vectors(labelled.rows[index : index + 1])[0]
            nearest.append(rank(query, gallery, labelled.rows[same]).distances.min())
        limit = float(np.quantile(nearest, SAME))
        print(
            f"The nearest image of the same patient is nearer than {limit:.3f} in half of {len(nearest)} cases.\n"
        )
        print(
            "| mAP (95 %) / P@1 | images | with patient | near | `none` | without these | `auto` | without these |"
        )
        print("| --- | ---: | ---: | ---: |" + " --- |" * 4)
        for source in sorted(set(sources.tolist())):
            own = sources == source
            drawn = draw_queries(labelled, labelled.can_query & own, values.queries).tolist()
            scored = [score(gallery, labelled, index, methods, limit) for index in drawn]
            quality = np.array([each for each, _ in scored if each is not None])
            near = np.mean([count for each, count in scored if each is not None])
            means, (low, high) = quality.mean(axis=0), bootstrap_intervals(quality[:, :, 0].T)
            cells = [
                f"{means[i, 0]:.3f} ({low[i]:.3f}–{high[i]:.3f}) / {means[i, 1]:.3f}" for i in (0, 2, 1, 3)
            ]
            share = (labelled.patient[own] >= 0).mean()
            print(
                f"| {source} | {own.sum():,} | {share:.0%} | {near:.1f} | {' | '.join(cells)} |", flush=True
            )


def score(
    gallery: Gallery, labelled: LabelledRows, index: int, methods: Sequence[Reranker], limit: float
) -> tuple[NDArray[np.float64] | None, int]:
    """Return AP and P@1 (4, 2) of methods, and of them without images nearer than `limit`; and how many these are.

    None where these are all that is relevant.
    """
    query = gallery.vectors(labelled.rows[index : index + 1])[0]
    others = labelled.others(index)
    far = others.copy()
    far[np.flatnonzero(others)[rank(query, gallery, labelled.rows[others]).distances < limit]] = False
    near = int(others.sum() - far.sum())
    if not (labelled.label[far] == labelled.label[index]).any():
        return None, near
    quality = []
    for kept in (others, far):
        query_list = QueryList(query, rank(query, gallery, labelled.rows[kept]), gallery)
        for method in methods:
            rows, reranked = method.rerank(query_list)
            labels = labelled.label[np.searchsorted(labelled.rows, rows)]
            relevant = labels[top_k(reranked.scores, len(rows))] == labelled.label[index]
            quality.append([average_precision(relevant[None])[0], relevant[0]])
    return np.array(quality), near


if __name__ == "__main__":
    main()
