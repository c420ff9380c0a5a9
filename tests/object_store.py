"""A server of an object store on loopback, with the interface of S3."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

KEY = "tester"
SECRET = "not-to-be-logged"


@contextmanager
def serve_bucket(name: str = "images") -> Iterator[Any]:
    """Run a server with an empty bucket, and let this process and its children use it; yield its file system."""
    from moto.server import ThreadedMotoServer

    from cbir.ingest import object_store

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    # All servers of a process share their buckets: those of an earlier test are still there.
    httpx.post(f"http://{host}:{port}/moto-api/reset").raise_for_status()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        object_store._file_system_of.cache_clear()
        files = object_store._file_system_of("s3")
        try:
            files.mkdir(name)
            yield files
        finally:
            object_store._file_system_of.cache_clear()
            server.stop()
