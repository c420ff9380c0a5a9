"""TLS to PostgreSQL: the certificate of the server and its name are checked as the address, or PGSSLMODE, asks for.

The server of the tests is built without TLS, so a proxy in front of it answers the client's request for it
(PostgreSQL's documentation, "SSL Session Encryption").
"""

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from cbir import settings
from cbir.errors import DatabaseUnavailable
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.postgresql.postgresql_address import files_folder
from service.state.database import open_state
from tests.cbir.store.conftest import entry
from tests.postgresql_server import USER, PostgresqlServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed"),
]
SSL_REQUEST = bytes([0, 0, 0, 8, 4, 210, 22, 47])


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for a host name, signed by itself, and its key."""
    made, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-keyout", key, "-out", made],
        check=True, capture_output=True, timeout=400,
    )  # fmt: skip
    return made, key


class TlsProxy:
    """Takes TLS connections, and passes what they carry on to the socket of a server."""

    def __init__(self, server: PostgresqlServer, pem: Path, key: Path) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pem, key)
        self._behind = str(server.folder / ".s.PGSQL.5432")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.encrypted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                threading.Thread(target=self._serve, args=self._listener.accept()[:1], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), closing(client):
            if client.recv(8) != SSL_REQUEST:
                return
            client.sendall(b"S")
            with (
                self._context.wrap_socket(client, server_side=True) as inside,
                closing(socket.socket(socket.AF_UNIX)) as behind,
            ):
                self.encrypted += 1
                behind.connect(self._behind)
                threading.Thread(target=_pass_on, args=(behind, inside), daemon=True).start()
                _pass_on(inside, behind)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    folder = tmp_path_factory.mktemp("certificates")
    return {name: certificate(folder, name) for name in ("localhost", "db.example.org")}


@pytest.fixture
def proxy(postgresql: PostgresqlServer, pems: dict[str, tuple[Path, Path]]) -> Iterator[TlsProxy]:
    """A server whose certificate is for localhost."""
    with closing(TlsProxy(postgresql, *pems["localhost"])) as made:
        yield made


def at(proxy: TlsProxy, address: str, parameters: str = "") -> str:
    """The address of a collection of the server, by the proxy."""
    name = address.rpartition("=")[2]
    return f"postgresql+psycopg://{USER}@localhost:{proxy.port}/{USER}?collection={name}{parameters}"


def test_the_address_names_the_certificate_to_trust(proxy, pems, address):
    folder = files_folder(at(proxy, address, f"&sslmode=verify-full&sslrootcert={pems['localhost'][0]}"))
    with Collection.create(folder, profiles.get("tamura")) as collection:
        with collection.writer() as writer:
            writer.add([entry(1)])
        assert len(collection) == 1
    assert proxy.encrypted


def test_the_environment_of_libpq_does_it_too(proxy, pems, address, postgresql, monkeypatch):
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGSSLROOTCERT", str(pems["localhost"][0]))
    with Collection.create(files_folder(at(proxy, address)), profiles.get("tamura")) as collection:
        assert len(collection) == 0
    url = at(proxy, postgresql.new_schema()).replace("collection=", "schema=")
    open_state(settings.load(state_database=url)).check()
    assert proxy.encrypted >= 2


@pytest.mark.parametrize("presented", ["localhost", "db.example.org"])
def test_a_certificate_of_another_authority_or_host_is_refused(postgresql, pems, address, presented):
    trusted = pems["db.example.org"][0]
    with closing(TlsProxy(postgresql, *pems[presented])) as proxy:
        folder = files_folder(at(proxy, address, f"&sslmode=verify-full&sslrootcert={trusted}"))
        with pytest.raises(
            DatabaseUnavailable, match=r"certificate.*; correct sslmode and sslrootcert"
        ) as refused:
            Collection.create(folder, profiles.get("tamura"))
    assert len(str(refused.value).splitlines()) == 1


def test_a_server_without_tls_is_refused(postgresql, pems, address):
    trusted = pems["localhost"][0]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.recv(8)
                        client.sendall(b"N")

        threading.Thread(target=answer, daemon=True).start()
        plain = f"postgresql+psycopg://{USER}@localhost:{listener.getsockname()[1]}/{USER}?collection=x"
        with pytest.raises(
            DatabaseUnavailable, match=r"does not support SSL.*; correct sslmode in the address"
        ):
            Collection.create(
                files_folder(f"{plain}&sslmode=verify-full&sslrootcert={trusted}"), profiles.get("tamura")
            )
        listener.shutdown(socket.SHUT_RDWR)
