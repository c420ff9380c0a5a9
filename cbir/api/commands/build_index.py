"""`cbir collection build-index` and `cbir collection regions`."""

from dataclasses import asdict
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Annotated

from typer import Option

from cbir.errors import CollectionBusy, InvalidInput
from cbir.search import command_options as options
from cbir.store.collection_address import address_or_folder
from cbir.system.console import OutputFormat, Printed, StageBars, print_values

if TYPE_CHECKING:
    from cbir.store import Collection
    from cbir.store.index.open_index import CollectionIndex


def build_index(
    collection: options.Folder,
    drop: Annotated[bool, Option("--drop", help="Delete the index.")] = False,
    rebuild: Annotated[
        bool, Option("--rebuild", help="Build a vector index anew, also if it only has to follow.")
    ] = False,
    format: Printed = OutputFormat.text,
) -> None:
    """Build the vector index that the setting `index` names, or let it follow the collection.

    The index `flat` is a part of each snapshot, and needs no command.
    """
    from cbir import settings
    from cbir.store import Collection
    from cbir.store.collection_address import address_or_folder
    from cbir.store.index.open_index import open_index

    active_settings = settings.load()
    with Collection(collection) as opened:
        index = open_index(opened, active_settings)
        if index is None:
            raise InvalidInput(
                f"the setting index is {active_settings.index}, and this collection is searched in its snapshot, "
                "which needs no other index; name ivf, hnsw, pgvector or milvus://host:port"
            )
        values = _build_vector_index(opened, index, drop, rebuild)
        print_values({"folder": address_or_folder(opened.folder), **values}, format)


def _build_vector_index(
    collection: "Collection", index: "CollectionIndex", drop: bool, rebuild: bool
) -> dict[str, object]:
    from cbir.store.collection_address import address_or_folder

    with StageBars() as bars:
        if drop:
            done = index.follower.drop()
            index.neighbours.update()
        else:
            if collection.statistics() is None:
                address = address_or_folder(collection.folder)
                raise InvalidInput(
                    f"{address} has no snapshot to index; `cbir collection compact --collection {address}` writes one"
                )
            bars.show("building the index")
            done = index.follower.follow(
                rebuild, lambda images, total: bars.show("building the index", images, total)
            )
            done = done and index.neighbours.update(
                partial(bars.show, "reading vectors for the graph of neighbours"), requested=True
            )
    if not done:
        raise CollectionBusy(
            "another process is building or following the index; wait for it to end, then try again"
        )
    return {name: value for name, value in asdict(index.status()).items() if value is not None and not drop}


def compute_regions(collection: options.Folder, format: Printed = OutputFormat.text) -> None:
    """Compute the cells of the images, in which a region is searched for anywhere; for encoders.

    Run it again for images that were added later. Ctrl-C ends it, and the next run goes on from there.
    """
    from cbir.api.region_cells import compute_cells
    from cbir.store import Collection

    started = monotonic()
    with Collection(collection) as opened:
        with StageBars() as bars:
            counts = compute_cells(opened, partial(bars.show, "computing cells"))
        print_values(
            {
                "folder": address_or_folder(opened.folder),
                "images": counts.images,
                "added": counts.added,
                "without picture": counts.without_picture,
                "seconds": round(monotonic() - started, 1),
            },
            format,
        )
