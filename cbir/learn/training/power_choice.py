"""Choice of TopRank's p on the validation images, as RankSVM and TopPush choose their penalties."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

from cbir.learn.models.scoring_network import ScoringNetwork
from cbir.learn.training.ranker_training import POWERS, RankerImages, RankerRecipe, RunOptions, train_ranker


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
    chosen, outcome, weights = max(candidates, key=lambda of: (of[0]["pos_at_top"], of[0]["auc"]))
    network.to(run.device).load_state_dict(weights)
    network.eval()
    return {**outcome, "p": chosen["p"], "powers": [measures for measures, *_ in candidates]}
