"""Carry the quarantine of a collection over to one of another profile."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, insert, select

from cbir.store.base.checksums import COLUMN, row_checksum
from cbir.store.records.image_rows import deleted_content, ids_by_content
from cbir.store.safety.change_log import ensure_quarantine
from cbir.store.safety.quarantine_table import delete_quarantined, has_quarantine, quarantine
from cbir.store.upkeep.carried_erasures import Erasures

CopyOriginals = Callable[[Connection, Connection, set[str]], None]


def missing_in_quarantine(
    source: Connection, target: Connection, erasures: Erasures
) -> list[tuple[str, str]]:
    """Return ids and sources of quarantined images that the target lacks, in the order of their sources.

    Parameters
    ----------
    source, target : Connection
    erasures : Erasures
        What is erased in the target: its images are left out.
    """
    if not has_quarantine(source):
        return []
    c = quarantine.c
    rows = source.execute(select(c.image_id, c.source, c.patient_key).order_by(c.source)).all()
    ids = [row.image_id for row in rows]
    known = {*_ids(target), *ids_by_content(target, ids), *erasures.covered(ids)}
    return [
        (row.image_id, row.source)
        for row in rows
        if row.image_id not in known and row.patient_key not in erasures.keys
    ]


def quarantine_described(
    source: Connection,
    target: Connection,
    described: Mapping[str, NDArray[np.float32]],
    copy_originals: CopyOriginals,
) -> int:
    """Quarantine images of the source in the target; return how many are still quarantined in the source.

    Parameters
    ----------
    source, target : Connection
        Target in a transaction.
    described : mapping of str to (d,) float32
        New raw vectors by image id.
    copy_originals : callable
        Copies the originals of sources.
    """
    if not described or not has_quarantine(source):
        return 0
    query = select(quarantine).where(quarantine.c.image_id.in_(list(described)))
    rows = [dict(row._mapping) for row in source.execute(query)]
    for row in rows:
        row["vector"] = np.asarray(described[row["image_id"]], "<f4").tobytes()
        row[COLUMN] = row_checksum(row["record"].encode(), row["vector"], bytes(row["picture"]))
    if rows:
        ensure_quarantine(target)
        target.execute(insert(quarantine), rows)
        copy_originals(source, target, {row["source"] for row in rows})
    return len(rows)


def drop_decided(source: Connection, target: Connection, folder: Path) -> set[str]:
    """Delete images from the target's quarantine that were released, refused or erased in the source.

    Parameters
    ----------
    source, target : Connection
        Target in a transaction.
    folder : Path
        Folder of the source, which holds its key.

    Returns
    -------
    set of str
        Their sources.
    """
    quarantined = _ids(target)
    decided = [*ids_by_content(source, quarantined), *deleted_content(source, quarantined, folder)]
    if not decided:
        return set()
    c = quarantine.c
    sources = set(target.scalars(select(c.source).where(c.image_id.in_(decided))))
    delete_quarantined(target, c.image_id, decided)
    return sources


def _ids(connection: Connection) -> set[str]:
    return set(connection.scalars(select(quarantine.c.image_id))) if has_quarantine(connection) else set()
