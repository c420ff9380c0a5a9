"""Cohorts of the caller of a request: beginning one, and those whose images the collection still shows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cbir.errors import DatabaseUnavailable, InvalidInput, NotFound
from cbir.search import Searcher, record_links
from cbir.search.cohorts.missing_images import JudgedImage
from cbir.search.hit_selection import CardWriter
from cbir.store import Record
from service.access.caller import actor_name
from service.collections.app_state import AppState, current_state
from service.features.saved.cases.visible_cases import common_facts, current_viewer, require_owner
from service.features.saved.cohorts import tables as saved_cohorts
from service.features.saved.messages import (
    CohortPage,
    CohortSummary,
    JudgedCohortImage,
    NewCohort,
    NextImage,
    SavedCohort,
)
from service.http import responses
from service.http.problems import NotReady
from service.http.responses import LabelBudget
from service.state.database import state_database


@dataclass(frozen=True)
class VisibleCohort:
    """A cohort, and its judged images that the caller may see.

    row: of the database. searcher: of the images that the caller may see. judged: in the order of judging. records:
    by image id.
    """

    row: Any
    searcher: Searcher
    judged: Sequence[JudgedImage]
    records: dict[str, Record]
    bare: set[str]

    def summary(self) -> CohortSummary:
        """Return the facts about the cohort."""
        return _summary(self.row, len(self.judged), sum(image.relevant for image in self.judged))

    def message(self, cards: bool) -> SavedCohort:
        """Return the cohort in the form of the API, its images with or without cards."""
        images = [
            JudgedCohortImage(
                image_id=image.image_id,
                relevant=image.relevant,
                labels=self.records[image.image_id].labels,
                labels_left_out=image.image_id in self.bare,
                links=record_links(current_state().settings, self.records[image.image_id]).in_collection(
                    self.row.collection
                ),
            )
            for image in self.judged
        ]
        LabelBudget().leave_out(images)
        if cards:
            self.give_cards(images, self.records)
        return SavedCohort(**self.summary().model_dump(), images=images)

    def give_cards(
        self, images: Sequence[JudgedCohortImage | NextImage], records: Mapping[str, Record]
    ) -> None:
        """Give images their cards; `records` has theirs by image id."""
        stored = [records[image.image_id] for image in images]
        patients = [record.patient_key for record in stored]
        series = [(record.study, record.series) for record in stored]
        CardWriter(self.searcher.collection, current_state().settings).write(images, patients, series)


def find_visible_cohort(cohort_id: str, label_bytes: int | None = None) -> VisibleCohort:
    """Return a cohort, with at most `label_bytes` of labels; by default as many as an answer may have.

    Raises NotFound if the caller may not see it, NotReady if its collection is unavailable.
    """
    database = state_database()
    row = saved_cohorts.find_cohort(database, current_viewer(), cohort_id)
    judged = saved_cohorts.read_judgements(database, row.number)
    searcher = current_state().searcher(row.collection)
    records, bare = searcher.collection.bounded_records_by_id(
        (image.image_id for image in judged), label_bytes or responses.MAX_ANSWER_LABELS
    )
    visible = [image for image in judged if image.image_id in records]
    if _is_hidden(row, visible):
        raise NotFound(f"there is no cohort {cohort_id}")
    return VisibleCohort(row, searcher, visible, records, bare)


def find_own_cohort(cohort_id: str) -> VisibleCohort:
    """Return a cohort of the caller; raises NotFound for cohorts of others, also for administrators."""
    cohort = find_visible_cohort(cohort_id)
    require_owner(cohort.row, f"cohort {cohort_id}", "judge and change")
    return cohort


def list_visible_cohorts(before: int | None, limit: int) -> CohortPage:
    """Return a page of the cohorts that the caller may see.

    Parameters
    ----------
    before : int or None
        Only cohorts with smaller numbers.
    limit : int
        Largest number of cohorts; pages of callers with limited rights may have fewer.
    """
    rows = saved_cohorts.list_cohorts(state_database(), current_viewer(), before, limit + 1)
    page = rows[:limit]
    summarise: Callable[[Any], CohortSummary | None] = (
        _summary_of_visible if current_viewer().limited else _summary_of_row
    )
    items = [summary for row in page if (summary := summarise(row))]
    return CohortPage(items=items, next=str(page[-1].number) if len(rows) > limit else None)


def _is_hidden(row: Any, visible: Sequence[JudgedImage]) -> bool:
    """Return whether a cohort of someone else has no image that a limited caller may see."""
    return (
        current_viewer().limited
        and row.owner != actor_name()
        and not any(image.relevant for image in visible)
    )


def _summary_of_row(row: Any) -> CohortSummary:
    return _summary(row, row.judged, row.found)


def _summary_of_visible(row: Any) -> CohortSummary | None:
    """Return a summary whose numbers count what a limited caller may see; None for a hidden cohort."""
    judged = saved_cohorts.read_judgements(state_database(), row.number)
    try:
        numbers = (
            current_state()
            .searcher(row.collection)
            .collection.numbers_by_id(image.image_id for image in judged)
        )
    except (NotFound, NotReady, DatabaseUnavailable):
        numbers = {}
    visible = [image for image in judged if image.image_id in numbers]
    if _is_hidden(row, visible):
        return None
    return _summary(row, len(visible), sum(image.relevant for image in visible))


def _summary(row: Any, judged: int, found: int) -> CohortSummary:
    return CohortSummary(
        id=row.cohort_id, where=row.conditions, judged=judged, found=found, **common_facts(row)
    )


def begin_cohort(state: AppState, collection_name: str | None, cohort: NewCohort) -> str:
    """Save a new cohort of the caller and return its id.

    Parameters
    ----------
    state : AppState
    collection_name : str or None
        Collection to search; None for the caller's first one.
    cohort : NewCohort

    Raises
    ------
    NotFound
        For an image that the collection does not have.
    InvalidInput
        For an image that is both, a condition that cannot be read, and if the caller has as many cohorts as allowed.
    """
    handle = state.handle(collection_name)
    collection = handle.searcher().collection
    collection.conditions(cohort.where)
    judged = [(each, True) for each in cohort.relevant] + [(each, False) for each in cohort.irrelevant]
    return saved_cohorts.add_cohort(
        state_database(), actor_name(), handle.name, cohort, check_judged(judged), collection.numbers_by_id
    )


def check_judged(judged: Iterable[tuple[str, bool]]) -> dict[str, bool]:
    """Return relevance by image id; raises InvalidInput for an image that is judged both ways."""
    by_id: dict[str, bool] = {}
    for image_id, relevant in judged:
        if by_id.setdefault(image_id, relevant) != relevant:
            raise InvalidInput(f"image {image_id} is judged relevant and not relevant; choose one of them")
    return by_id
