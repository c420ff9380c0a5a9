"""Addresses of peers that get their storage commitment reports on a new association."""

import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian
from pynetdicom import AE, build_role
from pynetdicom.association import Association
from pynetdicom.sop_class import StorageCommitmentPushModel  # type: ignore[attr-defined]

from cbir.errors import InvalidInput
from indexer.receive.peer_policy import check_title

SECONDS = 10.0  # to connect, to associate, and for an answer
ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:\[\]]+)):([0-9]{1,5})")


@dataclass(frozen=True)
class PeerAddress:
    """AE title of a peer, and where it listens."""

    title: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "PeerAddress":
        """Parse "AETITLE=HOST:PORT", for instance "CT1=10.1.2.3:104"."""
        title, _, address = text.partition("=")
        match = ADDRESS.fullmatch(address)
        if not match or not 0 < int(match.group(3)) < 65536:
            raise InvalidInput(
                f"commitment {text!r} is not of the form AETITLE=HOST:PORT, for instance CT1=10.1.2.3:104"
            )
        check_title(title)
        return cls(title, match.group(1) or match.group(2), int(match.group(3)))


class CommitmentPeers:
    """Peers with an address, by AE title.

    Parameters
    ----------
    own_title : str
        Own AE title.
    addresses : sequence of PeerAddress
        Where the peers listen.
    tls : SSLContext, optional
        TLS of the associations.
    """

    def __init__(
        self, own_title: str, addresses: Sequence[PeerAddress] = (), tls: ssl.SSLContext | None = None
    ) -> None:
        self._own_title = own_title
        self._by_title: Mapping[str, PeerAddress] = {address.title: address for address in addresses}
        self._tls = tls

    def knows(self, association: Association) -> bool:
        """Return whether the peer of an association has an address."""
        return _calling_title(association) in self._by_title

    @contextmanager
    def associate(self, requested_on: Association) -> Iterator[Association]:
        """Yield an association to the peer of `requested_on`, established if the peer agrees."""
        peer = self._by_title[_calling_title(requested_on)]
        entity = AE(self._own_title)
        entity.acse_timeout = entity.dimse_timeout = entity.network_timeout = entity.connection_timeout = (
            SECONDS
        )
        entity.add_requested_context(
            StorageCommitmentPushModel, [ExplicitVRLittleEndian, ImplicitVRLittleEndian]
        )
        association = entity.associate(
            peer.host,
            peer.port,
            ae_title=peer.title,
            ext_neg=[build_role(StorageCommitmentPushModel, scp_role=True)],
            tls_args=(self._tls, peer.host) if self._tls else None,
        )
        try:
            yield association
        finally:
            if association.is_established:
                association.release()


def _calling_title(association: Association) -> str:
    return str(association.requestor.ae_title).strip()
