"""waitress: a server of threads in this process, for systems without fork.

It lacks what gunicorn's worker here has: TLS, the time limit of requests (`request_seconds`), the limit of the memory
of all uploads, threads of its own for health checks, and problem details for requests that are no HTTP.
"""

import logging
import select
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress

import waitress
from flask import Flask

from cbir.settings import Settings
from service.server.server_sizes import KEEPALIVE_SECONDS, count_threads

HAS_POLL = hasattr(select, "poll")
MAX_CONNECTIONS = 1000 if HAS_POLL else 400  # select on Windows takes 512 sockets


def serve_with_waitress(
    make_app: Callable[[], Flask], settings: Settings, listener: socket.socket, ready: Callable[[], None]
) -> None:
    """Serve an app in this process until Ctrl-C or SIGTERM.

    Parameters
    ----------
    make_app : callable
        Creates the app.
    settings : Settings
        Settings of the service.
    listener : socket
        Listening socket.
    ready : callable
        Called when the server accepts requests.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    warnings.simplefilter("ignore")  # texts of libraries quote headers of patients
    app = make_app()
    server = waitress.create_server(
        app,
        sockets=[listener],
        threads=count_threads(settings),
        connection_limit=MAX_CONNECTIONS,
        channel_timeout=KEEPALIVE_SECONDS,
        channel_request_lookahead=1,  # notices clients that leave
        max_request_body_size=app.config["MAX_CONTENT_LENGTH"],
        inbuf_overflow=sys.maxsize,  # images of patients are never written to a temporary file
        outbuf_overflow=sys.maxsize,
        clear_untrusted_proxy_headers=False,  # service/access/proxies.py decides which proxies to trust
        asyncore_use_poll=HAS_POLL,
        ident=None,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with suppress(KeyboardInterrupt):  # a normal end, as it is of gunicorn
        ready()
        server.run()
