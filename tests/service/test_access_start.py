"""What is refused before anything listens, and listening with TLS."""

import shutil
import socket
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from cbir import settings
from cbir.errors import CbirError, InvalidInput
from service.access.security import check_startup, tokens_required
from service.access.token_stores import Scope, TokenStore
from service.server.http_server import open_listener
from service.server.service_commands import service_url
from tests.service.conftest import problem, serving

NAMES = "cbir.example.org"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that signed itself, and its key."""
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("there is no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "certificate.pem", folder / "key.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-out", str(files[0]), "-keyout", str(files[1])),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return files


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state folder with a token."""
    TokenStore(tmp_path / "state").create([Scope.search])
    return tmp_path / "state"


def refusal(**options: Any) -> str:
    """Why the service does not start with these settings; one line."""
    with pytest.raises(CbirError) as refused:
        check_startup(settings.load(**options))
    said = str(refused.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "cbir.example.org", ""])
def test_other_addresses_only_with_tokens(host: str, tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    tls = {"tls_certificate": certificate[0], "tls_key": certificate[1]}
    options: dict[str, Any] = {"host": host, "state_folder": tmp_path, "allowed_hosts": NAMES, **tls}
    assert "cbir admin token create" in refusal(**options)
    tokens = TokenStore(tmp_path)
    token, _ = tokens.create([Scope.search])
    check_startup(settings.load(**options))
    assert "require_tokens" in refusal(**options | {"require_tokens": False})
    tokens.revoke(token.token_id)
    assert "cbir admin token create" in refusal(**options)


def test_other_addresses_only_encrypted(state: Path) -> None:
    options: dict[str, Any] = {"host": "0.0.0.0", "state_folder": state, "allowed_hosts": NAMES}
    assert "tls_certificate" in refusal(**options)
    check_startup(settings.load(**options, trusted_proxies="10.0.0.1"))


def test_all_addresses_need_a_name(state: Path) -> None:
    options: dict[str, Any] = {"state_folder": state, "trusted_proxies": "10.0.0.1"}
    assert "allowed_hosts" in refusal(host="::", **options)
    check_startup(settings.load(host="192.0.2.1", **options))


def test_listening_asks_first(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="tls_certificate"):
        open_listener(settings.load(host="0.0.0.0", port=0, state_folder=tmp_path))


def test_loopback_needs_none_unless_configured(tmp_path: Path) -> None:
    for host in ("127.0.0.1", "::1", "localhost", "127.3.2.1"):
        in_force = settings.load(host=host, state_folder=tmp_path / "none")
        assert not tokens_required(in_force)
        check_startup(in_force)
    assert not (tmp_path / "none").exists()
    for options in ({"require_tokens": True}, {"trusted_proxies": "127.0.0.1"}, {"allowed_hosts": NAMES}):
        assert tokens_required(settings.load(**options))
        assert "cbir admin token create" in refusal(state_folder=tmp_path, **options)
    assert not tokens_required(settings.load(require_tokens=False, trusted_proxies="127.0.0.1"))


def test_damaged_tokens(state: Path) -> None:
    (state / "tokens.json").write_text("[")
    assert "damaged" in refusal(require_tokens=True, state_folder=state)


def test_audit_log_that_cannot_be_written(state: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "log", tmp_path):
        assert "audit_log" in refusal(audit_log=path)
        assert "audit_log" in refusal(audit_log=path, require_tokens=True, state_folder=state)


def test_certificates_that_do_not_fit(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    right, key = certificate
    (tmp_path / "text").write_text("no PEM")
    assert "must be set together" in refusal(tls_certificate=right)
    assert "must be set together" in refusal(tls_key=key)
    assert "does not exist" in refusal(tls_certificate=right, tls_key=tmp_path / "none")
    for files in ((key, right), (tmp_path / "text", key), (right, tmp_path / "text")):
        assert "cannot be used" in refusal(tls_certificate=files[0], tls_key=files[1])
    openssl = shutil.which("openssl") or ""
    locked = tmp_path / "locked.pem"
    subprocess.run(
        [openssl, "pkcs8", "-topk8", "-in", str(key), "-out", str(locked), "-passout", "pass:secret"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    assert "cannot be used" in refusal(tls_certificate=right, tls_key=locked)


@pytest.mark.parametrize(("host", "family"), [("0.0.0.0", socket.AF_INET), ("::", socket.AF_INET6)])
def test_on_all_addresses_it_tells_its_name(
    state: Path, certificate: tuple[Path, Path], host: str, family: socket.AddressFamily
) -> None:
    try:
        socket.socket(family).close()
        socket.create_server((host, 0), family=family).close()
    except OSError:
        pytest.skip(f"this machine cannot listen on {host}")
    tls = {"tls_certificate": certificate[0], "tls_key": certificate[1]}
    active = settings.load(host=host, port=0, state_folder=state, allowed_hosts=NAMES, **tls)
    with open_listener(active) as listener:
        assert service_url(active, listener) == f"https://{NAMES}:{listener.getsockname()[1]}"


def test_https_on_all_addresses(
    indexed: Path, state: Path, certificate: tuple[Path, Path], ids: list[str]
) -> None:
    text = TokenStore(state).create([Scope.search])[1]
    names = {"ALLOWED_HOSTS": "localhost", "STATE_FOLDER": state, "TLS_CERTIFICATE": certificate[0]}
    environment = {
        f"CBIR_{name}": str(value) for name, value in (names | {"TLS_KEY": certificate[1]}).items()
    }
    with serving(indexed, "--host", "0.0.0.0", **environment) as running:
        address = running.address
        assert address == f"https://localhost:{running.port}"
        with httpx.Client(verify=ssl.create_default_context(cafile=str(certificate[0]))) as client:
            problem(client.get(f"{address}/v1/images/{ids[0]}"), 401)
            headers = {"Authorization": f"Bearer {text}"}
            assert client.get(f"{address}/v1/images/{ids[0]}", headers=headers).status_code == 200
            answer = client.post(f"{address}/login", data={"token": text}, headers={"Origin": address})
            assert answer.headers["Set-Cookie"].startswith("__Host-cbir=")
            with socket.create_connection(("127.0.0.1", running.port), timeout=10) as plain:
                plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
                with suppress(ConnectionResetError):
                    assert b"cbir" not in plain.recv(1000)
            assert client.get(f"{address}/healthz").status_code == 200
        log = running.stop()[1]
    assert "rror" not in log
    assert text not in log
