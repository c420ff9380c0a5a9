"""HTTP server: gunicorn, or waitress where a process cannot fork."""

import os
import socket
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from cbir.errors import InvalidInput
from cbir.settings import Settings
from cbir.system.remedies import install_command
from service.access import security
from service.server import server_sizes
from service.server.server_sizes import count_threads

if TYPE_CHECKING:
    from flask import Flask

ServerName = Literal["gunicorn", "waitress"]
BACKLOG = 1024  # connections that the system accepts while the service is busy


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
        from service.server.waitress_server import serve_with_waitress

        serve_with_waitress(make_app, settings, listener, ready)
        return
    from service.server.gunicorn_server import GunicornServer

    GunicornServer(make_app, settings, listener, ready).run()


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
