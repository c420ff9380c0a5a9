"""`cbir collection regions`."""

from functools import partial
from time import monotonic

from cbir.search import command_options as options
from cbir.store.collection_address import address_or_folder
from cbir.system.console import OutputFormat, Printed, StageBars, print_values


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
