"""Connection of an association that bounds size and time of one PDU, and the size of one object."""

import time

from pynetdicom.transport import AssociationSocket

PDU_BYTES = 2**18  # maximum length that peers are asked to keep to (PS3.8, D.1)
MAX_PDU_BYTES = 2 * PDU_BYTES
PDU_SECONDS = 60.0
READ_BYTES = 2**16


class BoundedSocket(AssociationSocket):
    """Connection that ends with a PDU that is too large or too slow, or an object above `max_bytes`."""

    max_bytes = 0
    received = 0  # since the last object was complete
    unread = b""  # the association request, received before there was an association
    handling = False  # a message is handled
    active = 0.0  # when the peer sent something, or a message was handled

    @property
    def ready(self) -> bool:
        """Return whether there is something to read."""
        return bool(self.unread) or super().ready

    def idle_seconds(self) -> float:
        """Return the time since the peer sent something, 0 while a message is handled."""
        return 0.0 if self.handling else time.monotonic() - self.active

    def recv(self, nr_bytes: int) -> bytearray:
        """Receive like the base class, in larger pieces. Beyond the bounds an OSError ends the association."""
        if self.unread:
            part, self.unread = self.unread[:nr_bytes], self.unread[nr_bytes:]
            return bytearray(part)
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
            self.active = time.monotonic()
        if self.socket is not None:
            self.socket.settimeout(PDU_SECONDS)  # for sending
        return buffer
