"""Descriptors by name: functions from one image to one vector. A new one is a file and a line here."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbir.descriptors import encoders, network_descriptors
from cbir.descriptors.color_layout import ColorLayout
from cbir.descriptors.descriptor import Batched, Descriptor, Part, Parts
from cbir.descriptors.edge_histogram import EdgeHistogram, EdgeHistogram150
from cbir.descriptors.lens_files import has_lens_model
from cbir.descriptors.network_descriptors import (
    JOIN,
    Concatenated,
    EmbeddingDescriptor,
    EncoderDescriptor,
    descriptor_name,
    encoder_descriptor_name,
)
from cbir.descriptors.networks import model_card
from cbir.descriptors.slit_lamp_descriptor import SLIT_LAMP, SlitLampDescriptor, slit_lamp_name
from cbir.descriptors.tamura import Tamura
from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.system.device import Device
from cbir.system.remedies import did_you_mean


class Huang2012:
    """Concatenation of `color_layout` (12), `tamura` (6) and `edge_histogram_150` (150).

    The paper gives only the total, 168; this is the split that adds up with each descriptor in its standard form.
    The parts have very different ranges: standardise them before computing distances.
    """

    name = "huang2012"
    dimensions = 168
    parts: Parts = (Part("color_layout", 0, 12), Part("tamura", 12, 18), Part("edge_histogram", 18, 168))
    _members = (ColorLayout(), Tamura(), EdgeHistogram150())

    def __call__(self, image: Image) -> NDArray[np.float32]:
        """Describe `image`: shape (168,), float32."""
        return np.concatenate([member(image) for member in self._members])


_MEMBERS: tuple[Descriptor, ...] = (ColorLayout(), EdgeHistogram(), EdgeHistogram150(), Tamura(), Huang2012())
_BY_NAME = {member.name: member for member in _MEMBERS}


def names() -> tuple[str, ...]:
    """Return the names of all descriptors that need no network."""
    return tuple(_BY_NAME)


def get(name: str, model: Path | None = None, device: Device = "auto") -> Descriptor:
    """Return the descriptor called `name`.

    Parameters
    ----------
    name : str
        One of `names()`, or a name that `resolve_descriptor` returned.
    model : Path, optional
        Folder of the trained embedding or slit-lamp model; without it the descriptor has a name, dimensions and
        parts, but cannot describe images.
    device : {"auto", "cpu", "cuda"}
        Device that a network describes batches on.

    Raises
    ------
    InvalidInput
        If no descriptor has this name.
    """
    network_name, join, other = name.partition(JOIN)
    network: Batched
    if SLIT_LAMP.fullmatch(name):
        return SlitLampDescriptor(name, model)
    if network_descriptors.EMBEDDING_NAME.fullmatch(name):
        network = EmbeddingDescriptor(network_name, model, device)
    elif network_descriptors.ENCODER_NAME.fullmatch(name):
        network = EncoderDescriptor(network_name, device)
    else:
        _check_name(name)
        return _BY_NAME[name]
    return Concatenated(network, get(other)) if join else network


class ResolvedDescriptor(NamedTuple):
    """Descriptor that a user meant.

    name: for `get`. title: for people, without the path of a folder. model: folder of the trained embedding or
    slit-lamp model.
    """

    name: str
    title: str
    model: Path | None


def resolve_descriptor(text: str) -> ResolvedDescriptor:
    """Resolve the name of a descriptor or encoder, the folder of a trained model, or NETWORK+DESCRIPTOR.

    A model is an embedding or a slit-lamp model. NETWORK is an encoder or the folder of an embedding. Raises
    InvalidInput if `text` is none of them, the model is damaged or the weights of the encoder are missing.
    """
    if text not in _BY_NAME and has_lens_model(Path(text)):
        folder = Path(text).resolve()
        return ResolvedDescriptor(slit_lamp_name(folder), folder.name, folder)
    path, join, other = text, "", ""
    if not _is_network(text):
        path, join, other = text.rpartition(JOIN)
        if not path:
            return ResolvedDescriptor(_resolve_name(text), text, None)
        _check_name(other)
        if not _is_network(path):
            raise InvalidInput(
                f"there is no trained embedding in {path}; `cbir train embedding` makes one, "
                f"and `cbir encoder list` shows the pretrained ones"
            )
    if not model_card.has_embedding(Path(path)):
        name = encoder_descriptor_name(path)
        if join and network_descriptors.volume_grid(name):
            raise InvalidInput(f"{path} describes CT series, {other} single images: use {path} alone")
        return ResolvedDescriptor(name + join + other, text, None)
    folder = Path(path).resolve()
    return ResolvedDescriptor(descriptor_name(folder) + join + other, folder.name + join + other, folder)


def _is_network(text: str) -> bool:
    is_encoder = text not in _BY_NAME and encoders.is_encoder(text)
    return is_encoder or model_card.has_embedding(Path(text))


def _resolve_name(name: str) -> str:
    try:
        return get(name).name
    except InvalidInput as error:
        raise InvalidInput(f"{error}, or an encoder: {', '.join(encoders.names())}") from error


def _check_name(name: str) -> None:
    if name not in _BY_NAME:
        advice = did_you_mean(name, [*_BY_NAME, *encoders.names()])
        raise InvalidInput(
            f"there is no descriptor {name!r}{advice or ';'} choose one of {', '.join(_BY_NAME)}"
        )
