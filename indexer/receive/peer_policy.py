"""Peers that may associate, by AE title and address, and the answers to others."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from pynetdicom.pdu import A_ASSOCIATE_RQ

from cbir.errors import InvalidInput

# VR AE (PS3.5, 6.2): 16 characters, no backslash
AE_TITLE = re.compile(r"[!-\[\]-~]([ -\[\]-~]{0,14}[!-\[\]-~])?")


@dataclass(frozen=True)
class Rejection:
    """Result, source and reason of an A-ASSOCIATE-RJ (PS3.8, table 9-21), and the reason in words."""

    result: int
    source: int
    diagnostic: int
    reason: str


UNKNOWN_CALLING = Rejection(1, 1, 3, "the calling AE title is not allowed from this address")
UNKNOWN_CALLED = Rejection(1, 1, 7, "the called AE title is not ours")
UNKNOWN_PROTOCOL = Rejection(1, 2, 2, "the protocol version is not supported")
NO_SLOT = Rejection(2, 3, 2, "all associations are taken")


@dataclass(frozen=True)
class Peer:
    """AE title of a peer and the network that it calls from; None: any."""

    title: str
    network: IPv4Network | IPv6Network | None = None

    def __post_init__(self) -> None:
        check_title(self.title)

    @classmethod
    def parse(cls, text: str) -> "Peer":
        """Parse "AETITLE@NETWORK", for instance "CT1@10.1.2.0/24" or "CT1@10.1.2.3"."""
        title, at, network = text.rpartition("@")
        try:
            if not at:
                raise ValueError
            return cls(title, ip_network(network))
        except ValueError:
            raise InvalidInput(
                f"peer {text!r} is not of the form AETITLE@ADDRESS or AETITLE@NETWORK, for instance "
                "CT1@10.1.2.3 or CT1@10.1.2.0/24"
            ) from None


@dataclass(frozen=True)
class PeerPolicy:
    """Peers that may send.

    called_title: own AE title. calling_titles: AE titles that may call from any address; peers: those with their
    networks; both empty: anybody. max_associations: at a time; per_address: of one address, None: three quarters.
    """

    called_title: str
    calling_titles: Sequence[str] = ()
    max_associations: int = 8
    peers: Sequence[Peer] = ()
    per_address: int | None = None

    def __post_init__(self) -> None:
        for title in (self.called_title, *self.calling_titles):
            check_title(title)

    @property
    def max_per_address(self) -> int:
        """Return how many associations one address may have: never all of many, so that others can call."""
        return min(self.max_associations, self.per_address or max(2, self.max_associations * 3 // 4))

    def allows_address(self, address: str) -> bool:
        """Return whether any peer may call from an IP address."""
        return (
            not self.peers or bool(self.calling_titles) or any(_is_in(address, p.network) for p in self.peers)
        )

    def check(self, request: A_ASSOCIATE_RQ, address: str) -> Rejection | None:
        """Return why an association request from an IP address is rejected; None if it is not."""
        if request.protocol_version != 1:
            return UNKNOWN_PROTOCOL
        if request.called_ae_title.strip() != self.called_title:
            return UNKNOWN_CALLED
        return None if self._allows(request.calling_ae_title.strip(), address) else UNKNOWN_CALLING

    def _allows(self, title: str, address: str) -> bool:
        if not self.peers and not self.calling_titles:
            return True
        return title in self.calling_titles or any(
            peer.title == title and _is_in(address, peer.network) for peer in self.peers
        )


def check_title(title: str) -> None:
    """Raise InvalidInput for what is no AE title."""
    if not AE_TITLE.fullmatch(title):
        raise InvalidInput(f"{title!r} is not an AE title: 1 to 16 printable characters, no backslash")


def _is_in(address: str, network: IPv4Network | IPv6Network | None) -> bool:
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    return network is None or parsed in network
