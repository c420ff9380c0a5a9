"""Connection to a Milvus server: its address, time limits, and what its errors mean."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cbir.errors import IndexUnavailable, InvalidInput
from cbir.system.remedies import install_command

SECONDS = 10.0  # limit of a call
QUIET = ("pymilvus", "pymilvus.milvus_client")  # loggers that write tracebacks to stderr
REASON = 200  # characters of an error of the server that are passed on


class MilvusConnection:
    """Calls of pymilvus.MilvusClient, which raise IndexUnavailable. Connects at the first call. Thread-safe.

    server: the address as messages name it.
    """

    def __init__(self, address: str, secret: str | None = None, ca_file: Path | None = None) -> None:
        """Take the address of a server.

        Parameters
        ----------
        address : str
            As milvus://user@host:port/database?tls=true; only host and port are required.
        secret : str, optional
            Password of the user; without a user in the address a token, such as user:password.
        ca_file : Path, optional
            Certificates (PEM) of the authorities that sign the server's; those that gRPC knows by default.

        Raises
        ------
        InvalidInput
            If pymilvus is not installed.
        """
        try:
            import pymilvus  # noqa: F401
        except ImportError as error:
            raise InvalidInput(f"an index in Milvus needs pymilvus: {install_command('milvus')}") from error
        for name in QUIET:  # what they say is raised too, and reported once
            logging.getLogger(name).setLevel(logging.CRITICAL)
        parts = urlsplit(address)
        self.server = f"{parts.hostname}:{parts.port}"
        secure = parse_qs(parts.query).get("tls") == ["true"]
        user = unquote(parts.username or "")
        self._options = {
            "uri": f"{'https' if secure else 'http'}://{parts.netloc.rpartition('@')[2]}",
            "token": f"{user}:{secret or ''}" if user else secret or "",
            "db_name": unquote(parts.path.strip("/")),
        }
        if secure and ca_file:
            self._options["server_pem_path"] = str(ca_file)  # which gRPC takes as the authorities
        self._client: Any = None

    def call(self, name: str, *arguments: Any, timeout: float | None = SECONDS, **options: Any) -> Any:
        """Call a method of MilvusClient.

        Parameters
        ----------
        name : str
            Name of the method.
        *arguments, **options
            Of the method.
        timeout : float, optional
            Seconds; None for work that takes as long as it takes.
        """
        with self._translated():
            if self._client is None:
                self._client = self._connect()
            return getattr(self._client, name)(*arguments, timeout=timeout, **options)

    def server_version(self) -> tuple[int, ...]:
        """Return the version of the server, such as (2, 4); () if it names none."""
        parts = re.match(r"v?(\d+)\.(\d+)", str(self.call("get_server_version")))
        return tuple(map(int, parts.groups())) if parts else ()

    def close(self) -> None:
        """Close the connection; the next call opens it again."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _connect(self) -> Any:
        from pymilvus import MilvusClient

        return MilvusClient(**self._options, timeout=SECONDS)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import grpc
        from pymilvus.exceptions import MilvusException

        try:
            yield
        except (MilvusException, grpc.RpcError, OSError) as error:
            text = str(getattr(error, "message", error)).strip() or type(error).__name__
            reason = text.splitlines()[0][:REASON]
            raise IndexUnavailable(f"the Milvus server {self.server} cannot be used: {reason}") from error
