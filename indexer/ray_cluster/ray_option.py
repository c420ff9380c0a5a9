"""Option of commands that can describe images on a Ray cluster."""

from typing import Annotated

import typer

RayOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Describe on a Ray cluster: auto, local, HOST:PORT or ray://HOST:PORT; --jobs is per node then.",
    ),
]
