"""Tables of the usage log: searches that pages showed, and what people did with their answers. No person is in it."""

import logging
from collections.abc import Collection as Ids
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import (
    JSON,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    LargeBinary,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)

from cbir.errors import CbirError
from cbir.settings import Settings
from service.features.usage.replay_log import ERASED, RELEVANT, USEFUL, LoggedSearch
from service.state.database import StateDatabase, open_state, state_database
from service.state.schema import WholeNumber, tables, unix_time

if TYPE_CHECKING:
    from flask import Response

    from cbir.store import Collection

BATCH = 500  # images, or searches, of one statement
DAY = 86_400
DELETING = ("delete", "erase")  # actions of access rules
DELETED = ("deleted", "erased")  # changes in the history of a collection
CHANGES = 100  # of the history that are looked at

searches = Table(
    "usage_searches",
    tables,
    Column("search", Text, primary_key=True),
    Column("time", WholeNumber, nullable=False, index=True),
    Column("collection", Text, nullable=False, index=True),
    Column("profile", Text, nullable=False),
    Column("method", Text, nullable=False),
    Column("parameters", JSON, nullable=False),
    Column("k", WholeNumber, nullable=False),
    Column("kind", Text, nullable=False),
    Column("query_image", Text),
    Column("vector", LargeBinary),
    Column("filters", WholeNumber, nullable=False),
    Column("grouped", WholeNumber, nullable=False),
    Column("judgements", WholeNumber, nullable=False),
    Column("answers", Text, nullable=False),  # ids with spaces between them
)
events = Table(
    "usage_events",
    tables,
    Column("search", Text, ForeignKey("usage_searches.search", ondelete="CASCADE"), primary_key=True),
    Column("event", Text, primary_key=True),
    Column("image", Text, primary_key=True),  # "" for a judgement of all answers
    Column("value", WholeNumber, nullable=False),
)
deletions = Table(  # the last change of each collection whose deletions the log follows
    "usage_deletions",
    tables,
    Column("collection", Text, primary_key=True),
    Column("change", WholeNumber, nullable=False),
)
log = logging.getLogger(__name__)


def add_search(database: StateDatabase, search: LoggedSearch, limits: tuple[int, int]) -> None:
    """Add a search that was shown, and drop the oldest beyond the limits.

    Parameters
    ----------
    database : StateDatabase
    search : LoggedSearch
        Its events are not added.
    limits : (int, int)
        Most days and most searches to keep.
    """
    vector = None if search.vector is None else np.asarray(search.vector, "<f4").tobytes()
    row = {name: getattr(search, name) for name in searches.c.keys()}  # noqa: SIM118
    row |= {
        "vector": vector,
        "grouped": int(search.grouped),
        "answers": " ".join(search.answers),
        "parameters": dict(search.parameters),
    }
    with database.writing() as connection:
        connection.execute(insert(searches).values(**row))
        _drop_oldest(connection, *limits)


def _drop_oldest(connection: Connection, days: int, count: int) -> None:
    connection.execute(delete(searches).where(searches.c.time < unix_time() - days * DAY))
    excess = connection.execute(select(func.count()).select_from(searches)).scalar_one() - count
    if excess > 0:
        oldest = select(searches.c.search).order_by(searches.c.time, searches.c.search).limit(excess)
        connection.execute(delete(searches).where(searches.c.search.in_(oldest)))


def answers_of(database: StateDatabase, search: str) -> set[str] | None:
    """Return the ids of the answers of a search, None if it is not in the log."""
    with database.reading() as connection:
        answers = connection.execute(select(searches.c.answers).where(searches.c.search == search)).scalar()
    return None if answers is None else set(answers.split()) - {ERASED}


def set_event(database: StateDatabase, search: str, event: str, image: str, value: int) -> None:
    """Set the value of an event, which replaces an earlier one; 0 takes it back.

    Parameters
    ----------
    database : StateDatabase
    search : str
        Id of a search in the log.
    event : str
        One of OPENINGS, RELEVANT, USEFUL.
    image : str
        Id of the answer; "" for USEFUL.
    value : int
        -1, 0 or 1.
    """
    key = {"search": search, "event": event, "image": image}
    with database.writing() as connection:
        connection.execute(delete(events).where(*(events.c[name] == text for name, text in key.items())))
        answers = connection.execute(select(searches.c.answers).where(searches.c.search == search)).scalar()
        # An image may have been erased since the caller looked it up.
        if value and answers is not None and (not image or image in answers.split()):
            connection.execute(insert(events).values(**key, value=value))


def read_usage(database: StateDatabase, collection: str | None = None) -> Iterator[LoggedSearch]:
    """Yield the searches of a collection, or of all, the oldest first."""
    where = [] if collection is None else [searches.c.collection == collection]
    ordered = select(searches).where(*where).order_by(searches.c.time, searches.c.search)
    with database.reading() as connection:
        for rows in connection.execute(ordered).partitions(BATCH):
            by_search = _events_of(connection, [row.search for row in rows])
            yield from (_logged(row._mapping, by_search.get(row.search, {})) for row in rows)


def _events_of(connection: Connection, names: Sequence[str]) -> dict[str, dict[tuple[str, str], int]]:
    by_search: dict[str, dict[tuple[str, str], int]] = {}
    ordered = select(events).where(events.c.search.in_(names)).order_by(events.c.event, events.c.image)
    for row in connection.execute(ordered):
        by_search.setdefault(row.search, {})[row.event, row.image] = row.value
    return by_search


def _logged(row: Mapping[Any, Any], of_search: dict[tuple[str, str], int]) -> LoggedSearch:
    values = {name: row[name] for name in searches.c.keys()}  # noqa: SIM118
    vector = row["vector"] and np.frombuffer(row["vector"], "<f4").astype(np.float32)
    values |= {"answers": tuple(row["answers"].split()), "vector": vector, "grouped": bool(row["grouped"])}
    return LoggedSearch(**values, events=of_search)


def count_usage(database: StateDatabase) -> list[dict[str, Any]]:
    """Return collection, method, and the numbers of searches, openings and judgements, by collection and method."""
    counts: dict[tuple[str, str], dict[str, Any]] = {}
    names = ("searches", "opened", "relevant", "irrelevant", "useful", "not_useful")
    with database.reading() as connection:
        grouped = select(searches.c.collection, searches.c.method, func.count())
        grouped = grouped.group_by(searches.c.collection, searches.c.method)
        for collection, method, count in connection.execute(grouped):
            counts[collection, method] = dict.fromkeys(names, 0) | {"searches": count}
        columns = (searches.c.collection, searches.c.method, events.c.event, events.c.value)
        joined = select(*columns, func.count()).select_from(events.join(searches)).group_by(*columns)
        for collection, method, event, value, count in connection.execute(joined):
            name = {(RELEVANT, 1): "relevant", (RELEVANT, -1): "irrelevant"}.get((event, value))
            name = name or {(USEFUL, 1): "useful", (USEFUL, -1): "not_useful"}.get((event, value), "opened")
            counts[collection, method][name] += count
    return [
        {"collection": collection, "method": method} | numbers
        for (collection, method), numbers in sorted(counts.items())
    ]


def delete_usage(database: StateDatabase, collection: str | None = None) -> int:
    """Delete the log of a collection, or all of it; return the number of searches."""
    where = [] if collection is None else [searches.c.collection == collection]
    with database.writing() as connection:
        count = connection.execute(delete(searches).where(*where)).rowcount
    database.drop_old_rows()
    return count


def logged_collections(database: StateDatabase) -> list[str]:
    """Return the names of the collections that the log has searches of."""
    with database.reading() as connection:
        return list(connection.scalars(select(searches.c.collection).distinct()))


def logged_images(database: StateDatabase, collection: str) -> set[str]:
    """Return the ids of all images in the log of a collection."""
    with database.reading() as connection:
        of_collection = select(searches.c.answers, searches.c.query_image).where(
            searches.c.collection == collection
        )
        return {
            image
            for answers, query in connection.execute(of_collection)
            for image in (*answers.split(), query)
            if image not in (None, ERASED)
        }


def last_deletion(database: StateDatabase, collection: str) -> int | None:
    """Return the number of the last change of a collection that the log has followed, None for none."""
    with database.reading() as connection:
        which = select(deletions.c.change).where(deletions.c.collection == collection)
        return connection.execute(which).scalar()


def forget_images(database: StateDatabase, images: Iterable[str], collection: str | None = None) -> None:
    """Remove images from the log, with the searches that they were the query of.

    Parameters
    ----------
    database : StateDatabase
    images : iterable of str
        Image ids.
    collection : str or None
        Name of the collection that they are deleted from; None: of all.
    """
    ids = frozenset(images)
    if not ids:
        return
    of_collection = [] if collection is None else [searches.c.collection == collection]
    with database.writing() as connection:
        logged, ordered = select(searches.c.search).where(*of_collection), sorted(ids)
        for start in range(0, len(ordered), BATCH):
            batch = ordered[start : start + BATCH]
            connection.execute(delete(searches).where(*of_collection, searches.c.query_image.in_(batch)))
            connection.execute(delete(events).where(events.c.image.in_(batch), events.c.search.in_(logged)))
        _mask_answers(connection, ids, of_collection)


def set_last_deletion(database: StateDatabase, collection: str, change: int) -> None:
    """Set the number of the last change of a collection that the log has followed.

    Parameters
    ----------
    database : StateDatabase
    collection : str
    change : int
    """
    with database.writing() as connection:
        connection.execute(delete(deletions).where(deletions.c.collection == collection))
        connection.execute(insert(deletions).values(collection=collection, change=change))


def _mask_answers(
    connection: Connection, ids: frozenset[str], of_collection: Sequence[ColumnElement[bool]]
) -> None:
    """Put ERASED in place of `ids` in the lists of answers, in one pass over them."""
    last = ""
    columns = (searches.c.search, searches.c.answers)
    while rows := connection.execute(
        select(*columns).where(*of_collection, searches.c.search > last).order_by(columns[0]).limit(BATCH)
    ).all():
        for search, answers in rows:
            images = answers.split()
            if not ids.isdisjoint(images):
                masked = " ".join(ERASED if image in ids else image for image in images)
                connection.execute(update(searches).where(searches.c.search == search).values(answers=masked))
        last = rows[-1].search


def follow_deletions(response: "Response") -> "Response":
    """Remove what a request has deleted, and when events come what other programs have deleted meanwhile."""
    from flask import request  # of the extra serve, which erasing a patient does without

    from service.access import scopes
    from service.collections.app_state import current_state

    state, rule = current_state(), scopes.rule_of_request(request)
    deletes = rule is not None and rule.action in DELETING
    if (
        not (deletes or request.endpoint == "usage.post_usage")
        or response.status_code >= HTTPStatus.BAD_REQUEST
    ):
        return response
    database = state_database()
    if not (state.settings.usage_log or database.exists()):
        return response
    try:
        for name in logged_collections(database):
            if handle := state.collections.get(name):
                forget_deleted(database, name, handle.whole_searcher().collection)
    except CbirError as error:  # the request itself has succeeded
        log.warning("deleted images may still be in the usage log: %s", error)
    return response


def forget_deleted(database: StateDatabase, name: str, collection: "Collection") -> None:
    """Remove the images from the log that the collection has deleted since the last call.

    Parameters
    ----------
    database : StateDatabase
    name : str
        Name of the collection in the log.
    collection : Collection
        All of it, not a limited view.
    """
    changes = collection.history(limit=CHANGES)
    newest = changes[0].change if changes else 0
    last = last_deletion(database, name)
    if last == newest:
        return
    unread = [change for change in changes if last is None or change.change > last]
    many = last is None or last > newest or len(unread) == CHANGES
    logged = set()
    if many or any(change.what in DELETED for change in unread):
        logged = logged_images(database, name)
    missing = logged - set(collection.image_ids().values()) if logged else logged
    forget_images(database, missing, name)
    set_last_deletion(database, name, newest)


def forget_missing(database: StateDatabase, search: LoggedSearch) -> None:
    """Remove the images of a new search from the log that were deleted before its page reported it."""
    from service.collections.app_state import current_state

    handle = current_state().collections.get(search.collection)
    images = {*search.answers, *([search.query_image] if search.query_image else [])}
    stored = handle.whole_searcher().collection.records_by_id(images) if handle else {}
    forget_images(database, images - stored.keys(), search.collection)


def erase_usage(settings: Settings, keys: Sequence[str], image_ids: Ids[str]) -> None:
    """Remove the images of a patient who is erased from the log of every collection.

    Parameters
    ----------
    settings : Settings
    keys : sequence of str
        Keys that the patient may have; the log has none.
    image_ids : collection of str
        Ids of the images.
    """
    database = open_state(settings)
    if database.exists():
        forget_images(database, image_ids)
        database.drop_old_rows()


def images_in_usage(settings: Settings) -> dict[str, set[str]]:
    """Return the ids of all images in the log."""
    database = open_state(settings)
    if not database.exists():
        return {}
    with database.reading() as connection:
        judged = set(connection.scalars(select(events.c.image).distinct()))
    return {
        "usage log": judged.union(*(logged_images(database, name) for name in logged_collections(database)))
    }
