"""Create a collection in a folder or in PostgreSQL, and check that a folder holds one, or belongs to its database."""

import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, text

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.store.base import metadata, schema, stored_models
from cbir.store.base.collection_folder import create_private_file, file_mode, writer_lock
from cbir.store.base.damage import raise_when_full, start_totals
from cbir.store.base.profile import Profile
from cbir.store.base.schema import SECRET
from cbir.store.postgresql import postgresql_schema
from cbir.store.postgresql.postgresql_address import DatabaseFile, read_database_file, write_database_file
from cbir.store.postgresql.postgresql_database import PostgresqlDatabase
from cbir.store.records.patient_key import KEY_CHECK, SECRET_BYTES, hash_key, read_secret
from cbir.store.safety.database_files import UNFINISHED, describe_loss, has_database
from cbir.system.addresses import collection_name
from cbir.system.files import OWNER_FILE, OWNER_FOLDER, write_bytes
from cbir.system.ownership import make_folder

OWN_NAMES = {  # beside the database, with those of the service and of file systems
    SECRET, UNFINISHED, "writer.lock", "device.lock", "snapshots", "last-good", "last-good.previous", "model",
    "severity", "originals", "regions", "vector_index", "snapshot.json", "map.npz", "audit.json",
    "folder-id.json", "unfinished_erasure.json", "lost+found",
}  # fmt: skip


def collection_exists(folder: Path) -> bool:
    """Return whether `folder` holds a collection, also one that has lost its database; see `describe_loss`."""
    # Twice: another process may finish its creation in between.
    return has_database(folder) or describe_loss(folder) is not None or has_database(folder)


def create_files(folder: Path, profile: Profile, secret: bytes | None = None) -> None:
    """Create an empty collection.

    Parameters
    ----------
    folder : Path
        Its folder.
    profile : Profile
        Its profile.
    secret : bytes, optional
        Key that patients' identifiers are hashed with; by default that of an interrupted creation, or a random one.

    Raises
    ------
    InvalidInput
        If the folder holds a collection already.
    CollectionDamaged
        If it holds what is left of one.
    """
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is a file; a collection needs a folder")
    if others := _other_files(folder):
        raise InvalidInput(
            f"{folder} holds other files than a collection, such as {others[0]}; name a new folder, or an empty one"
        )
    with raise_when_full(folder):
        make_folder(folder, 0o777, parents=True, exist_ok=True)
        with suppress(PermissionError):  # a mounted volume may be someone else's; opening it warns
            folder.chmod(OWNER_FOLDER)
        with writer_lock(folder):
            if has_database(folder):
                raise InvalidInput(f"{folder} already holds a collection")
            if loss := describe_loss(folder):
                raise CollectionDamaged(loss)
            write_bytes(folder / UNFINISHED, b"", permissions=OWNER_FILE)
            make_folder(folder / "snapshots", exist_ok=True)
            stored_models.store_descriptor_model(folder, profile)
            if secret is not None or not (folder / SECRET).exists():
                new_secret = secret or secrets.token_bytes(SECRET_BYTES)
                write_bytes(folder / SECRET, new_secret.hex().encode(), permissions=OWNER_FILE)
            _create_database(folder, profile)
            (folder / UNFINISHED).unlink()


def _other_files(folder: Path) -> list[str]:
    """Return the names of files in a folder that are not of an interrupted creation or an earlier collection."""
    if not folder.is_dir():
        return []
    return sorted(
        entry.name
        for entry in folder.iterdir()
        if not (
            entry.name.startswith((".", schema.DATABASE)) or entry.name.partition(".partial")[0] in OWN_NAMES
        )
    )


def _create_database(folder: Path, profile: Profile) -> None:
    create_private_file(folder / schema.DATABASE)
    engine = schema.connect(folder)
    values = {
        "format": str(schema.FORMAT),
        "generation": "0",
        "profile": profile.model_dump_json(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        KEY_CHECK: hash_key(read_secret(folder)),
    }
    with engine.begin() as connection:
        schema.tables.create_all(connection)
        start_totals(connection)
        for key, value in values.items():
            metadata.set_value(connection, key, value)
    engine.dispose()


COLLECTION_ID = "collection_id"  # key in `meta`


def schema_holds_collection(folder: Path) -> bool:
    """Return whether the schema of a files folder has, or had, a collection. Raises DatabaseUnavailable."""
    return _database_file(folder).collection_id is not None or _has_tables(folder)


def require_tables(folder: Path) -> None:
    """Raise CollectionDamaged if the tables of the collection with these files are gone."""
    stored = _database_file(folder)
    if stored.collection_id is not None and not _has_tables(folder):
        raise CollectionDamaged(_describe_lost_tables(folder, stored.address))


def _describe_lost_tables(folder: Path, address: str) -> str:
    return (
        f"the tables of {address} are gone, but {folder} has files of its collection: nothing was created or "
        f"deleted; restore the database by `pg_restore` (docs/postgresql.md). "
        f"For a new collection there, move {folder} away"
    )


def _has_tables(folder: Path) -> bool:
    database = PostgresqlDatabase(_database_file(folder).address)
    try:
        with database.connect_once() as connection:
            return postgresql_schema.has_tables(connection, database.schema)
    finally:
        database.dispose()


def create_collection(folder: Path, profile: Profile, secret: bytes | None = None) -> None:
    """Create an empty collection in the schema of a files folder, in one transaction.

    Parameters
    ----------
    folder : Path
        The files folder.
    profile : Profile
        Its profile.
    secret : bytes, optional
        Key that patients' identifiers are hashed with; by default the one in the folder, or a random one.

    Raises
    ------
    InvalidInput
        If there is a collection already.
    """
    with creating(folder, secret) as connection:
        stored_models.store_descriptor_model(folder, profile)
        values = {
            "format": str(schema.FORMAT),
            "generation": "0",
            "profile": profile.model_dump_json(),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        for key, value in values.items():
            metadata.set_value(connection, key, value)


@contextmanager
def creating(folder: Path, secret: bytes | None = None) -> Iterator[Connection]:
    """Yield a transaction that creates the tables of a collection, and its key.

    Parameters
    ----------
    folder : Path
        The files folder.
    secret : bytes, optional
        Key that patients' identifiers are hashed with; by default the one in the folder, or a random one.

    Raises
    ------
    InvalidInput
        If the schema holds a collection, or other tables, or the folder another key.
    CollectionDamaged
        If the folder has the files of a collection whose tables are gone.
    """
    require_tables(folder)
    key_file = folder / schema.SECRET
    if secret is not None and key_file.exists() and read_secret(folder) != secret:
        raise InvalidInput(f"{folder} has the key of another collection; move the folder away")
    address = _database_file(folder).address
    database = PostgresqlDatabase(address)
    collection_id = secrets.token_hex(16)
    try:
        with database.begin() as connection:
            _require_no_tables(connection, address)
            # A copy reads its files meanwhile, and nobody else waits for a collection that does not exist yet.
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
            postgresql_schema.create_tables(connection, database.schema)
            if not key_file.exists():
                key = secret or secrets.token_bytes(SECRET_BYTES)
                write_bytes(key_file, key.hex().encode(), permissions=file_mode(folder))
            make_folder(folder / "snapshots", exist_ok=True)
            metadata.set_value(connection, COLLECTION_ID, collection_id)
            metadata.set_value(connection, KEY_CHECK, hash_key(read_secret(folder)))
            yield connection
    finally:
        database.dispose()
    write_database_file(folder, DatabaseFile(address=address, collection_id=collection_id))


def _require_no_tables(connection: Connection, address: str) -> None:
    if postgresql_schema.has_tables(connection, collection_name(address)):
        raise InvalidInput(f"{address} already holds a collection")
    query = "SELECT tablename FROM pg_tables WHERE schemaname = :schema LIMIT 1"
    if connection.scalar(text(query), {"schema": collection_name(address)}) is not None:
        raise InvalidInput(f"the schema of {address} holds other tables; name another with ?collection=NAME")


def open_schema(database: PostgresqlDatabase, folder: Path) -> None:
    """Bring the tables up to date, and check that the files are those of the collection; see the functions."""
    postgresql_schema.run_migrations(database)
    with database.connect() as connection:
        require_same_collection(connection, folder)


def require_same_collection(connection: Connection, folder: Path) -> None:
    """Check that a files folder and its key belong to the collection of a connection; the first time, note its id.

    Raises InvalidInput with what to do otherwise.
    """
    stored = _database_file(folder)
    collection_id = metadata.required_value(connection, COLLECTION_ID)
    if stored.collection_id not in (None, collection_id):
        raise InvalidInput(
            f"{folder} has the files of another collection than {stored.address} now has; move the folder away, and "
            f"put the collection's key into a new one as {schema.SECRET}"
        )
    copy = f"copy {schema.SECRET} from the files folder of a machine that has the collection to {folder}"
    if not (folder / schema.SECRET).exists():
        raise InvalidInput(f"the key of {stored.address} is not on this machine: {copy}")
    check = metadata.required_value(connection, KEY_CHECK)
    if not hmac.compare_digest(check, hash_key(read_secret(folder))):
        raise InvalidInput(f"{folder / schema.SECRET} is not the key of {stored.address}: {copy}")
    if stored.collection_id is None:
        write_database_file(folder, stored.model_copy(update={"collection_id": collection_id}))
        make_folder(folder / "snapshots", exist_ok=True)


def _database_file(folder: Path) -> DatabaseFile:
    stored = read_database_file(folder)
    if stored is None:
        raise CollectionDamaged(f"{folder} has no file database.json; name the collection by its address")
    return stored
