"""The one query path: image or image id in, ranked answer out. Command line, HTTP and evaluation all call it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from cbir import rerank
from cbir.errors import InvalidInput, NotFound, UnreadableImage
from cbir.external_links import external_links
from cbir.gallery.ranking import RankingList, best, nearest_of, rank, subset
from cbir.gpu.device_search import DeviceSearch
from cbir.gpu.top_hits import TopHits
from cbir.images import Image
from cbir.rerank.feedback import Feedback, apply_judgements
from cbir.rerank.seeded_diffusion import RelevanceFeedback
from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.filters import parse
from cbir.store.instances import DicomScope
from cbir.store.lookup import numbers_of, showing
from cbir.store.view import View

SAMPLE_SEED = 0  # the sample that stands in for the tail of a very large collection is always the same
MOST_EXAMPLES = 20
MOST_JUDGEMENTS = 300


class Judgement(BaseModel):
    """What the person says of an image: relevance from -1, certainly not, to 1, certainly; 0 says nothing."""

    model_config = ConfigDict(extra="forbid")

    image_id: str
    relevance: float = Field(ge=-1.0, le=1.0, allow_inf_nan=False)


Examples = Annotated[list[str], Field(max_length=MOST_EXAMPLES)]
Judgements = Annotated[list[Judgement], Field(max_length=MOST_JUDGEMENTS)]


class Request(BaseModel):
    """What is asked besides the image.

    k: number of answers. rerank: name of a re-ranker, None for the settings' one; parameters: of the re-ranker,
    where they differ from the profile's. where: conditions such as "modality=CT", all of which must hold.
    exclude_patient: a patient key or the identifier behind it, whose images are left out.
    outside: only DICOM images are answers, and none of this study, series or instance.
    examples: ids of further examples, all left out of the answer. feedback: judgements of images. With either of
    them the answer is learnt by `cbir.rerank.feedback` in place of the re-ranker, but for "none".
    """

    k: int = Field(20, ge=1)
    rerank: str | None = None
    parameters: dict[str, Any] = {}
    where: list[str] = []
    exclude_patient: str | None = None
    outside: DicomScope | None = None
    examples: Examples = []
    feedback: Judgements = []


class DicomReference(BaseModel):
    """Where an image stands in the archive (UIDs of PS3.3); frame from 1, None for the only one."""

    study: str
    series: str
    instance: str
    frame: int | None


class Links(BaseModel):
    """Addresses: thumbnail, image on the service; rendered in the archive and viewer where the settings name them."""

    thumbnail: str
    image: str
    rendered: str | None = None
    viewer: str | None = None


class Hit(BaseModel):
    """One answer. rank from 1; score: larger is more relevant; distance: Euclidean, of normalised vectors."""

    rank: int
    image_id: str
    score: float
    distance: float
    labels: dict[str, str]
    patient: str | None
    dicom: DicomReference | None
    links: Links


class QueryFacts(BaseModel):
    """The query as it was understood. image_id is set where the picture is in the collection, and left out of
    its own answer."""

    image_id: str | None
    width: int
    height: int
    format: str
    frame: int | None


class RerankFacts(BaseModel):
    """How the answer was re-ranked, and over which part of the collection."""

    method: str
    parameters: dict[str, Any]
    scope: str
    notes: tuple[str, ...]


class Answer(BaseModel):
    """The response of all three doors."""

    query: QueryFacts
    rerank: RerankFacts
    results: list[Hit]
    timings_ms: dict[str, float]


@dataclass(frozen=True, eq=False)
class RankedImages:
    """The best images for a query, best first, before anything but their vectors was read.

    numbers: (k,) int64, the collection's own numbers of the images. scores: (k,) floating, what they are ordered
    by, falling; shown: (k,), what is reported for them. distances: (k,) float32, Euclidean.
    """

    numbers: NDArray[np.int64]
    scores: NDArray[np.floating]
    shown: NDArray[np.floating]
    distances: NDArray[np.float32]
    how: RerankFacts


class Stopwatch:
    """Milliseconds of named stages."""

    def __init__(self) -> None:
        self.started = self.last = time.perf_counter()
        self.stages: dict[str, float] = {}

    def lap(self, stage: str) -> None:
        """Book the time since the last lap to `stage`, on top of what it has."""
        now = time.perf_counter()
        self.stages[stage] = self.stages.get(stage, 0.0) + (now - self.last) * 1000
        self.last = now

    def done(self) -> dict[str, float]:
        """All stages, rounded, with their total."""
        total = (time.perf_counter() - self.started) * 1000
        return {stage: round(ms, 3) for stage, ms in (self.stages | {"total": total}).items()}


class Searcher:
    """Answers queries on one collection. Thread-safe."""

    def __init__(self, collection: Collection, settings: Settings) -> None:
        self.collection = collection
        self.settings = settings
        self._device = DeviceSearch(collection.folder, settings.device, settings.index)

    def by_image(self, image: Image, request: Request, watch: Stopwatch) -> Answer:
        """The images most like `image`; the same picture, where the collection has it, is left out."""
        return self.by_examples([image], request, watch)

    def by_id(self, image_id: str, request: Request, watch: Stopwatch) -> Answer:
        """The images most like one of the collection, which is left out; raises NotFound."""
        examples = [image_id, *request.examples]
        return self.by_examples([], request.model_copy(update={"examples": examples}), watch)

    def by_examples(self, images: Sequence[Image], request: Request, watch: Stopwatch) -> Answer:
        """The images most like `images` and the request's examples; all of these are left out.

        The facts of the query are those of the first. Raises NotFound for an unknown id, InvalidInput without any.
        """
        count = len(images) + len(request.examples)
        if not 1 <= count <= MOST_EXAMPLES + 1:
            raise InvalidInput(
                f"image_id, examples: 1 to {MOST_EXAMPLES + 1} images are needed to search with, not {count}"
            )
        records = [self.collection.record(image_id) for image_id in request.examples]
        watch.lap("decode")
        describe = self.collection.profile.load_descriptor(self.settings.device)
        raw = [describe(image) for image in images] + [self.collection.vector(r.image_id) for r in records]
        contents = [image.content_hash for image in images] + [record.content_hash for record in records]
        watch.lap("describe")
        first = images[0] if images else records[0]
        facts = QueryFacts(
            image_id=self.collection.shows(images[0].content_hash) if images else records[0].image_id,
            width=first.width,
            height=first.height,
            format=first.format,
            frame=first.frame,
        )
        if count == 1 and not request.feedback:
            ranked = self.rank(raw[0], contents[0], request, watch)
        else:
            ranked = self.learn(np.stack(raw), contents, request, watch)
        return Answer(query=facts, rerank=ranked.how, results=self._hits(ranked), timings_ms=watch.done())

    def rank(
        self, raw: NDArray[np.float32], content: str, request: Request, watch: Stopwatch | None = None
    ) -> RankedImages:
        """The images most like one whose raw vector (d,) float32 is given.

        content: hash of the query's picture, which is left out.
        """
        watch = watch or Stopwatch()
        view = self.collection.view()
        query = view.statistics.normalise(raw)
        rows = self._rows(view, [content], request)
        method = request.rerank or self.settings.rerank
        known = rerank.parameter_names(method)
        kept = {name: value for name, value in self.collection.profile.rerank.items() if name in known}
        reranker = rerank.get(method, **(kept | request.parameters))
        found = self._device.rank(query, view.gallery, rows, reranker, request.k)
        if found is not None:
            watch.lap("search")  # list and re-ranking are one there
            watch.lap("rerank")
            return _found(view, found, reranker)
        ranking = rank(query, view.gallery, rows)
        watch.lap("search")
        ranking, tail_left_out = self._bounded(ranking, request.k)
        reranked = reranker(query, ranking, view.gallery)
        watch.lap("rerank")
        scope = tail_left_out or reranked.scope
        how = RerankFacts(
            method=reranker.name, parameters=reranker.parameters, scope=scope, notes=reranked.notes
        )
        return _cut(view, ranking, reranked.scores, reranked, how, request.k)

    def learn(
        self,
        raw: NDArray[np.float32],
        contents: Sequence[str],
        request: Request,
        watch: Stopwatch | None = None,
        judged_in_place: bool = False,
    ) -> RankedImages:
        """The images most like several, whose raw vectors (e, d) are given, by what was judged.

        An image is as far as the nearest example is. judged_in_place: judged images stay where what was
        learnt puts them; else those judged relevant come first and those judged not relevant last.
        """
        watch = watch or Stopwatch()
        view = self.collection.view()
        judged = self._judged(view, request)
        examples = np.stack([view.statistics.normalise(one) for one in raw])
        rows = self._rows(view, contents, request)
        ranking = nearest_of([rank(one, view.gallery, rows) for one in examples])
        watch.lap("search")
        ranking, tail_left_out = self._bounded(ranking, request.k, judged.rows)
        method = request.rerank or self.settings.rerank
        if method != Feedback.name:
            rerank.get(method, **request.parameters)  # what it would refuse is refused here too
        if rerank.resolve_name(method) == "none":
            reranked, name, parameters = rerank.Reranked(ranking.similarities), "none", {}
        else:
            learner = _learner(request.parameters if method == Feedback.name else {})
            reranked, name = learner(examples, judged, ranking, view.gallery), learner.name
            parameters = learner.parameters
        scores = reranked.scores if judged_in_place else apply_judgements(reranked.scores, judged, ranking.rows)
        watch.lap("rerank")
        how = RerankFacts(
            method=name, parameters=parameters, scope=tail_left_out or reranked.scope, notes=reranked.notes
        )
        return _cut(view, ranking, scores, reranked, how, request.k)

    def _rows(self, view: View, contents: Sequence[str], request: Request) -> NDArray[np.int64] | None:
        """Rows to search, without those that show one of `contents`; None for all."""
        conditions = [parse(text) for text in request.where]
        rows = self.collection.select_rows(
            view, conditions, request.exclude_patient, contents[0], request.outside
        )
        if len(contents) == 1:
            return rows
        rows = np.arange(len(view.gallery)) if rows is None else rows
        return np.setdiff1d(rows, view.rows_of(showing(self.collection, contents[1:])), assume_unique=True)

    def _judged(self, view: View, request: Request) -> RelevanceFeedback:
        """The judgements that say something; raises NotFound and InvalidInput."""
        ids = [judgement.image_id for judgement in request.feedback]
        twice = next((one for place, one in enumerate(ids) if one in ids[:place]), None)
        if twice is not None:
            raise InvalidInput(f"feedback: image {twice} is judged more than once")
        numbers = numbers_of(self.collection, ids)
        rows = np.searchsorted(view.gallery.ids, numbers)
        for name, number, row in zip(ids, numbers, rows, strict=True):
            if row == len(view.gallery) or view.gallery.ids[row] != number:
                raise NotFound(f"there is no image {name} in the collection")
        relevance = np.array([judgement.relevance for judgement in request.feedback], np.float64)
        return RelevanceFeedback(rows[relevance != 0.0], relevance[relevance != 0.0])

    def _bounded(
        self, ranking: RankingList, k: int, judged: Sequence[int] | NDArray[np.int64] = ()
    ) -> tuple[RankingList, str | None]:
        """The list itself, or beyond the exact limit its best places, judged rows and a fixed sample."""
        if len(ranking) <= self.settings.exact_limit:
            return ranking, None
        count = min(max(self.settings.candidates, k), len(ranking))
        sample = np.random.default_rng(SAMPLE_SEED).choice(
            len(ranking), min(count, len(ranking)), replace=False
        )
        kept = np.union1d(best(ranking.similarities, count), sample)
        kept = np.union1d(kept, np.flatnonzero(np.isin(ranking.rows, judged)))
        return subset(ranking, kept), f"the best {count} of {len(ranking)} and a sample of {count}"

    def _hits(self, ranked: RankedImages) -> list[Hit]:
        numbers = ranked.numbers.tolist()
        records = self.collection.records(numbers)
        found = [
            (records[number], float(score), float(distance))
            for number, score, distance in zip(numbers, ranked.shown, ranked.distances, strict=True)
            if number in records
        ]
        return [_hit(self.settings, place, *what) for place, what in enumerate(found, start=1)]


def _learner(parameters: dict[str, Any]) -> Feedback:
    known = [field.name for field in fields(Feedback)]
    unknown = [name for name in parameters if name not in known]
    if unknown:
        raise InvalidInput(f"feedback has no parameter {unknown[0]!r}; it has: {', '.join(known)}")
    return Feedback(**parameters)


def _cut(
    view: View,
    ranking: RankingList,
    scores: NDArray[np.floating],
    reranked: rerank.Reranked,
    how: RerankFacts,
    k: int,
) -> RankedImages:
    """The best k of the list."""
    places = best(scores, k)
    numbers = view.gallery.ids[ranking.rows[places]]
    return RankedImages(numbers, scores[places], reranked.shown(scores[places]), ranking.distances[places], how)


def _found(view: View, found: TopHits, reranker: rerank.Reranker) -> RankedImages:
    """What was found on a device."""
    how = RerankFacts(
        method=reranker.name,
        parameters=reranker.parameters,
        scope=found.reranked.scope,
        notes=found.reranked.notes,
    )
    shown = found.reranked.shown(found.scores)
    return RankedImages(view.gallery.ids[found.rows], found.scores, shown, found.distances, how)


def _hit(settings: Settings, place: int, record: Record, score: float, distance: float) -> Hit:
    archive = DicomReference(
        study=record.study, series=record.series, instance=record.instance, frame=record.frame
    )
    address = f"/v1/images/{record.image_id}"
    return Hit(
        rank=place,
        image_id=record.image_id,
        score=score,
        distance=distance,
        labels=record.labels,
        patient=record.patient_key,
        dicom=archive if record.instance else None,
        links=Links(
            thumbnail=f"{address}/thumbnail",
            image=address,
            **external_links(settings, record.study, record.series, record.instance, record.frame),
        ),
    )


def select_frame(frames: Sequence[Image] | Any, wanted: int | None, name: str) -> Image:
    """The frame of a query file to search with: the wanted one, counted from 1, or the first.

    frames: an iterator of images, of which no more than needed are decoded.
    """
    if wanted is not None and wanted < 1:
        raise InvalidInput(f"frames are counted from 1; there is no frame {wanted}")
    for number, image in enumerate(frames, start=1):
        if number == (wanted or 1):
            return image
    raise UnreadableImage(f"{name} has no frame {wanted or 1}")
