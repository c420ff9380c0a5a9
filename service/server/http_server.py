"""HTTP server: gunicorn, or waitress where a process cannot fork."""

import logging
import os
import select
import signal
import socket
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from cbir.errors import InvalidInput
from cbir.settings import Settings
from cbir.system.remedies import install_command
from service.access import security
from service.server import server_sizes
from service.server.server_sizes import KEEPALIVE_SECONDS, count_threads

if TYPE_CHECKING:
    from flask import Flask

ServerName = Literal["gunicorn", "waitress"]
BACKLOG = 1024  # connections that the system accepts while the service is busy
HAS_POLL = hasattr(select, "poll")
WAITRESS_CONNECTIONS = 1000 if HAS_POLL else 400  # select on Windows takes 512 sockets


def choose_server(name: ServerName | None, settings: Settings) -> ServerName:
    """Return the server to use: `name`, or the one that runs on this system.

    Raises InvalidInput if it does not run here, is not installed, or cannot do what the settings ask for.
    """
    can_fork = hasattr(os, "fork")
    if name == "gunicorn" and not can_fork:
        raise InvalidInput("gunicorn does not run on this system, which has no fork; use --server waitress")
    server: ServerName = name or ("gunicorn" if can_fork else "waitress")
    if server == "waitress":
        if find_spec("waitress") is None:
            raise InvalidInput(f"waitress is not installed: {install_command('waitress')}")
        if settings.tls_certificate:
            raise InvalidInput(
                "waitress makes no TLS: remove tls_certificate and put a proxy with TLS in front of the service"
            )
    return server


def run_server(
    name: ServerName,
    make_app: "Callable[[], Flask]",
    settings: Settings,
    listener: socket.socket,
    ready: Callable[[], None],
) -> None:
    """Serve an app until Ctrl-C or SIGTERM.

    Parameters
    ----------
    name : {"gunicorn", "waitress"}
        Server, as `choose_server` returns it.
    make_app : callable
        Creates the app, in the process that serves it.
    settings : Settings
        Settings of the service.
    listener : socket
        Listening socket; the server takes it over.
    ready : callable
        Called when the server accepts requests.
    """
    if name == "waitress":
        _serve_with_waitress(make_app, settings, listener, ready)
        return
    from service.server.gunicorn_server import GunicornServer

    GunicornServer(make_app, settings, listener, ready).run()


def _serve_with_waitress(
    make_app: "Callable[[], Flask]", settings: Settings, listener: socket.socket, ready: Callable[[], None]
) -> None:
    """Serve an app with waitress: a server of threads in this process, for systems without fork.

    It lacks what gunicorn's worker here has: TLS, the time limit of requests (`request_seconds`), the limit of the
    memory of all uploads, threads of its own for health checks, and problem details for requests that are no HTTP.
    """
    import waitress

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    warnings.simplefilter("ignore")  # texts of libraries quote headers of patients
    app = make_app()
    server = waitress.create_server(
        app,
        sockets=[listener],
        threads=count_threads(settings),
        connection_limit=WAITRESS_CONNECTIONS,
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


def open_listener(settings: Settings) -> socket.socket:
    """Open a listening socket; raises InvalidInput for insecure `settings` and for a port in use."""
    security.check_startup(settings)
    server_sizes.prepare_limit(count_threads(settings))
    host, port = settings.host, settings.port
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InvalidInput(f"--host {host} is not an address of this machine: {error.strerror}") from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # on Windows a second program could then take the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise InvalidInput(
            f"cannot listen on {host} port {port}: {os.strerror(error.errno or 0).lower()}; "
            "choose another with --port, or a free one with --port 0"
        ) from error
    return listener
