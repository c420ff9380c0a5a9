"""`cbir collection copy`."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument

from cbir.store.collection_address import address_or_folder, collection_folder
from cbir.system.console import OutputFormat, Printed, StageBars, echo, print_values

CHANGED = (
    "others have written to the source meanwhile, and the copy may lack that: "
    "stop them, delete the copy and copy again"
)


def copy_whole_collection(
    source: Annotated[
        Path,
        Argument(parser=collection_folder, metavar="SOURCE", help="Folder or address of the collection."),
    ],
    target: Annotated[
        Path,
        Argument(
            parser=collection_folder,
            metavar="TARGET",
            help="New folder, or an address without a collection.",
        ),
    ],
    format: Printed = OutputFormat.text,
) -> None:
    """Copy a collection, for example from a folder into PostgreSQL or back, and compare the copy with it.

    The copy has the same ids, numbers, vectors, labels, history, models, statistics, thumbnails, originals,
    quarantine and key of patients. An interrupted copy leaves no collection. Map and cells of regions are not
    copied: compute them again.

    Exit code 1: others have written to the collection meanwhile, and the copy may lack that.
    """
    from cbir.store import Collection
    from cbir.store.upkeep.collection_copy import copy_collection

    with Collection(source) as opened, StageBars() as bars:
        copied = copy_collection(opened, target, bars.show)
    addresses = {"source": address_or_folder(source), "target": address_or_folder(target)}
    print_values({**addresses, **asdict(copied), "verified": True}, format)
    if copied.changed_meanwhile:
        echo(CHANGED, err=True)
        raise typer.Exit(1)
