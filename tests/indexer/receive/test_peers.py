"""Peers by AE title and address."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pynetdicom.pdu import A_ASSOCIATE_RQ

from cbir import settings
from cbir.errors import InvalidInput
from indexer.receive.peer_limits import UNKNOWN_CALLED, UNKNOWN_CALLING, UNKNOWN_PROTOCOL, Peer, PeerPolicy
from indexer.receive.receive_command import receive
from indexer.receive.storage_commitment import PeerAddress
from indexer.receive.storage_service import load_network_options
from tests.indexer.receive.listening import OTHER, associate, listening, port_of
from tests.indexer.receiving import CBIR, Receiver, receiver


def request(calling: str, called: str = "CBIR") -> A_ASSOCIATE_RQ:
    made = A_ASSOCIATE_RQ()
    made.calling_ae_title, made.called_ae_title = calling, called
    return made


def test_title_and_address_must_fit() -> None:
    peers = [Peer.parse(text) for text in ("CT1@10.1.0.0/16", "CT1@fd00::/8", "MR@HOME@192.0.2.7")]
    policy = PeerPolicy("CBIR", ["ANYWHERE"], peers=peers)
    for title, address in (
        ("CT1", "10.1.2.3"), ("CT1", "::ffff:10.1.2.3"), ("CT1", "fd00::1"), ("MR@HOME", "192.0.2.7"),
        (" CT1 ", "10.1.2.3"), ("ANYWHERE", "203.0.113.1"),
    ):  # fmt: skip
        assert policy.check(request(title), address) is None, (title, address)
    for title, address in (
        ("CT1", "10.2.0.1"), ("CT1", "fe80::1%eth0"), ("ct1", "10.1.2.3"), ("MR@HOME", "10.1.2.3"), ("X", "10.1.2.3"),
    ):  # fmt: skip
        assert policy.check(request(title), address) is UNKNOWN_CALLING, (title, address)
    assert policy.check(request("CT1", "ELSE"), "10.1.2.3") is UNKNOWN_CALLED
    other = request("CT1")
    other.protocol_version = 2
    assert policy.check(other, "10.1.2.3") is UNKNOWN_PROTOCOL


def test_addresses_that_no_peer_calls_from() -> None:
    peers = [Peer.parse("CT1@10.1.0.0/16")]
    assert PeerPolicy("CBIR").allows_address("203.0.113.1")
    assert PeerPolicy("CBIR", ["ANYWHERE"], peers=peers).allows_address("203.0.113.1")
    assert PeerPolicy("CBIR", peers=peers).allows_address("10.1.255.1")
    assert not PeerPolicy("CBIR", peers=peers).allows_address("203.0.113.1")


@pytest.mark.parametrize(
    "text",
    ["CT1", "CT1@", "@10.0.0.1", "CT1@10.0.0.1/8", "CT1@host", "A" * 17 + "@10.0.0.1", "A\\B@10.0.0.1"],
)
def test_what_is_no_peer(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"AE title|AETITLE@"):
        Peer.parse(text)


@pytest.mark.parametrize(
    "text", ["CT1", "CT1=", "CT1=host", "CT1=host:0", "CT1=host:70000", "=host:104", "A\\=h:1"]
)
def test_what_is_no_address_of_a_peer(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"AE title|AETITLE=HOST:PORT"):
        PeerAddress.parse(text)


def test_addresses_of_peers() -> None:
    assert PeerAddress.parse("CT1=10.1.2.3:104") == PeerAddress("CT1", "10.1.2.3", 104)
    assert PeerAddress.parse("CT1=[fd00::1]:104") == PeerAddress("CT1", "fd00::1", 104)
    assert PeerAddress.parse("CT1=ct1.example.org:104").host == "ct1.example.org"


def test_only_known_peers_associate(tmp_path: Path) -> None:
    policy = PeerPolicy("CBIR", peers=[Peer.parse("SCANNER@127.0.0.1"), Peer.parse("ARCHIVE@127.0.0.3")])
    with listening(tmp_path / "collection", policy) as server:
        port = port_of(server)
        made = associate(port, "SCANNER")
        assert made.is_established
        made.release()
        assert associate(port, "ARCHIVE").is_rejected
        assert associate(port, "SCANNER", address="127.0.0.3").is_rejected
        stranger = associate(port, "SCANNER", address=OTHER)
        assert not stranger.is_established
        assert not stranger.is_rejected  # cut without an answer


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """A receiver with a peer in its settings file, and another as option."""
    folder = tmp_path_factory.mktemp("peers")
    (folder / "cbir.toml").write_text('dicom_peers = ["SCANNER@127.0.0.0/8"]\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CBIR_CONFIG", str(folder / "cbir.toml"))
        with receiver(folder / "collection", "--peer", "STRANGER@127.0.0.1") as made:
            yield made
            made.stop()


def test_peers_of_the_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cbir.toml").write_text('dicom_peers = ["SCANNER@127.0.0.0/8"]\n')
    monkeypatch.setenv("CBIR_CONFIG", str(tmp_path / "cbir.toml"))
    options = load_network_options(settings.load(dicom_peers=None), "CBIR", [], 8, None)
    assert options.peers.check(request("STRANGER"), "127.0.0.1") is UNKNOWN_CALLING
    assert options.peers.check(request("SCANNER"), OTHER) is None


def test_peers_of_the_command_replace_those_of_the_settings_file(started: Receiver) -> None:
    assert associate(started.port, "SCANNER").is_rejected
    made = associate(started.port, "STRANGER")
    assert made.is_established
    made.release()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"peer": ["CT1"]}, "AETITLE@"),
        ({"peer": ["CT1@10.0.0.0/99"]}, "AETITLE@"),
        ({"commitment": ["CT1@10.0.0.1:104"]}, "AETITLE=HOST:PORT"),
        ({"tls_certificate": Path("none")}, "--tls-certificate and --tls-key"),
        ({"tls_certificate": Path("none"), "tls_key": Path("none")}, "there is no file none"),
        ({"tls_ca": Path("none")}, "--tls-certificate and --tls-key"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=said):
        receive(tmp_path / "none", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "none").exists()


def test_too_few_files_are_told_of_at_the_start(tmp_path: Path) -> None:
    command = [
        "bash",
        "-c",
        'ulimit -n 200 && exec "$@"',
        "-",
        *CBIR,
        "receive",
        "--collection",
        tmp_path / "none",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 2
    assert "ulimit -n" in done.stderr
    assert not (tmp_path / "none").exists()


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="only Linux changes the limits of other processes"
)
def test_files_that_run_out_later_are_waited_for(started: Receiver) -> None:
    resource = pytest.importorskip("resource")
    process = psutil.Process(started.process.pid)
    limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    held = [socket.create_connection(("127.0.0.1", started.port)) for _ in range(3)]
    before = sum(process.cpu_times()[:2])
    time.sleep(1.5)
    used = sum(process.cpu_times()[:2]) - before
    assert used < 0.1, used
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
    made = associate(started.port, "STRANGER")
    assert made.is_established
    made.release()
    for one in held:
        one.close()
