"""Search for images that have a like region anywhere."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cbir.descriptors.descriptor import QueryImage
from cbir.errors import InvalidInput
from cbir.gallery.gallery import top_k
from cbir.gallery.vector_blocks import Rows
from cbir.rerank.ranked import Box, Ranked
from cbir.rerank.simple_rerankers import NoReranking
from cbir.search.regions.feature_cells import WHOLE, Area, Floats
from cbir.search.regions.region_cells import BLOCK, RegionTemplate, region_encoder, template_of
from cbir.search.search_options import Request
from cbir.store import Collection
from cbir.store.snapshot.derived_files import RegionCells, read_cells
from cbir.store.views.collection_view import View
from cbir.system.threads import OneBlasThread, Stopwatch, checkpoint

CANDIDATES = 1000  # images best by a few cells of the region, which are compared by all of them
MOST_IMAGES = 100_000  # compared by their cells; of more, those nearest to the whole query are

NOT_RERANKED = "A region is searched for anywhere by its cells alone; the answer is not re-ranked."


@dataclass(frozen=True, eq=False)
class RegionQuery:
    """Region of an image to search for.

    image: the whole image, whose features are the input of the collection's encoder. area: the region, as shares of
    its sides.
    """

    image: QueryImage
    area: Area

    def ranker(
        self, collection: Collection, view: View, rows: Rows | None, request: Request, watch: Stopwatch
    ) -> Callable[[int], Ranked]:
        """Return a function that ranks `rows`, None for all, and returns the best ones; raises InvalidInput."""
        _check(request, self.area)
        encoder = region_encoder(collection.profile)
        cells = read_cells(collection.folder)
        if cells is None:
            raise InvalidInput(
                "anywhere: the collection has no cells of its images yet; "
                "`cbir collection regions --collection DIR` computes them"
            )
        size = self.image.width, self.image.height
        template = RegionTemplate(
            *template_of(encoder, cells.projection, self.image.features, size, self.area)
        )
        watch.lap("describe")
        rows = (np.arange(len(view.gallery)) if view.rows is None else view.rows) if rows is None else rows
        notes = [NOT_RERANKED] if request.rerank not in (None, "auto", NoReranking.name) else []
        missing = np.count_nonzero(~np.isin(view.gallery.ids[rows], cells.numbers()))
        if missing:
            notes.append(
                f"{missing} images were added later and are not searched; run `cbir collection regions` again."
            )
        if len(rows) > MOST_IMAGES:
            vector = self.image.vector(collection.profile.load_descriptor())
            distances = view.gallery.distances(view.statistics.normalise(vector), rows)
            rows = np.sort(rows[np.argpartition(distances, MOST_IMAGES)[:MOST_IMAGES]])
            notes.append(f"Only the {MOST_IMAGES} images nearest to the whole image were compared.")
        found, scores, boxes = compare_cells(cells, template, view.gallery.ids[rows])
        watch.lap("search")
        scope = "collection" if len(found) < CANDIDATES else f"{CANDIDATES} candidates"
        distances = np.sqrt(np.maximum(2 - 2 * scores, 0)).astype(np.float32)

        def rank(k: int) -> Ranked:
            best = top_k(scores, k)
            matches = dict(zip(found[best].tolist(), map(_rounded, boxes[best]), strict=True))
            return Ranked(
                found[best], scores[best], scores[best], distances[best], NoReranking.name, {}, scope,
                tuple(notes), matches=matches,
            )  # fmt: skip

        return rank


def compare_cells(cells: RegionCells, template: RegionTemplate, numbers: Rows) -> tuple[Rows, Floats, Floats]:
    """Compare a region with the stored cells of images.

    Parameters
    ----------
    cells : RegionCells
    template : RegionTemplate
    numbers : (n,) int64
        Numbers of the images; those without cells are left out.

    Returns
    -------
    numbers : (m,) int64
        Numbers of the images that were compared by all cells, at most CANDIDATES of them.
    scores : (m,) float32
        Mean cosine at the best place, from -1 to 1.
    boxes : (m, 4) float32
        Left, top, width and height of that place, as shares of the image's sides.
    """
    few = template.thinned()
    if len(numbers) > CANDIDATES and few is not template:
        candidates, first, _ = _compare(cells, few, numbers)
        numbers = candidates[top_k(first, CANDIDATES)]
    return _compare(cells, template, numbers)


def _compare(cells: RegionCells, template: RegionTemplate, numbers: Rows) -> tuple[Rows, Floats, Floats]:
    found, scores, boxes = list[Rows](), list[Floats](), list[Floats]()
    for part in cells.parts:
        places = np.flatnonzero(np.isin(part["number"], numbers))
        for start in range(0, len(places), BLOCK):
            checkpoint()
            records = part[places[start : start + BLOCK]]
            with OneBlasThread():  # of many small products
                score, box = template.match(records["cells"])
            found.append(records["number"])
            scores.append(score)
            boxes.append(box)
    if not found:
        return np.empty(0, np.int64), np.empty(0, np.float32), np.empty((0, 4), np.float32)
    return np.concatenate(found).astype(np.int64), np.concatenate(scores), np.concatenate(boxes)


def _rounded(box: Floats) -> Box:
    left, top, width, height = (round(float(value), 4) for value in box)
    return left, top, width, height


def _check(request: Request, area: Area) -> None:
    if area == WHOLE:
        raise InvalidInput("anywhere: needs region, the part of the image to search for")
    if request.examples or request.feedback:
        raise InvalidInput("anywhere: is for a region of one image, without examples and feedback")
