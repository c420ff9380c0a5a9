"""`cbir collection map`."""

from functools import partial
from time import monotonic

from cbir.search import command_options as options
from cbir.store.collection_address import address_or_folder
from cbir.system.console import OutputFormat, Printed, StageBars, print_values


def map_collection(collection: options.Folder, format: Printed = OutputFormat.text) -> None:
    """Compute the map of the collection, its images in two dimensions; needs the extra `map`.

    A service computes it as a job with the first request. Ctrl-C ends the command, and an earlier map stays.
    """
    from cbir.store import Collection
    from service.features.map.collection_map import compute_map, store_map

    started = monotonic()
    with Collection(collection) as opened:
        with StageBars() as bars:
            computed = compute_map(opened.view(), opened.profile, partial(bars.show, "computing the map"))
            store_map(opened, computed)
        seconds = round(monotonic() - started, 1)
        print_values(
            {"folder": address_or_folder(opened.folder), "images": len(computed), "seconds": seconds}, format
        )
