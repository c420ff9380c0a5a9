"""Erasing a patient from reader studies."""

from collections.abc import Collection as Ids
from collections.abc import Sequence

from cbir.settings import Settings
from service.features.annotate.reader_study import tables as reader_studies
from service.state.database import open_state


def erase_from_studies(settings: Settings, keys: Sequence[str], image_ids: Ids[str]) -> None:
    """Remove the images of a patient from all studies.

    Parameters
    ----------
    settings : Settings
    keys : sequence of str
        Keys that the patient may have; studies have none.
    image_ids : collection of str
        Ids of the images.
    """
    database = open_state(settings)
    if database.exists():
        reader_studies.erase_images(database, image_ids)
        database.drop_old_rows()
