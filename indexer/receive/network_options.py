"""Peers and TLS of `cbir receive`, from its options and the settings."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cbir.errors import InvalidInput
from cbir.settings import Settings
from indexer.receive.peer_policy import Peer, PeerPolicy
from indexer.receive.storage_commitment import CommitmentPeers, PeerAddress

# The BCP 195 profiles of PS3.15, annex B
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM"  # of TLS 1.2: forward secrecy, authenticated


def server_context(certificate: Path, key: Path, authority: Path | None = None) -> ssl.SSLContext:
    """Create the context of a server.

    Parameters
    ----------
    certificate, key : Path
        PEM files of the certificate chain and the private key.
    authority : Path, optional
        PEM file of the authorities that sign the certificates of peers, which must then show one.

    Raises
    ------
    InvalidInput
        If a file is missing or cannot be used.
    """
    context = _load(ssl.PROTOCOL_TLS_SERVER, certificate, key, authority)
    if authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(certificate: Path, key: Path, authority: Path | None = None) -> ssl.SSLContext:
    """Create the context of a client that shows a certificate.

    Parameters
    ----------
    certificate, key : Path
        PEM files of the certificate chain and the private key.
    authority : Path, optional
        PEM file of the authorities that sign the certificates of servers; by default those of the system.

    Raises
    ------
    InvalidInput
        If a file is missing or cannot be used.
    """
    context = _load(ssl.PROTOCOL_TLS_CLIENT, certificate, key, authority)
    if authority is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _load(protocol: int, certificate: Path, key: Path, authority: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS)
    for path in filter(None, (certificate, key, authority)):
        if not path.is_file():
            raise InvalidInput(f"there is no file {path} for TLS")
    try:
        context.load_cert_chain(certificate, key, password="")  # never asks for one
        if authority is not None:
            context.load_verify_locations(authority)
    except (ssl.SSLError, OSError) as error:
        reason = getattr(error, "reason", None) or type(error).__name__
        raise InvalidInput(
            f"the certificate {certificate}, the key {key} or the authority cannot be used for TLS: {reason}; "
            "they must be PEM files, the key without a passphrase"
        ) from error
    return context


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
