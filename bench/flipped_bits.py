"""Flip one bit of one file at a time, and ask whether `verify` sees it or nothing has changed; see damage.py.

The files are those of a collection with all that can lie beside its database, of its last good copy, of a backup
with a log, and of a state folder; and SQLite's logs of a collection and a state whose writer was killed. `restore` is
tried with each damaged backup too: it may succeed only if nothing has changed.
"""

import json
import os
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from sizing import entry
from state_contents import NOW, make_state, state_settings

from cbir.errors import CbirError
from cbir.store import Collection, DatabaseError
from cbir.store.base import profile as profiles
from cbir.store.base import stored_models
from cbir.store.records import originals
from cbir.store.records.add_transaction import Added, AddTransaction, StoredReply
from cbir.store.records.patient_key import read_secret
from cbir.store.records.records import Record
from cbir.store.snapshot.derived_files import (
    CellProjection,
    StoredMap,
    read_map,
    write_audit_file,
    write_map,
    write_part,
    write_projection,
)
from cbir.store.upkeep.backup import back_up_collection
from cbir.store.upkeep.backup_log import append_log
from cbir.store.upkeep.restore import restore_backup
from cbir.store.upkeep.verify import verify_collection
from cbir.store.views import snapshot_build
from service.access.audit import AuditFiles
from service.server.verify_state import verify_state
from service.state import access_rows
from service.state.database import open_state

IMAGES = 60
UNREAD = (  # files that are locked, or are only there; no one reads their content
    "writer.lock",
    "tokens.json.lock",
    "lock",
    "collection.sqlite-shm",  # SQLite makes it again when the first process opens the database
    "state.sqlite-shm",
)
FOLDERS = ("collection", "backup", "state", "killed", "killed-state")


def make_files(folder: Path) -> None:
    """Make `FOLDERS` in `folder`."""
    make_state(folder / "state")
    vectors = np.random.default_rng(0).standard_normal((IMAGES + 10, 168), dtype=np.float32)
    place = folder / "collection"
    with Collection.create(place, profiles.get("huang2012")) as collection:
        with collection.writer() as writer:
            source = originals.store_original(place, b"an uploaded file")
            record, _ = entry(IMAGES, vectors[IMAGES])
            uploaded = Record(**{**record.__dict__, "source": source})

            def note(transaction: AddTransaction, added: Added) -> None:
                transaction.note_originals([source])
                transaction.store_thumbnails(dict.fromkeys(added.numbers.values(), b"jpeg" * 100))
                transaction.store_reply("key", StoredReply("request", 201, "{}"))

            ids = writer.add([entry(n, vectors[n]) for n in range(IMAGES)]).ids
            writer.add([(uploaded, vectors[IMAGES])], in_transaction=note)
            writer.set_labels(ids[0], {"reviewed": "yes"})
            with patch.object(snapshot_build, "CODES_FROM", IMAGES):
                writer.compact()
        back_up_collection(collection, folder / "backup", log=True)
        with collection.writer() as writer:
            writer.add([entry(n, vectors[n]) for n in range(IMAGES + 1, IMAGES + 5)])
            append_log(collection, folder / "backup")
            writer.delete(ids[5:8])
            writer.set_labels(ids[1], {"reviewed": "no"})
    _make_others(place)
    for database in folder.rglob("*.sqlite"):
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for write, name in ((_add_and_die, "killed"), (_save_and_die, "killed-state")):
        shutil.copytree(folder / name.replace("killed-", "").replace("killed", "collection"), folder / name)
        process = get_context("fork").Process(target=write, args=(folder / name,))
        process.start()
        process.join()


def _add_and_die(folder: Path) -> None:
    """Add images, and end with what SQLite's log holds then, as a killed process does."""
    vectors = np.random.default_rng(1).standard_normal((3, 168), dtype=np.float32)
    with Collection(folder) as collection, collection.writer() as writer:
        for number, vector in enumerate(vectors):
            writer.add([entry(IMAGES + 20 + number, vector)])
        os._exit(0)


def _save_and_die(folder: Path) -> None:
    database = open_state(state_settings(folder))
    for number in range(3):
        access_rows.save_use(database, f"{number:08x}", NOW)
    os._exit(0)


def _make_others(folder: Path) -> None:
    numbers = np.arange(1, IMAGES, dtype=np.int64)
    write_map(folder, StoredMap(numbers, np.zeros((len(numbers), 2), np.float32), "of a test"))
    write_audit_file(folder, json.dumps({"findings": ["duplicates"], "images": IMAGES}))
    projection = CellProjection(np.zeros(4, np.float32), np.ones((4, 2), np.float32), 2)
    write_projection(folder, projection)
    records = np.zeros(8, projection.record)
    records["number"] = np.arange(8)
    write_part(folder, records)
    (folder / stored_models.SEVERITY_FOLDER).mkdir()
    (folder / stored_models.SEVERITY_FOLDER / stored_models.SEVERITY_CARD).write_text(
        '{"where": ["modality=CT"]}'
    )
    stored_models.note_ranker(folder)


def meaning(path: Path) -> Any:
    """Return what programs read from a file: of a database its rows, of others their values."""
    if path.suffix == ".sqlite":
        return _rows(path)
    if path.name.endswith("-wal"):
        return _rows_with_log(path)
    if path.name == "patient.key":
        return read_secret(path.parent)
    if path.name == "map.npz":
        stored = read_map(path.parent)
        return stored and (stored.numbers.tolist(), stored.positions.tolist(), stored.transform)
    if path.name == "audit.jsonl.head":
        return AuditFiles(path.with_suffix("")).head()  # the size beside it only spares a look at the log
    return path.read_bytes()


def _rows_with_log(path: Path) -> Any:
    """Return the rows of a database with those of its log, which is left as it is."""
    with TemporaryDirectory() as folder:
        copies = [
            Path(shutil.copy(each, folder)) for each in (path, path.with_name(path.name[: -len("-wal")]))
        ]
        with closing(sqlite3.connect(copies[1])) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return _rows(copies[1])


def _rows(path: Path) -> Any:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?immutable=1", uri=True)) as database:
        database.text_factory = lambda content: content.decode(errors="surrogateescape")  # bytes are blobs
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        tables = {name: database.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}
        definitions = database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
        return tables, definitions


def changes_nothing(sound: Path, damaged: Path) -> bool:
    """Return whether a damaged file means what the sound one means."""
    try:
        return damaged.name in UNREAD or bool(meaning(sound) == meaning(damaged))
    except Exception:  # what cannot be read is something else
        return False


def is_seen(folder: Path) -> bool:
    """Return whether `verify` of a collection, of a backup or of a state reports a problem."""
    try:
        if folder.name in ("state", "killed-state"):
            return bool(verify_state(state_settings(folder)))
        with Collection(folder) as opened:
            return bool(verify_collection(opened))
    except (CbirError, DatabaseError):
        return True


def is_refused(backup: Path, folder: Path) -> bool:
    """Return whether a backup is not restored."""
    try:
        restore_backup(backup, folder)
    except (CbirError, DatabaseError):
        return True
    return False


def flip_campaign(scratch: Path, count: int, seed: int) -> dict[str, Any]:
    """Flip `count` bits, the files in turn; return counts by kind of file, and the silent ones.

    Parameters
    ----------
    scratch : Path
        Empty folder.
    count : int
        Number of bits.
    seed : int
        Of the choice of bits.
    """
    sound = scratch / "sound"
    sound.mkdir()
    make_files(sound)
    for name in FOLDERS:
        shutil.copytree(sound / name, scratch / name)
        assert not is_seen(scratch / name), name  # which ends SQLite's log
    paths = [path for path in sound.rglob("*") if path.is_file()]
    logs = [
        path for path in paths if ".sqlite-" in path.name
    ]  # the other files of the killed are those of the first
    names = sorted(
        str(path.relative_to(sound))
        for path in paths
        if "killed" not in str(path.relative_to(sound)) or path in logs
    )
    outcomes: Counter[tuple[str, str]] = Counter()
    silent: list[str] = []
    for number in range(count):
        choose = random.Random(seed * 1_000_000 + number)
        name = names[number % len(names)]
        copy = scratch / "copy"
        shutil.copytree(sound, copy)
        content = bytearray((copy / name).read_bytes())
        place, bit = choose.randrange(len(content)) if content else 0, choose.randrange(8)
        if content:
            content[place] ^= 1 << bit
        (copy / name).write_bytes(content)
        same = not content or changes_nothing(sound / name, copy / name)
        seen = is_seen(copy / name.split("/")[0])
        if name.startswith("backup/") and not same:
            seen = seen and is_refused(copy / "backup", scratch / "restored")
            shutil.rmtree(scratch / "restored", ignore_errors=True)
        outcome = "seen" if seen else "changes nothing" if same else "silent"
        if outcome == "silent":
            silent.append(f"{number} {name}: byte {place}, bit {bit}")
        outcomes[name, outcome] += 1
        shutil.rmtree(copy)
    return {"flips": count, "outcomes": outcomes, "silent": silent}
