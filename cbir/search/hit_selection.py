"""From ranked images to hits: thresholds, some images of each group, records, the cards of images, and labels."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil, floor
from threading import Lock
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from cbir.rerank.answer_evidence import ANSWERS, Evidence, EvidenceByKey, block_of, group_name
from cbir.rerank.ranked import Ranked
from cbir.rerank.simple_rerankers import NoReranking
from cbir.search.answer import Grouping, LabelAgreement
from cbir.search.search_models import Card, Hit, HitGroup, MatchBox, SliceOfSeries
from cbir.search.search_options import Request
from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import DicomScope
from cbir.store.records.image_order import SliceFacts
from cbir.system.setting_types import CardLabels

MOST_SERIES = 100  # of an answer whose slices are put in order, and that are kept so
MOST_SLICES = 100_000  # of the series that are kept
SeriesFacts = dict[tuple[str, str], dict[str, SliceFacts]]  # of the images of each series

# the series of each collection that are in order, at one generation
_ordered_by_collection: WeakKeyDictionary[Collection, tuple[int, SeriesFacts]] = WeakKeyDictionary()
_lock = Lock()
DEPTH = 200  # images ranked at first, at least, where not every one of the best becomes a hit
GROWTH = 10  # of the depth, as long as hits are missing
Rank = Callable[[int], Ranked]
ReadGroups = Callable[[Sequence[int]], Mapping[int, str]]
# The images that become hits, and with groups the group of each of them, and facts about the grouping
Selected = tuple[Ranked, list[HitGroup] | None, Grouping | None]


class Carded(Protocol):
    """Image that gets a card."""

    image_id: str
    labels: dict[str, str]
    card: Card | None


def label_of(labels: Mapping[str, str], keys: Iterable[str]) -> str | None:
    """Return the value of the first of several keys that an image has; None if it has none."""
    return next((labels[key] for key in keys if labels.get(key)), None)


def card_values(labels: Mapping[str, str], names: CardLabels) -> dict[str, str | None]:
    """Return what a card shows of labels, by the name of its part."""
    return {part: label_of(labels, getattr(names, part)) for part in CardLabels.model_fields}


class CardWriter:
    """Gives cards to images of one answer: each series is put in order once while the collection is the same."""

    def __init__(self, collection: Collection, settings: Settings) -> None:
        self._collection = collection
        self._names = settings.card_labels
        self._series: SeriesFacts = {}
        self._ordered = _series_in_order(collection)

    def write(
        self, images: Sequence[Carded], patients: Sequence[str | None], series: Sequence[tuple[str, str]]
    ) -> None:
        """Give each image its card.

        Parameters
        ----------
        images : sequence of Carded
        patients : sequence of str or None
            Their patient keys.
        series : sequence of (str, str)
            Their Study and Series Instance UIDs, empty for images that are not DICOM.
        """
        counts = self._collection.count_by_patient(sorted({key for key in patients if key}))
        for image, patient, uids in zip(images, patients, series, strict=True):
            image.card = self._card(image.image_id, image.labels, uids, counts.get(patient or "", 0))

    def card_of(self, record: Record) -> Card:
        """Return the card of a record."""
        patient = record.patient_key or ""
        counts = self._collection.count_by_patient([patient]) if patient else {}
        series = record.study, record.series
        return self._card(record.image_id, record.labels, series, counts.get(patient, 0))

    def _card(
        self, image_id: str, labels: Mapping[str, str], series: tuple[str, str], of_patient: int
    ) -> Card:
        return Card(
            **card_values(labels, self._names),
            slice=self._slice_of(image_id, series),
            patient_images=of_patient - 1 if of_patient else None,
        )

    def _slice_of(self, image_id: str, series: tuple[str, str]) -> SliceOfSeries | None:
        if not all(series) or (series not in self._series and len(self._series) >= MOST_SERIES):
            return None
        if series not in self._series:
            facts_by_id = self._ordered.get(series) or self._collection.slice_facts(DicomScope(*series))
            self._series[series] = _keep(self._ordered, series, facts_by_id)
        facts = self._series[series].get(image_id)
        if facts is None or facts.count < 2:
            return None
        return SliceOfSeries(
            number=facts.number, count=facts.count, position_mm=facts.position, stack=facts.stack
        )


def _series_in_order(collection: Collection) -> SeriesFacts:
    """Return the series that have been put in order since the collection was last changed."""
    generation = collection.generation()
    with _lock:
        cached = _ordered_by_collection.get(collection)
        if cached is None or cached[0] != generation:
            cached = _ordered_by_collection[collection] = generation, {}
        return cached[1]


def _keep(
    ordered: SeriesFacts, series: tuple[str, str], facts: dict[str, SliceFacts]
) -> dict[str, SliceFacts]:
    """Keep a series as the one that was used last, and forget those that were not used for the longest time."""
    with _lock:
        ordered.pop(series, None)
        ordered[series] = facts
        while len(ordered) > 1 and (
            len(ordered) > MOST_SERIES or sum(map(len, ordered.values())) > MOST_SLICES
        ):
            del ordered[next(iter(ordered))]
    return facts


def select_images(rank: Rank, request: Request, read_groups: ReadGroups) -> Selected:
    """Rank as many images as it takes to find k hits, or hits of k groups, or to see that there are fewer.

    Parameters
    ----------
    rank : callable
        Returns the best images; fewer than k where there are no more. A smaller number of images is
        the beginning of a larger one.
    request : Request
        k, thresholds and groups.
    read_groups : callable
        Returns the group's key of each image number that has one.
    """
    if request.group_by is None and request.max_distance is None:
        ranked = rank(request.k)
        return ranked.take(_within(ranked, request)), None, None
    depth, keys = max(DEPTH, 10 * request.k * request.group_size), dict[int, str]()
    while True:
        ranked = rank(depth)
        remaining = ranked.take(_within(ranked, request))
        numbers = remaining.numbers.tolist()
        if request.group_by is not None:
            keys |= read_groups([number for number in numbers if number not in keys])
        groups = _group(numbers, keys)
        if len(groups) >= request.k or len(ranked) < depth or _is_beyond(ranked, request):
            break
        depth *= GROWTH
    if request.group_by is None:
        return remaining.take(np.arange(min(request.k, len(remaining)))), None, None
    return _select_groups(remaining, groups[: request.k], keys, request, len(ranked))


def _within(ranked: Ranked, request: Request) -> NDArray[np.int64]:
    """Return the positions of the images within the thresholds."""
    within = np.ones(len(ranked), bool)
    if request.score_threshold is not None:
        within &= ranked.reported >= request.score_threshold
    if request.max_distance is not None:
        within &= ranked.distances <= request.max_distance
    return np.flatnonzero(within)


def _is_beyond(ranked: Ranked, request: Request) -> bool:
    """Return whether all further images are beyond a threshold."""
    by_distance = request.max_distance is not None and ranked.method == NoReranking.name
    return bool(
        (request.score_threshold is not None and ranked.reported[-1] < request.score_threshold)
        or (by_distance and ranked.distances[-1] > request.max_distance)
    )


def _group(numbers: Sequence[int], keys: Mapping[int, str]) -> list[list[int]]:
    """Return the positions of each group's images, best groups first; an image without a key is a group."""
    groups: dict[str | int, list[int]] = {}
    for position, number in enumerate(numbers):
        groups.setdefault(keys.get(number, position), []).append(position)
    return [*groups.values()]


def _select_groups(
    remaining: Ranked,
    groups: Sequence[list[int]],
    keys: Mapping[int, str],
    request: Request,
    depth: int,
) -> Selected:
    positions, facts = list[int](), list[HitGroup]()
    for rank, members in enumerate(groups, 1):
        hits = members[: request.group_size]
        key = keys.get(int(remaining.numbers[members[0]]))
        positions += hits
        facts += [HitGroup(rank=rank, key=key, more=len(members) - len(hits))] * len(hits)
    grouping = Grouping(by=str(request.group_by), size=request.group_size, depth=depth)
    return remaining.take(np.array(positions, np.int64)), facts, grouping


def load_hits(
    collection: Collection,
    settings: Settings,
    ranked: Ranked,
    groups: Sequence[HitGroup] | None,
    label_bytes: int | None,
) -> list[Hit]:
    """Load the records of ranked images; those deleted meanwhile are left out.

    Parameters
    ----------
    collection : Collection
    settings : Settings
        Addresses of archive and viewer, and whether sources are shown.
    ranked : Ranked
        Images that become hits.
    groups : sequence of HitGroup or None
        Group of each of them.
    label_bytes : int or None
        Once the best hits have more bytes of labels, those of the others are not read; None for all.
    """
    numbers, bare = ranked.numbers.tolist(), set[int]()
    if label_bytes is None:
        records = collection.records(numbers)
    else:
        records, bare = collection.bounded_records(numbers, label_bytes)
    hits: list[Hit] = []
    for index, (number, score, distance) in enumerate(
        zip(numbers, ranked.reported, ranked.distances, strict=True)
    ):
        if record := records.get(number):
            hit = Hit.of_record(
                record, settings, rank=len(hits) + 1, score=float(score), distance=float(distance)
            )
            hit.group = groups[index] if groups else None
            if number in ranked.matches:
                left, top, width, height = ranked.matches[number]
                hit.match = MatchBox(x=left, y=top, width=width, height=height)
            hit.labels_left_out = number in bare
            hits.append(hit)
    return hits


def label_agreements(
    hits: Sequence[Hit], evidence: EvidenceByKey | None = None, names: CardLabels = CardLabels()
) -> list[LabelAgreement]:
    """Return the most frequent value of each label of the first answers, the most agreed first.

    Parameters
    ----------
    hits : sequence of Hit
        Answers, best first.
    evidence : mapping of str to Evidence, optional
        By label key, how often answers of this kind agree rightly.
    names : CardLabels
        Keys of the labels for modality and body part.
    """
    first = hits[:ANSWERS]
    values: dict[str, Counter[str]] = {}
    for hit in first:
        for key, value in hit.labels.items():
            values.setdefault(key, Counter())[value] += 1  # equal counts stay in the order of the ranks
    agreements = []
    for key, counts in values.items():
        value, agreeing = counts.most_common(1)[0]
        agreement = LabelAgreement(key=key, value=value, agreeing=agreeing, answers=len(first))
        counted = (evidence or {}).get(key)
        if counted and len(first) == ANSWERS:
            alike = [hit for hit in first if hit.labels.get(key) == value]
            _add_share(agreement, counted, _group_of(alike, names))
        agreements.append(agreement)
    return sorted(agreements, key=lambda each: -each.agreeing)


def _add_share(agreement: LabelAgreement, evidence: Evidence, group: str | None) -> None:
    """State how often such answers are right, for their value or else for their group; nothing for too few."""
    block = block_of(evidence.values.get(agreement.value, ()), agreement.agreeing)
    agreement.counted = "value" if block else ""
    if block is None and group is not None:
        block = block_of(evidence.groups.get(group, ()), agreement.agreeing)
        agreement.counted = "group" if block else ""
    if block is not None:
        low, high = block.interval
        agreement.right, agreement.images = round(block.share, 6), block.images  # so that the count is known
        agreement.low, agreement.high = floor(low * 1000) / 1000, ceil(high * 1000) / 1000


def _group_of(hits: Sequence[Hit], names: CardLabels) -> str | None:
    """Return the most frequent modality and body part of answers; on a tie that of the better rank."""
    groups = [
        group_name(label_of(hit.labels, names.modality), label_of(hit.labels, names.body_part))
        for hit in hits
    ]
    known = Counter(group for group in groups if group is not None)
    return known.most_common(1)[0][0] if known else None
