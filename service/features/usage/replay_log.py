"""Usage log of the search page as a csv, and what is known of each query from all its searches."""

import base64
import binascii
import csv
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from cbir.errors import InvalidInput

COMPARE, METADATA, VIEWER = OPENINGS = ("compare", "metadata", "viewer")  # ways to open an answer
RELEVANT, USEFUL = "relevant", "useful"  # judgements, of an answer and of all answers: 1 or -1
ERASED = "-"  # in place of the id of an image that is no longer in the collection
COLUMNS = (
    "search", "time", "collection", "profile", "method", "parameters", "k", "kind", "query_image", "vector",
    "filters", "grouped", "judgements", "answers", *OPENINGS, "relevant", "irrelevant", "useful",
)  # fmt: skip
MAX_FIELD = 2**20  # characters: a vector of 65,536 values takes 350,000
REASONS = {
    "other profile": "searched in vectors of another profile",
    "no vector": "an upload or region, whose vector the log does not have (setting usage_vectors)",
    "no single image": "a search by text or by several images",
    "erased": "the query image is no longer in the collection",
    "no events": "no answer was opened or judged",
}

Events = Mapping[tuple[str, str], int]


@dataclass(frozen=True, eq=False)
class LoggedSearch:
    """A search that the page has shown.

    search: random id. time: seconds since 1970. method, parameters: of the re-ranker that was used. kind: "image" of
    the collection, "region" of one, "upload", or "other": text, several images. query_image: id, for the kind image.
    vector: (d,) float32 raw, where the log keeps vectors. filters, judgements: their numbers. grouped: one result per
    group. answers: ids of the answers, best first. events: value by kind and image.
    """

    search: str
    time: int
    collection: str
    profile: str
    method: str
    k: int
    kind: str
    answers: tuple[str, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    query_image: str | None = None
    vector: NDArray[np.float32] | None = None
    filters: int = 0
    grouped: bool = False
    judgements: int = 0
    events: Events = field(default_factory=dict)

    @property
    def opened(self) -> set[str]:
        """Ids of the answers that were opened in any way."""
        return {image for kind, image in self.events if kind in OPENINGS}

    @property
    def marks(self) -> dict[str, int]:
        """1 for relevant, -1 for not relevant, by image id."""
        return {image: value for (kind, image), value in self.events.items() if kind == RELEVANT}

    @property
    def useful(self) -> int:
        """Judgement of all answers: 1, -1, or 0 for none."""
        return self.events.get((USEFUL, ""), 0)


def images_with(search: LoggedSearch, kind: str, value: int = 1) -> str:
    """Return the ids of the answers with an event of this kind and value, separated by spaces.

    Parameters
    ----------
    search : LoggedSearch
    kind : str
        One of OPENINGS, or RELEVANT.
    value : int
        1 or -1.
    """
    return " ".join(
        image for (event, image), number in search.events.items() if (event, number) == (kind, value)
    )


def _row_of(search: LoggedSearch) -> dict[str, Any]:
    plain = ("search", "time", "collection", "profile", "method", "k", "kind", "filters", "judgements")
    return {name: getattr(search, name) for name in plain} | {
        "parameters": json.dumps(dict(search.parameters), sort_keys=True),
        "query_image": search.query_image or "",
        "vector": "" if search.vector is None else encode_vector(search.vector),
        "grouped": int(search.grouped),
        "answers": " ".join(search.answers),
        **{kind: images_with(search, kind) for kind in OPENINGS},
        "relevant": images_with(search, RELEVANT),
        "irrelevant": images_with(search, RELEVANT, -1),
        "useful": search.useful or "",
    }


def encode_vector(vector: NDArray[np.float32]) -> str:
    """Return a vector as base64 of little-endian float32."""
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def write_usage_csv(searches: Iterable[LoggedSearch], file: IO[str]) -> int:
    """Write a row for each search, and return their number."""
    rows = csv.DictWriter(file, COLUMNS, lineterminator="\n")
    rows.writeheader()
    count = 0
    for search in searches:
        rows.writerow(_row_of(search))
        count += 1
    return count


def read_usage_csv(path: Path) -> list[LoggedSearch]:
    """Return the searches of a csv that `cbir admin usage export` wrote; raise InvalidInput for another file."""
    limit = csv.field_size_limit(MAX_FIELD)
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(_searches_of(csv.DictReader(file), path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    finally:
        csv.field_size_limit(limit)


def _searches_of(rows: "csv.DictReader[str]", path: Path) -> Iterator[LoggedSearch]:
    if missing := set(COLUMNS) - set(rows.fieldnames or ()):
        raise InvalidInput(
            f"{path} is no usage log: it lacks {', '.join(sorted(missing))}; write one with `cbir admin usage export`"
        )
    for row in rows:
        try:
            yield _search_of(row)
        except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
            raise InvalidInput(f"{path}, line {rows.line_num}: {error}") from error


def _search_of(row: Mapping[str, str]) -> LoggedSearch:
    events = {(kind, image): 1 for kind in (*OPENINGS, RELEVANT) for image in row[kind].split()}
    events |= {(RELEVANT, image): -1 for image in row["irrelevant"].split()}
    if row["useful"]:
        events[USEFUL, ""] = 1 if int(row["useful"]) > 0 else -1
    parameters = json.loads(row["parameters"])
    if not isinstance(parameters, dict):
        raise ValueError("parameters must be a JSON object")
    return LoggedSearch(
        search=row["search"],
        time=int(row["time"]),
        collection=row["collection"],
        profile=row["profile"],
        method=row["method"],
        k=int(row["k"]),
        kind=row["kind"],
        filters=int(row["filters"]),
        judgements=int(row["judgements"]),
        answers=tuple(row["answers"].split()),
        parameters=parameters,
        query_image=row["query_image"] or None,
        vector=_decode_vector(row["vector"]),
        grouped=row["grouped"] == "1",
        events=events,
    )


def _decode_vector(text: str) -> NDArray[np.float32] | None:
    if not text:
        return None
    vector = np.frombuffer(base64.b64decode(text, validate=True), "<f4").astype(np.float32)
    if not np.isfinite(vector).all():
        raise ValueError("the vector has values that are not finite")
    return vector


@dataclass(frozen=True, eq=False)
class Click:
    """An opened answer, and its rank in the list that was shown, from 1."""

    image: str
    rank: int


@dataclass(frozen=True, eq=False)
class LoggedQuery:
    """A query with the events of all its searches.

    image_id: None for a vector. vector: (d,) float32 raw. relevant, irrelevant: judged more often so than otherwise.
    plain: searches without filters, groups and judgements, whose ranks can be compared with those of a replay.
    clicks: opened answers of these.
    """

    name: str
    image_id: str | None
    vector: NDArray[np.float32] | None
    relevant: frozenset[str]
    irrelevant: frozenset[str]
    plain: tuple[LoggedSearch, ...]
    clicks: tuple[Click, ...]


def collect_queries(
    searches: Iterable[LoggedSearch], profile: str, images: frozenset[str]
) -> tuple[list[LoggedQuery], dict[str, int]]:
    """Group searches by their query.

    Parameters
    ----------
    searches : iterable of LoggedSearch
        Of one collection.
    profile : str
        Hash of the collection's profile.
    images : frozenset of str
        Ids of the collection's images; events of others are left out.

    Returns
    -------
    queries : list of LoggedQuery
        Those with an event, by name.
    left_out : dict
        Number of searches by each of REASONS that applies.
    """
    groups: dict[str, list[LoggedSearch]] = defaultdict(list)
    left_out: Counter[str] = Counter()
    for search in searches:
        if reason := _reason_against(search, profile, images):
            left_out[reason] += 1
        else:
            groups[_name(search)].append(search)
    queries = []
    for name, group in sorted(groups.items()):
        query = _merge(name, group, images)
        if query.relevant or query.irrelevant or query.clicks:
            queries.append(query)
        else:
            left_out["no events"] += len(group)
    return queries, dict(left_out)


def _reason_against(search: LoggedSearch, profile: str, images: frozenset[str]) -> str | None:
    if search.kind == "other":
        return "no single image"
    if search.query_image is not None:
        return None if search.query_image in images else "erased"
    if search.vector is None:
        return "no vector"
    return None if search.profile == profile else "other profile"


def _name(search: LoggedSearch) -> str:
    """Return the id of the query image, or for a vector a name of the same form."""
    if search.query_image is not None:
        return search.query_image
    assert search.vector is not None, "searches without a query are left out"
    return "vector-" + blake2b(search.vector.tobytes(), digest_size=8).hexdigest()


def _merge(name: str, group: Sequence[LoggedSearch], images: frozenset[str]) -> LoggedQuery:
    votes: Counter[str] = Counter()
    for search in group:
        for image, value in search.marks.items():
            if image in images and image != name:
                votes[image] += value
    plain = tuple(search for search in group if not (search.filters or search.grouped or search.judgements))
    clicks = tuple(
        Click(image, rank)
        for search in plain
        for rank, image in enumerate(search.answers, start=1)
        if image != ERASED and image in search.opened and image in images
    )
    return LoggedQuery(
        name,
        group[0].query_image,
        group[0].vector,
        frozenset(image for image, value in votes.items() if value > 0),
        frozenset(image for image, value in votes.items() if value < 0),
        plain,
        clicks,
    )
