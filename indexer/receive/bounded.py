"""What a peer may take of this process: connections, the size and the time of one PDU, the size of one object."""

import socketserver
import time
from ssl import SSLContext
from typing import Any

from pynetdicom import AE, _config
from pynetdicom.association import Association
from pynetdicom.presentation import PresentationContext
from pynetdicom.transport import AssociationSocket, RequestHandler, ThreadedAssociationServer

PDU_BYTES = 2**18  # what peers are asked to keep to (PS3.8, D.1)
MOST_PDU_BYTES = 2 * PDU_BYTES
PDU_SECONDS = 60.0
PIECE = 2**16

_config.LOG_HANDLER_LEVEL = "none"  # else pynetdicom logs what peers say of their objects


class BoundedSocket(AssociationSocket):
    """A connection that ends with a PDU that is too large or too slow, or an object of more than `most_bytes`."""

    most_bytes = 0
    received = 0  # since the last object was complete

    def recv(self, nr_bytes: int) -> bytearray:
        """As of the base class, in larger pieces; an OSError, which ends the association, beyond the bounds."""
        self.received += nr_bytes
        if nr_bytes > MOST_PDU_BYTES or self.received > self.most_bytes:
            self.close()  # at once: pynetdicom takes its time
            raise OSError("the peer sends more than is taken")
        found = bytearray(nr_bytes)
        view, done, until = memoryview(found), 0, time.monotonic() + PDU_SECONDS
        while done < nr_bytes and self.socket is not None:
            left = until - time.monotonic()
            if left <= 0:
                raise TimeoutError("the peer is too slow")
            self.socket.settimeout(left)
            count = self.socket.recv_into(view[done : done + PIECE])
            if not count:
                return bytearray(view[:done])
            done += count
        if self.socket is not None:
            self.socket.settimeout(PDU_SECONDS)  # for sending
        return found


class Handler(RequestHandler):
    """Makes associations over bounded connections."""

    def _create_association(self) -> Association:
        made = super()._create_association()
        socket = made.dul.socket
        assert isinstance(socket, AssociationSocket)
        assert isinstance(self.server, Server)
        socket.__class__ = BoundedSocket  # pynetdicom has no other way in
        setattr(socket, "most_bytes", self.server.most_bytes)  # noqa: B010
        return made


class Server(ThreadedAssociationServer):
    """most_bytes: of one object, with what DIMSE puts around it."""

    def __init__(
        self,
        ae: AE,
        address: Any,
        ae_title: str,
        contexts: list[PresentationContext],
        ssl_context: SSLContext | None = None,
        *,
        evt_handlers: Any,
        most_bytes: int,
    ) -> None:
        self.most_bytes = most_bytes
        super().__init__(ae, address, ae_title, contexts, ssl_context, evt_handlers, Handler)

    def shutdown(self) -> None:
        """Let `serve_forever` return; pynetdicom's own takes the server from a list that it is not in."""
        socketserver.BaseServer.shutdown(self)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether a connection is taken: half as many more than associations may be, to tell those of it."""
        return len(self.active_associations) < 1.5 * self.ae.maximum_associations + 1
