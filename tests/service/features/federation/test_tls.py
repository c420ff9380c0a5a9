"""TLS between sites: certificates of both sides are checked."""

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cbir.errors import InvalidInput
from cbir.system.access_rights import Scope
from cbir.system.setting_types import RemoteSite
from service.features.federation.site_client import tls_context
from tests.service.features.federation.hospitals import VECTOR, Hospital, site_of

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for this machine, signed by itself, and its key."""
    made, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", made],
        check=True, capture_output=True, timeout=400,
    )  # fmt: skip
    return made, key


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    folder = tmp_path_factory.mktemp("certificates")
    return {name: certificate(folder, name) for name in ("north", "south", "stranger")}


def test_both_sides_show_a_certificate(
    collections: dict[str, Path], pems: dict[str, tuple[Path, Path]]
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*pems["north"])
    tls.load_verify_locations(pems["south"][0])
    tls.verify_mode = ssl.CERT_REQUIRED
    north = Hospital(collections["north"])
    with north.serve(tls) as address:
        assert address.startswith("https://")

        def asked(**more: Any) -> Any:
            site = site_of(north, address, north.folder.parent, **more)
            south = Hospital(collections["south"], sites={"north": site}).client(Scope.search)
            body = {"vector": VECTOR, "k": 60, "federated": True}
            return south.post("/v1/search", json=body).json["sites"][1]

        ours, key = pems["south"]
        theirs = pems["north"][0]
        assert asked(ca=theirs, certificate=ours, key=key) | {"milliseconds": 0} == {
            "name": "north", "images": 30, "results": 30, "problem": "", "notes": [], "milliseconds": 0,
        }  # fmt: skip
        assert "certificate is not trusted" in asked(certificate=ours, key=key)["problem"]
        assert "certificate is not trusted" in asked(ca=pems["stranger"][0])["problem"]
        strange, strange_key = pems["stranger"]
        for refused in (asked(ca=theirs), asked(ca=theirs, certificate=strange, key=strange_key)):
            assert refused["images"] is None
            assert refused["problem"]


def test_files_that_cannot_be_used_are_named(pems: dict[str, tuple[Path, Path]], tmp_path: Path) -> None:
    ours, key = pems["south"]
    (tmp_path / "empty.pem").touch()
    wrong: list[dict[str, Path]] = [
        {"ca": tmp_path / "missing.pem"},
        {"ca": tmp_path / "empty.pem"},
        {"certificate": ours, "key": pems["north"][1]},
        {"certificate": key},
    ]
    for files in wrong:
        with pytest.raises(InvalidInput, match=r"^sites.north: ca, certificate and key cannot be used"):
            tls_context("north", RemoteSite(url="https://north.example", **files))
