"""Vector index of a Milvus server: a Milvus collection for each edition."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cbir.errors import IndexUnavailable
from cbir.gallery.vector_blocks import Floats
from cbir.store.index.local_content import join_neighbours, nearest_vectors
from cbir.store.index.milvus_collection import (
    LISTS,
    MilvusConnection,
    drop_milvus_collection,
    milvus_row,
    open_milvus_collection,
    scope_expression,
)
from cbir.store.index.port import IndexedImage, IndexPosition, IndexScope, Neighbours, Numbers

POSITION = 0  # number of the row with the position, which is no image's

FAR = 1e6  # each value of that row's vector: farther than any image

PROBES = 32  # inverted lists that a search reads of each segment, at least

COMPARED = 16  # images in the lists that a search with a filter reads, times as many as it is to find

COUNTED_SECONDS = 300.0  # for which a scope is taken to have as many images

SCOPES_COUNTED = 64  # in memory

MOST = 16_384  # images that Milvus returns at most

AT_ONCE = 2000  # images sent or read in one call

SENT_BYTES = 32 << 20  # sent in one call; Milvus takes 64 MB

LABEL_BYTES = 64  # that a label takes at most: two tokens, and a number with its key

WRITE_SECONDS = 300.0  # limit of a call that writes: a server that is busy building takes its time

READ_SECONDS = 30.0  # limit of a call that reads: many searches of many images wait for each other

STRONG_SECONDS = 60.0  # limit of a call that waits for changes

QUERIES = 100  # of one call

ANSWER_BYTES = 32 << 20  # of the vectors that one call returns; larger answers come without

POLLED = 0.5  # seconds between two questions whether the lists are made

SETTLING = 6.0  # seconds until others' changes are seen without waiting for them; Milvus promises five


class MilvusIndex:
    """A Milvus collection of vectors with the attributes and labels that filters compare. Thread-safe.

    It is loaded into the memory of the server when it is first read, not while it is filled.
    """

    serves_vectors = False  # to read them by number, the server parses a text; they come with its answers

    def __init__(self, connection: MilvusConnection, edition: str, dimensions: int) -> None:
        """Open the Milvus collection, or create it.

        Parameters
        ----------
        connection : MilvusConnection
            Of the server; others may share it.
        edition : str
            Name of the collection in Milvus.
        dimensions : int
            Length of the vectors.

        Raises
        ------
        IndexUnavailable
            If the server does not answer.
        """
        self._connection, self._call = connection, connection.call
        self._edition, self._dimensions = edition, dimensions
        self._changed = time.monotonic()
        self._known_position: IndexPosition | None = None
        self._loaded = False
        self._counted: dict[IndexScope, tuple[int, float]] = {}  # images of a scope, and until when
        is_new = open_milvus_collection(connection, edition, dimensions)
        self._inserted_to = POSITION if is_new else None  # largest number in it; None if it may have any

    def nearest(self, queries: Floats, k: int, scope: IndexScope) -> list[Neighbours]:
        """Return up to k images of `scope` for each of the `queries` (q, d); all that match where fewer do."""
        expression, probes = scope_expression(scope), self._probes(k, scope)
        results = []
        at_once = min(max(ANSWER_BYTES // self._vector_bytes(k), 1), QUERIES)
        for start in range(0, len(queries), at_once):
            some = queries[start : start + at_once]
            results += self._search(some, k, expression, probes)
        if any(len(neighbours.numbers) < k for neighbours in results):
            possible = min(k, self._count(expression))
            for query_index, neighbours in enumerate(results):
                if len(neighbours.numbers) < possible:
                    results[query_index] = self._search_wider(queries[query_index], possible, expression)
        return results

    def vectors(self, numbers: Numbers) -> tuple[Numbers, Floats]:
        """Return the numbers that the index has of `numbers`, ascending, and their vectors (n, d)."""
        image_numbers = np.unique(numbers[numbers > POSITION])
        rows: list[Any] = []
        for start in range(0, len(image_numbers), AT_ONCE):
            some = image_numbers[start : start + AT_ONCE].tolist()
            rows += self._query(f"number in {some}", ["number", "vector"])
        return self._arrays(rows)

    def put(self, images: Sequence[IndexedImage], vectors: Floats) -> None:
        """Add images with their vectors (n, d), or replace them."""
        numbers = [image.number for image in images]
        is_new = self._inserted_to is not None and min(numbers, default=0) > self._inserted_to
        self._inserted_to = None  # unless all of it succeeds
        for batch in _batches(images, self._dimensions):
            some = zip(images[batch], vectors[batch], strict=True)
            rows = [milvus_row(image, vector) for image, vector in some]
            # Replacing deletes first, which a fill needs not.
            self._call("insert" if is_new else "upsert", self._edition, rows, timeout=WRITE_SECONDS)
            self._changed = time.monotonic()
        if is_new:
            self._inserted_to = max(numbers)

    def delete(self, numbers: Numbers) -> None:
        """Delete images; unknown numbers are ignored."""
        image_numbers = np.unique(numbers[numbers > POSITION])
        for start in range(0, len(image_numbers), AT_ONCE):
            some = image_numbers[start : start + AT_ONCE].tolist()
            self._call("delete", self._edition, ids=some, timeout=WRITE_SECONDS)
            self._changed = time.monotonic()

    def position(self) -> IndexPosition | None:
        """Return how far it has followed; None before the first fill has ended."""
        rows = self._query(f"number in [{POSITION}]", ["numbers"])
        position = IndexPosition(*rows[0]["numbers"]["position"]) if rows else None
        if position != self._known_position:  # another process has changed the index
            self._known_position, self._changed = position, time.monotonic()
        return position

    def set_position(self, position: IndexPosition) -> None:
        """Store how far it has followed."""
        row = milvus_row(IndexedImage(POSITION, ""), np.full(self._dimensions, FAR, np.float32))
        row["numbers"] = {"position": list(position)}
        self._call("upsert", self._edition, [row], timeout=WRITE_SECONDS)
        self._known_position, self._changed = position, time.monotonic()

    def finish(self) -> None:
        """Wait until Milvus has made the lists of all that was sent, and load it."""
        self._inserted_to = None
        self._call("flush", self._edition, timeout=None)
        while self._call("describe_index", self._edition, "vector", timeout=WRITE_SECONDS).get(
            "pending_index_rows"
        ):
            time.sleep(POLLED)
        # What is loaded already may be searched without its lists.
        self._call("release_collection", self._edition, timeout=None)
        self._call("load_collection", self._edition, timeout=None)
        self._loaded = True

    def __len__(self) -> int:
        return self._count("")

    def drop(self) -> None:
        """Delete the Milvus collection."""
        drop_milvus_collection(self._connection, self._edition)

    def close(self) -> None:
        """Do nothing: the connection may be shared."""

    def _consistency(self) -> str:
        """Return "Strong", which waits a fifth of a second for all changes, until they are seen without it."""
        return "Strong" if time.monotonic() - self._changed < SETTLING else "Bounded"

    def _probes(self, k: int, scope: IndexScope) -> int:
        """Return how many lists of each segment to read: the more, the fewer images labels and patients leave."""
        narrow = IndexScope(where=scope.where, of_patients=scope.of_patients)
        if narrow == IndexScope():
            return PROBES
        count, until = self._counted.get(narrow, (0, 0.0))
        if time.monotonic() > until:
            count = self._count(scope_expression(narrow))
            latest = list(self._counted.items())[-SCOPES_COUNTED:]
            # A new one: other threads may read it.
            self._counted = {**dict(latest), narrow: (count, time.monotonic() + COUNTED_SECONDS)}
        return min(LISTS, max(PROBES, LISTS * COMPARED * k // max(count, 1)))

    def _search(self, queries: Floats, k: int, expression: str, probes: int) -> list[Neighbours]:
        if k >= MOST:
            return [_neighbours([])] * len(queries)
        hits = self._read(
            "search",
            list(np.ascontiguousarray(queries, np.float32)),
            filter=expression,
            limit=k + 1,  # the row with the position may be among them
            # To read them by their numbers afterwards takes twice as long as the search.
            output_fields=["vector"] if self._vector_bytes(k) <= ANSWER_BYTES else [],
            search_params={"metric_type": "L2", "params": {"nprobe": probes}},
        )
        return [_neighbours([hit for hit in some if hit["id"] != POSITION][:k]) for some in hits]

    def _vector_bytes(self, k: int) -> int:
        """Return the size of the vectors of an answer."""
        return 4 * self._dimensions * (k + 1)

    def _search_wider(self, query: Floats, k: int, expression: str) -> Neighbours:
        """Search all lists, and compare all that match here if that finds too few."""
        (results,) = self._search(query[None, :], k, expression, LISTS)
        if len(results.numbers) >= k:
            return results
        best = _neighbours([])
        for page in self._pages(expression):
            (compared,) = nearest_vectors(query[None, :], *page, k)
            best = join_neighbours((best, compared), k)
        return best

    def _pages(self, expression: str) -> Iterator[tuple[Numbers, Floats]]:
        """Read all images of an expression."""
        last = POSITION
        while True:
            above = f"number > {last}" + (f" and {expression}" if expression else "")
            numbers, vectors = self._arrays(self._query(above, ["number", "vector"], limit=AT_ONCE))
            if len(numbers):
                yield numbers, vectors
                last = int(numbers[-1])
            if len(numbers) < AT_ONCE:
                return

    def _count(self, expression: str) -> int:
        images = f"number > {POSITION}" + (f" and {expression}" if expression else "")
        return int(self._query(images, ["count(*)"])[0]["count(*)"])

    def _query(self, expression: str, fields: list[str], **options: Any) -> Any:
        return self._read("query", expression, output_fields=fields, **options)

    def _read(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Call a method that reads, once the collection is loaded."""
        try:
            if not self._loaded:
                self._call("load_collection", self._edition)
                self._loaded = True
            level = self._consistency()
            limit = STRONG_SECONDS if level == "Strong" else READ_SECONDS
            return self._call(
                name, self._edition, *arguments, timeout=limit, consistency_level=level, **options
            )
        except IndexUnavailable:
            self._loaded = False  # it may have been released
            raise

    def _arrays(self, rows: Sequence[Any]) -> tuple[Numbers, Floats]:
        numbers = np.array([row["number"] for row in rows], np.int64)
        vectors = np.array([row["vector"] for row in rows], np.float32).reshape(-1, self._dimensions)
        order = np.argsort(numbers)
        return numbers[order], vectors[order]


def _batches(images: Sequence[IndexedImage], dimensions: int) -> Iterator[slice]:
    """Yield the parts of `images` that one call each can send."""
    start, size = 0, 0
    for row, image in enumerate(images):
        image_bytes = 4 * dimensions + LABEL_BYTES * len(image.labels)
        if row > start and (row - start == AT_ONCE or size + image_bytes > SENT_BYTES):
            yield slice(start, row)
            start, size = row, 0
        size += image_bytes
    if images:
        yield slice(start, len(images))


def _neighbours(hits: Sequence[Any]) -> Neighbours:
    numbers = np.array([hit["id"] for hit in hits], np.int64)
    squared = np.array([hit["distance"] for hit in hits], np.float32)
    sent = [hit["entity"].get("vector") for hit in hits]
    vectors = None if not sent or sent[0] is None else np.array(sent, np.float32)
    return Neighbours(numbers, np.sqrt(np.maximum(squared, 0)), vectors)
