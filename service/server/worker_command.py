"""`cbir worker`."""

import signal
from pathlib import Path
from threading import Event
from typing import Annotated

import typer

from cbir import settings
from cbir.search.command_options import FOLDER_OR_ADDRESS
from cbir.store.collection_address import collection_folder
from cbir.system.console.printable import echo

STOP_SECONDS = 30.0  # for jobs to end in order; then they are killed, and go on elsewhere all the same


def run_worker(
    collection: Annotated[
        list[Path],
        typer.Option(
            parser=collection_folder,
            metavar=FOLDER_OR_ADDRESS,
            help="Folder, alias, or address in PostgreSQL of a collection, as of the service. Repeatable.",
        ),
    ],
    count: Annotated[int, typer.Option(min=1, help="Jobs to run at a time.")] = 1,
) -> None:
    """Run jobs that services with the same state database have accepted, until Ctrl-C or SIGTERM."""
    import logging

    from cbir.store.collection_address import public_name
    from service.collections.app_state import check_unique_names
    from service.jobs.job_worker import JobWorker
    from service.jobs.worker_place import WorkerPlace
    from service.state.database import open_state
    from service.state.startup_wait import check_collections, wait_for_state

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
