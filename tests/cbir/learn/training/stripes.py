"""Pictures of three kinds of stripes, and a small network to embed them."""

import numpy as np
import torch

from cbir.descriptors.networks.embedder import Embedder

torch.set_num_threads(1)  # the work is small, and other tests want the cores

SIDE = 32
SHORT = {"epochs": 3, "classes": 3, "images": 4}


def drawn(count=96, seed=0):
    """Grey noise with stripes of three directions, the classes, somewhere."""
    random = np.random.default_rng(seed)
    pictures = random.integers(0, 120, (count, SIDE, SIDE), dtype=np.uint8)
    classes = np.arange(count, dtype=np.int64) % 3
    for place in range(count):
        row, column = random.integers(0, SIDE - 16, 2)
        patch = pictures[place, row : row + 16, column : column + 16]
        if classes[place] == 0:
            patch[::4] = 255
        elif classes[place] == 1:
            patch[:, ::4] = 255
        else:
            patch[np.arange(16)[:, None] % 8 == np.arange(16) % 8] = 255
    return pictures, classes


def made(seed=0):
    torch.manual_seed(seed)
    return Embedder("small", side=SIDE, dimensions=16)


def weights_of(network):
    return torch.cat([value.flatten().float() for value in network.state_dict().values()])


def command(images, out, *more):
    sizes = ("--side", str(SIDE), "--dimensions", "16", "--classes", "3", "--images", "4", "--threads", "1")
    return ["train", "embedding", "--data", str(images / "manifest.csv"), "--out", str(out), *sizes, *more]
