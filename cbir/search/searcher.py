"""Search in a collection: query vectors, ranking list, re-ranking, hits."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from cbir.descriptors.descriptor import Descriptor, QueryImage
from cbir.errors import IndexUnavailable, InvalidInput
from cbir.gallery.knn_graph import OUTLIER
from cbir.gallery.vector_blocks import Floats
from cbir.images import Image
from cbir.rerank.feedback import apply_judgements
from cbir.rerank.ranked import Ranked, rerank_top, select_top
from cbir.rerank.several_examples import Learner, learn
from cbir.rerank.simple_rerankers import NoReranking
from cbir.search.answer import Answer, QueryFacts, RerankFacts
from cbir.search.candidate_view import NO_NUMBERS, CandidateView, candidate_query, request_scope
from cbir.search.fitted_values import Vectors
from cbir.search.hit_selection import Rank, label_agreements, load_hits, select_images
from cbir.search.query_parts import (
    check_vectors,
    choose_learner,
    choose_reranker,
    feedback_in,
    normalise_vectors,
    query_patient,
    read_feedback,
    without_own_study,
)
from cbir.search.region_cells import RegionQuery
from cbir.search.search_models import MAX_EXAMPLES
from cbir.search.search_options import Request
from cbir.search.searched_vectors import SearchedVectors
from cbir.search.text_search import check_text_request, rank_by_text, text_encoder
from cbir.search.view_vectors import ViewVectors
from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.index.open_index import open_index
from cbir.store.index.port import Numbers
from cbir.store.limited_collection import LimitedCollection
from cbir.system.threads import Stopwatch, take_turn

NO_INDEX = (
    "The index does not answer, or is not built yet. All images were compared in place of its candidates."
)


class Searcher:
    """Search in one collection. Thread-safe.

    Parameters
    ----------
    collection : Collection
        Collection to search.
    settings : Settings
        Limits, default re-ranker, device, addresses of archive and viewer.
    vectors : Vectors, optional
        Vectors behind an index, of which searches read candidates alone; None for those of the index that the
        settings name, if any.
    """

    def __init__(self, collection: Collection, settings: Settings, vectors: Vectors | None = None) -> None:
        self.collection = collection
        self.settings = settings
        self.vector_index = None if vectors is not None else open_index(collection, settings)
        behind = vectors if self.vector_index is None else self.vector_index.vectors
        self.vectors = SearchedVectors(collection, settings, ViewVectors(collection, settings.device), behind)

    def over(self, collection: LimitedCollection) -> "Searcher":
        """Return a searcher of `collection`, a limited view of this one's, that shares its index."""
        searcher = copy(self)
        searcher.collection, searcher.vectors = collection, self.vectors.over(collection)
        return searcher

    def by_image(self, image: Image | QueryImage, request: Request, watch: Stopwatch) -> Answer:
        """Search with one image.

        Parameters
        ----------
        image : Image or QueryImage
            Query image, or its description by another process.
        request, watch
            As in `by_examples`.
        """
        return self.by_examples([image], request, watch)

    def by_id(self, image_id: str, request: Request, watch: Stopwatch) -> Answer:
        """Search with an image of the collection.

        Parameters
        ----------
        image_id : str
            Id of the query image.
        request, watch
            As in `by_examples`.
        """
        examples = [image_id, *request.examples]
        return self.by_examples([], request.model_copy(update={"examples": examples}), watch)

    @take_turn()
    def by_examples(
        self,
        images: Sequence[Image | QueryImage],
        request: Request,
        watch: Stopwatch,
        vectors: ArrayLike | None = None,
    ) -> Answer:
        """Search with images, vectors and the examples of the request; no image among them, nor its copies, is a hit.

        Parameters
        ----------
        images : sequence of Image or QueryImage
            Query images from outside, or their descriptions by another process.
        request : Request
            Parameters of the search, with ids of further examples.
        watch : Stopwatch
            Times the stages.
        vectors : (d,) or (v, d) array-like, optional
            Raw values of the collection's descriptor. An image with this vector is a hit like any other.

        Returns
        -------
        Answer
            Hits, and facts about the first query image.

        Raises
        ------
        NotFound
            For an unknown image id.
        InvalidInput
            Without any query image, or with too many; for vectors that do not fit the profile.
        """
        extra = [] if vectors is None else [*check_vectors(vectors, self.collection.profile)]
        if extra:
            normalise_vectors(np.stack(extra), self.vectors.statistics())
        count = len(images) + len(request.examples) + len(extra)
        if not 1 <= count <= MAX_EXAMPLES + 1:
            raise InvalidInput(
                f"image_id, examples: 1 to {MAX_EXAMPLES + 1} images are needed to search with, not {count}"
            )
        records = [self.collection.record(image_id) for image_id in request.examples]
        if request.same_patient and request.of_patient is None:
            patient = query_patient(self.collection, images, records)
            request = request.model_copy(update={"of_patient": patient})
        request = without_own_study(request, images, records)
        watch.lap("decode")
        describe = self._descriptor
        raw = [
            image.vector(describe) if isinstance(image, QueryImage) else describe(image) for image in images
        ]
        raw += [self.collection.vector(record.image_id) for record in records] + extra
        contents = [image.content_hash for image in images] + [record.content_hash for record in records]
        watch.lap("describe")
        for image in images:
            if isinstance(image, QueryImage):
                watch.add("decode", image.decode_ms)
                watch.add("describe", image.describe_ms)
        if count == 1 and not request.feedback:
            content = contents[0] if contents else ""

            def rank(k: int) -> Ranked:
                return self.rank(raw[0], content, _deeper(request, k), watch)
        else:
            matrix = np.stack(raw)

            def rank(k: int) -> Ranked:
                return self.learn(matrix, contents, _deeper(request, k), watch)

        return self._answer(self._query_facts(images, records), rank, request, watch)

    @cached_property
    def _descriptor(self) -> Descriptor:
        """Descriptor of query images; loading it reads settings and a card, which takes longer than a search."""
        return self.collection.profile.load_descriptor(self.settings.device)

    def _query_facts(self, images: Sequence[Image | QueryImage], records: Sequence[Record]) -> QueryFacts:
        """Return facts about the first query image; about a vector where there is none."""
        if not images and not records:
            return QueryFacts(image_id=None, width=0, height=0, format="vector", frame=None)
        first = images[0] if images else records[0]
        image_id = self.collection.first_id_showing(first.content_hash) if images else records[0].image_id
        patient = records[0].patient_key if records and not images else None  # of uploads, ids could be tried
        return QueryFacts(
            image_id=image_id, patient=patient, width=first.width, height=first.height, format=first.format,
            frame=first.frame,
        )  # fmt: skip

    def _answer(self, query: QueryFacts, rank: Rank, request: Request, watch: Stopwatch) -> Answer:
        """Return the answer with the best images that `rank` returns, see `select_images`."""

        def read_groups(numbers: Sequence[int]) -> dict[int, str]:
            return self.collection.group_keys(numbers, request.group_by or "")

        ranked, groups, grouping = select_images(rank, request, read_groups)
        hits = load_hits(self.collection, self.settings, ranked, groups, request.label_bytes)
        outlier = None if ranked.likeness is None else ranked.likeness <= OUTLIER
        return Answer(
            query=query.model_copy(update={"likeness": ranked.likeness, "outlier": outlier}),
            rerank=RerankFacts.of_ranked(ranked),
            agreement=label_agreements(hits, {} if outlier else ranked.evidence, self.settings.card_labels),
            results=hits,
            grouping=grouping,
            timings_ms=watch.done(),
        )

    @take_turn()
    def by_text(self, text: str, request: Request, watch: Stopwatch) -> Answer:
        """Search with a text, where the collection's encoder has a text tower; scores are cosines.

        Parameters
        ----------
        text : str
            Words to search with, at most MAX_TEXT characters.
        request : Request
            Parameters of the search, without examples, feedback and re-ranking.
        watch : Stopwatch
            Times the stages.

        Raises
        ------
        InvalidInput
            If there is no text tower, or the request is for images.
        """
        check_text_request(text, request)
        encoder = text_encoder(self.collection.profile)
        self.vectors.require_whole("a search by text")
        vector = encoder.describe_text(text)
        watch.lap("describe")
        searched, rows = self.vectors.rows(request_scope(self.collection, request, []))
        view = searched.view
        vectors = self.collection.joint_vectors(view, encoder.dimensions)

        def rank(k: int) -> Ranked:
            best, cosines = rank_by_text(vector, vectors, rows, k)
            watch.lap("search")
            scores = cosines.astype(np.float64)
            distances = np.sqrt(np.maximum(2 - 2 * scores, 0)).astype(np.float32)
            return Ranked(view.gallery.ids[best], scores, scores, distances, NoReranking.name, {})

        query = QueryFacts(image_id=None, width=0, height=0, format="text", frame=None)
        return self._answer(query, rank, request, watch)

    @take_turn()
    def by_region(self, query: RegionQuery, request: Request, watch: Stopwatch) -> Answer:
        """Search for images with a like region anywhere; scores are mean cosines of cells. See `RegionQuery`."""
        self.vectors.require_whole("a search for a region anywhere")
        request = without_own_study(request, [query.image], [])
        searched, rows = self.vectors.rows(
            request_scope(self.collection, request, [query.image.content_hash])
        )
        rank = query.ranker(self.collection, searched.view, rows, request, watch)
        return self._answer(self._query_facts([query.image], []), rank, request, watch)

    def rank(self, raw: Floats, content: str, request: Request, watch: Stopwatch | None = None) -> Ranked:
        """Search with one vector.

        Parameters
        ----------
        raw : (d,) float32
            Raw query vector.
        content : str
            Content hash of the query image; copies of it are left out.
        request : Request
            Parameters of the search.
        watch : Stopwatch or None
            Times the stages.
        """
        watch = watch or Stopwatch()

        def search(vectors: Vectors) -> Ranked:
            query = vectors.statistics.normalise(raw)
            auto = vectors.view.auto if isinstance(vectors, ViewVectors) else self.collection.auto_choice()
            choice = choose_reranker(self.collection, self.settings.rerank, request, auto)
            candidates = self._find(vectors, query[None, :], [content], request, choice.reranker)
            watch.lap("search")
            ranking, gallery = candidates.ranking, candidates.view.gallery
            ranked = rerank_top(choice.reranker, query, ranking, gallery, request.k, candidates.hits)
            watch.lap("rerank")
            ranked = replace(ranked, reason=choice.reason, evidence=choice.evidence)
            return self._with_facts(ranked, choice.reranker, vectors, candidates, [raw], request.k)

        return self._search(search)

    def learn(
        self,
        raw: Floats,
        contents: Sequence[str],
        request: Request,
        watch: Stopwatch | None = None,
        judged_first: bool = True,
    ) -> Ranked:
        """Search with several vectors and the judgements of the request; the nearest example counts.

        Parameters
        ----------
        raw : (e, d) float32
            Raw query vectors.
        contents : sequence of str
            Content hashes of the query images; copies of them are left out.
        request : Request
            Parameters of the search.
        watch : Stopwatch or None
            Times the stages.
        judged_first : bool
            Whether images judged relevant come first and those judged not relevant last; else the learned score
            alone decides.
        """
        watch = watch or Stopwatch()

        def search(vectors: Vectors) -> Ranked:
            learner, reason = choose_learner(self.collection, self.settings.rerank, request)
            numbers, relevance = read_feedback(self.collection, request)
            examples = np.stack([vectors.statistics.normalise(vector) for vector in raw])
            candidates = self._find(vectors, examples, contents, request, learner, numbers)
            ranking, gallery = candidates.ranking, candidates.view.gallery
            feedback = feedback_in(gallery.ids, numbers, relevance)
            watch.lap("search")
            scored = learn(learner, examples, feedback, ranking, gallery)
            if judged_first:
                scored = replace(scored, scores=apply_judgements(scored.scores, feedback, ranking.rows))
            ranked = select_top(
                learner, (ranking.rows, scored), ranking, gallery, request.k, candidates.hits, feedback.rows
            )
            watch.lap("rerank")
            ranked = replace(ranked, reason=reason)
            return self._with_facts(ranked, learner, vectors, candidates, list(raw), request.k)

        return self._search(search)

    def _search(self, search: Callable[[Vectors], Ranked]) -> Ranked:
        """Search in the vectors of the index, or in those of a view while it does not answer."""
        try:
            return search(self.vectors.current().for_search())
        except IndexUnavailable:  # its reason names servers, which callers need not know
            return search(self.vectors.instead().for_search()).with_notes(NO_INDEX)

    def _find(
        self, vectors: Vectors, queries: Floats, contents: Sequence[str], request: Request, method: Learner,
        judged: Numbers = NO_NUMBERS,
    ) -> CandidateView:  # fmt: skip
        scope = request_scope(self.collection, request, contents)
        query = candidate_query(vectors, queries, scope, request, method, self.settings, judged)
        return self.vectors.candidates(vectors, query)

    def _with_facts(
        self, ranked: Ranked, method: Learner, vectors: Vectors, candidates: CandidateView,
        raw: Sequence[Floats], k: int,
    ) -> Ranked:  # fmt: skip
        """Name the index, say where a method reads less than the whole collection, and how like it the query is."""
        return replace(
            ranked.with_notes(*candidates.notes(method, k)),
            scope=candidates.scope or ranked.scope,
            index=vectors.index_name,
            likeness=self.vectors.likeness(vectors, candidates, raw),
        )


def _deeper(request: Request, k: int) -> Request:
    """Return the request for k images."""
    return request.model_copy(update={"k": k})
