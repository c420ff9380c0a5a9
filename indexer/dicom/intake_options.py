"""Options that `cbir index dicomweb` and `cbir receive` share."""

from typing import Annotated

import typer

from cbir.settings import Settings

FramesOption = Annotated[
    str, typer.Option(help="Frames of multi-frame instances to add: all, middle, or every:N.")
]
BurnedInOption = Annotated[
    bool | None,
    typer.Option(
        "--burned-in/--no-burned-in",
        help="Add images that declare burned-in text. [default: setting burned_in]",
        show_default=False,
    ),
]
SecondaryCapturesOption = Annotated[bool, typer.Option(help="Add captures of screens and films.")]
StudyDatesOption = Annotated[
    str, typer.Option(help="Study dates: drop, or shift (store as a label, shifted per patient).")
]
JobsOption = Annotated[int | None, typer.Option(min=1, help="Processes. [default: number of cores]")]
ProfileOption = Annotated[str | None, typer.Option(help="Profile of a new collection, as for cbir index.")]


def accepts_burned_in(option: bool | None, settings: Settings) -> bool:
    """Return whether to add images that declare burned-in text: as the option says, else the setting."""
    return settings.burned_in == "accept" if option is None else option
