"""Storage Commitment: what peers are told of the instances that they have sent."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import pytest
from pydicom import Dataset
from pydicom.uid import CTImageStorage, MRImageStorage, generate_uid
from pynetdicom import AE, evt
from pynetdicom.association import Association
from pynetdicom.events import Event
from pynetdicom.pdu import P_DATA_TF
from pynetdicom.sop_class import StorageCommitmentPushModel, StorageCommitmentPushModelInstance

from cbir.store import Collection
from indexer.receive import storage_commitment
from indexer.receive.bounded_server import BoundedServer
from indexer.receive.peer_limits import PeerPolicy
from indexer.receive.storage_commitment import CommitmentPeers, PeerAddress
from indexer.receive.storage_service import client_context, server_context
from tests.indexer.dicomweb.small_archive import certificate
from tests.indexer.receive.listening import OTHER, associate, listening, port_of
from tests.indexer.receiving import instances_in, receiver, send, slices

needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")

Report = tuple[int, Dataset]  # event type and information


class Asker:
    """A peer that asks, and notes the reports that it gets."""

    def __init__(self) -> None:
        self.reports: Queue[Report] = Queue()
        self._noted: list[Report] = []

    def handlers(self) -> list[evt.EventHandlerType]:
        return [(evt.EVT_N_EVENT_REPORT, self._note), (evt.EVT_PDU_SENT, self._after_sending)]

    def _note(self, event: Event) -> tuple[int, None]:
        self._noted.append((event.event_type or 0, event.event_information))
        return 0, None

    def _after_sending(self, event: Event) -> None:
        """Hand over the report once its acknowledgement has left: pynetdicom cannot send it after a release."""
        if self._noted and isinstance(event.pdu, P_DATA_TF):
            self.reports.put(self._noted.pop())

    def report(self) -> Report:
        return self.reports.get(timeout=60)


def request(references: Sequence[tuple[str, str]]) -> Dataset:
    """The information of a request: SOP classes and instances."""
    made = Dataset()
    made.TransactionUID = generate_uid()
    made.ReferencedSOPSequence = []
    for sop_class, uid in references:
        item = Dataset()
        item.ReferencedSOPClassUID, item.ReferencedSOPInstanceUID = sop_class, uid
        made.ReferencedSOPSequence.append(item)
    return made


def ask(association: Association, information: Dataset | None, action: int = 1) -> int:
    """The status that a request is answered with."""
    status, _ = association.send_n_action(
        information, action, StorageCommitmentPushModel, StorageCommitmentPushModelInstance
    )
    return int(status.Status)


def ask_for(
    port: int, references: Sequence[tuple[str, str]], calling: str = "SENDER"
) -> tuple[set[str], dict[str, int]]:
    """The instances that are reported stored, and the reasons of the others."""
    asker, information = Asker(), request(references)
    made = associate(port, calling, evt_handlers=asker.handlers())
    assert made.is_established
    assert ask(made, information) == 0
    event_type, report = asker.report()
    made.release()
    assert report.TransactionUID == information.TransactionUID
    stored, failed = report.get("ReferencedSOPSequence", []), report.get("FailedSOPSequence", [])
    assert event_type == (2 if failed else 1)
    return (
        {item.ReferencedSOPInstanceUID for item in stored},
        {item.ReferencedSOPInstanceUID: item.FailureReason for item in failed},
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("commitment") / "collection"


@pytest.fixture(scope="module")
def server(place: Path) -> Iterator[BoundedServer]:
    with listening(place, PeerPolicy("CBIR")) as started:
        yield started


def test_what_is_stored_and_what_is_not(server: BoundedServer) -> None:
    port, sent = port_of(server), list(slices(3, 32))
    uids = [str(ds.SOPInstanceUID) for ds in sent]
    assert ask_for(port, [(CTImageStorage, uids[0])]) == (set(), {uids[0]: 0x0112})
    assert send(port, sent) == [0, 0, 0]
    assert ask_for(port, [(CTImageStorage, uid) for uid in uids]) == (set(uids), {})
    mixed = [(CTImageStorage, uids[0]), (MRImageStorage, uids[1]), (CTImageStorage, "1.2.3")]
    assert ask_for(port, mixed) == ({uids[0]}, {uids[1]: 0x0119, "1.2.3": 0x0112})


def test_an_equal_picture_with_another_uid_is_stored_until_it_is_deleted(
    server: BoundedServer, place: Path
) -> None:
    first, second = next(slices(1, 32, seed=1)), next(slices(1, 32, seed=1))
    second.SOPInstanceUID = second.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    uids = [str(ds.SOPInstanceUID) for ds in (first, second)]
    asked, port = [(CTImageStorage, uid) for uid in uids], port_of(server)
    assert send(port, [first, second]) == [0, 0]
    assert ask_for(port, asked) == (set(uids), {})
    with Collection(place) as collection:
        image_ids = [record.image_id for _, record in collection.iterate() if record.instance in uids]
        assert len(image_ids) == 1
        with collection.writer() as writer:
            writer.delete(image_ids)
    assert ask_for(port, asked) == (set(), dict.fromkeys(uids, 0x0112))
    assert send(port, [second]) == [0xB006]
    assert ask_for(port, asked[1:]) == (set(), {uids[1]: 0x0112})


def test_invalid_requests_are_refused(server: BoundedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    valid = request([(CTImageStorage, "1.2.3")])
    without, bad_uid = request([(CTImageStorage, "1.2.3")]), request([(CTImageStorage, "1.2.3")])
    del without.TransactionUID
    bad_uid.ReferencedSOPSequence[0]["ReferencedSOPInstanceUID"]._value = "DOE^JOHN"
    asker = Asker()
    made = associate(port_of(server), evt_handlers=asker.handlers())
    assert ask(made, None) == 0x0115
    assert ask(made, without) == 0x0115
    assert ask(made, request([])) == 0x0115
    assert ask(made, bad_uid) == 0x0115
    assert ask(made, valid, action=2) == 0x0123
    status, _ = made.send_n_action(valid, 1, StorageCommitmentPushModel, "1.2.3.4")
    assert status.Status == 0x0112
    monkeypatch.setattr(storage_commitment, "MAX_REQUEST_BYTES", 100)
    assert ask(made, valid) == 0x0213
    monkeypatch.undo()
    monkeypatch.setattr(storage_commitment, "MAX_INSTANCES", 2)
    assert ask(made, request([(CTImageStorage, "1.2.3")] * 3)) == 0x0213
    assert ask(made, valid) == 0
    assert asker.report()[0] == 2
    assert asker.reports.empty()
    made.release()


@contextmanager
def asker_listens(asker: Asker, **options: object) -> Iterator[int]:
    """The port where a peer waits for reports."""
    entity = AE("SENDER")
    entity.add_supported_context(StorageCommitmentPushModel, scu_role=False, scp_role=True)
    listens = entity.start_server(
        ("127.0.0.1", 0),
        block=False,
        evt_handlers=asker.handlers(),
        **options,  # type: ignore[arg-type]
    )
    assert listens is not None
    try:
        yield int(listens.server_address[1])
    finally:
        listens.shutdown()


@pytest.mark.parametrize("tls", [False, pytest.param(True, marks=needs_openssl)])
def test_a_peer_with_an_address_gets_a_new_association(tmp_path: Path, tls: bool) -> None:
    asker = Asker()
    signed = certificate(tmp_path) if tls else None
    theirs = server_context(*signed, signed[0]) if signed else None
    ours = client_context(*signed, signed[0]) if signed else None
    with asker_listens(asker, ssl_context=theirs) as port:
        addresses = CommitmentPeers("CBIR", [PeerAddress("SENDER", "127.0.0.1", port)], ours)
        with listening(tmp_path / "collection", PeerPolicy("CBIR"), addresses) as server:
            (sent,) = slices(1, 32)
            assert send(port_of(server), [sent]) == [0]
            made = associate(port_of(server))
            information = request([(CTImageStorage, str(sent.SOPInstanceUID))])
            assert ask(made, information) == 0
            made.release()
            event_type, report = asker.report()
    assert event_type == 1
    assert report.TransactionUID == information.TransactionUID


# pynetdicom leaves the sockets open that it could not connect
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_report_is_sent_again_when_the_peer_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_commitment, "RETRY_SECONDS", (0.5,) * 60)
    with asker_listens(Asker()) as port:
        pass
    asker = Asker()
    addresses = CommitmentPeers("CBIR", [PeerAddress("SENDER", "127.0.0.1", port)])
    with listening(tmp_path / "collection", PeerPolicy("CBIR"), addresses) as server:
        made = associate(port_of(server))
        assert ask(made, request([(CTImageStorage, "1.2.3")])) == 0
        made.release()
        entity = AE("SENDER")
        entity.add_supported_context(StorageCommitmentPushModel, scu_role=False, scp_role=True)
        listens = entity.start_server(("127.0.0.1", port), block=False, evt_handlers=asker.handlers())
        assert listens is not None
        assert asker.report()[0] == 2
        listens.shutdown()


def test_a_peer_that_leaves_does_not_hold_anything_up(server: BoundedServer) -> None:
    for _ in range(5):
        made = associate(port_of(server))
        assert ask(made, request([(CTImageStorage, "1.2.3")])) == 0
        made.abort()
    assert ask_for(port_of(server), [(CTImageStorage, "1.2.3")]) == (set(), {"1.2.3": 0x0112})


# pynetdicom leaves the sockets open that it could not connect
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_peer_that_does_not_listen_holds_up_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_commitment, "MAX_REPORTS_OF_PEER", 5)
    with asker_listens(Asker()) as closed:
        pass
    asked = [(CTImageStorage, "1.2.3")]
    addresses = CommitmentPeers("CBIR", [PeerAddress("SENDER", "127.0.0.1", closed)])
    with listening(tmp_path / "collection", PeerPolicy("CBIR"), addresses) as server:
        made = associate(port_of(server), address=OTHER)
        assert [ask(made, request(asked)) for _ in range(6)] == [0] * 5 + [0x0213]
        made.release()
        assert ask_for(port_of(server), asked, "ANOTHER") == (set(), {"1.2.3": 0x0112})


# pynetdicom leaves its socket open when the peer is killed
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
def test_what_was_acknowledged_is_stored_and_committed_after_a_kill(tmp_path: Path) -> None:
    place, sent = tmp_path / "collection", list(slices(12, 32))  # bench/receive_killed.py sends 10,000
    acknowledged: set[str] = set()
    with receiver(place) as started, associate_for_storage(started.port) as made:
        for number, ds in enumerate(sent):
            if number == 5:
                started.kill()
            if not made.is_established:
                break
            status = made.send_c_store(ds)
            if "Status" in status and status.Status == 0:
                acknowledged.add(str(ds.SOPInstanceUID))
    assert len(acknowledged) == 5
    assert acknowledged <= set(instances_in(place))
    with receiver(place) as started:
        references = [(CTImageStorage, str(ds.SOPInstanceUID)) for ds in sent]
        stored, failed = ask_for(started.port, references)
        assert acknowledged <= stored
        assert len(stored) + len(failed) == len(sent)
        assert send(started.port, sent) == [0] * len(sent)
        assert ask_for(started.port, references) == ({uid for _, uid in references}, {})
        started.stop()
    assert sorted(instances_in(place)) == sorted(uid for _, uid in references)


@contextmanager
def associate_for_storage(port: int) -> Iterator[Association]:
    made = associate(port)
    assert made.is_established
    try:
        yield made
    finally:
        if made.is_established:
            made.release()
