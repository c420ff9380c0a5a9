"""Association server that admits known peers only, and limits the connections and associations of each address.

A-ASSOCIATE-RQ PDUs (PS3.8, 9.3.2) are read and checked before there is an association.
"""

import logging
import socket
import socketserver
import ssl
import threading
import time
from contextlib import suppress
from typing import Any, cast

from pynetdicom import _config
from pynetdicom.association import Association
from pynetdicom.pdu import A_ABORT_RQ, A_ASSOCIATE_RJ, A_ASSOCIATE_RQ
from pynetdicom.transport import RequestHandler, ThreadedAssociationServer

from indexer.receive.peer_limits import (
    NO_SLOT,
    PDU_SECONDS,
    AssociationSlots,
    BoundedSocket,
    PeerPolicy,
    PendingConnection,
    PendingConnections,
    Rejection,
    Slot,
)

INTERVAL_SECONDS = 60.0
MAX_ENTRIES = 1000


class RefusalLog:
    """Logs each address with each reason once a minute, and how many more there were; nothing that peers send."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._entries: dict[
            tuple[str, str], tuple[float, int]
        ] = {}  # when it was logged last, and how many since

    def report(self, address: str, reason: str) -> None:
        """Log a refused connection, or count it."""
        now, key = time.monotonic(), (address, reason)
        with self._lock:
            logged_at, more = self._entries.pop(key, (-INTERVAL_SECONDS, 0))
            due = now - logged_at >= INTERVAL_SECONDS
            self._entries[key] = (now, 0) if due else (logged_at, more + 1)
            if len(self._entries) > MAX_ENTRIES:
                del self._entries[next(iter(self._entries))]
        if due:
            repeated = f", {more} more before" if more else ""
            self._log.info("a connection from %s was refused: %s%s", address, reason, repeated)


REQUEST_SECONDS = 5.0  # for the TLS handshake and the whole request
MAX_REQUEST_BYTES = 2**18
ASSOCIATE_RQ = 1
HEADER_BYTES = 6
SERVICE_PROVIDER = 2  # source of an A-ABORT
UNEXPECTED_PDU, INVALID_PARAMETER = 2, 6  # reasons of an A-ABORT (PS3.8, table 9-26)


class NoRequest(Exception):
    """The peer requests no association that it may have. answer: PDU to send before closing the connection."""

    def __init__(self, reason: str, answer: bytes = b"") -> None:
        super().__init__(reason)
        self.answer = answer


def receive_request(connection: socket.socket, until: float) -> tuple[bytes, A_ASSOCIATE_RQ]:
    """Receive an association request until the time `until` of the monotonic clock.

    Returns
    -------
    bytes
        The PDU.
    A_ASSOCIATE_RQ
        The same, decoded.

    Raises
    ------
    NoRequest
        If the peer sends something else, or closes the connection.
    OSError
        If the peer is too slow, or TLS fails.
    """
    if isinstance(connection, ssl.SSLSocket):
        connection.settimeout(_remaining(until))
        connection.do_handshake()
    header = _receive(connection, HEADER_BYTES, until)
    length = int.from_bytes(header[2:])
    if header[0] != ASSOCIATE_RQ or length > MAX_REQUEST_BYTES:
        raise NoRequest("the first PDU is not an association request", abort_pdu(UNEXPECTED_PDU))
    data = header + _receive(connection, length, until)
    request = A_ASSOCIATE_RQ()
    try:
        request.decode(data)
        request.to_primitive()
    except Exception as error:
        raise NoRequest("the association request is malformed", abort_pdu(INVALID_PARAMETER)) from error
    return data, request


def send_last(connection: socket.socket, pdu: bytes) -> None:
    """Send a PDU, if the peer takes it at once, before the connection is closed."""
    with suppress(OSError):
        connection.settimeout(0)
        connection.send(pdu)
        connection.recv(MAX_REQUEST_BYTES)  # closing with unread data would take the PDU back


def abort_pdu(reason: int) -> bytes:
    """Return an A-ABORT PDU with this reason (PS3.8, 9.3.8)."""
    pdu = A_ABORT_RQ()
    pdu.source, pdu.reason_diagnostic = SERVICE_PROVIDER, reason
    return bytes(pdu.encode())


def reject_pdu(rejection: Rejection) -> bytes:
    """Return an A-ASSOCIATE-RJ PDU (PS3.8, 9.3.4)."""
    pdu = A_ASSOCIATE_RJ()
    pdu.result, pdu.source, pdu.reason_diagnostic = rejection.result, rejection.source, rejection.diagnostic
    return bytes(pdu.encode())


def _receive(connection: socket.socket, count: int, until: float) -> bytes:
    data = b""
    while len(data) < count:
        connection.settimeout(_remaining(until))
        part = connection.recv(count - len(data))
        if not part:  # health checks connect and say nothing
            raise NoRequest("the peer closes the connection within its request" if data else "")
        data += part
    return data


def _remaining(until: float) -> float:
    remaining = until - time.monotonic()
    if remaining <= 0:
        raise TimeoutError("the association request takes too long")
    return remaining


BACKLOG = 128  # connections that the system accepts ahead
PAUSE_SECONDS = 0.1  # after a failure to accept one
_config.LOG_HANDLER_LEVEL = "none"  # else pynetdicom logs what peers say of their objects

log = logging.getLogger(__name__)


class BoundedHandler(RequestHandler):
    """Receives the request of an association in a thread of its own, and only then starts the association."""

    request: socket.socket
    server: "BoundedServer"
    unread = b""
    association: Association | None = None

    def handle(self) -> None:
        """Start the association that the peer requests, or close the connection."""
        address, server = str(self.client_address[0]), self.server
        pending = server.pending.add(self.request, address)
        try:
            self.unread, request = self._receive_request(pending)
            slot = self._admit(request, address)
        except NoRequest as error:
            if str(error):
                server.refusals.report(address, str(error))
            send_last(pending.connection, error.answer)
        except Exception:  # of the connection, or of TLS
            server.refusals.report(address, "no association request in time, or TLS failed")
        else:
            self._start(pending.connection, slot)
            return
        server.shutdown_request(pending.connection)

    def _receive_request(self, pending: PendingConnection) -> tuple[bytes, A_ASSOCIATE_RQ]:
        until = time.monotonic() + REQUEST_SECONDS
        try:
            if self.server.ssl_context is not None:
                pending.connection = self.server.ssl_context.wrap_socket(
                    pending.connection, server_side=True, do_handshake_on_connect=False
                )  # `receive_request` makes the handshake, within its time limit
            return receive_request(pending.connection, until)
        finally:
            if not self.server.pending.remove(pending):
                raise NoRequest("too many connections without an association")

    def _admit(self, request: A_ASSOCIATE_RQ, address: str) -> Slot:
        """Return a slot for the association that is requested; raise NoRequest if it is rejected."""
        rejection = self.server.peers.check(request, address)
        slot = None if rejection else self.server.slots.take(address)
        if slot is None:
            rejection = rejection or NO_SLOT
            raise NoRequest(rejection.reason, reject_pdu(rejection))
        return slot

    def _start(self, connection: socket.socket, slot: Slot) -> None:
        """Start the association in the slot."""
        self.request = connection
        try:
            connection.settimeout(PDU_SECONDS)
            super().handle()
        except BaseException:
            slot.given_back = True
            self.server.shutdown_request(connection)
            raise
        slot.association = self.association

    def _create_association(self) -> Association:
        association = super()._create_association()
        connection = cast(BoundedSocket, association.dul.socket)
        connection.__class__ = BoundedSocket  # pynetdicom offers no other way
        connection.max_bytes, connection.unread = self.server.max_bytes, self.unread
        connection.active = time.monotonic()
        self.association = association
        return association


class BoundedServer(ThreadedAssociationServer):
    """Association server with bounds. max_bytes: largest object, including what DIMSE puts around it."""

    request_queue_size = BACKLOG

    def __init__(self, *arguments: Any, max_bytes: int, peers: PeerPolicy, **options: Any) -> None:
        self.max_bytes = max_bytes
        self.peers = peers
        self.pending = PendingConnections()
        self.slots = AssociationSlots(peers.max_associations, peers.max_per_address)
        self.refusals = RefusalLog(log)
        super().__init__(*arguments, **options | {"request_handler": BoundedHandler})

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection. The base class waits here for the TLS handshake."""
        try:
            return cast(socket.socket, self.socket).accept()
        except OSError:  # too many open files: the caller tries again at once
            time.sleep(PAUSE_SECONDS)
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Refuse connections from addresses that no peer may call from."""
        allowed = self.peers.allows_address(str(client_address[0]))
        if not allowed:
            self.refusals.report(str(client_address[0]), "no peer may call from this address")
        return allowed

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log that a connection failed. The base class prints a traceback."""
        log.warning("a connection could not be handled")

    def shutdown(self) -> None:
        """Let `serve_forever` return. The base class removes the server from a list that it is not in."""
        socketserver.BaseServer.shutdown(self)

    def server_close(self) -> None:
        """Close the server, and the connections without an association."""
        self.pending.drop_all()
        super().server_close()
