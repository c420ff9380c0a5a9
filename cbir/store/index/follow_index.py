"""Let the vector index of a collection follow it at the end of a command."""

from functools import partial
from pathlib import Path

from cbir.errors import IndexUnavailable
from cbir.settings import Settings
from cbir.system.console import StageBars, echo


def follow_index(folder: Path, settings: Settings) -> None:
    """Bring the vector index that the settings name up to the collection; print why if it does not answer.

    A process that is doing so already, such as a service, goes on alone.
    """
    from cbir.store import Collection
    from cbir.store.index.open_index import open_index

    with Collection(folder) as collection:
        index = open_index(collection, settings)
        if index is None:
            return
        try:
            with StageBars() as bars:
                index.follower.follow(progress=partial(bars.show, "building the vector index"))
        except IndexUnavailable as error:
            echo(
                f"the vector index has not followed: {error}; a service follows when it answers again, or "
                "`cbir collection build-index`",
                err=True,
            )
            return
        try:
            with StageBars() as bars:
                index.neighbours.update(partial(bars.show, "reading vectors for the graph of neighbours"))
        except IndexUnavailable as error:
            echo(f"the graph of neighbours is not built: {error}", err=True)
