"""Descriptors by name: functions from one image to one vector. A new one is a file and a line here."""

from pathlib import Path
from typing import NamedTuple

from cbir.descriptors import embedding_descriptor
from cbir.descriptors.color_layout import ColorLayout
from cbir.descriptors.concatenated import Concatenated
from cbir.descriptors.descriptor import Descriptor
from cbir.descriptors.edge_histogram import EdgeHistogram
from cbir.descriptors.edge_histogram_150 import EdgeHistogram150
from cbir.descriptors.embedding_descriptor import JOIN, NAME, EmbeddingDescriptor
from cbir.descriptors.huang2012 import Huang2012
from cbir.descriptors.tamura import Tamura
from cbir.errors import InvalidInput
from cbir.models import embedding_card

_MEMBERS: tuple[Descriptor, ...] = (
    ColorLayout(),
    EdgeHistogram(),
    EdgeHistogram150(),
    Tamura(),
    Huang2012(),
)
_BY_NAME = {member.name: member for member in _MEMBERS}


def names() -> tuple[str, ...]:
    """The names of all descriptors."""
    return tuple(_BY_NAME)


def get(name: str) -> Descriptor:
    """The descriptor called `name`, one of `names` or what `named` gave; InvalidInput for another."""
    if NAME.fullmatch(name):
        network, plus, other = name.partition(JOIN)
        return (
            Concatenated(EmbeddingDescriptor(network), get(other)) if plus else EmbeddingDescriptor(network)
        )
    _check(name)
    return _BY_NAME[name]


class Named(NamedTuple):
    """descriptor: the name that `get` takes. title: for people, without the way to a folder."""

    descriptor: str
    title: str


def named(text: str) -> Named:
    """What a person means by `text`: a descriptor's name, the folder of a trained embedding, or FOLDER+DESCRIPTOR.

    The embedding is known from then on. Raises InvalidInput where there is no such thing, or a damaged one.
    """
    folder, plus, other = text.rpartition(JOIN)
    if embedding_card.is_model(Path(text)):
        return Named(embedding_descriptor.register(Path(text)), Path(text).resolve().name)
    if not folder:
        return Named(get(text).name, text)
    _check(other)
    if not embedding_card.is_model(Path(folder)):
        raise InvalidInput(f"there is no trained embedding in {folder}; `cbir train embedding` makes one")
    return Named(
        embedding_descriptor.register(Path(folder)) + plus + other, Path(folder).resolve().name + plus + other
    )


def _check(name: str) -> None:
    if name not in _BY_NAME:
        raise InvalidInput(f"no descriptor is called {name!r}; choose one of {', '.join(_BY_NAME)}")
