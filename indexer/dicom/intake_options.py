"""Options that `cbir index dicomweb` and `cbir receive` share."""

from pathlib import Path
from typing import Annotated

import typer

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
