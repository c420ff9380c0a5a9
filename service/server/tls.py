"""TLS context of the server."""

import logging
import os
import ssl
from pathlib import Path

log = logging.getLogger(__name__)


class TlsContext:
    """TLS context that reads certificate and key again when their files have changed."""

    def __init__(self, certificate: Path, key: Path) -> None:
        self._paths = certificate, key
        self._context, self._state = self._read(), self._files_state()

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        state = self._files_state()
        if state != self._state:
            self._state = state
            try:
                self._context = self._read()
            except (OSError, ValueError) as error:
                log.error(
                    "tls_certificate or tls_key changed and cannot be used; the earlier stay in use: %s",
                    error,
                )
        return self._context

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # An empty password, so that an encrypted key raises an error instead of prompting.
        context.load_cert_chain(*self._paths, password="")
        return context

    def _files_state(self) -> list[tuple[int, int] | None]:
        states: list[tuple[int, int] | None] = []
        for path in self._paths:
            try:
                stat = os.stat(path)
            except OSError:
                states.append(None)
            else:
                states.append((stat.st_mtime_ns, stat.st_ino))
        return states
