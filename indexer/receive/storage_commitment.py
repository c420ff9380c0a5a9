"""Storage Commitment Push Model as SCP (PS3.4, annex J): says which instances are in the collection.

Reports go on a new association to peers whose address is known, else on that of the request.
"""

import logging
import re
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Lock
from typing import cast
from weakref import WeakKeyDictionary

from pydicom import Dataset
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian
from pynetdicom import AE, build_role, evt
from pynetdicom.association import Association
from pynetdicom.dimse_primitives import N_ACTION
from pynetdicom.sop_class import (  # type: ignore[attr-defined]
    StorageCommitmentPushModel,
    StorageCommitmentPushModelInstance,
)

from cbir.errors import InvalidInput
from cbir.system.addresses import is_uid
from indexer.receive.peer_limits import BoundedSocket, check_title

SECONDS = 10.0  # to connect, to associate, and for an answer
ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:\[\]]+)):([0-9]{1,5})")


@dataclass(frozen=True)
class PeerAddress:
    """AE title of a peer, and where it listens."""

    title: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "PeerAddress":
        """Parse "AETITLE=HOST:PORT", for instance "CT1=10.1.2.3:104"."""
        title, _, address = text.partition("=")
        match = ADDRESS.fullmatch(address)
        if not match or not 0 < int(match.group(3)) < 65536:
            raise InvalidInput(
                f"commitment {text!r} is not of the form AETITLE=HOST:PORT, for instance CT1=10.1.2.3:104"
            )
        check_title(title)
        return cls(title, match.group(1) or match.group(2), int(match.group(3)))


class CommitmentPeers:
    """Peers with an address, by AE title.

    Parameters
    ----------
    own_title : str
        Own AE title.
    addresses : sequence of PeerAddress
        Where the peers listen.
    tls : SSLContext, optional
        TLS of the associations.
    """

    def __init__(
        self, own_title: str, addresses: Sequence[PeerAddress] = (), tls: ssl.SSLContext | None = None
    ) -> None:
        self._own_title = own_title
        self._by_title: Mapping[str, PeerAddress] = {address.title: address for address in addresses}
        self._tls = tls

    def knows(self, association: Association) -> bool:
        """Return whether the peer of an association has an address."""
        return _calling_title(association) in self._by_title

    @contextmanager
    def associate(self, requested_on: Association) -> Iterator[Association]:
        """Yield an association to the peer of `requested_on`, established if the peer agrees."""
        peer = self._by_title[_calling_title(requested_on)]
        entity = AE(self._own_title)
        entity.acse_timeout = entity.dimse_timeout = entity.network_timeout = entity.connection_timeout = (
            SECONDS
        )
        entity.add_requested_context(
            StorageCommitmentPushModel, [ExplicitVRLittleEndian, ImplicitVRLittleEndian]
        )
        association = entity.associate(
            peer.host,
            peer.port,
            ae_title=peer.title,
            ext_neg=[build_role(StorageCommitmentPushModel, scp_role=True)],
            tls_args=(self._tls, peer.host) if self._tls else None,
        )
        try:
            yield association
        finally:
            if association.is_established:
                association.release()


def _calling_title(association: Association) -> str:
    return str(association.requestor.ae_title).strip()


MAX_INSTANCES = 10_000
MAX_REQUEST_BYTES = 3 * 2**19
ITEM = b"\xfe\xff\x00\xe0"  # tag of an item
MAX_REPORTS = 128  # that wait to be sent; each has a thread, since it may wait for minutes
MAX_REPORTS_OF_PEER = 16  # to one IP address
QUIET_SECONDS = 0.2  # without a message of the peer, before it is sent a report on its own association
BUSY_SECONDS = 30.0  # for the peer to become quiet
RETRY_SECONDS = 5.0, 30.0, 120.0

# PS3.4, J.3.2 and J.3.3; status codes of PS3.7, 10.1.4.1.10
REQUEST_COMMITMENT = 1  # action type
ALL_STORED, SOME_FAILED = 1, 2  # event types
SUCCESS, PROCESSING_FAILURE, NO_SUCH_INSTANCE, INVALID_ARGUMENT = 0x0000, 0x0110, 0x0112, 0x0115
CLASS_CONFLICT, NO_SUCH_ACTION, RESOURCE_LIMITATION = 0x0119, 0x0123, 0x0213

log = logging.getLogger(__name__)
Reference = tuple[str, str]  # SOP Class and Instance UID
SopClasses = Callable[[Sequence[str]], Mapping[str, str]]


@dataclass(frozen=True)
class _Report:
    association: Association
    event_type: int
    information: Dataset


class StorageCommitment:
    """Answers N-ACTION requests with N-EVENT-REPORTs, on a new association if the peer's address is known.

    Parameters
    ----------
    find_sop_classes : callable
        Returns, of SOP Instance UIDs, the SOP Class UIDs of those on disk; "" if unknown.
    peers : CommitmentPeers
        Addresses that reports are sent to.
    """

    def __init__(self, find_sop_classes: SopClasses, peers: CommitmentPeers) -> None:
        self._find_sop_classes = find_sop_classes
        self._peers = peers
        self._lock = Lock()
        self._waiting: Counter[str] = Counter()  # reports, by the peer's IP address
        self._sending: WeakKeyDictionary[Association, Lock] = WeakKeyDictionary()
        self._closed = Event()
        self._senders = ThreadPoolExecutor(MAX_REPORTS, thread_name_prefix="commitment")

    def close(self) -> None:
        """Send no more reports; return when those being sent are."""
        self._closed.set()
        self._senders.shutdown(cancel_futures=True)

    def handle(self, event: evt.Event) -> tuple[int, None]:
        """Return the status of an N-ACTION request, and have the report sent."""
        connection = event.assoc.dul.socket
        if isinstance(connection, BoundedSocket):
            connection.received = 0
        try:
            return self._answer(event), None
        except Exception as error:  # pynetdicom would log its text, which may quote the request
            log.warning("a storage commitment could not be processed: %s", type(error).__name__)
            return PROCESSING_FAILURE, None

    def _answer(self, event: evt.Event) -> int:
        request = cast(N_ACTION, event.request)
        if request.RequestedSOPInstanceUID != StorageCommitmentPushModelInstance:
            return NO_SUCH_INSTANCE
        if event.action_type != REQUEST_COMMITMENT:
            return NO_SUCH_ACTION
        encoded = request.ActionInformation.getvalue() if request.ActionInformation else b""
        if len(encoded) > MAX_REQUEST_BYTES or encoded.count(ITEM) > MAX_INSTANCES:  # before it is parsed
            return RESOURCE_LIMITATION
        address = str(event.assoc.requestor.address)
        if not self._reserve(address):
            return RESOURCE_LIMITATION
        try:
            report = self._report(event)
        except BaseException:
            self._release(address)
            raise
        if report is None:
            self._release(address)
            return INVALID_ARGUMENT
        self._senders.submit(self._send, report).add_done_callback(lambda _: self._release(address))
        return SUCCESS

    def _reserve(self, address: str) -> bool:
        with self._lock:
            if self._waiting.total() >= MAX_REPORTS or self._waiting[address] >= MAX_REPORTS_OF_PEER:
                return False
            self._waiting[address] += 1
            return True

    def _release(self, address: str) -> None:
        with self._lock:
            self._waiting[address] -= 1
            self._waiting += Counter()  # drops the zeros

    def _report(self, event: evt.Event) -> _Report | None:
        """Return the report on the instances of a request; None if the request is not valid."""
        try:
            information = event.action_information
            transaction = str(information.TransactionUID)
            references = [_reference(item) for item in information.ReferencedSOPSequence]
        except Exception:
            return None
        if not references or not all(
            map(is_uid, [transaction, *(uid for pair in references for uid in pair)])
        ):
            return None
        sop_classes = self._find_sop_classes([uid for _, uid in references])
        reasons = [_failure(sop_class, sop_classes.get(uid)) for sop_class, uid in references]
        items = [_item(*reference, reason) for reference, reason in zip(references, reasons, strict=True)]
        stored = [item for item, reason in zip(items, reasons, strict=True) if not reason]
        failed = [item for item, reason in zip(items, reasons, strict=True) if reason]
        result = Dataset()
        result.TransactionUID = transaction
        if stored:
            result.ReferencedSOPSequence = stored
        if failed:
            result.FailedSOPSequence = failed
        log.info("storage commitment: %d of %d instances are stored", len(stored), len(references))
        return _Report(event.assoc, SOME_FAILED if failed else ALL_STORED, result)

    def _send(self, report: _Report) -> None:
        try:
            knows = self._peers.knows(report.association)
            sent = self._send_to_address(report) if knows else self._send_back(report)
        except Exception as error:
            log.warning("a storage commitment could not be reported: %s", type(error).__name__)
            return
        if not sent:
            log.warning("a storage commitment could not be reported; the peer has to ask again")

    def _send_to_address(self, report: _Report) -> bool:
        for pause in (0.0, *RETRY_SECONDS):
            if self._closed.wait(pause):
                return False
            with self._peers.associate(report.association) as association:
                if association.is_established and _send_on(association, report):
                    return True
        return False

    def _send_back(self, report: _Report) -> bool:
        """Send a report on the association of the request, between two messages of the peer."""
        association, until = report.association, time.monotonic() + BUSY_SECONDS
        connection = association.dul.socket
        with self._lock:
            sending = self._sending.setdefault(association, Lock())
        with sending:  # pynetdicom would confuse the answers to two reports
            while isinstance(connection, BoundedSocket) and connection.idle_seconds() < QUIET_SECONDS:
                if time.monotonic() > until:
                    return False
                time.sleep(QUIET_SECONDS / 4)
            return association.is_established and _send_on(association, report)


def _send_on(association: Association, report: _Report) -> bool:
    answer, _ = association.send_n_event_report(
        report.information,
        report.event_type,
        StorageCommitmentPushModel,
        StorageCommitmentPushModelInstance,
    )
    return "Status" in answer and answer.Status == SUCCESS


def _reference(item: Dataset) -> Reference:
    return str(item.ReferencedSOPClassUID), str(item.ReferencedSOPInstanceUID)


def _failure(sop_class: str, stored_class: str | None) -> int:
    """Return the failure reason (PS3.3, C.14.1.1) of an instance; 0 if it is stored."""
    if stored_class is None:
        return NO_SUCH_INSTANCE
    return CLASS_CONFLICT if stored_class and stored_class != sop_class else 0


def _item(sop_class: str, uid: str, reason: int) -> Dataset:
    item = Dataset()
    item.ReferencedSOPClassUID, item.ReferencedSOPInstanceUID = sop_class, uid
    if reason:
        item.FailureReason = reason
    return item
