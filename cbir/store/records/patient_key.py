"""Key of a collection, `patient.key`, which patients' identifiers are hashed with, and the check of this key.

It is checked by its stored hash, or in old collections by what is known. A wrong key gives patients other keys:
their images would not be found, and erased ones come back.
"""

import errno
import hmac
import shlex
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, select

from cbir.errors import CbirError, CollectionDamaged, raise_when_denied
from cbir.store.base import metadata, schema
from cbir.store.base.damage import DAMAGE, find_copy, restore_advice
from cbir.store.base.schema import COPIES, COPY, DATABASE, SECRET, images
from cbir.store.records.originals import original_path
from cbir.store.records.records import hash_patient
from cbir.store.safety.database_files import require_sound_log

OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}  # says nothing about the file

SECRET_BYTES = 32

KEY_CHECK = "key_check"  # key in `meta`: a hash of the key, so that another one is noticed


def read_secret(folder: Path) -> bytes:
    """Return the key that patients' identifiers are hashed with.

    Raises CollectionDamaged, AccessDenied, or OSError if the process cannot open files at the moment.
    """
    damaged = f"the key file {SECRET} of {folder} is missing or damaged"
    try:
        with raise_when_denied(folder / SECRET):
            secret = bytes.fromhex((folder / SECRET).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in OUT_OF_RESOURCES:
            raise
        raise CollectionDamaged(damaged) from error
    if len(secret) != SECRET_BYTES:
        raise CollectionDamaged(damaged)
    return secret


def hash_key(secret: bytes) -> str:
    """Return the value that tells whether a key is the same, from which the key cannot be computed."""
    return hmac.digest(secret, b"key of this collection", "sha256").hex()


COMPARED = 10  # DICOM files whose patient is hashed again

LISTED = 500  # images that they are searched among

TRUST = "`cbir collection verify --trust-key` accepts it"


def find_key_check(connection: Connection, folder: Path) -> str | None:
    """Return the stored hash of the key, if need be from the last good copy; None in collections of old versions."""
    try:
        return metadata.find_value(connection, KEY_CHECK)
    except (*DAMAGE, CollectionDamaged):
        return None if folder.name in COPIES else _check_of_copy(folder)


def _check_of_copy(folder: Path) -> str | None:
    """Return the hash of the key that the last good copy has stored; None without one that can be read."""
    place = find_copy(folder)
    if place is None:
        return None
    engine = schema.connect(place)
    try:
        require_sound_log(place)
        with engine.connect() as copy:
            return metadata.find_value(copy, KEY_CHECK)
    except (*DAMAGE, CbirError):
        return None
    finally:
        engine.dispose()


def check_key(folder: Path, check: str | None) -> bytes:
    """Return the key of the collection in `folder`, if it has the stored hash `check`, or none is stored.

    Raises CollectionDamaged for a missing, damaged or foreign key; the message has the command that restores it.
    """
    try:
        secret = read_secret(folder)
    except CollectionDamaged as damage:
        raise CollectionDamaged(f"{damage}; {_key_advice(folder, check)}") from damage
    if check is not None and not hmac.compare_digest(check, hash_key(secret)):
        if folder.name not in COPIES and _check_of_copy(folder) == hash_key(secret):
            raise CollectionDamaged(
                f"the database {DATABASE} of {folder} is that of another collection, for {SECRET} and the last good "
                f"copy belong together; {restore_advice(folder)}"
            )
        raise CollectionDamaged(
            f"the key file {SECRET} of {folder} is not the key of this collection; {_key_advice(folder, check)}"
        )
    return secret


def require_key(connection: Connection, folder: Path, trust: bool = False) -> str | None:
    """Check the key of a collection before it is changed, copied or verified.

    Parameters
    ----------
    connection : Connection
    folder : Path
        Folder of the collection.
    trust : bool
        Take the key of an old collection without evidence.

    Returns
    -------
    str or None
        Hash of the key to store, in a collection that has none yet.

    Raises
    ------
    CollectionDamaged
        If it is another key, or one that contradicts what is known of an old collection.
    """
    check = find_key_check(connection, folder)
    secret = check_key(folder, check)
    if check is not None:
        return None
    if not trust:
        _require_evidence(connection, folder, secret)
    return hash_key(secret)


def note_key(engine: Engine, folder: Path, trust: bool = False) -> None:
    """Check the key, and store its hash in an old collection; the caller holds the writer lock. See `require_key`."""
    with engine.connect() as connection:
        new = require_key(connection, folder, trust)
    if new is not None:
        with engine.begin() as connection:
            metadata.set_value(connection, KEY_CHECK, new)


def _require_evidence(connection: Connection, folder: Path, secret: bytes) -> None:
    """Raise CollectionDamaged if the key of an old collection contradicts its images or its last good copy."""
    agrees = _hashes_patients(connection, folder, secret)
    if agrees:
        return
    other = _key_of_copy(folder)
    if other is not None and other != secret:
        copy, file = shlex.quote(str(_key_file_of_copy(folder))), shlex.quote(str(folder / SECRET))
        if _hashes_patients(connection, folder, other):
            raise CollectionDamaged(
                f"the key file {SECRET} of {folder} is not the key of this collection; `cp {copy} {file}` restores it"
            )
        raise CollectionDamaged(
            f"{SECRET} of {folder} and of its last good copy differ: one is damaged. Compare both with a backup; "
            f"`cp {copy} {file}` takes that of the copy, and otherwise {TRUST}"
        )
    if agrees is False:
        raise CollectionDamaged(
            f"the patient keys of the images in {folder} do not come from its key file {SECRET} and their files: "
            f"copy {SECRET} from a backup. If the patients came from a list (--labels) and the key is right, {TRUST}"
        )


def _key_of_copy(folder: Path) -> bytes | None:
    with suppress(CollectionDamaged):
        return read_secret(_key_file_of_copy(folder).parent)
    return None


def _key_file_of_copy(folder: Path) -> Path:
    return (find_copy(folder) or folder / COPY) / SECRET


def _hashes_patients(connection: Connection, folder: Path, secret: bytes) -> bool | None:
    """Return whether the key gives an image the patient key that it has; None if no patient is known."""
    from cbir.images.dicom_facts import read_patient_id  # imports pydicom

    c = images.c
    query = (
        select(c.source, c.source_stamp, c.patient_key)
        .where(c.format == "dicom", c.patient_key.is_not(None))
        .order_by(c.number)
        .limit(LISTED)
    )
    compared = 0
    for row in connection.execute(query).all():
        path = original_path(folder, row.source) or Path(row.source)
        if compared == COMPARED or not _is_unchanged(path, row.source, row.source_stamp):
            continue
        if patient := read_patient_id(path):
            compared += 1
            if hash_patient(secret, patient) == row.patient_key:
                return True
    return False if compared else None


def _is_unchanged(path: Path, source: str, stamp: str) -> bool:
    """Return whether a file is still there, as it was indexed; stored originals are named by their content."""
    try:
        status = path.stat()
    except OSError:
        return False
    return source != str(path) or stamp == f"{status.st_size}-{status.st_mtime_ns}"


def _key_advice(folder: Path, check: str | None) -> str:
    file, other = shlex.quote(str(folder / SECRET)), _key_of_copy(folder)
    if other is not None and (check is None or hash_key(other) == check):
        return f"`cp {shlex.quote(str(_key_file_of_copy(folder)))} {file}` restores it"
    return f"copy it from a backup: `cp BACKUP/{SECRET} {file}`"
