"""Peers that may associate, by AE title and address, and the limits of their connections, associations and PDUs."""

import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from pynetdicom.association import Association
from pynetdicom.pdu import A_ASSOCIATE_RQ
from pynetdicom.transport import AssociationSocket

from cbir.errors import InvalidInput

# VR AE (PS3.5, 6.2): 16 characters, no backslash
AE_TITLE = re.compile(r"[!-\[\]-~]([ -\[\]-~]{0,14}[!-\[\]-~])?")
PDU_BYTES = 2**18  # maximum length that peers are asked to keep to (PS3.8, D.1)
MAX_PDU_BYTES = 2 * PDU_BYTES
PDU_SECONDS = 60.0
READ_BYTES = 2**16
MAX_PENDING, MAX_PENDING_PER_ADDRESS = 64, 16
SLOT_SECONDS = 1.0  # to wait for an association that is about to end
MAX_WAITING = 32
IDLE_SECONDS = 5.0  # after which an association gives way to a new one, if all are taken


@dataclass(frozen=True)
class Rejection:
    """Result, source and reason of an A-ASSOCIATE-RJ (PS3.8, table 9-21), and the reason in words."""

    result: int
    source: int
    diagnostic: int
    reason: str


UNKNOWN_CALLING = Rejection(1, 1, 3, "the calling AE title is not allowed from this address")
UNKNOWN_CALLED = Rejection(1, 1, 7, "the called AE title is not ours")
UNKNOWN_PROTOCOL = Rejection(1, 2, 2, "the protocol version is not supported")
NO_SLOT = Rejection(2, 3, 2, "all associations are taken")


@dataclass(frozen=True)
class Peer:
    """AE title of a peer and the network that it calls from; None: any."""

    title: str
    network: IPv4Network | IPv6Network | None = None

    def __post_init__(self) -> None:
        check_title(self.title)

    @classmethod
    def parse(cls, text: str) -> "Peer":
        """Parse "AETITLE@NETWORK", for instance "CT1@10.1.2.0/24" or "CT1@10.1.2.3"."""
        title, at, network = text.rpartition("@")
        try:
            if not at:
                raise ValueError
            return cls(title, ip_network(network))
        except ValueError:
            raise InvalidInput(
                f"peer {text!r} is not of the form AETITLE@ADDRESS or AETITLE@NETWORK, for instance "
                "CT1@10.1.2.3 or CT1@10.1.2.0/24"
            ) from None


@dataclass(frozen=True)
class PeerPolicy:
    """Peers that may send.

    called_title: own AE title. calling_titles: AE titles that may call from any address; peers: those with their
    networks; both empty: anybody. max_associations: at a time; per_address: of one address, None: three quarters.
    """

    called_title: str
    calling_titles: Sequence[str] = ()
    max_associations: int = 8
    peers: Sequence[Peer] = ()
    per_address: int | None = None

    def __post_init__(self) -> None:
        for title in (self.called_title, *self.calling_titles):
            check_title(title)

    @property
    def max_per_address(self) -> int:
        """Return how many associations one address may have: never all of many, so that others can call."""
        return min(self.max_associations, self.per_address or max(2, self.max_associations * 3 // 4))

    def allows_address(self, address: str) -> bool:
        """Return whether any peer may call from an IP address."""
        return (
            not self.peers or bool(self.calling_titles) or any(_is_in(address, p.network) for p in self.peers)
        )

    def check(self, request: A_ASSOCIATE_RQ, address: str) -> Rejection | None:
        """Return why an association request from an IP address is rejected; None if it is not."""
        if request.protocol_version != 1:
            return UNKNOWN_PROTOCOL
        if request.called_ae_title.strip() != self.called_title:
            return UNKNOWN_CALLED
        return None if self._allows(request.calling_ae_title.strip(), address) else UNKNOWN_CALLING

    def _allows(self, title: str, address: str) -> bool:
        if not self.peers and not self.calling_titles:
            return True
        return title in self.calling_titles or any(
            peer.title == title and _is_in(address, peer.network) for peer in self.peers
        )


def check_title(title: str) -> None:
    """Raise InvalidInput for what is no AE title."""
    if not AE_TITLE.fullmatch(title):
        raise InvalidInput(f"{title!r} is not an AE title: 1 to 16 printable characters, no backslash")


def _is_in(address: str, network: IPv4Network | IPv6Network | None) -> bool:
    parsed = ip_address(address)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped:
        parsed = parsed.ipv4_mapped
    return network is None or parsed in network


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
