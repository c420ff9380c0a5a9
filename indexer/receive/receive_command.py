"""`cbir receive`."""

import gc
import ipaddress
import json
import logging
import signal
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from cbir import settings
from cbir.errors import InvalidInput
from cbir.images import Limits
from cbir.threads import cores
from indexer.dicom.instance_filter import InstanceFilter
from indexer.dicom.intake import Intake
from indexer.index_command import open_collection


def receive(
    collection: Annotated[Path, typer.Option(help="Folder of the collection; made where it does not exist.")],
    aet: Annotated[
        str, typer.Option(help="Our AE title; associations that call another are rejected.")
    ] = "CBIR",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="0: any that is free, which is printed.")
    ] = 11112,
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than loopback need --allow.")
    ] = "127.0.0.1",
    allow: Annotated[
        list[str] | None, typer.Option(help="AE title that may send; as often as there are some. None: any.")
    ] = None,
    associations: Annotated[int, typer.Option(min=1, max=256, help="At a time; more are rejected.")] = 8,
    frames: Annotated[str, typer.Option(help="Of instances with several: all, middle, or every:N.")] = "all",
    burned_in: Annotated[bool, typer.Option(help="Take images that say they have text burned in.")] = True,
    secondary_captures: Annotated[bool, typer.Option(help="Take pictures of screens and films.")] = True,
    study_dates: Annotated[str, typer.Option(help="drop, or shift: a label, moved per patient.")] = "drop",
    most_megabytes: Annotated[int, typer.Option(min=1, help="Of one instance.")] = 512,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes; as many as cores if not given.")] = None,
    profile: Annotated[str | None, typer.Option(help="Of a new collection, as for cbir index.")] = None,
) -> None:
    """Receive DICOM images (C-STORE) into a collection, until it is told to stop.

    A sender is told success once the image is on the disk; what holds no image is counted and discarded with a
    warning. Patients are kept as keyed hashes, and pixels as thumbnails (`keep_originals` keeps the files).
    """
    _check_host(host, allow or [])
    from indexer.receive.storage_service import (  # after the checks: it loads pynetdicom
        PeerPolicy,
        start_storage_service,
    )

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("pynetdicom").setLevel(logging.CRITICAL)  # its words quote what peers send
    chosen = settings.load()
    peers = PeerPolicy(aet, allow or [], associations)
    choice = InstanceFilter(frames, burned_in, secondary_captures, study_dates)
    with open_collection(collection, profile, []) as opened:
        intake = Intake(
            opened,
            choice=choice,
            limits=Limits(pixels=chosen.max_pixels, bytes=most_megabytes * 2**20),
            jobs=jobs if jobs is not None else cores(),
            who="C-STORE",
            keep_originals=chosen.keep_originals,
            store_thumbnails=chosen.store_thumbnails,
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


def _check_host(host: str, allowed: list[str]) -> None:
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise InvalidInput(f"--host {host} is no address to listen on, for instance 127.0.0.1") from None
    if not loopback and not allowed:
        raise InvalidInput(f"listening on {host} lets other machines send: say who may with --allow AETITLE")


def _end_associations(associations: Sequence[threading.Thread]) -> None:
    """What is being stored is answered first; then the peers are told."""
    storing = [one for one in associations if getattr(one, "is_established", False)]
    for one in associations:
        abort = getattr(one, "abort", None)
        if abort:
            abort()
    for one in storing:  # nothing is lost with those that never said who they are
        one.join(5)
