"""`cbir train rank`."""

import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from cbir import settings
from cbir.learn.commands.train_models import require_torch
from cbir.search import command_options as options
from cbir.system.console import StageBars, echo, print_json
from cbir.system.device_failure import device_failures
from cbir.system.files import csv_text

if TYPE_CHECKING:
    from cbir.learn.models.scoring_network import ScoringNetwork

BATCH = 512  # files


def rank_images(
    model: Annotated[Path, Argument(help="Folder of a ranker from `cbir train ranker`.")],
    images: Annotated[list[Path], Argument(help="Image files and folders.")],
    format: Annotated[Literal["csv", "json"], Option(help="Output format.")] = "csv",
    threads: options.Threads = 0,
    device: options.Device = "cpu",
) -> None:
    """Score images with a trained ranker, highest first; only the first frame of a multi-frame file.

    `top` is 1 for a score above those of all negatives in the ranker's evaluation. Exit code 3: some files could
    not be read.
    """
    require_torch(device, threads)
    from cbir.ingest.image_files import require_image_files
    from cbir.learn.models import scoring_network

    require_image_files(images)
    ranker, card = scoring_network.load_scoring_network(model)
    with StageBars() as bars, device_failures("networks", device):
        highest = scoring_network.highest_negative_score(card)
        rows, refused = _ranked(ranker, highest, images, device, partial(bars.show, "scoring"))
    if format == "json":
        print_json(rows)
    else:
        cells = ((f"{row['score']:.6g}", int(row["top"]), row["path"]) for row in rows)
        sys.stdout.write(csv_text([("score", "top", "path"), *cells]))
    for line in refused:
        echo(f"cbir: left out: {line}", err=True)
    if refused:
        raise typer.Exit(3)


def _ranked(
    ranker: "ScoringNetwork",
    highest_negative: float,
    sources: list[Path],
    device: str,
    show: Callable[[int], None],
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row per image, highest score first, and a line for each file that could not be read."""
    from cbir.images import Limits
    from cbir.ingest.image_files import find_images
    from cbir.learn.models.scoring_network import score_pictures
    from cbir.learn.training.picture_loading import load_pictures

    ranker.to(device)
    limits = Limits.from_settings(settings.load())
    rows: list[dict[str, Any]] = []
    refused: list[str] = []
    files = find_images(sources)
    while paths := list(islice(files, BATCH)):
        show(len(rows) + len(refused))
        pictures = load_pictures(paths, ranker.side, limits)
        refused += pictures.refused
        if len(pictures.rows):
            scores = score_pictures(ranker, pictures.pixels, device).tolist()
            rows += [
                {"score": value, "top": value > highest_negative, "path": str(paths[row])}
                for row, value in zip(pictures.rows, scores, strict=True)
            ]
    return sorted(rows, key=lambda row: -row["score"]), refused
