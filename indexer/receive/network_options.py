"""Peers and TLS of `cbir receive`, from its options and the settings."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass

from cbir.errors import InvalidInput
from cbir.settings import Settings
from indexer.receive.commitment_peers import CommitmentPeers, PeerAddress
from indexer.receive.peer_policy import Peer, PeerPolicy
from indexer.receive.tls_contexts import client_context, server_context


@dataclass(frozen=True)
class NetworkOptions:
    """Peers that may send, peers that listen for reports, and TLS of the server, if any."""

    peers: PeerPolicy
    commitment_peers: CommitmentPeers
    tls: ssl.SSLContext | None


def load_network_options(
    settings: Settings, title: str, allowed: Sequence[str], associations: int, per_address: int | None
) -> NetworkOptions:
    """Return the options; reports are sent over TLS if the server uses it.

    Parameters
    ----------
    settings : Settings
        Peers with their networks and addresses, and files for TLS.
    title : str
        Own AE title.
    allowed : sequence of str
        AE titles that may call from any address.
    associations : int
        Associations at a time.
    per_address : int or None
        Those of one address.

    Raises
    ------
    InvalidInput
        For what is no AE title, network or address, and for files that cannot be used.
    """
    peers = [Peer.parse(text) for text in settings.dicom_peers]
    addresses = [PeerAddress.parse(text) for text in settings.dicom_commitment]
    certificate, key, authority = (
        settings.dicom_tls_certificate,
        settings.dicom_tls_key,
        settings.dicom_tls_ca,
    )
    server_tls = client_tls = None
    if certificate and key:
        server_tls = server_context(certificate, key, authority)
        client_tls = client_context(certificate, key, authority) if addresses else None
    elif certificate or key or authority:
        raise InvalidInput("DICOM TLS needs a certificate and a key: give --tls-certificate and --tls-key")
    policy = PeerPolicy(title, allowed, associations, peers, per_address)
    return NetworkOptions(policy, CommitmentPeers(title, addresses, client_tls), server_tls)
