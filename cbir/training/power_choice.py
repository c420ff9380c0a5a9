"""Choice of TopRank's p on the validation images, as RankSVM and TopPush choose their penalties."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbir.models.scoring_network import ScoringNetwork
from cbir.training.patient_split import Parts
from cbir.training.ranker_training import POWERS, RankerRecipe, train_ranker
from cbir.training.training_run import ProgressCallback


def chooses_power(recipe: RankerRecipe) -> bool:
    """Return True if the recipe leaves the p of toprank to validation."""
    return recipe.method == "toprank" and recipe.options.p is None


def train_every_power(
    network: ScoringNetwork,
    pictures: NDArray[np.uint8],
    positive: NDArray[np.bool_],
    parts: Parts,
    recipe: RankerRecipe,
    folder: Path,
    device: str = "cpu",
    save_every: float = 60.0,
    progress: ProgressCallback = lambda step, steps, loss, best: None,
) -> dict[str, Any]:
    """Train the network with each of POWERS; keep that of the best validation Pos@Top, then AUC.

    Zheng et al., Top-rank CNN, section 4.3. A training that was interrupted continues.

    Parameters
    ----------
    network : ScoringNetwork
        Every training starts from its weights; it ends with those of the best.
    pictures, positive, parts, device, save_every
        See `train_ranker`.
    recipe : RankerRecipe
        Of toprank, without p.
    folder : Path
        Folder of the folders with checkpoints; created.
    progress : callable
        Receives steps done, all steps of all trainings, the last loss and the best Pos@Top of this training.

    Returns
    -------
    dict
        That of `train_ranker` for the best training, with "p", and "powers": p, Pos@Top and AUC of each.
    """
    candidates: list[tuple[dict[str, float], dict[str, Any], dict[str, Any]]] = []
    for number, p in enumerate(POWERS):

        def show(step: int, steps: int, loss: float, best: float, before: int = number) -> None:
            progress(before * steps + step, len(POWERS) * steps, loss, best)

        trained = deepcopy(network)
        outcome = train_ranker(
            trained, pictures, positive, parts, replace(recipe, options=replace(recipe.options, p=p)),
            folder / f"p-{p:g}", device, save_every, show,
        )  # fmt: skip
        best = outcome["history"][outcome["best_epoch"] - 1]
        measures = {"p": p, "pos_at_top": best["pos_at_top"], "auc": best["auc"]}
        candidates.append((measures, outcome, trained.state_dict()))
    chosen, outcome, weights = max(candidates, key=lambda of: (of[0]["pos_at_top"], of[0]["auc"]))
    network.to(device).load_state_dict(weights)
    network.eval()
    return {**outcome, "p": chosen["p"], "powers": [measures for measures, *_ in candidates]}
