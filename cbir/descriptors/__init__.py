"""Descriptors by name: functions from one image to one vector. A new one is a file and a line here."""

from cbir.descriptors.base import Descriptor
from cbir.descriptors.beside import Beside
from cbir.descriptors.color_layout import ColorLayout
from cbir.descriptors.edge_histogram import EdgeHistogram
from cbir.descriptors.edge_histogram_150 import EdgeHistogram150
from cbir.descriptors.embedding import BESIDE, NAME, Embedding
from cbir.descriptors.huang2012 import Huang2012
from cbir.descriptors.tamura import Tamura
from cbir.errors import InvalidInput

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
    """The descriptor called `name`, one of `names` or what `embedding.named` gave; InvalidInput for another."""
    if NAME.fullmatch(name):
        network, plus, other = name.partition(BESIDE)
        return Beside(Embedding(network), get(other)) if plus else Embedding(network)
    if name not in _BY_NAME:
        raise InvalidInput(f"no descriptor is called {name!r}; choose one of {', '.join(_BY_NAME)}")
    return _BY_NAME[name]
