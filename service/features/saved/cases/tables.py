"""Saved cases: searches with their judgements, results and notes."""

import secrets
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from collections.abc import Collection as Ids
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Index,
    LargeBinary,
    Row,
    Table,
    Text,
    and_,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    update,
)

from cbir.errors import InvalidInput, NotFound
from cbir.store.base.statements import byte_length
from service.features.saved.messages import CaseContent, NewCase
from service.state.database import StateDatabase
from service.state.schema import WholeNumber, tables, unix_time

Existing = Callable[[Iterable[str]], Container[str]]  # returns those of some image ids that a collection has
MAX_CASES = 1000  # of an owner
MAX_BYTES = 2**30  # of the cases of an owner, pictures included
ID_BYTES = 8

cases = Table(
    "saved_cases",
    tables,
    Column("number", WholeNumber, primary_key=True),
    Column("case_id", Text, nullable=False, unique=True),
    Column("owner", Text, nullable=False),
    Column("collection", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("words", Text, nullable=False),  # title and note for searching, without upper case
    Column("shared", Boolean, nullable=False),
    Column("created", WholeNumber, nullable=False),
    Column("changed", WholeNumber, nullable=False),
    Column("content", Text, nullable=False),  # a CaseContent
    Column("query_image", Text),  # id of the query in the collection
    Column("picture", LargeBinary),  # of an uploaded query
    Column("content_hash", Text),  # of an uploaded query
    Column("patient_key", Text, index=True),  # of the query, so that erasing the patient erases the case
    Index("saved_cases_of_owner", "owner", "number"),
)
_LISTED = [column for column in cases.c if column.name not in ("picture", "content", "words")]


@dataclass(frozen=True)
class QueryPicture:
    """Stored picture of an uploaded query.

    data: PNG without metadata. content_hash: of the frame in its file.
    """

    data: bytes
    content_hash: str


class Viewer(NamedTuple):
    """Rights of a caller: name as owner, collections, whether all is visible, whether only some images are."""

    owner: str
    collections: Sequence[str]
    sees_all: bool
    limited: bool

    def visible(self, table: Table) -> ColumnElement[bool]:
        """Return the condition on the rows of `table`, cases or cohorts, that the caller may see.

        A caller whose rights are limited to some images sees no uploaded image of others, since no one can tell
        whether its rights would cover it.
        """
        hides_uploads = self.limited and table is cases
        of_others = and_(table.c.shared, cases.c.picture.is_(None)) if hides_uploads else table.c.shared
        allowed = true() if self.sees_all else or_(table.c.owner == self.owner, of_others)
        return and_(allowed, table.c.collection.in_(self.collections))


def add_case(
    database: StateDatabase,
    owner: str,
    collection: str,
    case: NewCase,
    picture: QueryPicture | None,
    patient_key: str | None,
    existing: Existing = set,
) -> str:
    """Save a case without results and judgements of images that are gone, and return its id.

    Parameters
    ----------
    database : StateDatabase
    owner : str
        Name of the caller, see `actor_name`.
    collection : str
        Name of the collection that was searched.
    case : NewCase
    picture : QueryPicture or None
        Of an uploaded query.
    patient_key : str or None
        Patient of the query.
    existing : callable
        Called in the transaction: erasing a patient waits for it, and then finds what it has stored.

    Raises
    ------
    InvalidInput
        If the owner has as many cases as allowed.
    NotFound
        If the query is gone.
    """
    with database.writing() as connection:
        values = _new_row(owner, collection, _only_existing(case, existing), picture, patient_key)
        size = _size(values["content"], case.title, case.note) + (len(picture.data) if picture else 0)
        _check_count(connection, owner)
        _check_size(connection, owner, size)
        connection.execute(insert(cases).values(**values))
    return str(values["case_id"])


def _only_existing(case: NewCase, existing: Existing) -> NewCase:
    query = case.search.image_id
    found = existing(case.image_ids() | ({query} if query else set()))
    if query and query not in found:
        raise NotFound(f"there is no image {query}")
    return case.only(found.__contains__)


def _new_row(
    owner: str, collection: str, case: NewCase, picture: QueryPicture | None, patient_key: str | None
) -> dict[str, Any]:
    case_id, now = secrets.token_hex(ID_BYTES), unix_time()
    return {
        "case_id": case_id,
        "owner": owner,
        "collection": collection,
        "title": case.title,
        "note": case.note,
        "words": _words(case.title, case.note),
        "shared": case.shared,
        "created": now,
        "changed": now,
        "content": case.model_dump_json(include=set(CaseContent.model_fields)),
        "query_image": case.search.image_id,
        "picture": picture.data if picture else None,
        "content_hash": picture.content_hash if picture else None,
        "patient_key": patient_key,
    }


def _check_count(connection: Connection, owner: str) -> None:
    count = connection.scalar(select(func.count()).where(cases.c.owner == owner)) or 0
    if count >= MAX_CASES:
        raise InvalidInput(f"this caller has {count} saved cases already, as many as allowed; delete some")


def _check_size(connection: Connection, owner: str, more: int) -> None:
    """Raise InvalidInput if the cases of an owner would be too large with so many bytes more."""
    texts = sum(
        (byte_length(column) for column in (cases.c.content, cases.c.title, cases.c.note)), literal(0)
    )
    pictures = func.coalesce(func.length(cases.c.picture), 0)
    query = select(func.coalesce(func.sum(texts + pictures), 0)).where(cases.c.owner == owner)
    if (connection.scalar(query) or 0) + more > MAX_BYTES:
        raise InvalidInput(
            f"this caller's cases have {MAX_BYTES // 2**20} MiB, as many as allowed; delete some"
        )


def list_cases(
    database: StateDatabase,
    viewer: Viewer,
    words: str = "",
    before: int | None = None,
    limit: int = 100,
) -> list[Row[Any]]:
    """Return rows of the visible cases, newest first, without pictures and contents; `stored` says if there is one.

    Parameters
    ----------
    database : StateDatabase
    viewer : Viewer
    words : str
        Text in the title or the note, in upper or lower case; all cases if empty.
    before : int, optional
        Only cases with smaller numbers.
    limit : int
        Largest number of rows.
    """
    query = select(*_LISTED, cases.c.picture.is_not(None).label("stored")).where(viewer.visible(cases))
    if words.strip():
        query = query.where(cases.c.words.contains(words.strip().casefold(), autoescape=True))
    if before is not None:
        query = query.where(cases.c.number < before)
    with database.reading() as connection:
        return list(connection.execute(query.order_by(cases.c.number.desc()).limit(limit)))


def find_case(database: StateDatabase, viewer: Viewer, case_id: str) -> Row[Any]:
    """Return the row of a case, without its picture; raises NotFound if the viewer may see none with this id."""
    query = select(*_LISTED, cases.c.content, cases.c.picture.is_not(None).label("stored"))
    with database.reading() as connection:
        rows: list[Row[Any]] = list(
            connection.execute(query.where(cases.c.case_id == case_id, viewer.visible(cases)))
        )
    if not rows:
        raise NotFound(f"there is no case {case_id}")
    return rows[0]


def read_picture(database: StateDatabase, case_id: str) -> bytes | None:
    """Return the stored picture of a case, None without one."""
    with database.reading() as connection:
        picture: bytes | None = connection.scalar(select(cases.c.picture).where(cases.c.case_id == case_id))
    return picture


def change_case(database: StateDatabase, case_id: str, changes: Mapping[str, Any]) -> None:
    """Change title, note and sharing of a case.

    Parameters
    ----------
    database : StateDatabase
    case_id : str
    changes : mapping of str to object
        New values by column; others stay, also if another request changes them at the same time.

    Raises
    ------
    InvalidInput
        If the cases of its owner would be larger than allowed.
    """
    of_case = cases.c.case_id == case_id
    with database.writing() as connection:
        query = select(cases.c.owner, cases.c.title, cases.c.note).where(of_case)
        before = connection.execute(query).one_or_none()
        if before is None:  # deleted meanwhile
            return
        title, note = changes.get("title", before.title), changes.get("note", before.note)
        if (more := _size(title, note) - _size(before.title, before.note)) > 0:
            _check_size(connection, before.owner, more)
        values = {**changes, "words": _words(title, note), "changed": unix_time()}
        connection.execute(update(cases).where(of_case).values(**values))


def delete_case(database: StateDatabase, case_id: str) -> None:
    """Delete a case."""
    with database.writing() as connection:
        connection.execute(delete(cases).where(cases.c.case_id == case_id))


def erase_from_cases(database: StateDatabase, keys: Sequence[str], image_ids: Ids[str]) -> int:
    """Delete the cases whose query is of a patient, and the patient's images from all others; return their number.

    Parameters
    ----------
    database : StateDatabase
    keys : sequence of str
        Keys that the patient may have.
    image_ids : collection of str
        Images of the patient, whose ids begin with the hash of their content.
    """
    hashes = {image_id.partition("-")[0] for image_id in image_ids}
    changed = 0
    with database.writing() as connection:
        rows = connection.execute(
            select(
                cases.c.number,
                cases.c.patient_key,
                cases.c.content_hash,
                cases.c.query_image,
                cases.c.content,
            )
        )
        for row in rows.all():
            of_patient = row.patient_key in keys or row.content_hash in hashes or row.query_image in image_ids
            if of_patient:
                connection.execute(delete(cases).where(cases.c.number == row.number))
            elif (content := without_images(row.content, image_ids)) is not None:
                connection.execute(update(cases).where(cases.c.number == row.number).values(content=content))
            else:
                continue
            changed += 1
    return changed


def mentions_in_cases(database: StateDatabase) -> set[str]:
    """Return the ids of all images, hashes of uploads, and keys of patients in cases."""
    columns = (cases.c.patient_key, cases.c.content_hash, cases.c.query_image, cases.c.content)
    mentions: set[str] = set()
    with database.reading() as connection:
        for *named, content in connection.execute(select(*columns)):
            mentions |= CaseContent.model_validate_json(content).image_ids().union(filter(None, named))
    return mentions


def without_images(content: str, image_ids: Ids[str]) -> str | None:
    """Return a CaseContent as JSON without the results and judgements of images; None if it has none of them."""
    case = CaseContent.model_validate_json(content)
    if case.image_ids().isdisjoint(image_ids):
        return None
    return case.only(lambda image_id: image_id not in image_ids).model_dump_json()


def _size(*texts: str) -> int:
    return sum(len(text.encode(errors="surrogatepass")) for text in texts)


def _words(title: str, note: str) -> str:
    return f"{title}\n{note}".casefold()
