"""Parts of an answer beside its results, where a search asks for them by `include`."""

from collections.abc import Callable, Sequence

import numpy as np

from cbir.descriptors.descriptor import QueryImage
from cbir.errors import InvalidInput
from cbir.ingest.decoder_tasks import QueryViews
from cbir.rerank.simple_rerankers import NoReranking
from cbir.search import Answer, Hit, Request, Searcher
from cbir.search.answer import ListBefore
from cbir.search.hit_selection import CardWriter
from cbir.search.query_parts import check_vectors, normalise_vectors
from cbir.search.search_models import QueryOrigin
from cbir.settings import Settings
from cbir.store import Collection
from service.http.responses import encode_picture, encode_pixels
from service.http.search_parameters import SearchBody, SearchParameters
from service.routes.search_hooks import search_hooks

BEFORE, CARDS, RENDERING, PIXELS, VECTOR = "before", "cards", "rendering", "pixels", "vector"
OF_UPLOAD = (PIXELS, RENDERING, VECTOR)
DEPTH = 5  # times k: results without re-ranking among which ranks are looked up
ALONE = "include: {} is of a search with a file; leave it out"


def check_include(params: SearchParameters, *, uploaded: bool) -> None:
    """Raise InvalidInput for a name in `include` that there is not, or that the search cannot have.

    Parameters
    ----------
    params : SearchParameters
    uploaded : bool
        Whether the search is with uploaded files as a whole or a part.
    """
    names = [BEFORE, CARDS, *OF_UPLOAD, *(name for hook in search_hooks() for name in hook.includes)]
    for name in params.include:
        if name not in names:
            raise InvalidInput(f"include: there is no {name[:40]!r}; there are: {', '.join(sorted(names))}")
        if name in OF_UPLOAD and not uploaded:
            raise InvalidInput(ALONE.format(name))


def check_batch_include(params: SearchParameters) -> None:
    """Raise InvalidInput for pictures in the answers of a batch, which would be many."""
    for name in (PIXELS, RENDERING):
        if name in params.include:
            raise InvalidInput(f"include: {name} is of one search; leave it out of a batch")


def query_images(searcher: Searcher, params: SearchBody) -> list[QueryImage]:
    """Return the vectors of a search with what is known of their files; none without `origin`.

    Raises InvalidInput if there are not as many of both, or the vectors do not fit the profile.
    """
    if not params.origin:
        return []
    vectors = check_vectors(params.vector, searcher.collection.profile)
    normalise_vectors(vectors, searcher.vectors.statistics())
    if len(vectors) != len(params.origin):
        raise InvalidInput(
            f"origin: one for each of the {len(vectors)} vectors is needed, as the answer had them"
        )
    return [
        QueryImage(
            vector,
            origin.content_hash,
            origin.width,
            origin.height,
            origin.format,
            origin.frame,
            is_described=True,
            study=origin.study,
        )
        for vector, origin in zip(vectors, params.origin, strict=True)
    ]


def add_query(
    answer: Answer, collection: Collection, queries: Sequence[QueryImage], views: QueryViews
) -> None:
    """Add the pictures of the first uploaded file to an answer, and the vectors of all that are described.

    Parameters
    ----------
    answer : Answer
    collection : Collection
        Its profile described the files.
    queries : sequence of QueryImage
        The files; without any, no vectors are added.
    views : QueryViews
        Of the first file.
    """
    if views.rendering:
        answer.query.rendering = encode_picture(views.rendering)
    if views.pixels:
        answer.query.pixels = encode_pixels(views.pixels)
    if queries:
        answer.query.profile = collection.profile.hash
        answer.query.vector = [_shortest(query) for query in queries]
        answer.query.origin = [
            QueryOrigin(
                content_hash=query.content_hash,
                study=query.study[:64],
                width=query.width,
                height=query.height,
                format=query.format,
                frame=query.frame,
            )
            for query in queries
        ]


def _shortest(query: QueryImage) -> list[float]:
    """Return the values of a vector in the fewest digits that distinguish them in 32 bits."""
    return [float(str(value)) for value in np.asarray(query.features, np.float32)]


def add_before(
    answer: Answer, request: Request, settings: Settings, search: Callable[[Request], Answer]
) -> None:
    """Add the answer without re-ranking to a re-ranked one, and the ranks that its results have there.

    Parameters
    ----------
    answer : Answer
    request : Request
        Of the search.
    settings : Settings
        Most results of a search.
    search : callable
        Searches with the same query.
    """
    if answer.rerank.method == NoReranking.name or answer.query.format == "text":
        return
    depth = max(min(DEPTH * request.k, settings.max_results // request.group_size), request.k)
    plain = {
        "rerank": NoReranking.name,
        "parameters": {},
        "feedback": [],
        "k": depth,
        "score_threshold": None,
    }
    before = search(request.model_copy(update=plain))
    ranks = {hit.image_id: hit.group.rank if hit.group else hit.rank for hit in before.results}
    for hit in answer.results:
        hit.rank_before = ranks.get(hit.image_id)
    shown = [hit for hit in before.results if (hit.group.rank if hit.group else hit.rank) <= request.k]
    answer.before = ListBefore(results=shown, depth=depth)
    answer.timings_ms["before"] = before.timings_ms.get("total", 0.0)


def shown_hits(answer: Answer) -> list[Hit]:
    """Return all images of this service that an answer shows, of both of its lists."""
    lists = [*answer.results, *(answer.before.results if answer.before else [])]
    return [hit for hit in lists if hit.site is None]


def add_cards(answer: Answer, collection: Collection, settings: Settings) -> None:
    """Add cards to all images of an answer, and to its query if that is an image of the collection."""
    hits, writer = shown_hits(answer), CardWriter(collection, settings)
    series = [(hit.dicom.study, hit.dicom.series) if hit.dicom else ("", "") for hit in hits]
    writer.write(hits, [hit.patient for hit in hits], series)
    if answer.query.image_id:
        answer.query.card = writer.card_of(collection.record(answer.query.image_id))
