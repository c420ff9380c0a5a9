"""Rankers that learn severity from comparisons, with sampled weights (Kadota et al., Deep Bayesian active
learning-to-rank): training, severity and storage, for any network."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from cbir.descriptors.networks.model_files import save_model
from cbir.errors import InvalidInput
from cbir.learn.losses import ranknet_loss
from cbir.learn.severity.judged_pairs import JudgedPairs, SeverityEstimate, check_judged_pairs
from cbir.learn.severity.severity_networks import SampledNetwork
from cbir.learn.training.fine_tuning import run_training_loop
from cbir.system.device_failure import device_failures, full_precision, in_pieces, network_batch
from cbir.system.files import private_folder

MAX_PASSES = 1000
WEIGHTS, CARD = "severity.safetensors", "severity.json"
LOCAL = ("weights", "projection", "device")  # settings that a card leaves out

Stop = Callable[[], bool]


@dataclass(eq=False, kw_only=True)
class SampledRanker(ABC):
    """Estimates severity as the mean of stochastic passes, and uncertainty as their variance.

    Subclasses are dataclasses with further fields. The same seed, settings and pairs give the same ranker on the same
    machine.

    Parameters
    ----------
    dropout : float
        Share of units dropped before every layer except the first.
    passes : int
        Number of stochastic passes, T.
    weight_decay : float
        Lambda of eq. 2.
    epochs : int
        Passes through the pairs; increased if they have fewer than `steps` batches, so that few pairs are trained
        long enough.
    steps : int
        Minimum number of batches.
    rate : float
        Maximum learning rate of Adam.
    batch : int
        Pairs per batch.
    seed : int
    device : str
        "cpu" or "cuda".
    """

    dropout: float = 0.2
    passes: int = 30
    weight_decay: float = 1e-4
    epochs: int = 20
    steps: int = 1000
    rate: float = 1e-3
    batch: int = 16
    seed: int = 0
    device: str = "cpu"

    sampled_batch: ClassVar[int]
    """Images times passes in a sampled batch on a CPU; more do not fit into its cache."""

    def __post_init__(self) -> None:
        shares_fit = 0 <= self.dropout < 1 and 0 < self.rate < 1 and self.weight_decay >= 0
        if not shares_fit or self.epochs < 1 or self.steps < 0 or self.batch < 2:
            raise InvalidInput(
                "dropout must be from 0 to below 1, rate between 0 and 1, epochs above 0, steps and weight decay "
                "0 or more, and batch 2 or more"
            )
        if not 1 <= self.passes <= MAX_PASSES:
            raise InvalidInput(f"passes must be from 1 to {MAX_PASSES}, not {self.passes}")

    @abstractmethod
    def prepare(self, images: NDArray[Any]) -> NDArray[Any]:
        """Check `images` and bring them to the form of the network's input, on the CPU; raise InvalidInput."""

    @abstractmethod
    def build_network(self, inputs: NDArray[Any]) -> SampledNetwork:
        """Build the network, with random weights from torch's global generator, for prepared `inputs`."""

    @abstractmethod
    def batch_tensor(self, inputs: NDArray[Any]) -> Tensor:
        """Return prepared `inputs` as the network's input, on the device."""

    def copies(self, images: NDArray[Any]) -> Callable[[int], Self]:
        """Return a function that makes unfitted copies, which share what depends on `images` alone."""
        return lambda number: replace(cast(Any, self))

    def fixed_part(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return the input of the first layer that is trained, for prepared `inputs`; computed once per training."""
        return inputs

    def encoder_features(self, images: NDArray[Any]) -> NDArray[np.float32]:
        """Return the features (n, k) of a pretrained encoder, in principal directions; `fit` must come before.

        Raises InvalidInput if the ranker learns from pictures.
        """
        raise InvalidInput("a network on pictures has no encoder; learn from the values of one")

    def training_batch(self, inputs: NDArray[Any], generator: torch.Generator) -> Tensor:
        """Return `batch_tensor`, with random changes if the ranker makes any."""
        return self.batch_tensor(inputs)

    def network_facts(self) -> dict[str, Any]:
        """Return fields of the card that the fitted network is built from, beside the settings."""
        return {}

    def to_device(self, network: SampledNetwork) -> SampledNetwork:
        """Move `network` to the device."""
        return network.to(self.device)

    def fit(
        self,
        images: NDArray[Any],
        pairs: ArrayLike,
        labels: ArrayLike,
        grades: ArrayLike | None = None,
        stop: Stop | None = None,
    ) -> Self:
        """Train on judged pairs.

        Parameters
        ----------
        images : (n, ...)
            Pictures or values, as the ranker takes them.
        pairs : (m, 2) int
            Rows of `images`.
        labels : (m,) float
            1, 0.5 or 0: the first image is more severe, both are equal, or the second is.
        grades : (n,) float, optional
            NaN for unknown. With grades, scores are calibrated to them (eq. 4).
        stop : callable, optional
            Checked before every batch; training ends once it returns True.

        Returns
        -------
        Self

        Raises
        ------
        InvalidInput
            If shapes or values are not valid.
        """
        judged = check_judged_pairs(len(images), pairs, labels, grades)
        inputs = self.prepare(images)
        with torch.random.fork_rng(devices=[]):  # leaves torch's global generator unchanged
            torch.manual_seed(self.seed)
            network = self.build_network(inputs)
        if judged.mean_grade is not None:
            nn.init.constant_(network.biased.bias, judged.mean_grade)
        self.network_ = self.to_device(network)
        self.calibrated_ = judged.mean_grade is not None
        self._train(self.fixed_part(inputs), judged, stop or (lambda: False))
        return self

    def _train(self, inputs: NDArray[Any], judged: JudgedPairs, stop: Stop) -> None:
        network, generator = self.network_, torch.Generator().manual_seed(self.seed)
        optimizer = torch.optim.Adam(_parameter_groups(network, self.weight_decay), self.rate)
        epoch_length = max(1, -(-len(judged.pairs) // self.batch))
        steps = epoch_length * max(self.epochs, -(-self.steps // epoch_length))
        batches = _batches(len(judged.pairs), epoch_length, generator)
        network.train()
        run_training_loop(
            network,
            optimizer,
            lambda step: self._loss(inputs, judged, next(batches), generator),
            steps,
            scheduler=torch.optim.lr_scheduler.OneCycleLR(optimizer, self.rate, total_steps=steps + 1),
            stop=stop,
        )
        network.eval()

    def _loss(
        self, inputs: NDArray[Any], judged: JudgedPairs, rows: NDArray[np.int64], generator: torch.Generator
    ) -> Tensor:
        """Return the losses of eq. 2 and, for known grades, eq. 4 per pair; weight decay is left to the optimizer.

        Both images of a pair share one sample of the weights, as in eq. 9. As in the paper, a pair of graded images
        adds two squares to one comparison; here the sums are divided by the number of pairs.
        """
        image_rows = judged.pairs[rows].ravel()
        batch = self.training_batch(inputs[image_rows], generator)
        with self.network_.with_masks(self.network_.masks(len(rows), generator)):
            scores = self.network_.trained_part(batch)
        first, second = scores.view(-1, 2).T
        targets = torch.from_numpy(judged.labels[rows]).to(scores)
        loss = ranknet_loss(first, second, targets).mean()
        if self.calibrated_:
            grades = torch.from_numpy(judged.grades[image_rows]).to(scores)
            graded = ~grades.isnan()
            if graded.any():
                loss = loss + ((scores[graded] - grades[graded]) ** 2).sum() / len(rows)
        return loss

    def severity(self, images: NDArray[Any]) -> SeverityEstimate:
        """Return mean and variance of T stochastic passes over `images` (n, ...); n may be 0.

        All images share the same T samples of the weights. Raises InvalidInput before `fit`.
        """
        if not hasattr(self, "network_"):
            raise InvalidInput("the ranker is not fitted; call fit with judged pairs first")
        inputs, network = self.prepare(images), self.network_
        masks = network.masks(self.passes, torch.Generator().manual_seed(self.seed))

        def sample(rows: slice) -> list[Tensor]:
            return [
                tensor.float().cpu() for tensor in network.sampled(self.batch_tensor(inputs[rows]), masks)
            ]

        with torch.inference_mode(), full_precision(), device_failures("severity", self.device):
            if self.device == "cpu" or not len(inputs):
                step = max(1, self.sampled_batch // self.passes)
            else:
                step = network_batch(self.passes * self.batch_tensor(inputs[:1]).nbytes)
            parts = list(in_pieces(sample, len(inputs), step))
        if not parts:
            nothing = np.zeros(0, np.float32)
            return SeverityEstimate(nothing, nothing, np.zeros((0, network.width), np.float32))
        scores, features = (
            torch.cat([part[0] for part in parts], dim=1),
            torch.cat([part[1] for part in parts]),
        )
        variance = scores.var(dim=0, correction=0)
        return SeverityEstimate(
            scores.mean(dim=0).numpy(), variance.numpy(), features.numpy(), scores.numpy()
        )

    def save(self, folder: Path, facts: dict[str, Any] | None = None) -> None:
        """Write weights and card of the fitted ranker to `folder`; `facts` are further fields of the card.

        `severity_rankers.load_severity_ranker` loads them.
        """
        private_folder(folder)
        settings = {name: value for name, value in asdict(cast(Any, self)).items() if name not in LOCAL}
        card = {"ranker": settings, "calibrated": self.calibrated_, **self.network_facts(), **(facts or {})}
        save_model(self.network_, folder / WEIGHTS, folder / CARD, card)


def _batches(count: int, per_epoch: int, generator: torch.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield batches of rows without end, `per_epoch` nearly equal ones in random order for each pass over `count`."""
    while True:
        yield from np.array_split(torch.randperm(count, generator=generator).numpy(), per_epoch)


def _parameter_groups(network: nn.Module, decay: float) -> list[dict[str, Any]]:
    """Return parameter groups: weights with decay, all other parameters without."""
    weights = [parameter for parameter in network.parameters() if parameter.ndim > 1]
    others = [parameter for parameter in network.parameters() if parameter.ndim <= 1]
    # The gradient of lambda ||W||^2 (eq. 2) is 2 lambda W.
    return [{"params": weights, "weight_decay": 2 * decay}, {"params": others, "weight_decay": 0.0}]
