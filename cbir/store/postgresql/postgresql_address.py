"""Addresses of collections in PostgreSQL, and the folder of files that this machine keeps of each.

The folder has `database.json`, with the address (never the password) and the collection's id.
"""

import hashlib
import json
import os
from pathlib import Path

from pydantic import BaseModel, ValidationError
from sqlalchemy.engine import URL, make_url

from cbir import settings
from cbir.errors import CollectionDamaged, DatabaseUnavailable, InvalidInput
from cbir.store.base.collection_folder import file_mode
from cbir.system.addresses import collection_name, validate_collection_address
from cbir.system.files import read_password, write_bytes
from cbir.system.ownership import make_folder

NAME = "database.json"
PASSWORDS = "CBIR_COLLECTION_PASSWORDS"  # JSON, by user and hash of the server; child processes inherit it


class DatabaseFile(BaseModel):
    """Content of `database.json`. collection_id: None until the collection has been created or opened."""

    address: str
    collection_id: str | None = None


def files_folder(address: str) -> Path:
    """Return the files folder of the collection with this address, and make it if it is missing.

    It lies in the setting `collection_files`. A password in the address is kept in the environment of this process.
    Raises InvalidInput for what is not an address; the message names no password.
    """
    try:
        url = make_url(validate_collection_address(address))
    except ValueError as error:
        raise InvalidInput(f"the address of the collection: {error}") from None
    if url.password:
        passwords = json.loads(os.environ.get(PASSWORDS, "{}"))
        os.environ[PASSWORDS] = json.dumps(passwords | {_login(url): str(url.password)})
        url = URL.create(url.drivername, url.username, None, url.host, url.port, url.database, url.query)
    loaded = settings.load()
    root = loaded.collection_files or loaded.state_folder / "collections"
    folder = root / server_hash(url) / collection_name(address)
    make_folder(folder, parents=True, exist_ok=True)
    text = url.render_as_string(hide_password=False)
    description = read_database_file(folder)
    if description is None or description.address != text:
        write_database_file(
            folder,
            DatabaseFile(address=text, collection_id=description.collection_id if description else None),
        )
    return folder


def database_address(folder: Path) -> str | None:
    """Return the address, without password, of the collection with these files; None for a collection in SQLite."""
    description = read_database_file(folder)
    return description.address if description else None


def is_in_postgresql(folder: Path) -> bool:
    """Return whether `folder` is the files folder of a collection in PostgreSQL."""
    return (folder / NAME).is_file()


def read_database_file(folder: Path) -> DatabaseFile | None:
    """Return the content of `database.json`; None without the file. Raises CollectionDamaged."""
    try:
        return DatabaseFile.model_validate_json((folder / NAME).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise CollectionDamaged(
            f"{folder / NAME} cannot be read; delete it, and name the collection by its address again"
        ) from error


def write_database_file(folder: Path, content: DatabaseFile) -> None:
    """Write `database.json`."""
    text = content.model_dump_json(indent=2) + "\n"
    suffix = f".{os.getpid()}.partial"  # processes may do this at the same time
    write_bytes(folder / NAME, text.encode(), permissions=file_mode(folder), suffix=suffix)


def server_hash(url: URL) -> str:
    """Return a short name of server and database, the same for all collections and users there."""
    host = url.host or url.query.get("host", "")
    return hashlib.blake2b(repr((host, url.port, url.database)).encode(), digest_size=6).hexdigest()


def _login(url: URL) -> str:
    return f"{url.username or ''}@{server_hash(url)}"


def find_password(url: URL) -> str | None:
    """Return the password: of the address, or of `collection_password_file`; None leaves it to libpq."""
    password = json.loads(os.environ.get(PASSWORDS, "{}")).get(_login(url))
    file = None if password else settings.load().collection_password_file
    if file is None:
        return password and str(password)
    return read_password(file, "collection_password_file", DatabaseUnavailable)
