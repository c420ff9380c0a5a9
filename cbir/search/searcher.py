"""Search in a collection: query vectors, ranking list, re-ranking, hits."""

from collections.abc import Callable, Sequence
from copy import copy
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from cbir.descriptors.query_image import QueryImage
from cbir.errors import InvalidInput
from cbir.gallery.knn import OUTLIER
from cbir.gallery.vector_blocks import Floats
from cbir.images import Image
from cbir.rerank.none import NoReranking
from cbir.search.collection_ranking import CollectionRanking
from cbir.search.hit_selection import Rank, SelectedImages, select_images
from cbir.search.image_links import record_links
from cbir.search.index_vectors import Vectors
from cbir.search.label_agreement import label_agreements
from cbir.search.query_patient import query_patient
from cbir.search.query_vectors import check_vectors, normalise_vectors
from cbir.search.ranked_images import RankedImages
from cbir.search.region_search import RegionQuery
from cbir.search.request_scope import request_scope
from cbir.search.search_models import MAX_EXAMPLES, Answer, DicomPlace, Hit, HitGroup, QueryFacts, RerankFacts
from cbir.search.search_request import Request
from cbir.search.stopwatch import Stopwatch
from cbir.search.text_search import check_text_request, rank_by_text, text_encoder
from cbir.search.view_vectors import ViewVectors
from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.index.open_index import open_index
from cbir.store.limited_collection import LimitedCollection
from cbir.system.threads import take_turn

Read = TypeVar("Read")


class Searcher:
    """Search in one collection. Thread-safe.

    Parameters
    ----------
    collection : Collection
        Collection to search.
    settings : Settings
        Limits, default re-ranker, device, addresses of archive and viewer.
    vectors : Vectors, optional
        Vectors behind an index, of which searches read candidates alone; None to compare all images.
    """

    def __init__(self, collection: Collection, settings: Settings, vectors: Vectors | None = None) -> None:
        self.collection = collection
        self.settings = settings
        self.index = None if vectors is not None else open_index(collection, settings)
        behind = vectors if self.index is None else self.index.vectors
        self._ranking = CollectionRanking(
            collection, settings, ViewVectors(collection, settings.device), behind
        )

    def over(self, collection: LimitedCollection) -> "Searcher":
        """Return a searcher of `collection`, a limited view of this one's, that shares its index."""
        searcher = copy(self)
        searcher.collection, searcher._ranking = collection, self._ranking.over(collection)
        return searcher

    @property
    def index_device(self) -> str:
        """Device that searches the snapshot."""
        return self._ranking.vectors.device

    def require_all_images(self, what: str) -> None:
        """Raise InvalidInput if `what` reads all images, which are too many to load where searches use an index."""
        self._ranking.require_whole(what)

    def read_vectors(self, indexed: Callable[[Vectors], Read], whole: Callable[[], Read]) -> Read:
        """Return what `indexed` reads behind the index, or `whole` where all images are compared.

        `indexed`, `whole`: functions. Raises IndexUnavailable if the index does not answer for too many images.
        """
        return self._ranking.read_vectors(indexed, whole)

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
            normalise_vectors(np.stack(extra), self._ranking.statistics())
        count = len(images) + len(request.examples) + len(extra)
        if not 1 <= count <= MAX_EXAMPLES + 1:
            raise InvalidInput(
                f"image_id, examples: 1 to {MAX_EXAMPLES + 1} images are needed to search with, not {count}"
            )
        records = [self.collection.record(image_id) for image_id in request.examples]
        if request.same_patient and request.of_patient is None:
            patient = query_patient(self.collection, images, records)
            request = request.model_copy(update={"of_patient": patient})
        watch.lap("decode")
        describe = self.collection.profile.load_descriptor(self.settings.device)
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
            selected = self._select(lambda k: self.rank(raw[0], content, _deeper(request, k), watch), request)
        else:
            matrix = np.stack(raw)
            selected = self._select(
                lambda k: self.learn(matrix, contents, _deeper(request, k), watch), request
            )
        return self._answer(self._query_facts(images, records), selected, request, watch)

    def _query_facts(self, images: Sequence[Image | QueryImage], records: Sequence[Record]) -> QueryFacts:
        """Return facts about the first query image; about a vector where there is none."""
        if not images and not records:
            return QueryFacts(image_id=None, width=0, height=0, format="vector", frame=None)
        first = images[0] if images else records[0]
        image_id = self.collection.first_id_showing(first.content_hash) if images else records[0].image_id
        return QueryFacts(
            image_id=image_id, width=first.width, height=first.height, format=first.format, frame=first.frame
        )

    def _select(self, rank: Rank, request: Request) -> SelectedImages:
        def read_groups(numbers: Sequence[int]) -> dict[int, str]:
            return self.collection.group_keys(numbers, request.group_by or "")

        return select_images(rank, request, read_groups)

    def _answer(
        self, query: QueryFacts, selected: SelectedImages, request: Request, watch: Stopwatch
    ) -> Answer:
        ranked = selected.ranked
        hits = self._load_hits(ranked, selected.groups, request.label_bytes)
        outlier = None if ranked.likeness is None else ranked.likeness <= OUTLIER
        return Answer(
            query=query.model_copy(update={"likeness": ranked.likeness, "outlier": outlier}),
            rerank=ranked.reranking,
            agreement=label_agreements(hits, {} if outlier else ranked.agreement),
            results=hits,
            grouping=selected.grouping,
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
        self.require_all_images("a search by text")
        vector = encoder.describe_text(text)
        watch.lap("describe")
        searched, rows = self._ranking.rows(request_scope(self.collection, request, []))
        view = searched.view
        vectors = self.collection.joint_vectors(view, encoder.dimensions)
        facts = RerankFacts(method=NoReranking.name, parameters={}, scope="collection", notes=())

        def rank(k: int) -> RankedImages:
            best, cosines = rank_by_text(vector, vectors, rows, k)
            watch.lap("search")
            scores = cosines.astype(np.float64)
            distances = np.sqrt(np.maximum(2 - 2 * scores, 0)).astype(np.float32)
            return RankedImages(view.gallery.ids[best], scores, scores, distances, facts)

        query = QueryFacts(image_id=None, width=0, height=0, format="text", frame=None)
        return self._answer(query, self._select(rank, request), request, watch)

    @take_turn()
    def by_region(self, query: RegionQuery, request: Request, watch: Stopwatch) -> Answer:
        """Search for images with a like region anywhere; scores are mean cosines of cells. See `RegionQuery`."""
        self.require_all_images("a search for a region anywhere")
        searched, rows = self._ranking.rows(
            request_scope(self.collection, request, [query.image.content_hash])
        )
        rank = query.ranker(self.collection, searched.view, rows, request, watch)
        return self._answer(self._query_facts([query.image], []), self._select(rank, request), request, watch)

    def rank(
        self, raw: Floats, content: str, request: Request, watch: Stopwatch | None = None
    ) -> RankedImages:
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
        return self._ranking.rank(raw, content, request, watch or Stopwatch())

    def learn(
        self,
        raw: Floats,
        contents: Sequence[str],
        request: Request,
        watch: Stopwatch | None = None,
        judged_first: bool = True,
    ) -> RankedImages:
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
        return self._ranking.learn(raw, contents, request, watch or Stopwatch(), judged_first)

    def _load_hits(
        self, ranked: RankedImages, groups: Sequence[HitGroup] | None, label_bytes: int | None
    ) -> list[Hit]:
        """Load the records of ranked images; those deleted meanwhile are left out."""
        numbers, bare = ranked.numbers.tolist(), set[int]()
        if label_bytes is None:
            records = self.collection.records(numbers)
        else:
            records, bare = self.collection.bounded_records(numbers, label_bytes)
        hits: list[Hit] = []
        for index, (number, score, distance) in enumerate(
            zip(numbers, ranked.reported, ranked.distances, strict=True)
        ):
            if record := records.get(number):
                hit = self.hit_of(record, len(hits) + 1, float(score), float(distance))
                hit.group = groups[index] if groups else None
                hit.match = ranked.matches.get(number)
                hit.labels_left_out = number in bare
                hits.append(hit)
        return hits

    def hit_of(self, record: Record, rank: int, score: float, distance: float) -> Hit:
        """Return the hit that reports a record.

        Parameters
        ----------
        record : Record
            Record of the image.
        rank : int
            From 1.
        score, distance : float
            Score, larger for more relevant images, and Euclidean distance to the query.
        """
        return Hit(
            rank=rank,
            image_id=record.image_id,
            score=score,
            distance=distance,
            labels=record.labels,
            patient=record.patient_key,
            dicom=DicomPlace.of_record(record),
            links=record_links(self.settings, record),
            source=record.source if self.settings.show_sources else None,
        )


def _deeper(request: Request, k: int) -> Request:
    """Return the request for k images."""
    return request.model_copy(update={"k": k})
