"""`cbir serve` and `cbir admin worker`."""

import signal
import socket
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cbir import settings
from cbir.search import command_options as options
from cbir.settings import Settings
from cbir.system.console import StageLines, echo

if TYPE_CHECKING:
    from flask import Flask

    from cbir.store import Collection


def serve(
    collection: options.ServedFolders,
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on, 0 for a free one. [default: 8000]")
    ] = None,
    server: Annotated[
        Literal["gunicorn", "waitress"] | None,
        typer.Option(
            help="HTTP server. [default: gunicorn; waitress on systems without fork, such as Windows]"
        ),
    ] = None,
) -> None:
    """Serve collections over HTTP, as an API and as web pages; on this machine only, unless tokens exist."""
    from cbir.ingest.archive_client import ArchiveClient
    from cbir.store.index.open_index import open_index
    from cbir.store.writing.default_profile import default_profile_advice
    from service.access.security import tokens_required
    from service.app import check_reranker, create_app
    from service.collections.app_state import EXTENSION, check_unique_names
    from service.server.http_server import choose_server, open_listener, run_server
    from service.state.server_answers import check_collections, wait_for_state

    active_settings = settings.load(host=host, port=port)
    server_name = choose_server(server, active_settings)
    advice: list[str | None] = []
    if server is None and server_name == "waitress":
        advice.append(
            "gunicorn does not run on this system: waitress serves, see docs/systems.md for what it lacks"
        )

    def check(folder: Path, opened: "Collection") -> None:
        advice.append(default_profile_advice(opened.profile, folder))
        open_index(opened, active_settings)  # report an index that does not fit

    check_collections(collection, check)
    folders = [folder.resolve() for folder in collection]
    check_unique_names(folders)
    check_reranker(active_settings.rerank)
    if active_settings.archive_url:
        ArchiveClient(active_settings.archive_url)  # report credentials that cannot be sent
    wait_for_state(active_settings)
    listener = open_listener(active_settings)
    address = service_url(active_settings, listener)
    token = "-H 'Authorization: Bearer TOKEN' " if tokens_required(active_settings) else ""

    def ready() -> None:
        for line in filter(None, advice):
            echo(line, err=True)
        echo(f"The page: {address}/")
        echo(f"To try:   curl {token}-F image=@FILE '{address}/v1/search?k=5'")
        echo("Ctrl-C ends it.")

    def make_app() -> "Flask":
        with StageLines() as lines:
            lines.show("opening the collections", 0, None)
            app = create_app(folders, active_settings)
            app.extensions[EXTENSION].warm_up()
            app.extensions[EXTENSION].worker.start(stay=True)
        return app

    run_server(server_name, make_app, active_settings, listener, ready)


def service_url(active_settings: Settings, listener: socket.socket) -> str:
    """Return the URL of the service for browsers, from `active_settings` and the port of `listener`."""
    from service.access.security import ANY_ADDRESS

    # When listening on all addresses, the service accepts its allowed host names only.
    host_name = (
        active_settings.allowed_hosts[0] if active_settings.host in ANY_ADDRESS else active_settings.host
    )
    name = f"[{host_name}]" if ":" in host_name else host_name
    scheme = "https" if active_settings.tls_certificate else "http"
    return f"{scheme}://{name}:{listener.getsockname()[1]}"


STOP_SECONDS = 30.0  # for jobs to end in order; then they are killed, and go on elsewhere all the same


def run_worker(
    collection: options.ServedFolders,
    count: Annotated[int, typer.Option(min=1, help="Jobs to run at a time.")] = 1,
) -> None:
    """Run jobs that services with the same state database have accepted, until Ctrl-C or SIGTERM."""
    import logging

    from cbir.store.collection_address import public_name
    from service.collections.app_state import check_unique_names
    from service.jobs.job_work import WorkerPlace
    from service.jobs.job_worker import JobWorker
    from service.state.database import open_state
    from service.state.server_answers import check_collections, wait_for_state

    active = settings.load()
    check_collections(collection, lambda folder, opened: None)
    folders = [folder.resolve() for folder in collection]
    check_unique_names(folders)
    wait_for_state(active)
    database = open_state(active)
    database.check()
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    own_place = WorkerPlace({public_name(folder): folder for folder in folders}, active)
    worker = JobWorker(database, own_place, count, stop_seconds=STOP_SECONDS)
    is_stopping = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: is_stopping.set())
    worker.start(stay=True)
    echo("Waiting for jobs. Ctrl-C ends it; a running job goes on at another worker.")
    is_stopping.wait()
    worker.stop()
