"""Writes a dump of a small collection in PostgreSQL, which tests of later versions restore and open.

python -m tests.cbir.store.make_revision tests/cbir/store/revision-NNNN
"""

import subprocess
import sys
from pathlib import Path

from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.postgresql.postgresql_address import files_folder
from tests.cbir.store.make_format import fill
from tests.postgresql_server import USER, PostgresqlServer

SCHEMA = "stored"


def make(target: Path) -> None:
    """Write collection.sql, patient.key and expected.csv into a new folder."""
    target.mkdir()
    server = PostgresqlServer()
    try:
        folder = files_folder(f"{server.url}&collection={SCHEMA}")
        with Collection.create(folder, profiles.get("tamura")) as collection:
            fill(collection, target / "expected.csv")
        (target / "patient.key").write_bytes((folder / "patient.key").read_bytes())
        dumped = [server.programs / "pg_dump", "--host", server.folder, "--username", USER]
        options = ["--schema", SCHEMA, "--no-owner", "--inserts", USER]
        text = subprocess.run(
            [*dumped, *options], check=True, capture_output=True, text=True, timeout=400
        ).stdout
        # What psql alone understands changes from dump to dump.
        lines = [line for line in text.splitlines() if not line.startswith("\\")]
        (target / "collection.sql").write_text("\n".join(lines) + "\n")
    finally:
        server.stop()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
