"""`cbir collection alias`."""

from pathlib import Path
from typing import Annotated

from typer import Argument

from cbir.search.command_options import folder_only
from cbir.system.console.output import OutputFormat, Printed, print_values


def set_alias(
    alias: Annotated[Path, Argument(help="The alias, NAME.alias; or a folder, to list the aliases in it.")],
    folder: Annotated[
        Path | None,
        Argument(
            parser=folder_only,
            metavar="FOLDER",
            help="Folder of a collection beside the alias, to switch to [show the current].",
        ),
    ] = None,
    format: Printed = OutputFormat.text,
) -> None:
    """Switch an alias to another collection, or show where it leads.

    Every command takes an alias in place of a collection's folder. `cbir serve --collection chest.alias` serves its
    collection as `chest`, and opens the other one for the next request when the alias is switched.
    """
    from cbir.store import Collection
    from cbir.store.collection_address import list_aliases, resolve_alias, write_alias

    if folder is None and alias.is_dir():
        print_values(list_aliases(alias), format)
        return
    if folder is not None:
        with Collection(folder) as collection:
            collection.view()  # a collection that cannot be searched is no collection to switch to
        write_alias(alias, folder)
    print_values({"alias": str(alias), "folder": str(resolve_alias(alias))}, format)
