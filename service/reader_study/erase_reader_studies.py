"""Erasing a patient from reader studies, as an entry point of the group `cbir.erasers`."""

from collections.abc import Collection as Ids
from collections.abc import Sequence
from pathlib import Path

from service.state import reader_studies
from service.state.database import StateDatabase


def erase_from_studies(state_folder: Path, keys: Sequence[str], image_ids: Ids[str]) -> None:
    """Remove the images of a patient from all studies.

    Parameters
    ----------
    state_folder : Path
    keys : sequence of str
        Keys that the patient may have; studies have none.
    image_ids : collection of str
        Ids of the images.
    """
    database = StateDatabase(state_folder)
    if database.file.is_file():
        reader_studies.erase_images(database, image_ids)
        database.drop_old_pages()
