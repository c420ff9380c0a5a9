"""A storage service in this process, and peers at several addresses of loopback."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian
from pynetdicom import AE, evt
from pynetdicom.association import Association
from pynetdicom.pdu import A_ASSOCIATE_RJ
from pynetdicom.sop_class import StorageCommitmentPushModel, Verification

from cbir import settings
from cbir.images import Limits
from indexer.describe_instance import InstanceFilter
from indexer.index_request import open_collection
from indexer.intake import Intake
from indexer.receive.bounded_server import BoundedServer
from indexer.receive.peer_limits import PeerPolicy
from indexer.receive.storage_commitment import CommitmentPeers, StorageCommitment
from indexer.receive.storage_service import start_storage_service

OTHER = "127.0.0.2"


@contextmanager
def listening(
    collection: Path, peers: PeerPolicy, commitment_peers: CommitmentPeers | None = None, **options: Any
) -> Iterator[BoundedServer]:
    """A service that listens; `options` are those of `start_storage_service`."""
    with open_collection(collection) as opened:
        intake = Intake(
            opened,
            instance_filter=InstanceFilter(),
            limits=Limits(),
            jobs=1,
            who="test",
            settings=settings.load(),
        )
        commitment = StorageCommitment(opened.sop_classes, commitment_peers or CommitmentPeers("CBIR"))
        server = start_storage_service(intake, "127.0.0.1", 0, peers, commitment=commitment, **options)
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
            for association in server.active_associations:
                association.abort()
            commitment.close()
            intake.close()


def port_of(server: BoundedServer) -> int:
    """Where a service listens."""
    return int(server.server_address[1])


def associate(
    port: int, calling: str = "SENDER", called: str = "CBIR", address: str = "127.0.0.1", **options: Any
) -> Association:
    """An association from an address, if it is accepted."""
    entity = AE(calling)
    entity.acse_timeout = entity.dimse_timeout = entity.network_timeout = 60
    entity.add_requested_context(Verification)
    entity.add_requested_context(CTImageStorage, ExplicitVRLittleEndian)
    entity.add_requested_context(StorageCommitmentPushModel)
    rejections = []

    def note(event: evt.Event) -> None:
        if isinstance(event.pdu, A_ASSOCIATE_RJ):
            rejections.append(event.pdu)

    handlers = [(evt.EVT_PDU_RECV, note), *options.pop("evt_handlers", [])]
    result = entity.associate(
        "127.0.0.1", port, ae_title=called, bind_address=(address, 0), evt_handlers=handlers, **options
    )
    # pynetdicom overlooks a rejection that comes before its thread is awake
    result.is_rejected = result.is_rejected or bool(rejections)
    return result
