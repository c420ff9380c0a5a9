"""A network with the input and output of `ct-volume`, and nothing to wait for."""

from pathlib import Path

from cbir.descriptors.encoders import built_in, encoder_files
from cbir.descriptors.encoders.encoder_files import VolumeInput
from cbir.descriptors.encoders.network_writers import RESNET_INPUT, RESNET_OUTPUT
from cbir.descriptors.encoders.onnx_messages import write_model, write_node


def write_block_means(folder: Path) -> None:
    """Store a network that computes means of 2,048 blocks as `ct-volume` in a folder of encoders."""
    card = built_in.CARDS["ct-volume"]
    assert isinstance(card.input, VolumeInput)
    sides = card.input.depth, card.input.width, card.input.height
    block = tuple(side // count for side, count in zip(sides, (8, 16, 16), strict=True))
    nodes = [
        write_node("AveragePool", [RESNET_INPUT], "blocks", kernel_shape=block, strides=block),
        write_node("Flatten", ["blocks"], RESNET_OUTPUT),
    ]
    network = write_model(nodes, [], {RESNET_INPUT: (1, 1, *sides)}, {RESNET_OUTPUT: (1, 2048)})
    encoder_files.write_network(folder, card, network)
