"""Create the files of a collection, and check that a folder holds one that this program can read."""

import secrets
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from cbir.errors import CollectionDamaged, InvalidInput
from cbir.store.base import descriptor_model, metadata, schema
from cbir.store.base.disk_full import raise_when_full
from cbir.store.base.permissions import create_private_file
from cbir.store.base.profile import Profile
from cbir.store.base.schema import SECRET
from cbir.store.base.secret_key import KEY_CHECK, SECRET_BYTES, hash_key, read_secret
from cbir.store.safety.lost_database import UNFINISHED, describe_loss, has_database
from cbir.store.safety.row_totals import start_totals
from cbir.store.safety.writer_lock import writer_lock
from cbir.system.files import OWNER_FILE, OWNER_FOLDER, write_bytes

OWN_NAMES = {  # beside the database, with those of the service and of file systems
    SECRET, UNFINISHED, "writer.lock", "device.lock", "snapshots", "last-good", "last-good.previous", "model",
    "severity", "originals", "regions", "vector_index", "snapshot.json", "map.npz", "audit.json",
    "folder-id.json", "lost+found",
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
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(PermissionError):  # a mounted volume may be someone else's; opening it warns
            folder.chmod(OWNER_FOLDER)
        with writer_lock(folder):
            if has_database(folder):
                raise InvalidInput(f"{folder} already holds a collection")
            if loss := describe_loss(folder):
                raise CollectionDamaged(loss)
            write_bytes(folder / UNFINISHED, b"", permissions=OWNER_FILE)
            (folder / "snapshots").mkdir(mode=OWNER_FOLDER, exist_ok=True)
            descriptor_model.store_descriptor_model(folder, profile)
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
