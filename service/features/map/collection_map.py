"""The map of a collection: computed once, then kept in step with images that are added and deleted."""

from collections.abc import Callable
from typing import Any
from zlib import crc32

import numpy as np

from cbir.gallery.gallery import Gallery
from cbir.gallery.knn import find_neighbours
from cbir.gallery.knn_graph import build_graph
from cbir.gallery.vector_blocks import Floats, Rows, VectorBlocks, spread_rows
from cbir.store import Collection
from cbir.store.base.profile import Profile
from cbir.store.snapshot.derived_files import StoredMap, write_map
from cbir.store.views.collection_view import View
from cbir.system.threads import checkpoint
from service.features.map.tsne import (
    FROM_SCRATCH,
    REFINING,
    count_steps,
    lay_out,
    shrink_to_start,
)

SHARPNESS = 4  # power of the weights: a plain mean lies between clusters, where neither has images
SAMPLE = 5000  # vectors that the directions are computed from
FIRST = 10_000  # images laid out before all others are placed among them and refined: five times as fast
LEAST = 8  # images; fewer are shown in their principal plane

Progress = Callable[[int, int], None]


def place_by_neighbours(weights: Any, positions: Floats) -> Floats:
    """Place the images of a k-NN graph that have no place at the weighted mean of their neighbours' positions.

    Images with a placed neighbour come first, then those that neighbour them.

    Parameters
    ----------
    weights : sparse matrix (n, n) float32
        Weights of the graph's edges.
    positions : (n, 2) float32
        Places; NaN for images that have none.

    Returns
    -------
    (n, 2) float32
        Places; NaN for images that no chain of neighbours joins with a placed one.
    """
    positions = positions.copy()
    waiting = np.flatnonzero(np.isnan(positions[:, 0]))
    while len(waiting):
        checkpoint()
        placed = ~np.isnan(positions[:, 0])
        edges = weights[waiting].power(SHARPNESS).multiply(placed[None, :]).tocsr()
        total = np.asarray(edges.sum(axis=1)).ravel()
        joined = total > 0
        if not joined.any():
            break
        means = edges[joined] @ np.nan_to_num(positions) / total[joined, None]
        positions[waiting[joined]] = means
        waiting = waiting[~joined]
    return positions


def place_among(positions: Floats) -> Floats | None:
    """Return the place (2,) of an image whose nearest neighbours have these `positions` (k, 2), NaN if unknown.

    The median of each coordinate, which one neighbour in another cluster does not move; None without any place.
    """
    finite = positions[~np.isnan(positions[:, 0])]
    return np.median(finite, axis=0).astype(np.float32) if len(finite) else None


def project_to_plane(gallery: VectorBlocks, rows: Rows) -> Floats:
    """Project vectors to their first two principal components.

    Parameters
    ----------
    gallery : VectorBlocks
        Vectors of d dimensions.
    rows : (n,) int64
        Ascending rows to project; the directions are computed from a spread sample of them.

    Returns
    -------
    (n, 2) float32
        Coordinates. The largest part of each direction is positive, so the same input gives the same signs.
    """
    plane = np.zeros((len(rows), 2), np.float32)
    if len(rows) < 2:
        return plane
    sample = gallery.vectors(rows[spread_rows(len(rows), SAMPLE)]).astype(np.float64)
    centre = sample.mean(axis=0)
    _, directions = np.linalg.eigh((sample - centre).T @ (sample - centre))
    first = directions[:, ::-1][:, :2]
    largest = np.abs(first).argmax(axis=0)
    first = first * np.where(first[largest, np.arange(first.shape[1])] < 0, -1.0, 1.0)
    for where, vectors in gallery.chunks(rows):
        plane[where, : first.shape[1]] = (vectors - centre) @ first
    return plane


def compute_map(
    view: View, profile: Profile, progress: Progress = lambda done, total: None, first: int = FIRST
) -> StoredMap:
    """Lay out the images of a view, those that are deleted left out.

    Parameters
    ----------
    view : View
        View of a collection.
    profile : Profile
        Its profile.
    progress : callable
        Called with steps done and steps in all; what it raises ends the computation.
    first : int
        Largest number of images that are laid out from scratch. Of more images an evenly spread sample is, the others
        are placed by their neighbours, and all are refined.

    Raises
    ------
    InvalidInput
        If openTSNE is not installed.
    """
    gallery = view.gallery
    rows = np.arange(len(gallery)) if view.rows is None else view.rows
    few = len(rows) < LEAST
    positions = project_to_plane(gallery, rows) if few else _lay_out_all(gallery, rows, progress, first)
    return StoredMap(gallery.ids[rows], to_unit_square(positions), transform_name(view, profile))


def _lay_out_all(gallery: Gallery, rows: Rows, progress: Progress, first: int) -> Floats:
    weights = graph_weights(gallery)[rows][:, rows]
    sampled = spread_rows(len(rows), first)
    start = shrink_to_start(project_to_plane(gallery, rows))
    if len(sampled) == len(rows):
        return lay_out(weights, start, FROM_SCRATCH, lambda done: progress(done, count_steps(FROM_SCRATCH)))
    before = count_steps(FROM_SCRATCH)
    total = before + count_steps(REFINING)
    neighbours = find_neighbours(gallery.vectors(rows[sampled]), gallery.space)
    sample_weights = build_graph(neighbours).weights
    positions = np.full((len(rows), 2), np.nan, np.float32)
    positions[sampled] = lay_out(
        sample_weights, start[sampled], FROM_SCRATCH, lambda done: progress(done, total)
    )
    positions = place_by_neighbours(weights, positions)
    isolated = np.isnan(positions[:, 0])
    positions[isolated] = start[isolated]  # in the middle, from where they are pushed out
    return lay_out(weights, positions, REFINING, lambda done: progress(before + done, total))


def store_map(collection: Collection, computed: StoredMap) -> None:
    """Write the map of a collection, without images that were deleted or erased while it was computed."""
    write_map(collection.folder, computed)
    view = collection.view()  # after writing: of an erasure that ends later, the map that it finds is deleted
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    left = np.isin(computed.numbers, view.gallery.ids[rows])
    if not left.all():
        write_map(
            collection.folder,
            StoredMap(computed.numbers[left], computed.positions[left], computed.transform),
        )


def current_places(view: View, stored: StoredMap) -> Floats:
    """Return the positions (n, 2) of the rows of a view: those of the map, and beside neighbours for added images.

    NaN for images that no chain of neighbours joins with one of the map. Rows of deleted images are not left out.
    """
    gallery = view.gallery
    positions = np.full((len(gallery), 2), np.nan, np.float32)
    present = np.isin(stored.numbers, gallery.ids)
    positions[np.searchsorted(gallery.ids, stored.numbers[present])] = stored.positions[present]
    if present.any() and np.isnan(positions[:, 0]).any():
        positions = place_by_neighbours(graph_weights(gallery), positions)
    return positions


def is_outdated(view: View, profile: Profile, stored: StoredMap) -> bool:
    """Return whether a map is to be computed again: the images have doubled, or the transform was fitted again.

    Parameters
    ----------
    view : View
        View of a collection.
    profile : Profile
        Its profile.
    stored : StoredMap
        The map.
    """
    rows = np.arange(len(view.gallery)) if view.rows is None else view.rows
    added = np.count_nonzero(~np.isin(view.gallery.ids[rows], stored.numbers))
    return bool(added > len(stored)) or stored.transform != transform_name(view, profile)


def transform_name(view: View, profile: Profile) -> str:
    """Return a text that names the profile and, once an indexing run has ended, the fitted transform."""
    fitted = "" if view.snapshot is None else f"{crc32(view.statistics.to_json().encode()):08x}"
    return f"{profile.hash} {fitted}"


def graph_weights(gallery: Gallery) -> Any:
    """Return the weights (n, n) of the gallery's k-NN graph: that of its snapshot, extended, or a graph made now."""
    if gallery.neighbourhood is not None:
        graph, _ = gallery.neighbourhood.covering(gallery)
    else:
        vectors = gallery.vectors(np.arange(len(gallery)))
        graph = build_graph(find_neighbours(vectors, gallery.space))
    return graph.weights[: len(gallery)][:, : len(gallery)]


def to_unit_square(positions: Floats) -> Floats:
    """Return positions (n, 2) moved and scaled to -1..1, with the same scale in both directions."""
    if not len(positions):
        return positions
    low, high = positions.min(axis=0), positions.max(axis=0)
    reach = float((high - low).max()) / 2 or 1.0
    return np.asarray(np.clip((positions - (low + high) / 2) / reach, -1.0, 1.0), np.float32)
