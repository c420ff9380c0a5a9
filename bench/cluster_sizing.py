"""Measure what an image takes in PostgreSQL and in a graph of neighbours, and compute sizes of large collections.

Vectors are random, records like those of a DICOM archive, as in bench/sizing.py, without thumbnails and originals.
Sizes are those of PostgreSQL's tables and indexes after a vacuum, without its log. bench/cluster_cost.py computes the
table of large collections from them, in proportion; nothing of that size was measured.

    python -m bench.cluster_sizing [--images 100000] [--audit-lines 20000]
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from sqlalchemy import text

from bench.cluster_cost import Prices, table
from bench.sizing import BATCH, entry
from cbir import settings
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.index.faiss_graph import BUILD_WIDTH, LINKS
from cbir.store.postgresql.postgresql_address import files_folder
from cbir.store.writing.default_profile import DEFAULT_PROFILE
from service.access.shared_audit import SharedAuditLog
from service.state.database import StateDatabase, open_state
from tests.postgresql_server import PostgresqlServer

DIMENSIONS = 128  # of an index of the default profile
GRAPH_SAMPLE = 20_000  # vectors of the graph that is measured
MACHINE_GIB = 256  # of memory


def table_sizes(collection: Collection) -> dict[str, int]:
    """Bytes of each table with its indexes."""
    engine = collection._engine.engine
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
        query = "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r' " \
            "AND relnamespace = current_schema()::regnamespace"  # fmt: skip
        return {row[0]: int(row[1]) for row in connection.execute(text(query))}


def measure_collection(server: PostgresqlServer, images: int, profile_name: str) -> dict[str, Any]:
    """Store drawn images; bytes per image of each table."""
    profile, rng = profiles.get(profile_name), np.random.default_rng(0)
    dimensions = profile.load_descriptor().dimensions
    started = time.perf_counter()
    with Collection.create(files_folder(server.new_address()), profile) as collection:
        empty = table_sizes(collection)
        with collection.writer() as writer:
            for first in range(0, images, BATCH):
                count = min(BATCH, images - first)
                vectors = rng.standard_normal((count, dimensions), dtype=np.float32)
                writer.add([entry(first + n, vectors[n]) for n in range(count)])
        sizes = table_sizes(collection)
    grown = {name: (size - empty.get(name, 0)) / images for name, size in sizes.items()}
    return {
        "stored_values": dimensions,
        "seconds": time.perf_counter() - started,
        "bytes_per_image": sum(grown.values()),
        "tables": {name: round(size) for name, size in grown.items() if size >= 1},
    }


def measure_audit(server: PostgresqlServer, lines: int, folder: Path) -> dict[str, float]:
    """Append lines of searches with 20 answers; bytes of a line and milliseconds of one."""
    database: StateDatabase = open_state(settings.load(state_database=server.new_schema()))
    log, images, took = SharedAuditLog(database, folder / "audit.key"), [f"{n:032x}" for n in range(21)], []
    for _ in range(lines):
        started = time.perf_counter()
        assert log.write("5f0c2a9b", "203.0.113.9", "search", images, 200)
        took.append(time.perf_counter() - started)
    with database.reading() as connection:
        size = connection.execute(text("SELECT pg_total_relation_size('audit_lines')")).scalar_one()
    return {"bytes_per_line": size / lines, "ms_median": float(np.median(took)) * 1000}


def graph_bytes(vectors: int = GRAPH_SAMPLE) -> float:
    """Bytes per vector of a FAISS HNSW graph in memory and on disk, vectors included."""
    index = faiss.IndexHNSWFlat(DIMENSIONS, LINKS)
    index.hnsw.efConstruction = BUILD_WIDTH
    index.add(np.random.default_rng(0).standard_normal((vectors, DIMENSIONS), dtype=np.float32))
    return len(faiss.serialize_index(index)) / vectors


def main() -> None:
    """Print the measurements, a table of large collections, and one JSON line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=100_000)
    parser.add_argument("--audit-lines", type=int, default=20_000)
    parser.add_argument("--profile", default=DEFAULT_PROFILE, help="descriptor or encoder")
    options = parser.parse_args()
    server = PostgresqlServer()
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_STATE_HOME"] = folder
            audit = measure_audit(server, options.audit_lines, Path(folder))
            print(
                f"audit line: {audit['bytes_per_line']:.0f} bytes, {audit['ms_median']:.2f} ms (without fsync)"
            )
            collection = measure_collection(server, options.images, options.profile)
    finally:
        server.stop()
    graph = graph_bytes()
    print(f"{options.images} images: {collection['bytes_per_image']:.0f} bytes each in PostgreSQL")
    print(f"graph: {graph:.0f} bytes per vector")
    print(table(MACHINE_GIB, Prices(), collection["bytes_per_image"]))
    found = {"collection": collection, "audit": audit, "graph_bytes": graph}
    print(
        json.dumps({"bench": "cluster_sizing", "profile": options.profile, "images": options.images} | found)
    )


if __name__ == "__main__":
    main()
