"""Erasing a patient from cohorts, as an entry point of the group `cbir.erasers`."""

from collections.abc import Collection as Ids
from collections.abc import Sequence

from cbir.settings import Settings
from service.features.saved.cohorts import tables as saved_cohorts
from service.state.database import open_state


def erase_cohorts(settings: Settings, keys: Sequence[str], image_ids: Ids[str]) -> None:
    """Remove a patient's images from the cohorts of all collections.

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
        saved_cohorts.erase_from_cohorts(database, image_ids)
        database.drop_old_rows()
