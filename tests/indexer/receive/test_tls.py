"""DICOM over TLS, with dcmtk and pynetdicom."""

import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest

from cbir.errors import InvalidInput
from indexer.receive import bounded_server
from indexer.receive.peer_limits import PeerPolicy
from indexer.receive.storage_service import client_context, server_context
from tests.indexer.dicomweb.small_archive import certificate
from tests.indexer.receive.listening import OTHER, associate, listening, port_of
from tests.indexer.receiving import file_of, instances_in, receiver, slices

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")
needs_dcmtk = pytest.mark.skipif(
    not shutil.which("storescu"), reason="dcmtk is not installed (apt-get install dcmtk)"
)


@pytest.fixture
def signed(tmp_path: Path) -> tuple[Path, Path]:
    return certificate(tmp_path)


def storescu(port: int, path: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    command = ["storescu", "-v", "-to", "30", *options, "-aec", "CBIR", "127.0.0.1", str(port), path]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)


@needs_dcmtk
def test_storescu_sends_over_tls(tmp_path: Path, signed: tuple[Path, Path]) -> None:
    path, place = tmp_path / "one.dcm", tmp_path / "collection"
    (one,) = slices(1, 32)
    path.write_bytes(file_of(one))
    made, key = signed
    with receiver(
        place, "--tls-certificate", str(made), "--tls-key", str(key), "--tls-ca", str(made)
    ) as started:
        done = storescu(started.port, path, "+tls", key, made, "+cf", made)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Received Store Response (Success)" in done.stdout + done.stderr
        assert storescu(started.port, path, "+tla", "-ic").returncode  # without a certificate
        assert storescu(started.port, path).returncode  # without TLS
        started.stop()
    assert instances_in(place) == [one.SOPInstanceUID]


def test_versions_and_certificates(tmp_path: Path, signed: tuple[Path, Path]) -> None:
    server_tls = server_context(*signed, signed[0])
    with listening(tmp_path / "collection", PeerPolicy("CBIR"), tls=server_tls) as server:
        port, ours = port_of(server), client_context(*signed, signed[0])
        made = associate(port, tls_args=(ours, "127.0.0.1"))
        assert made.is_established
        statuses = [made.send_c_store(ds).Status for ds in slices(2, 200)]
        made.release()
        assert statuses == [0, 0]
        old = client_context(*signed, signed[0])
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        anonymous = ssl.create_default_context(cafile=signed[0])
        for context in (old, anonymous):
            assert not associate(port, tls_args=(context, "127.0.0.1")).is_established
        assert not associate(port).is_established


def test_handshakes_do_not_wait_for_each_other(
    tmp_path: Path, signed: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_server, "REQUEST_SECONDS", 40.0)
    with listening(tmp_path / "collection", PeerPolicy("CBIR"), tls=server_context(*signed)) as server:
        port, ours = port_of(server), client_context(*signed, signed[0])
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(12)]
        silent[0].sendall(b"\x16\x03\x01\x02\0\x01")  # the begin of a handshake
        for address in ("127.0.0.1", OTHER):
            began = time.monotonic()
            made = associate(port, address=address, tls_args=(ours, "127.0.0.1"))
            assert made.is_established
            assert made.send_c_echo().Status == 0
            assert time.monotonic() - began < 20
            made.release()
        for one in silent:
            one.close()


def test_files_that_cannot_be_used(tmp_path: Path, signed: tuple[Path, Path]) -> None:
    made, key = signed
    with pytest.raises(InvalidInput, match="there is no file"):
        server_context(made, tmp_path / "none")
    (tmp_path / "text.pem").write_text("no certificate")
    for files in ((tmp_path / "text.pem", key), (made, made), (made, key, tmp_path / "text.pem")):
        with pytest.raises(InvalidInput, match="cannot be used for TLS"):
            server_context(*files)
    subprocess.run(
        ["openssl", "ec", "-in", key, "-aes256", "-passout", "pass:secret", "-out", tmp_path / "locked.pem"],
        check=True, capture_output=True, timeout=400,
    )  # fmt: skip
    with pytest.raises(InvalidInput, match="without a passphrase"):
        server_context(made, tmp_path / "locked.pem")
