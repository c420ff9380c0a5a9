"""TLS for DICOM: the BCP 195 profiles of PS3.15, annex B."""

import ssl
from pathlib import Path

from cbir.errors import InvalidInput

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
