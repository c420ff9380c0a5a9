"""Server that bounds what a peer takes: connections, size and time of one PDU, size of one object."""

import socketserver
import time
from typing import Any

from pynetdicom import _config
from pynetdicom.association import Association
from pynetdicom.transport import AssociationSocket, RequestHandler, ThreadedAssociationServer

PDU_BYTES = 2**18  # maximum length that peers are asked to keep to (PS3.8, D.1)
MAX_PDU_BYTES = 2 * PDU_BYTES
PDU_SECONDS = 60.0
READ_BYTES = 2**16

_config.LOG_HANDLER_LEVEL = "none"  # else pynetdicom logs what peers say of their objects


class BoundedSocket(AssociationSocket):
    """Connection that ends with a PDU that is too large or too slow, or an object above `max_bytes`."""

    max_bytes = 0
    received = 0  # since the last object was complete

    def recv(self, nr_bytes: int) -> bytearray:
        """Receive like the base class, in larger pieces. Beyond the bounds an OSError ends the association."""
        self.received += nr_bytes
        if nr_bytes > MAX_PDU_BYTES or self.received > self.max_bytes:
            self.close()  # at once: pynetdicom takes its time
            raise OSError("the peer sends more than the limit")
        buffer = bytearray(nr_bytes)
        view, done, until = memoryview(buffer), 0, time.monotonic() + PDU_SECONDS
        while done < nr_bytes and self.socket is not None:
            remaining = until - time.monotonic()
            if remaining <= 0:
                raise TimeoutError("the peer is too slow")
            self.socket.settimeout(remaining)
            count = self.socket.recv_into(view[done : done + READ_BYTES])
            if not count:
                return bytearray(view[:done])
            done += count
        if self.socket is not None:
            self.socket.settimeout(PDU_SECONDS)  # for sending
        return buffer


class BoundedHandler(RequestHandler):
    """Creates associations over bounded connections."""

    def _create_association(self) -> Association:
        association = super()._create_association()
        socket = association.dul.socket
        assert isinstance(socket, AssociationSocket)
        assert isinstance(self.server, BoundedServer)
        socket.__class__ = BoundedSocket  # pynetdicom offers no other way
        setattr(socket, "max_bytes", self.server.max_bytes)  # noqa: B010
        return association


class BoundedServer(ThreadedAssociationServer):
    """Association server with bounds. max_bytes: largest object, including what DIMSE puts around it."""

    def __init__(self, *arguments: Any, max_bytes: int, **options: Any) -> None:
        self.max_bytes = max_bytes
        super().__init__(*arguments, **options | {"request_handler": BoundedHandler})

    def shutdown(self) -> None:
        """Let `serve_forever` return. The base class removes the server from a list that it is not in."""
        socketserver.BaseServer.shutdown(self)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Accept half as many connections more than associations, to tell those peers that they are rejected."""
        return len(self.active_associations) < 1.5 * self.ae.maximum_associations + 1
