"""From a manifest to a folder with a trained ranker, its card and its report."""

import hashlib
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cbir
from cbir import settings
from cbir.datasets.manifest import Manifest
from cbir.errors import InvalidInput
from cbir.evaluation.report.ranker_report import Ranked, write
from cbir.images import Limits
from cbir.models import ranker_files
from cbir.models.scoring_network import ScoringNetwork
from cbir.training.network_scoring import score_pictures
from cbir.training.picture_loading import load_pictures
from cbir.training.ranker_examples import read_ranker_examples, split_by_positive
from cbir.training.ranker_training import RankerRecipe, train_ranker

NAMED = 5  # files that could not be read and are named
INTENDED_USE = (
    "Research: bringing images that look like the positives of its training to the top of a worklist. Not a medical "
    "device. Scores mean nothing on images of other kinds, devices or populations than those it was tested on."
)
Show = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class RankerTask:
    """What to rank. positive, where: as `examples` takes them; backbone, side, weights: as `Ranker` does."""

    manifest: Path
    positive: tuple[str, ...]
    where: tuple[str, ...] = ()
    backbone: str = "toprank"
    side: int = 64
    weights: Path | None = None


def train_ranker_folder(
    task: RankerTask,
    recipe: RankerRecipe,
    folder: Path,
    device: str = "cpu",
    save_every: float = 60.0,
    show: Show = lambda stage, done, total, told: None,
) -> dict[str, Any]:
    """Train a ranker and write ranker.safetensors, ranker.json, report.html and report.json into `folder`.

    Returns what report.json says, and "notes" for the person. show: is told stage, steps done, steps in all, and a
    few words. Raises InvalidInput for what does not fit, NotFound or UnreadableImage where files are missing.
    """
    rows = read_ranker_examples(Manifest(task.manifest), task.positive, task.where)
    torch.manual_seed(recipe.seed)
    ranker = ScoringNetwork(task.backbone, task.side, str(task.weights) if task.weights else None)
    limits = Limits(pixels=settings.load().max_pixels)
    paths = [row.path for row in rows]
    pictures = load_pictures(paths, task.side, limits, lambda done: show("reading", done, len(paths), ""))
    chosen = [rows[place] for place in pictures.places]
    positive = np.array([row.positive for row in chosen], bool)
    if len(pictures.refused) > len(chosen):
        raise InvalidInput(f"most files cannot be read; the first: {pictures.refused[0]}")
    groups = [
        row.patient or header or f"picture {content}"
        for row, header, content in zip(chosen, pictures.patients, pictures.contents, strict=True)
    ]
    parts = split_by_positive(positive.tolist(), groups, seed=recipe.seed)

    def progress(step: int, steps: int, loss: float, reached: float) -> None:
        words = f"loss {loss:.4f}" + (f", Pos@Top {reached:.3f}" if reached >= 0 else "")
        show("training", step, steps, words)

    told = train_ranker(ranker, pictures.pixels, positive, parts, recipe, folder, device, save_every, progress)
    scores = score_pictures(ranker, pictures.pixels, device)
    ranked = {
        name: Ranked(
            scores[places],
            positive[places],
            [chosen[place].path for place in places],
            [pictures.contents[place] for place in places],
            [pictures.burned_in[place] for place in places],
        )
        for name, places in parts.items()
    }
    facts = {
        "positive": " or ".join(task.positive),
        "where": " and ".join(task.where) or "all rows",
        "manifest_sha256": hashlib.sha256(task.manifest.read_bytes()).hexdigest(),
        "ranker": ranker.options,
        "started_from": task.weights.name if task.weights else "random weights",
        "training": {**asdict(recipe), "p": recipe.p if math.isfinite(recipe.p) else "inf"},
        "device": device,
        "versions": {"cbir": cbir.__version__, "torch": torch.__version__},
        **told,
    }
    report = write(folder, f"Ranking of {facts['positive']}", ranked, facts, limits.pixels)
    card = {name: value for name, value in facts.items() if name != "history"}
    ranker_files.save_scoring_network(ranker, folder, {**card, "intended_use": INTENDED_USE, "results": report["parts"]})
    return {**report, "notes": _notes(pictures.refused, groups)}


def _notes(refused: list[str], groups: list[str]) -> list[str]:
    """What the person should know about the images."""
    notes = [f"left out: {line}" for line in refused[:NAMED]]
    if len(refused) > NAMED:
        notes.append(f"left out: {len(refused) - NAMED} more files that cannot be read")
    if all(group.startswith("picture ") for group in groups):
        notes.append(
            "no patients are known: images of one patient may stand in training and test, which flatters"
        )
    return notes
