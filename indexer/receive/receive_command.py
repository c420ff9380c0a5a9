"""The command `cbir receive`, and its options."""

import gc
import ipaddress
import json
import logging
import signal
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cbir import settings
from cbir.errors import InvalidInput
from cbir.search import command_options as options
from cbir.store.index.follow_index import follow_index
from cbir.system.console import echo
from cbir.system.files import raise_file_limit
from indexer import index_progress

if TYPE_CHECKING:
    from indexer.receive.bounded_server import BoundedServer

Port = Annotated[
    int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one. It is printed.")
]
Associations = Annotated[int, typer.Option(min=1, max=256, help="Associations at a time; more are rejected.")]
END_SECONDS = 5.0  # for an association to end
FILES = 256  # besides those of associations: connections without one, database, describing processes
FILES_PER_ASSOCIATION = 4


def receive(
    collection: options.CreatedFolder,
    aet: Annotated[
        str, typer.Option(help="Own AE title; associations that call another are rejected.")
    ] = "CBIR",
    port: Port = 11112,
    host: Annotated[
        str, typer.Option(help="Address to listen on; any but loopback needs --peer or --allow.")
    ] = "127.0.0.1",
    peer: Annotated[
        list[str] | None,
        typer.Option(
            help="AE title that may send, and its address or network. Repeatable. [default: any]",
            metavar="AETITLE@NETWORK",
        ),
    ] = None,
    allow: Annotated[
        list[str] | None, typer.Option(help="AE title that may send from any address. Repeatable.")
    ] = None,
    associations: Associations = 8,
    per_address: Annotated[
        int | None,
        typer.Option(
            min=1, max=256, help="Associations of one address. [default: 3/4 of all, at least 2]", hidden=True
        ),
    ] = None,
    commitment: Annotated[
        list[str] | None,
        typer.Option(
            help="Where a peer listens for storage commitment reports. Repeatable. [default: on its association]",
            metavar="AETITLE=HOST:PORT",
            hidden=True,
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="PEM file with the certificate chain for DICOM TLS.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="PEM file with its private key.")] = None,
    tls_ca: Annotated[
        Path | None,
        typer.Option(help="PEM file of the authorities that sign the certificates that peers must show."),
    ] = None,
    frames: index_progress.FramesOption = "all",
    burned_in: index_progress.BurnedInOption = None,
    secondary_captures: index_progress.SecondaryCapturesOption = True,
    study_dates: index_progress.StudyDatesOption = "drop",
    most_megabytes: Annotated[int, typer.Option(min=1, help="Largest instance, in MiB.", hidden=True)] = 512,
    jobs: index_progress.JobsOption = None,
    profile: index_progress.ProfileOption = None,
) -> None:
    """Receive DICOM images (C-STORE) into a collection until stopped.

    An image is acknowledged once it is on disk; an instance without an image is discarded with a warning status.
    Patients are stored as keyed hashes, pixels as thumbnails (the setting `keep_originals` stores the files too).
    """
    from cbir.images import Limits
    from cbir.store.index.follow_index import IndexThread
    from cbir.store.index.open_index import open_index
    from indexer.describe_instance import InstanceFilter
    from indexer.index_request import open_collection
    from indexer.intake import Intake

    loaded = settings.load(
        dicom_peers=peer,
        dicom_commitment=commitment,
        dicom_tls_certificate=tls_certificate,
        dicom_tls_key=tls_key,
        dicom_tls_ca=tls_ca,
    )
    _check_host(host, [*(allow or []), *loaded.dicom_peers])
    # After the check: these load pynetdicom.
    from indexer.receive.storage_commitment import StorageCommitment
    from indexer.receive.storage_service import load_network_options, start_storage_service

    files = FILES + FILES_PER_ASSOCIATION * associations
    raise_file_limit(files, files)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("pynetdicom").setLevel(logging.CRITICAL)  # its messages quote what peers send
    network = load_network_options(loaded, aet, allow or [], associations, per_address)
    instance_filter = InstanceFilter(
        frames, index_progress.accepts_burned_in(burned_in, loaded), secondary_captures, study_dates
    )
    limits = replace(Limits.from_settings(loaded), bytes=most_megabytes * 2**20)
    with open_collection(collection, profile) as opened:
        intake = Intake(
            opened, instance_filter=instance_filter, limits=limits, jobs=jobs, who="C-STORE", settings=loaded
        )
        storage_commitment = StorageCommitment(opened.sop_classes, network.commitment_peers)
        index = open_index(opened, loaded)
        following = IndexThread(opened.folder.name, index) if index else None
        try:
            server = start_storage_service(
                intake, host, port, network.peers, commitment=storage_commitment, tls=network.tls
            )
            _serve(server, f"receiving as {aet} on {host} port {server.server_address[1]}")
        finally:
            storage_commitment.close()
            intake.close()
            index_progress.handle_signals(signal.SIG_DFL)  # an index can be left at any moment
            if following:
                following.stop()
    follow_index(collection, loaded)
    typer.echo(json.dumps({fate.value: number for fate, number in sorted(intake.counts.items(), key=str)}))


def _serve(server: "BoundedServer", announcement: str) -> None:
    """Serve until a signal; then end the associations."""
    index_progress.handle_signals(lambda *_: threading.Thread(target=server.shutdown).start())
    gc.freeze()  # pynetdicom collects everything every few seconds; what is loaded now stays
    echo(announcement)
    server.serve_forever(poll_interval=0.2)
    server.server_close()
    _end_associations(server.active_associations)


def _check_host(host: str, peers: Sequence[str]) -> None:
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise InvalidInput(f"--host {host} is not an address to listen on, for instance 127.0.0.1") from None
    if not loopback and not peers:
        raise InvalidInput(
            f"listening on {host} lets other hosts send: name those allowed with --peer AETITLE@NETWORK, or with "
            "--allow AETITLE"
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
