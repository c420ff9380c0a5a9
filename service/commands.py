"""`cbir serve`."""

from pathlib import Path
from typing import Annotated

import typer

from cbir import settings
from cbir.collection import Collection


def serve(
    collection: Annotated[Path, typer.Option(help="Folder of the collection.")],
    host: Annotated[str | None, typer.Option(help="Loopback address to listen on [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 0 for a free one [8000].")] = None,
) -> None:
    """Answer searches over HTTP, and show them on a page, on this machine only."""
    from service.server import Server, listen

    in_force = settings.load(host=host, port=port)
    with Collection(collection):
        pass  # a missing or foreign one is told before anything listens
    listener = listen(in_force.host, in_force.port)
    name = f"[{in_force.host}]" if ":" in in_force.host else in_force.host
    address = f"http://{name}:{listener.getsockname()[1]}"

    def ready() -> None:
        typer.echo(f"The page: {address}/")
        typer.echo(f"To try:   curl -F image=@FILE '{address}/v1/search?k=5'")
        typer.echo("Ctrl-C ends it.")

    Server(collection.resolve(), in_force, listener, ready).run()
