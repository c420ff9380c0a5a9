"""Rows of the k-NN graph that relevance may flow through behind a filter."""

import numpy as np

from cbir.gallery.knn_graph import Graph
from cbir.gallery.vector_blocks import Rows, spread_rows

SAMPLE = 1000  # rows of the filter, evenly spread, whose edges are weighed
CLOSED = 0.8  # share of their weight that leads to other images of the filter


def flow_rows(graph: Graph, rows: Rows, passable: Rows | None) -> Rows:
    """Return the rows that relevance may flow through to find images of a filter.

    A filter such as a modality follows the clusters of the collection: relevance then stays among its images, as if
    there were no others. A filter across the clusters tears them apart: relevance flows through all visible images.

    Parameters
    ----------
    graph : Graph
        Graph of the whole gallery.
    rows : (m,) int64
        Rows that pass the filter, ascending.
    passable : (p,) int64 or None
        All visible rows, `rows` among them; None: there is no filter.
    """
    if passable is None or len(rows) in (0, len(passable)):
        return rows
    weights = graph.weights[rows[spread_rows(len(rows), SAMPLE)]]
    visible, inside = np.zeros(len(graph), bool), np.zeros(len(graph), bool)
    visible[passable] = inside[rows] = True
    total = float(weights.data[visible[weights.indices]].sum())
    return rows if float(weights.data[inside[weights.indices]].sum()) >= CLOSED * total else passable
