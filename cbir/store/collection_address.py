"""Names of collections: a folder, an alias of one, or an address in PostgreSQL.

An alias is a file that names the folder of the collection, which can be switched while it is in use: JSON,
`{"folder": "chest-2"}`, replaced atomically. The folder lies beside the file, under that name: an alias never leads
elsewhere, not by a path and not by a symbolic link.
"""

import json
import os
from pathlib import Path

from cbir.errors import InvalidInput, NotFound
from cbir.system.addresses import is_collection_address
from cbir.system.files import PUBLIC_FILE, write_bytes


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


SUFFIX = ".alias"

MAX_BYTES = 4096


def is_alias(path: Path) -> bool:
    """Return whether `path` is the name of an alias, which need not exist."""
    return path.suffix == SUFFIX and not path.is_dir()


def public_name(path: Path) -> str:
    """Return the name of a collection in requests: that of its folder, or of its alias without the suffix."""
    return path.stem if is_alias(path) else path.name


def resolve_alias(path: Path) -> Path:
    """Return the folder that an alias names; any other path as it is.

    Raises NotFound if the alias or its folder is missing, InvalidInput if the file is not an alias, or names a folder
    that is not beside it.
    """
    if not is_alias(path):
        return path
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(MAX_BYTES))
    except FileNotFoundError as error:
        raise NotFound(
            f"there is no alias {path}; `cbir collection alias {path} FOLDER` makes one"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} cannot be read as an alias; `cbir collection alias` writes it") from error
    name = content.get("folder") if isinstance(content, dict) else None
    if not isinstance(name, str):
        raise InvalidInput(f"{path} names no folder; `cbir collection alias` writes it")
    return _folder_beside(path, name)


def write_alias(path: Path, folder: Path) -> None:
    """Let the alias `path` name `folder`, which must lie beside it, from now on.

    Raises InvalidInput for another folder, or a path without the suffix of an alias.
    """
    if not is_alias(path):
        raise InvalidInput(f"the name of an alias ends with {SUFFIX}, for instance {path.name}{SUFFIX}")
    if folder.absolute().parent.resolve() != path.absolute().parent.resolve():
        raise InvalidInput(f"{folder} does not lie beside {path}: an alias names a folder in its own folder")
    _folder_beside(path, folder.name)
    write_bytes(path, json.dumps({"folder": folder.name}).encode() + b"\n", permissions=PUBLIC_FILE)


def list_aliases(folder: Path) -> dict[str, str]:
    """Return the aliases in a folder, with the names of their folders, or what is wrong with them."""
    aliases = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        if is_alias(path):
            try:
                aliases[path.name] = resolve_alias(path).name
            except (NotFound, InvalidInput) as error:
                aliases[path.name] = str(error)
    return aliases


def _folder_beside(path: Path, name: str) -> Path:
    beside = path.parent.resolve()
    if name in ("", ".", "..") or any(character in name for character in "/\\:\0") or name.endswith(SUFFIX):
        raise InvalidInput(f"{path} may name a folder beside it, not {name!r}")
    folder = beside / name
    if folder.resolve().parent != beside:
        raise InvalidInput(
            f"{path} names {name}, a link that leads elsewhere; an alias names a folder beside it"
        )
    if not folder.is_dir():
        raise NotFound(f"{path} names {name}, but there is no such folder beside it")
    return folder
