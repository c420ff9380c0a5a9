"""What is fuzzed: functions of bytes that raise nothing but the errors that are documented.

A target is a context manager that yields such a function; entering it may start what it needs.
"""

import logging
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

Function = Callable[[bytes], None]
MEBIBYTE = 2**20


@dataclass(frozen=True)
class FuzzTarget:
    """Something that reads bytes from outside.

    seconds: longest time of one input. memory: bytes that an input may need beside what the process has anyway.
    longest: bytes of an input. words: known to the format.
    """

    name: str
    open: Callable[[], AbstractContextManager[Function]]
    seconds: float = 5.0
    memory: int = 400 * MEBIBYTE
    longest: int = 65_536
    words: tuple[bytes, ...] = ()


@contextmanager
def decoder() -> Iterator[Function]:
    """Decode an image of any format."""
    from cbir.errors import UnreadableImage
    from cbir.images import Limits, decode

    limits = Limits(1_000_000, frame_bytes=8_000_000, bytes=1_000_000, inflated_bytes=1_000_000, frames=50)

    def function(data: bytes) -> None:
        with suppress(UnreadableImage):
            for image in decode(data, "image", limits=limits):
                assert image.pixels.dtype == "uint8"
                assert 0 < image.width * image.height <= limits.pixels

    yield function


@contextmanager
def received_instance() -> Iterator[Function]:
    """Describe an instance as the receiver does: its header decides about filters, frames and dates."""
    from cbir.images import Limits
    from cbir.ingest.description import DescribeTask
    from cbir.store.base import profile as profiles
    from indexer.describe_instance import Fate, InstanceFilter, InstanceTask, describe_instance

    limits = Limits(1_000_000, frame_bytes=8_000_000, bytes=1_000_000, inflated_bytes=1_000_000, frames=50)
    task = InstanceTask(
        DescribeTask(profiles.get("tamura"), b"secret" * 6, limits),
        InstanceFilter(frames="middle", secondary_captures=False, study_dates="shift"),
    )

    def function(data: bytes) -> None:
        outcome = describe_instance(data, task)
        assert outcome.fate is not Fate.failed, outcome.reason

    yield function


@contextmanager
def label_filter() -> Iterator[Function]:
    """Parse a label filter, and compile its condition to SQL."""
    from sqlalchemy.dialects import sqlite

    from cbir.errors import InvalidInput
    from cbir.store.records.filter_conditions import parse_filter

    def function(data: bytes) -> None:
        with suppress(InvalidInput):
            parse_filter(data.decode(errors="replace")).matches().compile(dialect=sqlite.dialect())

    yield function


@contextmanager
def json_body() -> Iterator[Function]:
    """Send a JSON body to endpoints of the service, in this process."""
    from cbir import settings
    from service.app import create_app

    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as name:
        client = create_app(make_collection(Path(name)), settings.load()).test_client()
        image = client.get("/v1/images").get_json()["items"][0]["image_id"]
        calls = (
            ("POST", "/v1/search"),
            ("POST", "/v1/similar"),
            ("PATCH", f"/v1/images/{image}"),
            ("POST", "/v1/jobs"),
        )

        def function(data: bytes) -> None:
            method, address = calls[len(data) % len(calls)]
            response = client.open(address, method=method, data=data, content_type="application/json")
            assert response.status_code < 500, f"{method} {address} answered {response.status_code}"
            assert "Traceback" not in response.text

        yield function


def make_collection(folder: Path) -> Path:
    """Index some phantoms; return the folder of the collection."""
    from cbir.descriptors import get
    from cbir.evaluation.datasets.phantoms.drawing import draw_phantom
    from cbir.images import from_array
    from cbir.store import Collection
    from cbir.store.base import profile as profiles
    from cbir.store.records.records import describe_record

    with Collection.create(folder / "collection", profiles.get("huang2012")) as collection:
        images = [from_array(draw_phantom(number, 0, 64).pixels) for number in range(12)]
        describe = get("huang2012")
        entries = [
            (
                describe_record(image, source=f"/x/{n}", source_stamp="1", secret=collection.secret),
                describe(image),
            )
            for n, image in enumerate(images)
        ]
        with collection.writer() as writer:
            writer.add(entries)
            writer.finish()
    return folder / "collection"


@contextmanager
def tokens_file() -> Iterator[Function]:
    """Read a file of tokens."""
    from service.access.token_stores import FILE, TokenStore, TokensUnreadable

    with tempfile.TemporaryDirectory() as name:

        def function(data: bytes) -> None:
            file = Path(name, FILE)
            file.write_bytes(data)
            file.chmod(0o600)
            with suppress(TokensUnreadable):
                TokenStore(Path(name)).find("cbir_00000000_x")

        yield function


@contextmanager
def manifest() -> Iterator[Function]:
    """Read a manifest."""
    from cbir.errors import InvalidInput
    from cbir.ingest.manifest import Manifest

    with tempfile.TemporaryDirectory() as name:

        def function(data: bytes) -> None:
            file = Path(name, "manifest.csv")
            file.write_bytes(data)
            with suppress(InvalidInput):
                for _ in Manifest(file).rows():
                    pass

        yield function


@contextmanager
def settings_file() -> Iterator[Function]:
    """Read a file of settings."""
    from cbir import settings
    from cbir.api.commands.show_commands import setting_origins
    from cbir.errors import InvalidInput

    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "cbir.toml")
        os.environ["CBIR_CONFIG"] = str(file)

        def function(data: bytes) -> None:
            file.write_bytes(data)
            with suppress(InvalidInput):
                settings.load()
                setting_origins()

        yield function


@contextmanager
def association() -> Iterator[Function]:
    """Send bytes to a receiver, which must go on to answer C-ECHO."""
    from pynetdicom import AE
    from pynetdicom.sop_class import Verification

    from tests.indexer.receiving import receiver

    entity = AE("ECHO")
    entity.add_requested_context(Verification)
    entity.acse_timeout = entity.dimse_timeout = entity.network_timeout = 60
    sent = 0

    def check(port: int) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            peer = entity.associate("127.0.0.1", port, ae_title="CBIR")
            if peer.is_established:
                status = peer.send_c_echo()
                peer.release()
                if "Status" in status and status.Status == 0:
                    return
            time.sleep(0.2)
        raise AssertionError("the receiver answers no C-ECHO")

    with tempfile.TemporaryDirectory() as name, receiver(Path(name, "collection")) as process:

        def function(data: bytes) -> None:
            nonlocal sent
            sent += 1
            with suppress(OSError), socket.create_connection(("127.0.0.1", process.port), 5) as connection:
                connection.settimeout(0.05)
                connection.sendall(data)
                connection.recv(4096)
            if sent % ECHO_EVERY == 0:
                check(process.port)
            assert process.process.poll() is None, "the receiver has ended"

        yield function
        check(process.port)


ECHO_EVERY = 100
JSON_WORDS = (
    b'"image_id":',
    b'"k":',
    b'"where":["',
    b"null",
    b"[[",
    b"{{",
    b"\\ud800",
    b"NaN",
    b"1e999",
    b'"feedback":',
)
SQL_WORDS = b"'", b'"', b"\0", b"=", b"!=", b">=", b" ", b"\xe2\x80\xa8"
TOML_WORDS = b"\n[", b'"""', b"port = ", b"trusted_proxies = [", b"1e999", b"inf", b"::/0", b"archive_url = "
DICOM_WORDS = (
    b"\xfe\xff\x00\xe0\xff\xff\xff\xff",
    b"\xfe\xff\x0d\xe0\0\0\0\0",
    b"\xfe\xff\xdd\xe0\0\0\0\0",
    b"SQ\0\0\xff\xff\xff\xff",
    b"UN\0\0\xff\xff\xff\xff",
    b"\xe0\x7f\x10\x00OW\0\0",
)
TARGETS = {
    target.name: target
    for target in (
        FuzzTarget("images", decoder),
        FuzzTarget("dicom", decoder, words=DICOM_WORDS),
        FuzzTarget("instances", received_instance, words=DICOM_WORDS),
        FuzzTarget("filters", label_filter, seconds=1, longest=4096, words=SQL_WORDS),
        FuzzTarget("json", json_body, longest=8192, words=JSON_WORDS),
        FuzzTarget("pdus", association, seconds=90, memory=0, words=DICOM_WORDS),
        FuzzTarget("tokens", tokens_file, longest=8192, words=JSON_WORDS),
        FuzzTarget(
            "manifests", manifest, longest=16_384, words=(b"\r", b'""', b",,", b"\n../", b"\xef\xbb\xbf")
        ),
        FuzzTarget("settings", settings_file, longest=8192, words=TOML_WORDS),
    )
}
