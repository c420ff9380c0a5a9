"""Names of collections: a folder, an alias, or an address in PostgreSQL."""

import os
from pathlib import Path

from cbir.system.addresses import is_collection_address


def collection_folder(name: str | os.PathLike[str]) -> Path:
    """Return the folder of a collection that is named by its folder, alias or address.

    A collection in PostgreSQL has a folder for its files, which is made if it is missing. Raises InvalidInput for an
    address that cannot be used.
    """
    text = os.fspath(name)
    if not is_collection_address(text):
        return Path(text)
    from cbir.store.postgresql.postgresql_address import files_folder

    return files_folder(text)


def address_or_folder(folder: Path) -> str:
    """Return what a collection is named by in messages: its address without password, else its folder."""
    from cbir.store.postgresql.postgresql_address import database_address

    return (folder.is_dir() and database_address(folder)) or str(folder)  # an alias is a file
