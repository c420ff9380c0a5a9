"""Peers that keep a connection and say nothing: they are cut off, and others are served again."""

import socket
import time
from collections.abc import Iterator

import pytest
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian
from pynetdicom import AE
from pynetdicom.association import Association
from pynetdicom.transport import AssociationSocket

from indexer.receive import bounded_server, peer_limits, storage_service
from indexer.receive.peer_limits import PeerPolicy
from tests.indexer.receive.listening import listening, port_of
from tests.indexer.receiving import slices

SECONDS = 1.0  # instead of a minute


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Where one association at a time is served, and nobody is waited for long."""
    place = tmp_path_factory.mktemp("patience") / "collection"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage_service, "NETWORK_SECONDS", SECONDS)
        patch.setattr(storage_service, "ACSE_SECONDS", SECONDS)
        patch.setattr(peer_limits, "PDU_SECONDS", SECONDS)
        patch.setattr(bounded_server, "REQUEST_SECONDS", SECONDS)
        with listening(place, PeerPolicy("CBIR", max_associations=1)) as server:
            yield port_of(server)


def _asks(port: int) -> Association:
    entity = AE("SENDER")
    entity.add_requested_context(CTImageStorage, ExplicitVRLittleEndian)
    return entity.associate("127.0.0.1", port, ae_title="CBIR")


def _is_served(port: int) -> None:
    """Somebody else gets the place, and is answered."""
    until, statuses = time.monotonic() + 120, []
    while statuses != [0]:
        assert time.monotonic() < until, "the silent peer still has its place"
        time.sleep(0.05)
        made = _asks(port)
        if made.is_established:
            statuses = [made.send_c_store(ds).get("Status") for ds in slices(1, 32) if made.is_established]
            made.release()


def test_an_association_that_never_ends(port: int) -> None:
    silent = _asks(port)
    assert silent.is_established
    _is_served(port)
    silent.abort()


@pytest.mark.parametrize(
    "said", [b"", b"\x01\0", b"\x01\0\0\0\x04\0" + bytes(100)], ids=["none", "head", "body"]
)
def test_a_connection_that_says_too_little(port: int, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port)) as raw:
        raw.sendall(said)
        raw.settimeout(60)
        try:
            while raw.recv(1000):  # until it is cut
                pass
        except ConnectionResetError:
            pass
        _is_served(port)


def test_an_object_that_never_ends(port: int) -> None:
    """The first bytes of a PDU that carries a part of one, and then nothing."""
    silent = _asks(port)
    assert silent.is_established
    transport = silent.dul.socket
    assert isinstance(transport, AssociationSocket)
    assert transport.socket is not None
    transport.socket.sendall(b"\x04\0\0\x01\0\0" + bytes(1000))  # of 65536 bytes
    _is_served(port)
    silent.abort()
