"""Erasing a patient outside of the collection: in data of the service that was derived from its images."""

from collections.abc import Collection as Ids
from collections.abc import Sequence
from importlib.metadata import entry_points

from cbir.settings import Settings

GROUP = "cbir.erasers"  # of functions with the parameters of `erase_elsewhere`


def erase_elsewhere(settings: Settings, keys: Sequence[str], image_ids: Ids[str]) -> None:
    """Remove a patient from everything that other packages keep in the state of the service.

    Call it before the collection forgets which images are the patient's.

    Parameters
    ----------
    settings : Settings
        Its state_folder and state_database must be those of the service.
    keys : sequence of str
        Keys that the patient may have.
    image_ids : collection of str
        Images of the patient.
    """
    for entry in entry_points(group=GROUP):
        entry.load()(settings, keys, image_ids)


def delete_segmentations(settings: Settings, image_ids: Ids[str]) -> None:
    """Delete the segmentations of deleted images; cases and cohorts keep their mention of such images."""
    for entry in entry_points(group=GROUP, name="segmentations"):
        entry.load()(settings, (), image_ids)
