"""The engines of `bench/scale.py`: each fills a vector index, and says what memory and disk it takes."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import psutil
from sqlalchemy import create_engine, text

from cbir.gallery.vector_blocks import Floats
from cbir.store.base import schema
from cbir.store.index import faiss_graph, milvus_index, pgvector_index
from cbir.store.index.faiss_index import HNSW, FaissIndex, inverted_lists
from cbir.store.index.milvus_collection import MilvusConnection
from cbir.store.index.milvus_index import MilvusIndex
from cbir.store.index.pgvector_index import PgvectorIndex
from cbir.store.index.port import IndexedImage, IndexPosition, IndexScope, Numbers, VectorIndex
from cbir.store.postgresql.postgresql_schema import number_function
from cbir.store.records.filter_conditions import Condition
from tests.milvus_server import MilvusServer
from tests.postgresql_server import PostgresqlServer

EDITION = "cbir_bench_1"
RARE = IndexScope((Condition("rare", "=", "yes"),))
MEMORY = {"shared_buffers": "2GB", "maintenance_work_mem": "2GB"}  # of PostgreSQL: all of the graph
PUT = 4096  # images given to an index at a time


class Engine(Protocol):
    """One engine with an index. links, build_width, width: of its graphs."""

    index: Any

    def configure(self, links: int | None, build_width: int | None) -> None:
        """Set parameters of building; None: those of the product."""

    def widen(self, width: int) -> None:
        """Set how much a search reads."""

    def load(self, vectors: Floats, rare: Numbers) -> None:
        """Store vectors (n, d) with the numbers 1 to n."""

    def finish(self) -> None:
        """Make them searchable."""

    def memory(self) -> int:
        """Return resident bytes: of the servers' processes, or of this process."""

    def disk(self) -> int:
        """Return bytes on disk."""

    def close(self) -> None:
        """End servers and remove files."""


def put_all(index: VectorIndex, vectors: Floats, rare: Numbers) -> None:
    """Give all vectors to an index, in the batches that a fill has."""
    chosen = set(rare.tolist())
    for start in range(0, len(vectors), PUT):
        part = vectors[start : start + PUT]
        images = [
            IndexedImage(number, f"{number:032x}", labels={"rare": "yes"} if number in chosen else {})
            for number in range(start + 1, start + 1 + len(part))
        ]
        index.put(images, part)
    index.finish()
    index.set_position(IndexPosition(1, len(vectors), 1))


class Hnsw:
    """The graph of FAISS in this process."""

    kind = HNSW

    def __init__(self, dimensions: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="cbir-scale-"))
        self._rare = np.empty(0, np.int64)
        self._before = psutil.Process().memory_info().rss
        self._dimensions = dimensions

    def configure(self, links: int | None, build_width: int | None) -> None:
        faiss_graph.LINKS, faiss_graph.BUILD_WIDTH = (
            links or faiss_graph.LINKS,
            build_width or faiss_graph.BUILD_WIDTH,
        )
        self.index = FaissIndex(self._folder, EDITION, self._dimensions, lambda _: self._rare, self.kind)

    def widen(self, width: int) -> None:
        faiss_graph.SEARCH_WIDTH = width

    def load(self, vectors: Floats, rare: Numbers) -> None:
        self._rare = rare
        put_all(self.index, vectors, rare)

    def finish(self) -> None:
        pass

    def memory(self) -> int:
        return psutil.Process().memory_info().rss - self._before

    def disk(self) -> int:
        return folder_size(self._folder)

    def close(self) -> None:
        self.index.drop()
        shutil.rmtree(self._folder)


class Ivf(Hnsw):
    """The inverted lists of FAISS in this process."""

    kind = inverted_lists()

    def widen(self, width: int) -> None:
        content: Any = self.index._content
        content._probes = width


class Pgvector:
    """PostgreSQL with pgvector, its server as the tests start it but with more memory."""

    def __init__(self, dimensions: int) -> None:
        self._server, self._dimensions = PostgresqlServer(**MEMORY), dimensions
        self._engine = create_engine(self._server.url, pool_size=40)
        with self._engine.begin() as connection:
            connection.execute(text("CREATE EXTENSION vector"))
            connection.exec_driver_sql(number_function().replace("%", "%%"))
            schema.tables.create_all(connection)

    def configure(self, links: int | None, build_width: int | None) -> None:
        pgvector_index.LINKS = links or pgvector_index.LINKS
        pgvector_index.BUILD_WIDTH = build_width or pgvector_index.BUILD_WIDTH
        self.index = PgvectorIndex(self._engine, EDITION, self._dimensions)
        self._finish: Callable[[], None] = self.index.finish
        self.index.finish = lambda: None  # type: ignore[method-assign]

    def widen(self, width: int) -> None:
        pgvector_index.SEARCH_WIDTH = width

    def load(self, vectors: Floats, rare: Numbers) -> None:
        with self._engine.begin() as connection:
            connection.exec_driver_sql(
                "INSERT INTO images (number, image_id, content_hash, source, source_stamp, format, width, height, "
                "study, series, instance, burned_in) SELECT n, n, lpad(to_hex(n), 32, '0'), '', '', 'png', 1, 1, '', "
                f"'', '', 0 FROM generate_series(1, {len(vectors)}) n"
            )
            connection.execute(
                text("INSERT INTO labels (key, value, number) SELECT 'rare', 'yes', unnest(:rare)"),
                {"rare": rare.tolist()},
            )
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("ANALYZE"))
        put_all(self.index, vectors, rare)

    def finish(self) -> None:
        self._finish()

    def memory(self) -> int:
        server = psutil.Process(self._server._process.pid)  # type: ignore[union-attr]
        return sum(part.memory_full_info().pss for part in [server, *server.children()])

    def disk(self) -> int:
        with self._engine.connect() as connection:
            return int(connection.scalar(text(f"SELECT pg_total_relation_size('{EDITION}')")) or 0)

    def close(self) -> None:
        self._engine.dispose()
        self._server.stop()


class Milvus:
    """Milvus 2.3.5 in one process, behind a relay."""

    def __init__(self, dimensions: int) -> None:
        self._server, self._dimensions = MilvusServer(), dimensions
        self._connection = MilvusConnection(self._server.address)

    def configure(self, links: int | None, build_width: int | None) -> None:
        self.index = MilvusIndex(self._connection, EDITION, self._dimensions)
        self._finish: Callable[[], None] = self.index.finish
        self.index.finish = lambda: None  # type: ignore[method-assign]

    def widen(self, width: int) -> None:
        milvus_index.PROBES = width

    def load(self, vectors: Floats, rare: Numbers) -> None:
        put_all(self.index, vectors, rare)

    def finish(self) -> None:
        self._finish()

    def memory(self) -> int:
        return psutil.Process(self._server.pid).memory_info().rss

    def disk(self) -> int:
        return folder_size(self._server.folder / "data")

    def close(self) -> None:
        self._connection.close()
        self._server.stop()


def folder_size(folder: Path) -> int:
    """Return the bytes of the files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


ENGINES: dict[str, Callable[[int], Engine]] = {
    "hnsw": Hnsw,
    "ivf": Ivf,
    "pgvector": Pgvector,
    "milvus": Milvus,
}
