"""Small ONNX models, and cards for them."""

import numpy as np

from cbir.encoders.onnx_messages import write_model, write_node, write_tensor

SIDE, CHANNELS = 16, 4


def convolution(weights=None, channels=3, shape=None, stride=4):
    """Return a model with one convolution: input "images", output "maps" of 4 channels, a quarter of the side."""
    if weights is None:
        weights = np.random.default_rng(0).normal(size=(CHANNELS, channels, stride, stride))
    node = write_node("Conv", ["images", "w"], "maps", strides=(stride, stride))
    side = SIDE // stride
    return write_model(
        [node],
        [write_tensor("w", weights)],
        {"images": shape or (1, channels, SIDE, SIDE)},
        {"maps": (1, CHANNELS, side, side)},
    )


def vector(size=5):
    """Return a model whose output "vector" is a matrix product."""
    weights = np.random.default_rng(0).normal(size=(3 * SIDE * SIDE, size))
    nodes = [write_node("Flatten", ["images"], "flat"), write_node("MatMul", ["flat", "w"], "vector")]
    shapes = {"images": (1, 3, SIDE, SIDE)}, {"vector": (1, size)}
    return write_model(nodes, [write_tensor("w", weights)], *shapes)
