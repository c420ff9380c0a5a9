"""The command `cbir receive`."""

import gc
import ipaddress
import json
import logging
import signal
import threading
from collections.abc import Sequence
from typing import Annotated

import typer

from cbir import settings
from cbir.errors import InvalidInput
from cbir.images import Limits
from indexer.dicom import intake_options
from indexer.dicom.instance_filter import InstanceFilter
from indexer.dicom.intake import Intake
from indexer.index_request import open_collection

END_SECONDS = 5.0  # for an association to end


def receive(
    collection: intake_options.CollectionOption,
    aet: Annotated[
        str, typer.Option(help="Own AE title; associations that call another are rejected.")
    ] = "CBIR",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one. It is printed.")
    ] = 11112,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but loopback needs --allow.")
    ] = "127.0.0.1",
    allow: Annotated[
        list[str] | None, typer.Option(help="AE title that may send. Repeatable. [default: any]")
    ] = None,
    associations: Annotated[
        int, typer.Option(min=1, max=256, help="Associations at a time; more are rejected.")
    ] = 8,
    frames: intake_options.FramesOption = "all",
    burned_in: intake_options.BurnedInOption = True,
    secondary_captures: intake_options.SecondaryCapturesOption = True,
    study_dates: intake_options.StudyDatesOption = "drop",
    most_megabytes: Annotated[int, typer.Option(min=1, help="Largest instance, in MiB.")] = 512,
    jobs: intake_options.JobsOption = None,
    profile: intake_options.ProfileOption = None,
) -> None:
    """Receive DICOM images (C-STORE) into a collection until stopped.

    An image is acknowledged once it is on disk; an instance without an image is discarded with a warning status.
    Patients are stored as keyed hashes, pixels as thumbnails (the setting `keep_originals` stores the files too).
    """
    _check_host(host, allow or [])
    from indexer.receive.storage_service import (  # after the checks: it loads pynetdicom
        PeerPolicy,
        start_storage_service,
    )

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("pynetdicom").setLevel(logging.CRITICAL)  # its messages quote what peers send
    peers = PeerPolicy(aet, allow or [], associations)
    instance_filter = InstanceFilter(frames, burned_in, secondary_captures, study_dates)
    loaded = settings.load()
    limits = Limits(pixels=loaded.max_pixels, bytes=most_megabytes * 2**20)
    with open_collection(collection, profile) as opened:
        intake = Intake(
            opened, instance_filter=instance_filter, limits=limits, jobs=jobs, who="C-STORE", settings=loaded
        )
        try:
            server = start_storage_service(intake, host, port, peers)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
            gc.freeze()  # pynetdicom collects everything every few seconds; what is loaded now stays
            typer.echo(f"receiving as {aet} on {host} port {server.server_address[1]}")
            server.serve_forever(poll_interval=0.2)
            server.server_close()
            _end_associations(server.active_associations)
        finally:
            intake.close()
    typer.echo(json.dumps({fate.value: number for fate, number in sorted(intake.counts.items(), key=str)}))


def _check_host(host: str, allowed_titles: Sequence[str]) -> None:
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise InvalidInput(f"--host {host} is not an address to listen on, for instance 127.0.0.1") from None
    if not loopback and not allowed_titles:
        raise InvalidInput(
            f"listening on {host} lets other hosts send: name those allowed with --allow AETITLE"
        )


def _end_associations(associations: Sequence[threading.Thread]) -> None:
    """Abort all associations, after answering what is being stored."""
    established = [thread for thread in associations if getattr(thread, "is_established", False)]
    for thread in associations:
        abort = getattr(thread, "abort", None)
        if abort:
            abort()
    for thread in established:  # nothing is lost with the others
        thread.join(END_SECONDS)
