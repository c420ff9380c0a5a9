"""Names of networks on hubs: `torchvision:NAME`, `timm:NAME` and `hf:ORG/NAME`."""

import hashlib
import re
from typing import NamedTuple

from cbir.errors import InvalidInput

HUBS = ("torchvision", "timm", "hf")
LONGEST_NAME = 64  # of an encoder

_WORD = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}"
_ADDRESS = re.compile(rf"(torchvision|timm):({_WORD})|(hf):({_WORD}/{_WORD})")


class HubAddress(NamedTuple):
    """Network on a hub, one of HUBS; name: NAME, or ORG/NAME on Hugging Face."""

    hub: str
    name: str

    def __str__(self) -> str:
        return f"{self.hub}:{self.name}"

    @property
    def encoder_name(self) -> str:
        """Name of the stored encoder, which file systems take: `hf:ORG/NAME` is stored as `hf-org--name`.

        Few networks share one, such as `hf:a/b--c` and `hf:a--b/c`: see `is_source`.
        """
        name = f"{self.hub}-{self.name.replace('/', '--')}".lower()
        if len(name) <= LONGEST_NAME:
            return name
        digest = hashlib.blake2b(name.encode(), digest_size=4).hexdigest()
        return f"{name[: LONGEST_NAME - 9]}-{digest}"

    def is_source(self, source: str) -> bool:
        """Return whether the source on a card, which begins with the address, is this network; case is ignored."""
        return re.split(r" |,", source, maxsplit=1)[0].lower() == str(self).lower()


def is_hub_address(text: str) -> bool:
    """Return whether a name begins with a hub; NETWORK+DESCRIPTOR is none."""
    hub, colon, name = text.partition(":")
    return hub in HUBS and bool(colon) and "+" not in name


def parse_hub_address(text: str) -> HubAddress:
    """Return the address that `text` is; raise InvalidInput if it is none."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{text!r} is not a network on a hub: torchvision:NAME, timm:NAME or hf:ORG/NAME")
    return HubAddress(match[1] or match[3], match[2] or match[4])
