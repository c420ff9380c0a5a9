"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

from typer import Option

Folder = Annotated[Path, Option("--collection", help="Folder of the collection.")]
Frame = Annotated[int | None, Option(help="Frame of a multi-frame file, from 1.")]
Rerank = Annotated[str | None, Option(help="Re-ranker: auto, none, eprf, ...; an unknown name lists all.")]
Where = Annotated[list[str] | None, Option(help="Only images with this label, as modality=CT. Repeatable.")]

# Of commands that train or run networks
Manifest = Annotated[Path, Option(help="Manifest: a CSV file with a column `path` and labels.")]
TrainingFolder = Annotated[
    Path, Option(help="Folder for model, report and checkpoint; an interrupted training continues there.")
]
Side = Annotated[int, Option(min=32, max=1024, help="Side in pixels that images are scaled to.")]
Augment = Annotated[bool, Option(help="Rotate, shift and brighten training images slightly.")]
SaveEvery = Annotated[float, Option(help="Seconds between checkpoints.")]
Seed = Annotated[int, Option(help="Random seed of the split and of training.")]
Threads = Annotated[int, Option(min=0, help="CPU threads; 0: all.")]
Device = Annotated[str, Option("--device", help="cpu or cuda.")]
