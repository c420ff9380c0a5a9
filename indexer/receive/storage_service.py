"""Storage service: its peers and TLS, C-STORE and C-ECHO answered by an Intake, and Storage Commitment."""

import logging
import re
import ssl
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

from pydicom.uid import UID, AllTransferSyntaxes, ExplicitVRLittleEndian, ImplicitVRLittleEndian
from pynetdicom import AE, AllStoragePresentationContexts, evt
from pynetdicom.events import Event
from pynetdicom.sop_class import StorageCommitmentPushModel, Verification  # type: ignore[attr-defined]

from cbir.errors import InvalidInput
from cbir.images.dicom_frames import DECODED
from cbir.settings import Settings
from indexer.describe_instance import Fate
from indexer.intake import Intake
from indexer.receive.bounded_server import BoundedServer
from indexer.receive.peer_limits import PDU_BYTES, BoundedSocket, Peer, PeerPolicy
from indexer.receive.storage_commitment import CommitmentPeers, PeerAddress, StorageCommitment

# The BCP 195 profiles of PS3.15, annex B
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM"  # of TLS 1.2: forward secrecy, authenticated
NETWORK_SECONDS = 60  # without a message from the peer
ACSE_SECONDS = 5  # for the peer to close a connection
DIMSE_SECONDS = 10  # for the peer to answer a report
EXTRA_BYTES = 2**20  # around an object
NO_LIMIT = 2**31  # of pynetdicom, which counts all connections; BoundedServer limits associations
# PS3.4, table B.2-1, and PS3.7, annex C. A warning tells the sender that it need not try again.
STATUS = {
    Fate.stored: 0x0000,
    Fate.quarantined: 0x0000,  # on disk
    Fate.existing: 0x0000,
    Fate.other_picture: 0xB006,  # elements discarded: nothing is replaced
    Fate.no_image: 0xB006,  # elements discarded
    Fate.left_out: 0xB006,
    Fate.deleted_earlier: 0xB006,
    Fate.unreadable: 0xC000,  # cannot understand
    Fate.full: 0xA700,  # out of resources
    Fate.failed: 0x0110,  # processing failure
}
MISMATCH = 0xA900  # the data set is not of the class, or the instance, that the command says
log = logging.getLogger(__name__)


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


@cache
def decodable_syntaxes() -> tuple[UID, ...]:
    """Return the transfer syntaxes of PS3.5 and PS3.6 that `cbir.images` decodes."""
    return tuple(syntax for syntax in AllTransferSyntaxes if syntax in DECODED)


def start_storage_service(
    intake: Intake,
    host: str,
    port: int,
    peers: PeerPolicy,
    *,
    commitment: StorageCommitment | None = None,
    tls: ssl.SSLContext | None = None,
) -> BoundedServer:
    """Listen. The caller runs `serve_forever` of the server.

    Parameters
    ----------
    intake : Intake
        Takes the instances.
    host, port : str, int
        Address to listen on; port 0: any free one.
    peers : PeerPolicy
        Peers that may send.
    commitment : StorageCommitment, optional
        Answers peers that ask whether their instances are stored.
    tls : SSLContext, optional
        TLS of all connections.

    Raises
    ------
    InvalidInput
        If the address is not available.
    """
    try:
        server = _entity(peers.called_title, commitment).make_server(
            (host, port),
            evt_handlers=_handlers(intake, commitment),
            ssl_context=tls,
            server_class=BoundedServer,
            max_bytes=intake.limits.bytes + EXTRA_BYTES,
            peers=peers,
        )
    except (OSError, OverflowError) as error:
        raise InvalidInput(f"cannot listen on {host}, port {port}: {error}") from error
    assert isinstance(server, BoundedServer)
    return server


def _entity(title: str, commitment: StorageCommitment | None) -> AE:
    entity = AE(title)
    entity.maximum_pdu_size = PDU_BYTES
    entity.maximum_associations = NO_LIMIT
    entity.network_timeout, entity.acse_timeout = NETWORK_SECONDS, ACSE_SECONDS
    entity.dimse_timeout = DIMSE_SECONDS
    entity.require_called_aet = True
    for context in AllStoragePresentationContexts:
        entity.add_supported_context(str(context.abstract_syntax), list(decodable_syntaxes()))
    entity.add_supported_context(Verification)
    if commitment is not None:
        plain = [ExplicitVRLittleEndian, ImplicitVRLittleEndian]  # a deflated request might be a bomb
        entity.add_supported_context(StorageCommitmentPushModel, plain)
    return entity


def _handlers(intake: Intake, commitment: StorageCommitment | None) -> list[evt.EventHandlerType]:
    handlers: list[evt.EventHandlerType] = [
        (evt.EVT_C_STORE, _handle_store, [intake]),
        (evt.EVT_RELEASED, _log_end, ["ended"]),
        (evt.EVT_ABORTED, _log_end, ["was aborted"]),
        (evt.EVT_CONN_CLOSE, _log_end, ["was cut"]),
    ]
    if commitment is not None:
        handlers.append((evt.EVT_N_ACTION, commitment.handle))
    return handlers


def _handle_store(event: Event, intake: Intake) -> int:
    """Return the status of a C-STORE request: success only once the instance is on disk."""
    connection = cast(BoundedSocket, event.assoc.dul.socket)  # None if it is closed
    if connection is not None:
        connection.handling = True
    try:
        status, fate = _store(event, intake)
    except Exception as error:  # pynetdicom would log its text, which may quote the object
        log.warning("an instance could not be processed: %s", type(error).__name__)
        status, fate = STATUS[Fate.failed], Fate.failed
    if connection is not None:
        connection.received, connection.active, connection.handling = 0, time.monotonic(), False
    counts: Counter[Fate] = event.assoc.__dict__.setdefault("cbir_counts", Counter())
    counts[fate] += 1
    return status


def _store(event: Event, intake: Intake) -> tuple[int, Fate]:
    uid = getattr(event.request, "AffectedSOPInstanceUID", "")
    outcome = intake.add(event.encoded_dataset(), str(uid))
    if outcome.fate is Fate.unreadable and "another SOP Instance UID" in outcome.reason:
        return MISMATCH, outcome.fate
    if STATUS[outcome.fate] & 0xF000 in (0xA000, 0xC000) or outcome.fate in (Fate.failed, Fate.other_picture):
        log.warning("an instance was refused: %s", outcome.reason)
    elif outcome.fate in (Fate.stored, Fate.existing) and outcome.reason:
        log.warning("an instance %s", outcome.reason)
    return STATUS[outcome.fate], outcome.fate


def _log_end(event: Event, end: str) -> None:
    """Log one line an association: the peer and the counts, nothing of the objects."""
    counts = event.assoc.__dict__.pop("cbir_counts", None)
    if counts:
        title = re.sub(r"[^ -~]", "?", str(event.assoc.requestor.ae_title))[:16].strip()
        text = ", ".join(f"{number} {fate.value}" for fate, number in counts.items())
        log.info("an association of %s %s: %s", title, end, text)
