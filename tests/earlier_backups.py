"""Backups as versions before manifests made them."""

from pathlib import Path

from cbir.store import Collection
from cbir.store.base import collection_folder
from cbir.store.safety.change_log import MANIFEST


def forget_manifest(backup: Path) -> None:
    """Remove the manifest of a backup, and the mark that there was one."""
    with Collection(backup) as opened, opened._engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM meta WHERE key = ?", (MANIFEST,))
    (backup / collection_folder.MANIFEST_NAME).unlink()
