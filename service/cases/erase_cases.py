"""Erasing a patient from saved cases, as an entry point of the group `cbir.erasers`."""

from collections.abc import Collection as Ids
from collections.abc import Sequence
from pathlib import Path

from service.state import saved_cases
from service.state.database import StateDatabase


def erase_cases(state_folder: Path, keys: Sequence[str], image_ids: Ids[str]) -> None:
    """Delete the cases whose query is of a patient, and the patient's images from all other cases.

    Cases of all collections are searched, since a collection can be served under several names.

    Parameters
    ----------
    state_folder : Path
        Folder of the state database; without one there is nothing to do.
    keys : sequence of str
        Keys that the patient may have.
    image_ids : collection of str
        Images of the patient.
    """
    database = StateDatabase(state_folder)
    if database.file.is_file():
        saved_cases.erase_from_cases(database, keys, image_ids)
        database.drop_old_pages()
