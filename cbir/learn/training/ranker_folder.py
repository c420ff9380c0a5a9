"""`cbir train ranker`: from a manifest to a folder with the ranker, the best of several powers, and its report."""

from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cbir
from cbir.descriptors.networks.backbones import IMAGENET
from cbir.evaluation.report.charts import require_matplotlib
from cbir.evaluation.report.ranker_report import ScoredImages, write_ranker_report
from cbir.ingest.manifest import Manifest
from cbir.learn.models.scoring_network import (
    ScoringNetwork,
    picture_features,
    save_scoring_network,
    score_pictures,
)
from cbir.learn.training.labelled_examples import read_ranker_examples, split_by_positive
from cbir.learn.training.picture_loading import StageCallback, load_training_images
from cbir.learn.training.ranker_training import (
    POWERS,
    RankerImages,
    RankerRecipe,
    RunOptions,
    recipe_loss,
    train_ranker,
)
from cbir.system.files import file_sha256


def chooses_power(recipe: RankerRecipe) -> bool:
    """Return True if the recipe leaves the p of toprank to validation."""
    return recipe.method == "toprank" and recipe.options.p is None


def train_every_power(
    network: ScoringNetwork, images: RankerImages, recipe: RankerRecipe, run: RunOptions
) -> dict[str, Any]:
    """Train the network with each of POWERS; keep that of the best validation Pos@Top, then AUC.

    Zheng et al., Top-rank CNN, section 4.3. A training that was interrupted continues.

    Parameters
    ----------
    network : ScoringNetwork
        Every training starts from its weights; it ends with those of the best.
    images : RankerImages
        See `train_ranker`.
    recipe : RankerRecipe
        Of toprank, without p.
    run : RunOptions
        The folder gets a folder with a checkpoint for each p; `progress` receives the steps of all trainings, and the
        best Pos@Top of the present one.

    Returns
    -------
    dict
        That of `train_ranker` for the best training, with "p", and "powers": p, Pos@Top and AUC of each.
    """
    candidates: list[tuple[dict[str, float], dict[str, Any], dict[str, Any]]] = []
    for number, p in enumerate(POWERS):

        def show(step: int, steps: int, loss: float, best: float, before: int = number) -> None:
            run.progress(before * steps + step, len(POWERS) * steps, loss, best)

        trained = deepcopy(network)
        outcome = train_ranker(
            trained,
            images,
            replace(recipe, options=replace(recipe.options, p=p)),
            run._replace(folder=run.folder / f"p-{p:g}", progress=show),
        )
        best = outcome["history"][outcome["best_epoch"] - 1]
        measures = {"p": p, "pos_at_top": best["pos_at_top"], "auc": best["auc"]}
        candidates.append((measures, outcome, trained.state_dict()))
    best_measures, outcome, weights = max(candidates, key=lambda of: (of[0]["pos_at_top"], of[0]["auc"]))
    network.to(run.device).load_state_dict(weights)
    network.eval()
    return {**outcome, "p": best_measures["p"], "powers": [measures for measures, *_ in candidates]}


INTENDED_USE = (
    "Research: bringing images that look like the positives of its training to the top of a worklist. Not a medical "
    "device. Scores mean nothing on images of other kinds, devices or populations than those it was tested on."
)


NEGATIVES = 10_000  # kept in the card at most


def sample_negatives(test: ScoredImages, seed: int) -> list[float]:
    """Return ascending scores of at most NEGATIVES random negatives of the test, for `cbir train rank --fdr`.

    Not of the validation: it selected the weights, so that its negatives score lower than new ones.
    """
    scores = np.random.default_rng(seed).permutation(test.scores[~test.positive])[:NEGATIVES]
    return [float(score) for score in np.sort(scores)]


@dataclass(frozen=True)
class RankerTask:
    """Images to rank, and the network to do it.

    Attributes
    ----------
    manifest : Path
        CSV file with a column path, and labels.
    positive, where : tuple of str
        See `read_ranker_examples`.
    backbone, side, weights
        See `ScoringNetwork`.
    pretrained : bool
        Start from the backbone's published weights.
    """

    manifest: Path
    positive: tuple[str, ...]
    where: tuple[str, ...] = ()
    backbone: str = "toprank"
    side: int = 64
    weights: Path | None = None
    pretrained: bool = False


def train_ranker_folder(
    task: RankerTask,
    recipe: RankerRecipe,
    folder: Path,
    device: str = "cpu",
    save_every: float = 60.0,
    show: StageCallback = lambda stage, done, total, text: None,
) -> dict[str, Any]:
    """Train a ranker and write ranker.safetensors, ranker.json, report.html and report.json.

    Parameters
    ----------
    task : RankerTask
        Images and network.
    recipe : RankerRecipe
        Options of the training; its seed also decides the split.
    folder : Path
        Folder for checkpoint and results.
    device : str
        cpu or cuda.
    save_every : float
        Seconds between checkpoints.
    show : callable
        Receives the stage, steps done, all steps and a text.

    Returns
    -------
    dict
        Content of report.json, and "notes" for the user.

    Raises
    ------
    InvalidInput
        If an option or the images do not fit.
    NotFound, UnreadableImage
        If files are missing.
    """
    require_matplotlib()  # for the report
    recipe_loss(recipe, np.array([True, False]))  # refuses options that do not fit before long work
    examples = read_ranker_examples(Manifest(task.manifest), task.positive, task.where)
    torch.manual_seed(recipe.seed)
    weights = IMAGENET if task.pretrained else str(task.weights) if task.weights else None
    network = ScoringNetwork(task.backbone, task.side, weights)
    images = load_training_images(examples, task.side, show)
    pixels = images.pictures.pixels
    positive = np.array([example.positive for example in images.examples], bool)
    parts = split_by_positive(positive.tolist(), images.groups, seed=recipe.seed)

    def progress(step: int, steps: int, loss: float, best: float) -> None:
        show("training", step, steps, f"loss {loss:.4f}" + (f", Pos@Top {best:.3f}" if best >= 0 else ""))

    train = train_every_power if chooses_power(recipe) else train_ranker
    run = RunOptions(folder, device, save_every, progress)
    outcome = train(network, RankerImages(pixels, positive, parts), recipe, run)
    scores, features = score_pictures(network, pixels, device), picture_features(network, pixels, device)
    scored = {
        name: ScoredImages(
            scores[rows],
            positive[rows],
            [images.examples[row].path for row in rows],
            [images.pictures.content_hashes[row] for row in rows],
            [images.pictures.burned_in[row] for row in rows],
            features[rows],
        )
        for name, rows in parts.items()
    }
    facts = {
        "positive": " or ".join(task.positive),
        "where": " and ".join(task.where) or "all rows",
        "manifest_sha256": file_sha256(task.manifest),
        "ranker": network.options,
        "started_from": IMAGENET
        if task.pretrained
        else task.weights.name
        if task.weights
        else "random weights",
        "training": {**asdict(recipe), "options": recipe.options.facts()},
        "device": device,
        "versions": {"cbir": cbir.__version__, "torch": torch.__version__},
        **outcome,
    }
    report = write_ranker_report(folder, f"Ranking of {facts['positive']}", scored, facts, images.max_pixels)
    card = {name: value for name, value in facts.items() if name != "history"}
    card |= {"intended_use": INTENDED_USE, "results": report["parts"]}
    card["negative_scores"] = sample_negatives(scored["test"], recipe.seed)
    save_scoring_network(network, folder, card)
    return {**report, "notes": images.notes()}
