"""HNSW graph (Malkov and Yashunin 2020) of FAISS, whose rows can be searched behind a filter and be emptied."""

from typing import Any

import faiss
import numpy as np

from cbir.gallery.vector_blocks import Floats, Rows

LINKS = 32  # of a row, and twice as many on the lowest level (M of the paper)
BUILD_WIDTH = 200  # rows that building compares at a time (efConstruction)
SEARCH_WIDTH = 200  # the same of a search without a filter (ef), at least
MEAN_OF = 4  # rows whose mean shows none of them


def new_graph(dimensions: int) -> Any:
    """Return an empty graph of vectors (d,) float32."""
    graph = faiss.IndexHNSWFlat(dimensions, LINKS)
    graph.hnsw.efConstruction = BUILD_WIDTH
    return graph


def search_graph(graph: Any, queries: Floats, k: int, selected: Any, share: float) -> tuple[Floats, Rows]:
    """Search nearest rows.

    Parameters
    ----------
    graph : faiss.IndexHNSWFlat
    queries : (q, d) float32
    k : int
        Rows to find.
    selected : faiss.IDSelector or None
        Rows to find among; None for all.
    share : float
        Share of the rows that are selected. A search passes by the others too, so it is wider by as much.

    Returns
    -------
    squared : (q, k) float32
        Squared distances, ascending.
    rows : (q, k) int64
        -1 where no further one was found.
    """
    width = min(int(max(SEARCH_WIDTH, k) / share), graph.ntotal)
    options = faiss.SearchParametersHNSW(efSearch=width, sel=selected)
    squared, rows = graph.search(queries, k, params=options)
    return squared, rows


def empty_rows(graph: Any, rows: Rows) -> None:
    """Replace the values of rows by the mean of those that each is linked to.

    Searches still pass over emptied rows, so their values must stay near; yet none of the image's own remains.
    """
    if not len(rows):
        return
    vectors = faiss.rev_swig_ptr(faiss.downcast_index(graph.storage).get_xb(), graph.ntotal * graph.d)
    vectors = vectors.reshape(graph.ntotal, graph.d)
    links = faiss.rev_swig_ptr(graph.hnsw.neighbors.data(), graph.hnsw.neighbors.size())
    emptied = np.zeros(graph.ntotal, bool)
    emptied[rows] = True
    for row in rows.tolist():
        begin = graph.hnsw.offsets.at(row)
        linked = links[begin : begin + 2 * LINKS]
        linked = linked[linked >= 0]
        linked = linked[~emptied[linked]]
        vectors[row] = vectors[linked].mean(axis=0) if len(linked) >= MEAN_OF else 0
