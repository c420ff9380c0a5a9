"""Small ONNX models, and cards for them."""

import numpy as np

from cbir.descriptors.encoders.encoder_files import EncoderCard, EncoderInput, EncoderOutput, write_network
from cbir.descriptors.encoders.onnx_messages import write_model, write_node, write_tensor

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


def brightness(size=5, greatest=1.0, inverse=False):
    """Return a model whose "values" grow with the brightness, up to `greatest` for white; or 1 divided by them."""
    weights = np.random.default_rng(0).uniform(0.1, 1, (3 * SIDE * SIDE, size))
    weights *= greatest / weights.sum(axis=0).max()
    nodes = [write_node("Flatten", ["images"], "flat")]
    nodes += [write_node("MatMul", ["flat", "w"], "product" if inverse else "values")]
    nodes += [write_node("Reciprocal", ["product"], "values")] if inverse else []
    shapes = {"images": (1, 3, SIDE, SIDE)}, {"values": (1, size)}
    return write_model(nodes, [write_tensor("w", weights)], *shapes)


def store_brightness(folder, name, source="test", **options):
    """Store the model `brightness` as an encoder, as no check of a new one would let it through."""
    card = EncoderCard(
        name=name,
        title=name,
        source=source,
        sha256="0" * 64,
        input=EncoderInput(width=SIDE, height=SIDE, mean=(0, 0, 0), deviation=(1, 1, 1)),
        outputs=(EncoderOutput(tensor="values", pooling="none", dimensions=5),),
    )
    folder.mkdir(exist_ok=True)
    write_network(folder, card, brightness(**options))


# Encoders that fail at one kind of image, and the reason
FAILING = {
    "black": ({"inverse": True}, "gives values that are not finite for the image"),
    "white": ({"greatest": 65600.0}, "gives values for the image that exceed 65504, the range of float16"),
}
