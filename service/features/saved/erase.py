"""Erasing a patient from saved cases and cohorts, and what these mention."""

from collections.abc import Collection as Ids
from collections.abc import Sequence

from cbir.settings import Settings
from service.features.saved.cases.tables import erase_from_cases, mentions_in_cases
from service.features.saved.cohorts.tables import erase_from_cohorts, images_in_cohorts
from service.state.database import open_state


def erase_saved(settings: Settings, keys: Sequence[str], image_ids: Ids[str]) -> None:
    """Delete the cases whose query is of a patient, and the patient's images from all other cases and from cohorts.

    Those of all collections are searched, since a collection can be served under several names.

    Parameters
    ----------
    settings : Settings
        Those of the service; without a state database there is nothing to do.
    keys : sequence of str
        Keys that the patient may have; cohorts keep none.
    image_ids : collection of str
        Images of the patient.
    """
    database = open_state(settings)
    if database.exists():
        erase_from_cases(database, keys, image_ids)
        erase_from_cohorts(database, image_ids)
        database.drop_old_rows()


def mentions_in_saved(settings: Settings) -> dict[str, set[str]]:
    """Return the ids of images and keys of patients in saved cases and cohorts."""
    database = open_state(settings)
    if not database.exists():
        return {}
    return {"saved cases": mentions_in_cases(database), "cohorts": images_in_cohorts(database)}
