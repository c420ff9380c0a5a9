"""Create a collection in PostgreSQL, and check that a files folder belongs to it."""

import hmac
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Connection, text

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.store.base import descriptor_model, metadata, schema
from cbir.store.base.permissions import file_mode
from cbir.store.base.profile import Profile
from cbir.store.base.secret_key import KEY_CHECK, SECRET_BYTES, hash_key, read_secret
from cbir.store.postgresql import postgresql_migration
from cbir.store.postgresql.postgresql_address import DatabaseFile, read_database_file, write_database_file
from cbir.store.postgresql.postgresql_database import PostgresqlDatabase
from cbir.system.addresses import collection_name
from cbir.system.files import OWNER_FOLDER, write_bytes

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
            return postgresql_migration.has_tables(connection, database.schema)
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
        descriptor_model.store_descriptor_model(folder, profile)
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
            postgresql_migration.create_tables(connection, database.schema)
            if not key_file.exists():
                key = secret or secrets.token_bytes(SECRET_BYTES)
                write_bytes(key_file, key.hex().encode(), permissions=file_mode(folder))
            (folder / "snapshots").mkdir(mode=OWNER_FOLDER, exist_ok=True)
            metadata.set_value(connection, COLLECTION_ID, collection_id)
            metadata.set_value(connection, KEY_CHECK, hash_key(read_secret(folder)))
            yield connection
    finally:
        database.dispose()
    write_database_file(folder, DatabaseFile(address=address, collection_id=collection_id))


def _require_no_tables(connection: Connection, address: str) -> None:
    if postgresql_migration.has_tables(connection, collection_name(address)):
        raise InvalidInput(f"{address} already holds a collection")
    query = "SELECT tablename FROM pg_tables WHERE schemaname = :schema LIMIT 1"
    if connection.scalar(text(query), {"schema": collection_name(address)}) is not None:
        raise InvalidInput(f"the schema of {address} holds other tables; name another with ?collection=NAME")


def open_schema(database: PostgresqlDatabase, folder: Path) -> None:
    """Bring the tables up to date, and check that the files are those of the collection; see the functions."""
    postgresql_migration.run_migrations(database)
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
        (folder / "snapshots").mkdir(mode=OWNER_FOLDER, exist_ok=True)


def _database_file(folder: Path) -> DatabaseFile:
    stored = read_database_file(folder)
    if stored is None:
        raise CollectionDamaged(f"{folder} has no file database.json; name the collection by its address")
    return stored
