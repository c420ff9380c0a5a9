"""Options of losses, as the train commands take them."""

import math
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import nn

from cbir.errors import InvalidInput
from cbir.learn.losses import ON_SCORES, ScoreLoss, embedding_loss, option_names
from cbir.learn.losses.embedding_losses import SimilarityLoss
from cbir.learn.losses.score_losses import PARALLEL_LOSSES
from cbir.learn.models import sorters
from cbir.learn.models.sorters import PairwiseSorter, Sorter, read_sorter_card
from cbir.learn.option_groups import LossChoices

SCORE_LOSSES: dict[str, type[ScoreLoss]] = {member.name: member for member in ON_SCORES}


@dataclass(frozen=True)
class LossOptions(LossChoices):
    """Options of the loss of a training; None is the default of the loss.

    Attributes
    ----------
    sorter : str, optional
        Of the sodeep losses: a name from `cbir.learn.models.sorters.names()`, or what `cbir train sorter` wrote.
    tune_sorter : bool
        Train the sorter with the network; otherwise it is frozen.
    form : str, optional
        Of sodeep-map (ranks, precision, log) and s-ndcg (sigmoid, paper).
    margin : float, optional
        Of sodeep-recall, in ranks; of triplet and contrastive, in units of their distances; of partial-auc.
    p : float, optional
        Norm of toprank, 1 to infinity.
    temperature : float, optional
        Of smooth-ap, roadmap, recall-at-k, supcon, rank-n-contrast, partial-auc, and of the sorter pairwise.
    alpha, gamma : float, optional
        Of s-ndcg and focal.
    parallel : str, optional
        Loss on single scores that is added to a ranking loss in the first epochs: l1 or soft-margin
        (Engilberge et al. 2019, section 4.2).
    parallel_epochs : int
        Number of these epochs, at least 1.
    """

    p: float | None = None

    def __post_init__(self) -> None:
        if self.parallel is not None and self.parallel not in PARALLEL_LOSSES:
            raise InvalidInput(
                f"the parallel loss is one of {', '.join(PARALLEL_LOSSES)}, not {self.parallel!r}"
            )
        if self.parallel_epochs < 1:
            raise InvalidInput("a parallel loss needs at least one epoch")

    def build(self, loss: str, dimensions: int, classes: int) -> nn.Module:
        """Make the loss of a name, on embeddings.

        Parameters
        ----------
        loss : str
            A name from `cbir.learn.losses.names()`.
        dimensions : int
            Length of an embedding.
        classes : int
            Number of classes.

        Raises
        ------
        InvalidInput
            If the loss does not take an option, or it is out of range.
        NotFound
            If there is no such sorter.
        """
        if loss in SCORE_LOSSES:
            return SimilarityLoss(self.build_score_loss(loss))
        allowed = option_names(loss)
        self.refuse_others(loss, allowed)
        options = {name: value for name, value in self.given_options().items() if name in allowed}
        return embedding_loss(loss, dimensions, classes, **options)

    def build_score_loss(self, loss: str) -> ScoreLoss:
        """Make a loss on scores, one of SCORE_LOSSES. Raises as `build` does."""
        allowed = option_names(loss)
        of_sorter = ("tune_sorter", "temperature") if "sorter" in allowed else ()
        self.refuse_others(loss, (*allowed, *of_sorter, "parallel", "parallel_epochs"))
        if self.parallel is None and "parallel_epochs" in self.given_options():
            raise InvalidInput("--parallel-epochs needs --parallel l1 or --parallel soft-margin")
        options = {name: value for name, value in self.given_options().items() if name in allowed}
        if self.given_options().keys() & {"sorter", *of_sorter}:
            options["sorter"] = self._load_sorter()
        return SCORE_LOSSES[loss](**options)

    def build_parallel(self) -> ScoreLoss | None:
        """Make the parallel loss on scores, if there is one."""
        return PARALLEL_LOSSES[self.parallel]() if self.parallel else None

    def refuse_others(self, loss: str, allowed: Collection[str]) -> None:
        """Raise InvalidInput, with their names, if there are options that are not among `allowed`."""
        if refused := [option_flag(name) for name in self.given_options() if name not in allowed]:
            listed = ", ".join(option_flag(name) for name in allowed if name != "weights") or "no options"
            raise InvalidInput(f"the loss {loss} does not take {', '.join(refused)}; it takes {listed}")

    def given_options(self) -> dict[str, Any]:
        """Return the options that differ from their defaults."""
        return {
            name: value for name, value in asdict(self).items() if value != getattr(DEFAULT_OPTIONS, name)
        }

    def facts(self) -> dict[str, Any]:
        """Return the given options for a model's card: of a sorter's file the name and hash, not the folder."""
        facts = {name: "inf" if value == math.inf else value for name, value in self.given_options().items()}
        if self.sorter and self.sorter not in sorters.names():
            card = read_sorter_card(sorters.sorter_weights(self.sorter))
            facts |= {"sorter": Path(self.sorter).name, "sorter_sha256": card["sha256"]}
        return facts

    def _load_sorter(self) -> Sorter:
        name = self.sorter or PairwiseSorter.name
        if self.temperature is not None:
            if name != PairwiseSorter.name:
                raise InvalidInput(f"--temperature is for the sorter {PairwiseSorter.name}, not {name}")
            return PairwiseSorter(self.temperature)
        sorter = sorters.load(name, frozen=not self.tune_sorter)
        if self.tune_sorter and not list(sorter.parameters()):
            raise InvalidInput(f"the sorter {name} has no weights to train; leave out --tune-sorter")
        return (
            sorter.eval()
        )  # statistics of a batch norm come from whole vectors, which repeated ones distort


DEFAULT_OPTIONS = LossOptions()


def option_flag(name: str) -> str:
    """Return the command-line option of an attribute of `LossOptions`."""
    return "--" + name.replace("_", "-")
