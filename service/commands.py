"""`cbir serve`."""

import socket
from pathlib import Path
from typing import Annotated

import typer

from cbir import settings
from cbir.settings import Settings
from cbir.store.opening import open_sound


def serve(
    collection: Annotated[
        list[Path], typer.Option(help="Folder of a collection; its name is what requests call it by.")
    ],
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 0 for a free one [8000].")] = None,
) -> None:
    """Answer searches over HTTP, and show them on a page; on this machine only, unless there are tokens."""
    from cbir.archive import Archive
    from service.access.start import tokens_required
    from service.server import Server, listen
    from service.state import check_names

    in_force = settings.load(host=host, port=port)
    for folder in collection:
        with open_sound(folder):
            pass  # a missing or foreign one is told before anything listens
    folders = [folder.resolve() for folder in collection]
    check_names(folders)
    if in_force.archive_url:
        Archive(in_force.archive_url)  # credentials that cannot be sent
    listener = listen(in_force)
    address = address_of(in_force, listener)
    token = "-H 'Authorization: Bearer TOKEN' " if tokens_required(in_force) else ""

    def ready() -> None:
        typer.echo(f"The page: {address}/")
        typer.echo(f"To try:   curl {token}-F image=@FILE '{address}/v1/search?k=5'")
        typer.echo("Ctrl-C ends it.")

    Server(folders, in_force, listener, ready).run()


def address_of(in_force: Settings, listener: socket.socket) -> str:
    """Where a browser on this machine or another finds what listens."""
    from service.guards import ANY_ADDRESS

    # On all of a machine's addresses it answers under its names only.
    host_name = in_force.allowed_hosts[0] if in_force.host in ANY_ADDRESS else in_force.host
    name = f"[{host_name}]" if ":" in host_name else host_name
    scheme = "https" if in_force.tls_certificate else "http"
    return f"{scheme}://{name}:{listener.getsockname()[1]}"
