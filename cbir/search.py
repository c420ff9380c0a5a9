"""The one query path: image or image id in, ranked answer out. Command line, HTTP and evaluation all call it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from cbir import descriptors, rerank
from cbir.collection import Collection, Record
from cbir.collection.filters import parse
from cbir.errors import InvalidInput, UnreadableImage
from cbir.images import Image
from cbir.ranking import RankingList, best, rank, subset
from cbir.settings import Settings

SAMPLE_SEED = 0  # the sample that stands in for the tail of a very large collection is always the same


class Request(BaseModel):
    """What is asked besides the image.

    k: number of answers. rerank: name of a re-ranker, None for the settings' one; parameters: of the re-ranker,
    where they differ from the profile's. where: conditions such as "modality=CT", all of which must hold.
    exclude_patient: a patient key or the identifier behind it, whose images are left out.
    """

    k: int = Field(20, ge=1)
    rerank: str | None = None
    parameters: dict[str, Any] = {}
    where: list[str] = []
    exclude_patient: str | None = None


class DicomPlace(BaseModel):
    """Where an image stands in the archive (UIDs of PS3.3); frame from 1, None for the only one."""

    study: str
    series: str
    instance: str
    frame: int | None


class Links(BaseModel):
    """Addresses on the service."""

    thumbnail: str
    image: str


class Hit(BaseModel):
    """One answer. rank from 1; score: larger is more relevant; distance: Euclidean, of normalised vectors."""

    rank: int
    image_id: str
    score: float
    distance: float
    labels: dict[str, str]
    patient: str | None
    dicom: DicomPlace | None
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
class Ranked:
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
        """Book the time since the last lap to `stage`."""
        now = time.perf_counter()
        self.stages[stage] = (now - self.last) * 1000
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

    def by_image(self, image: Image, request: Request, watch: Stopwatch) -> Answer:
        """The images most like `image`; the same picture, where the collection has it, is left out."""
        watch.lap("decode")
        raw = descriptors.get(self.collection.profile.descriptor)(image)
        watch.lap("describe")
        facts = QueryFacts(
            image_id=self.collection.shows(image.content_hash),
            width=image.width,
            height=image.height,
            format=image.format,
            frame=image.frame,
        )
        return self._answer(raw, image.content_hash, facts, request, watch)

    def by_id(self, image_id: str, request: Request, watch: Stopwatch) -> Answer:
        """The images most like one of the collection, which is left out; raises NotFound."""
        record = self.collection.record(image_id)
        watch.lap("decode")
        raw = self.collection.vector(image_id)
        watch.lap("describe")
        facts = QueryFacts(
            image_id=image_id,
            width=record.width,
            height=record.height,
            format=record.format,
            frame=record.frame,
        )
        return self._answer(raw, record.content_hash, facts, request, watch)

    def rank(
        self, raw: NDArray[np.float32], content: str, request: Request, watch: Stopwatch | None = None
    ) -> Ranked:
        """The images most like one whose raw vector (d,) float32 is given.

        content: hash of the query's picture, which is left out.
        """
        watch = watch or Stopwatch()
        collection = self.collection
        view = collection.view()
        conditions = [parse(text) for text in request.where]
        rows = collection.select_rows(view, conditions, request.exclude_patient, content)
        query = view.statistics.normalise(raw)
        ranking = rank(query, view.gallery, rows)
        watch.lap("search")
        method = request.rerank or self.settings.rerank
        known = rerank.parameters(method)
        kept = {name: value for name, value in collection.profile.rerank.items() if name in known}
        reranker = rerank.get(method, **(kept | request.parameters))
        ranking, tail_left_out = self._bounded(ranking, request.k)
        reranked = reranker(query, ranking, view.gallery)
        watch.lap("rerank")
        places = best(reranked.scores, request.k)
        scores = reranked.scores[places]
        scope = tail_left_out or reranked.scope
        how = RerankFacts(method=method, parameters=reranker.parameters, scope=scope, notes=reranked.notes)
        numbers = view.gallery.ids[ranking.rows[places]]
        return Ranked(numbers, scores, reranked.shown(scores), ranking.distances[places], how)

    def _answer(
        self, raw: NDArray[np.float32], content: str, facts: QueryFacts, request: Request, watch: Stopwatch
    ) -> Answer:
        ranked = self.rank(raw, content, request, watch)
        hits = self._hits(ranked)
        return Answer(query=facts, rerank=ranked.how, results=hits, timings_ms=watch.done())

    def _bounded(self, ranking: RankingList, k: int) -> tuple[RankingList, str | None]:
        """The list itself, or beyond the exact limit its best places and a fixed sample of all others."""
        if len(ranking) <= self.settings.exact_limit:
            return ranking, None
        count = min(max(self.settings.candidates, k), len(ranking))
        sample = np.random.default_rng(SAMPLE_SEED).choice(
            len(ranking), min(count, len(ranking)), replace=False
        )
        kept = np.union1d(best(ranking.similarities, count), sample)
        return subset(ranking, kept), f"the best {count} of {len(ranking)} and a sample of {count}"

    def _hits(self, ranked: Ranked) -> list[Hit]:
        numbers = ranked.numbers.tolist()
        records = self.collection.records(numbers)
        found = [
            (records[number], float(score), float(distance))
            for number, score, distance in zip(numbers, ranked.shown, ranked.distances, strict=True)
            if number in records
        ]
        return [_hit(place, *what) for place, what in enumerate(found, start=1)]


def _hit(place: int, record: Record, score: float, distance: float) -> Hit:
    archive = DicomPlace(
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
        links=Links(thumbnail=f"{address}/thumbnail", image=address),
    )


def query_frame(frames: Sequence[Image] | Any, wanted: int | None, name: str) -> Image:
    """The frame of a query file to search with: the wanted one, counted from 1, or the first.

    frames: an iterator of images, of which no more than needed are decoded.
    """
    if wanted is not None and wanted < 1:
        raise InvalidInput(f"frames are counted from 1; there is no frame {wanted}")
    for number, image in enumerate(frames, start=1):
        if number == (wanted or 1):
            return image
    raise UnreadableImage(f"{name} has no frame {wanted or 1}")
