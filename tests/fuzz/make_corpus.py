"""Write the corpus of the fuzz targets: small valid inputs of every kind.

python -m tests.fuzz.make_corpus
"""

from pathlib import Path

from tests.cbir.images.test_damage import SEEDS
from tests.fuzz.campaign import CORPUS

FILTERS = "modality=CT", "label!=knee", "severity>=1.5", "severity <= -1e9", " a  =  b = c ", "ключ=значение"
BODIES = (
    '{"image_id": "0123456789abcdef0123456789abcdef", "k": 5, "where": ["modality=CT"], "rerank": "eprf"}',
    '{"examples": ["0123456789abcdef0123456789abcdef"], "feedback": {"relevant": ["a"], "irrelevant": ["b"]}}',
    '{"image_id": "x", "region": [0, 0, 10, 10], "exclude_patient": "p", "exclude_study": true}',
    '{"labels": {"label": "knee", "severity": "1.5", "old": null}}',
    '{"SOPInstanceUID": "1.2.3", "StudyInstanceUID": "1.2"}',
    '{"sources": ["/images"], "duplicates": true}',
)
TOKENS = (
    '[{"token_id": "0123abcd", "name": "pacs", "scopes": ["search", "ingest"], "digest": "'
    + "0" * 64
    + '", "created": "2026-01-01T00:00:00Z", "expires": null, "revoked": null}]',
    "[]",
)
MANIFESTS = (
    "path,label,patient\na.png,knee,p1\nsub/b.png,hand,p2\n",
    '\ufeffpath,severity\n"with, comma.png",1.5\n"with ""quotes"".png",\n',
    "path;label\na.png;knee\n",
)
SETTINGS = (
    'host = "0.0.0.0"\nport = 8443\nthreads = 4\nrequest_seconds = 10.5\ntrusted_proxies = ["10.0.0.0/8"]\n',
    'archive_url = "http://localhost:8042/dicom-web"\nviewer_link = "https://v/?s={study}"\n'
    'allowed_hosts = ["cbir.example"]\nframe_origins = ["https://viewer.example"]\nindex_roots = ["/images"]\n',
    'device = "cpu"\nindex = "flat"\nkeep_originals = true\nrequire_tokens = false\nstate_folder = "/tmp/state"\n',
)


def main() -> None:
    """Write all files."""
    write("images", {name: data for name, data in SEEDS.items() if not name.startswith("dicom")})
    dicom = {name: data for name, data in SEEDS.items() if name.startswith("dicom")}
    write("dicom", dicom)
    write("instances", dicom)
    write("filters", texts(FILTERS))
    write("json", texts(BODIES))
    write("tokens", texts(TOKENS))
    write("manifests", texts(MANIFESTS))
    write("settings", texts(SETTINGS))
    write("pdus", associations())


def texts(values: tuple[str, ...]) -> dict[str, bytes]:
    """Name texts by their position."""
    return {f"{number}": value.encode() for number, value in enumerate(values)}


def write(target: str, files: dict[str, bytes]) -> None:
    """Write the files of a target."""
    folder: Path = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name.replace(" ", "-")).write_bytes(data)


def associations() -> dict[str, bytes]:
    """Return what a sender writes to a receiver: a request for an association, data, and its end."""
    context = item(0x20, b"\x01\0\0\0" + item(0x30, b"1.2.840.10008.1.1") + item(0x40, b"1.2.840.10008.1.2"))
    storage = item(
        0x20, b"\x03\0\0\0" + item(0x30, b"1.2.840.10008.5.1.4.1.1.2") + item(0x40, b"1.2.840.10008.1.2.1")
    )
    user = item(0x50, item(0x51, (16384).to_bytes(4, "big")) + item(0x52, b"1.2.3") + item(0x55, b"FUZZ"))
    variable = item(0x10, b"1.2.840.10008.3.1.1.1") + context + storage + user
    request = pdu(1, b"\0\x01\0\0" + b"CBIR".ljust(16) + b"FUZZ".ljust(16) + bytes(32) + variable)
    echo = command(0x0030, b"1.2.840.10008.1.1\0")
    data = pdu(4, (len(echo) + 2).to_bytes(4, "big") + b"\x01\x03" + echo)
    return {
        "request": request,
        "echo": request + data,
        "release": request + data + pdu(5, bytes(4)),
        "abort": request + pdu(7, bytes(4)),
        "store": request + pdu(4, (len(echo) + 2).to_bytes(4, "big") + b"\x03\x03" + echo),
    }


def item(kind: int, content: bytes) -> bytes:
    """Return an item of an association request (PS3.8, 9.3.2)."""
    return bytes((kind, 0)) + len(content).to_bytes(2, "big") + content


def pdu(kind: int, content: bytes) -> bytes:
    """Return a protocol data unit (PS3.8, 9.3)."""
    return bytes((kind, 0)) + len(content).to_bytes(4, "big") + content


def command(field: int, uid: bytes) -> bytes:
    """Return a command set in implicit little endian (PS3.7, 6.3)."""
    elements = b"".join(
        (0).to_bytes(2, "little") + tag.to_bytes(2, "little") + len(value).to_bytes(4, "little") + value
        for tag, value in (
            (0x0002, uid),
            (0x0100, field.to_bytes(2, "little")),
            (0x0110, (1).to_bytes(2, "little")),
            (0x0800, (0x0101).to_bytes(2, "little")),
        )
    )
    return bytes(4) + (4).to_bytes(4, "little") + len(elements).to_bytes(4, "little") + elements


if __name__ == "__main__":
    main()
