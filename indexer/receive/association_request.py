"""A-ASSOCIATE-RQ PDUs (PS3.8, 9.3.2), read and checked before there is an association."""

import socket
import ssl
import time
from contextlib import suppress

from pynetdicom.pdu import A_ABORT_RQ, A_ASSOCIATE_RJ, A_ASSOCIATE_RQ

from indexer.receive.peer_policy import Rejection

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


def start_tls(connection: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Wrap a connection, without a handshake yet: `receive_request` does it, within its time limit."""
    return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)


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
