"""Erasing a patient from saved cases, as an entry point of the group `cbir.erasers`."""

from collections.abc import Collection as Ids
from collections.abc import Sequence

from cbir.settings import Settings
from service.features.saved.cases import tables as saved_cases
from service.state.database import open_state


def erase_cases(settings: Settings, keys: Sequence[str], image_ids: Ids[str]) -> None:
    """Delete the cases whose query is of a patient, and the patient's images from all other cases.

    Cases of all collections are searched, since a collection can be served under several names.

    Parameters
    ----------
    settings : Settings
        Those of the service; without a state database there is nothing to do.
    keys : sequence of str
        Keys that the patient may have.
    image_ids : collection of str
        Images of the patient.
    """
    database = open_state(settings)
    if database.exists():
        saved_cases.erase_from_cases(database, keys, image_ids)
        database.drop_old_rows()
