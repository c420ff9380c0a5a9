"""Cards of images: what people read of one at a glance, from the labels that the setting `card_labels` names."""

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import Protocol
from weakref import WeakKeyDictionary

from cbir.search.search_models import Card, SliceOfSeries
from cbir.settings import Settings
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import DicomScope
from cbir.store.records.image_order import SliceFacts
from cbir.system.setting_types import CardLabels

MOST_SERIES = 100  # of an answer whose slices are put in order, and that are kept so
SeriesFacts = dict[tuple[str, str], dict[str, SliceFacts]]  # of the images of each series

# the series of each collection that are in order, at one generation
_ordered_by_collection: WeakKeyDictionary[Collection, tuple[int, SeriesFacts]] = WeakKeyDictionary()
_lock = Lock()


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
    """Keep a series as the one that was used last, and forget the one that was not used for the longest time."""
    with _lock:
        ordered.pop(series, None)
        ordered[series] = facts
        if len(ordered) > MOST_SERIES:
            del ordered[next(iter(ordered))]
    return facts
