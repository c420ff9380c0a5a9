"""Association server that admits known peers only, and limits the connections and associations of each address."""

import logging
import socket
import socketserver
import time
from typing import Any, cast

from pynetdicom import _config
from pynetdicom.association import Association
from pynetdicom.pdu import A_ASSOCIATE_RQ
from pynetdicom.transport import RequestHandler, ThreadedAssociationServer

from indexer.receive import association_request
from indexer.receive.association_request import NoRequest, receive_request, reject_pdu, send_last, start_tls
from indexer.receive.bounded_socket import PDU_SECONDS, BoundedSocket
from indexer.receive.connection_limits import AssociationSlots, PendingConnection, PendingConnections, Slot
from indexer.receive.peer_policy import NO_SLOT, PeerPolicy
from indexer.receive.refusal_log import RefusalLog

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
        until = time.monotonic() + association_request.REQUEST_SECONDS
        try:
            if self.server.ssl_context is not None:
                pending.connection = start_tls(pending.connection, self.server.ssl_context)
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
