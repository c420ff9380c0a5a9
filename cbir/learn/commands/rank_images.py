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
from cbir.errors import InvalidInput
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
    images: Annotated[list[Path], Argument(metavar="IMAGE", help="Image files and folders.")],
    format: Annotated[Literal["csv", "json"], Option(help="Output format.")] = "csv",
    fdr: Annotated[
        float | None,
        Option(
            help="Mark as top as many images as possible, of which this share, above 0 and below 1, is negative on "
            "average (false discovery rate)."
        ),
    ] = None,
    threads: options.Threads = 0,
    device: options.Device = "cpu",
) -> None:
    """Score images with a trained ranker, highest first; only the first frame of a multi-frame file.

    `top` is 1 for a score above those of all negatives in the ranker's evaluation; with --fdr, by conformal selection
    among the images of this call. Exit code 3: some files could not be read.
    """
    require_torch(device, threads)
    from cbir.ingest.image_files import require_image_files
    from cbir.learn.models import scoring_network

    if fdr is not None and not 0 < fdr < 1:
        raise InvalidInput(f"--fdr {fdr:g}: must be above 0 and below 1")
    require_image_files(images)
    ranker, card = scoring_network.load_scoring_network(model)
    with StageBars() as bars, device_failures("networks", device):
        highest = scoring_network.highest_negative_score(card)
        negatives = [] if fdr is None else scoring_network.negative_scores(card)
        scored, refused = _scored(ranker, images, device, partial(bars.show, "scoring"))
    top = [score > highest for score, _ in scored]
    if fdr is not None:
        top = _select_top([score for score, _ in scored], negatives, fdr)
    rows: list[dict[str, Any]] = [
        {"score": score, "top": is_top, "path": path}
        for (score, path), is_top in zip(scored, top, strict=True)
    ]
    if format == "json":
        print_json(rows)
    else:
        cells = ((f"{row['score']:.6g}", int(row["top"]), row["path"]) for row in rows)
        sys.stdout.write(csv_text([("score", "top", "path"), *cells]))
    for line in refused:
        echo(f"cbir: left out: {line}", err=True)
    if refused:
        raise typer.Exit(3)


def _scored(
    ranker: "ScoringNetwork", sources: list[Path], device: str, show: Callable[[int], None]
) -> tuple[list[tuple[float, str]], list[str]]:
    """Return score and path of each image, highest first, and a line for each file that could not be read."""
    from cbir.images import Limits
    from cbir.ingest.image_files import find_images
    from cbir.learn.models.scoring_network import score_pictures
    from cbir.learn.training.picture_loading import load_pictures

    ranker.to(device)
    limits = Limits.from_settings(settings.load())
    scored: list[tuple[float, str]] = []
    refused: list[str] = []
    files = find_images(sources)
    while paths := list(islice(files, BATCH)):
        show(len(scored) + len(refused))
        pictures = load_pictures(paths, ranker.side, limits)
        refused += pictures.refused
        if len(pictures.rows):
            scores = score_pictures(ranker, pictures.pixels, device).tolist()
            scored += [(score, str(paths[row])) for row, score in zip(pictures.rows, scores, strict=True)]
    return sorted(scored, key=lambda scored_path: -scored_path[0]), refused


def _select_top(scores: list[float], negatives: list[float], fdr: float) -> list[bool]:
    """Return which images are top at a false discovery rate, and report how many of them may be negative."""
    import numpy as np

    from cbir.evaluation.significance import least_negatives, least_selected, select_above_negatives

    selected, most_false = select_above_negatives(np.array(scores), np.array(negatives), fdr)
    if selected.any():
        echo(
            f"cbir: {selected.sum()} of {len(scores)} images are top; on average at most {100 * fdr:g}% of the top "
            f"are negative, and in 9 of 10 draws of images like the ranker's test at most {most_false} of these",
            err=True,
        )
    elif len(negatives) < least_negatives(fdr):
        echo(
            f"cbir: no image is top at --fdr {fdr:g}: it takes {least_negatives(fdr)} negatives in the ranker's "
            f"test, which has {len(negatives)}; give a higher rate, or train on more images",
            err=True,
        )
    else:
        echo(
            f"cbir: no image is top at --fdr {fdr:g}: with {len(negatives)} negatives of the ranker's test, "
            f"{least_selected(len(scores), len(negatives), fdr)} of {len(scores)} images would be enough if they "
            "scored above them all",
            err=True,
        )
    return [bool(is_top) for is_top in selected]
