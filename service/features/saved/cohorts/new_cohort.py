"""Beginning a cohort, and checks of the images that a request judges."""

from collections.abc import Iterable

from cbir.errors import InvalidInput, NotFound
from cbir.store import Collection
from service.access.caller import actor_name
from service.collections.app_state import AppState
from service.features.saved.cohorts import tables as saved_cohorts
from service.features.saved.cohorts.messages import NewCohort
from service.features.saved.cohorts.tables import NewCohortRow
from service.state.database import state_database


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
    values = NewCohortRow(
        handle.name, cohort.title, cohort.note, cohort.shared, cohort.where, check_judged(collection, judged)
    )
    return saved_cohorts.add_cohort(state_database(), actor_name(), values)


def check_judged(collection: Collection, judged: Iterable[tuple[str, bool]]) -> dict[str, bool]:
    """Return relevance by image id.

    `collection`, `judged`: image ids with their relevance. Raises NotFound for an image that the collection does not
    have, and InvalidInput for one that is judged both ways.
    """
    by_id: dict[str, bool] = {}
    for image_id, relevant in judged:
        if by_id.setdefault(image_id, relevant) != relevant:
            raise InvalidInput(f"image {image_id} is judged relevant and not relevant; choose one of them")
    numbers = collection.numbers_by_id(by_id)
    if unknown := [image_id for image_id in by_id if image_id not in numbers]:
        raise NotFound(f"there is no image {unknown[0]}")
    return by_id
