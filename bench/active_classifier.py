"""Conventional classifier for bench/active.py (Kadota et al., section 5.2.3): all images graded, cross-entropy."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cbir.learn.severity.sampled_ranker import SampledRanker
from cbir.learn.severity.severity_networks import SampledNetwork, ValueNetwork
from cbir.learn.training.training_loop import run_training_loop

IMAGES_PER_PAIR = 2
DECAY = 1e-4  # the paper's; that of a ranker on few values, 300 times as large, leaves rare grades out


def classify(
    ranker: SampledRanker, images: NDArray[Any], grades: NDArray[np.float64], test_images: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Train a classifier with the network and settings of a ranker, except its weight decay, and classify images.

    It sees as many images per batch as the ranker, with dropout in training only, as usual.

    Parameters
    ----------
    ranker : SampledRanker
        Not fitted.
    images : (n, ...)
        Pictures or values, as the ranker takes them.
    grades : (n,) float64
    test_images : (m, ...)

    Returns
    -------
    (m,) float64
        Grades.
    (m,) float64
        Expectations of the grade, to order images by.
    """
    levels, classes = np.unique(grades, return_inverse=True)
    inputs, targets = ranker.prepare(images), torch.from_numpy(classes)
    torch.manual_seed(ranker.seed)
    network = ranker.build_network(inputs)
    network.head = nn.Sequential(network.dropouts[-1], nn.Linear(network.width, len(levels)))
    network = ranker.to_device(network)
    generator = torch.Generator().manual_seed(ranker.seed)
    fixed = ranker.fixed_part(inputs)
    batch = min(IMAGES_PER_PAIR * ranker.batch, len(inputs))
    steps = max(ranker.epochs * -(-len(inputs) // batch), ranker.steps)

    def loss(step: int) -> Tensor:
        rows = torch.randint(len(inputs), (batch,), generator=generator)
        seen = ranker.training_batch(fixed[rows.numpy()], generator)
        with network.with_masks(network.masks(batch, generator)):
            logits = network.head(_trained_layers(network)(seen))
        return nn.functional.cross_entropy(logits, targets[rows].to(logits.device))

    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, ranker.rate, weight_decay=2 * DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, ranker.rate, total_steps=steps + 1)
    network.train()
    run_training_loop(network, optimizer, loss, steps, scheduler=schedule)
    network.eval()
    with torch.inference_mode():
        tests = ranker.batch_tensor(ranker.prepare(test_images))
        logits = torch.cat([network.head(network.layers(part)) for part in tests.split(256)])
    probabilities = logits.softmax(dim=1).double().cpu().numpy()
    return levels[probabilities.argmax(axis=1)], probabilities @ levels


def _trained_layers(network: SampledNetwork) -> nn.Sequential:
    """Return the layers after the projection of values, which is not trained, or all layers."""
    return network.layers[1:] if isinstance(network, ValueNetwork) else network.layers
