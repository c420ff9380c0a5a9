"""Limits of connections without an association, of associations, and of the PDUs and objects that they send."""

import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field

from pynetdicom.association import Association
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


MAX_PENDING, MAX_PENDING_PER_ADDRESS = 64, 16
SLOT_SECONDS = 1.0  # to wait for an association that is about to end
MAX_WAITING = 32
IDLE_SECONDS = 5.0  # after which an association gives way to a new one, if all are taken


@dataclass(eq=False)
class PendingConnection:
    """A connection without an association. dropped: to make room for others."""

    connection: socket.socket
    address: str
    dropped: bool = False


class PendingConnections:
    """Connections without an association. The oldest of the address with the most is dropped for a new one."""

    def __init__(self, limit: int = MAX_PENDING, per_address: int = MAX_PENDING_PER_ADDRESS) -> None:
        self.limit, self.per_address = limit, per_address
        self._lock = threading.Lock()
        self._pending: list[PendingConnection] = []

    def add(self, connection: socket.socket, address: str) -> PendingConnection:
        """Add a connection, and drop another if there are too many."""
        added = PendingConnection(connection, address)
        with self._lock:
            self._pending.append(added)
            counts = Counter(pending.address for pending in self._pending)
            if counts[address] > self.per_address:
                self._drop_oldest(address)
            elif len(self._pending) > self.limit:
                self._drop_oldest(counts.most_common(1)[0][0])
        return added

    def remove(self, pending: PendingConnection) -> bool:
        """Remove a connection; return False if it was dropped."""
        with self._lock:
            if not pending.dropped:
                self._pending.remove(pending)
            return not pending.dropped

    def drop_all(self) -> None:
        """Drop all connections."""
        with self._lock:
            for pending in list(self._pending):
                self._drop(pending)

    def _drop_oldest(self, address: str) -> None:
        self._drop(next(pending for pending in self._pending if pending.address == address))

    def _drop(self, pending: PendingConnection) -> None:
        """Shut a connection down, which ends the thread that waits for it."""
        pending.dropped = True
        self._pending.remove(pending)
        with suppress(OSError):
            socket.socket.shutdown(
                pending.connection, socket.SHUT_RDWR
            )  # not TLS's, which waits for the peer


@dataclass(eq=False)
class Slot:
    """Place of an association; taken until the association's thread ends."""

    address: str
    association: Association | None = None
    given_back: bool = False

    def is_taken(self) -> bool:
        """Return whether the association lives, or is about to start."""
        return not self.given_back and (self.association is None or self.association.is_alive())

    def idle_seconds(self) -> float:
        """Return the time since the peer sent something, 0 while a message is handled."""
        connection = self.association.dul.socket if self.association else None
        return connection.idle_seconds() if isinstance(connection, BoundedSocket) else 0.0


@dataclass(eq=False)
class AssociationSlots:
    """Places for associations. If all are taken, the association that is idle longest gives way."""

    limit: int
    per_address: int
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _slots: list[Slot] = field(default_factory=list, init=False)
    _waiting: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(MAX_WAITING), init=False
    )

    def take(self, address: str) -> Slot | None:
        """Return a slot for a peer at `address`; None if there is none within a second."""
        slot, crowd = self._take_free(address)
        if slot is not None or not self._waiting.acquire(blocking=False):
            return slot
        try:
            until = time.monotonic() + SLOT_SECONDS
            while slot is None and time.monotonic() < until:
                _abort_idle(crowd)
                time.sleep(0.02)
                slot, crowd = self._take_free(address)
        finally:
            self._waiting.release()
        return slot

    def _take_free(self, address: str) -> tuple[Slot | None, list[Slot]]:
        """Return a free slot if there is one, and those that are in the way."""
        with self._lock:
            self._slots = [slot for slot in self._slots if slot.is_taken()]
            same = [slot for slot in self._slots if slot.address == address]
            if len(same) >= self.per_address:
                return None, same
            if len(self._slots) >= self.limit:
                return None, list(self._slots)
            self._slots.append(Slot(address))
            return self._slots[-1], []


def _abort_idle(slots: list[Slot]) -> None:
    """Abort the association that is idle longest, if it is idle long enough."""
    longest = max(slots, key=Slot.idle_seconds)
    if longest.association is not None and longest.idle_seconds() >= IDLE_SECONDS:
        longest.association.abort(block=False)
