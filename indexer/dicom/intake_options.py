"""Options that `cbir index dicomweb` and `cbir receive` share."""

from pathlib import Path
from typing import Annotated

import typer

from cbir import settings
from cbir.images import Limits
from cbir.store import Collection
from cbir.threads import cores
from indexer.dicom.instance_filter import InstanceFilter
from indexer.dicom.intake import Intake

CollectionOption = Annotated[
    Path, typer.Option(help="Folder of the collection; created if it does not exist.")
]
FramesOption = Annotated[
    str, typer.Option(help="Frames of multi-frame instances to add: all, middle, or every:N.")
]
BurnedInOption = Annotated[bool, typer.Option(help="Add images that declare burned-in text.")]
SecondaryCapturesOption = Annotated[bool, typer.Option(help="Add captures of screens and films.")]
StudyDatesOption = Annotated[
    str, typer.Option(help="Study dates: drop, or shift (store as a label, shifted per patient).")
]
JobsOption = Annotated[int | None, typer.Option(min=1, help="Processes. [default: number of cores]")]
ProfileOption = Annotated[str | None, typer.Option(help="Profile of a new collection, as for cbir index.")]


def start_intake(
    collection: Collection,
    instance_filter: InstanceFilter,
    *,
    limits: Limits,
    jobs: int | None,
    who: str,
) -> Intake:
    """Start an intake as the settings say.

    Parameters
    ----------
    collection : Collection
        Open collection.
    instance_filter : InstanceFilter
        Instances and frames to add.
    limits : Limits
        Largest instances.
    jobs : int or None
        Processes; None: the number of cores.
    who : str
        Name in the collection's history.
    """
    loaded = settings.load()
    return Intake(
        collection,
        instance_filter=instance_filter,
        limits=limits,
        jobs=jobs if jobs is not None else cores(),
        who=who,
        device=loaded.device,
        keep_originals=loaded.keep_originals,
        store_thumbnails=loaded.store_thumbnails,
    )
