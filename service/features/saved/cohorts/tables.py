"""Cohorts: who owns them, what is searched, and the judgements of images in their order."""

import secrets
from collections.abc import Collection as Ids
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Row,
    Select,
    Table,
    Text,
    and_,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from cbir.errors import InvalidInput, NotFound
from cbir.search.cohorts.missing_images import JudgedImage, ProposedImage
from service.features.saved.cases.tables import Existing, Viewer
from service.features.saved.messages import NewCohort
from service.state.database import StateDatabase
from service.state.schema import WholeNumber, tables, unix_time

MAX_COHORTS = 200  # of an owner
MAX_JUDGEMENTS = 20_000  # of a cohort
ID_BYTES = 8
ERASED_TOGETHER = 500  # ids of a statement
DELETED = "this cohort was deleted meanwhile"

cohorts = Table(
    "cohorts",
    tables,
    Column("number", WholeNumber, primary_key=True),
    Column("cohort_id", Text, nullable=False, unique=True),
    Column("owner", Text, nullable=False),
    Column("collection", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("shared", Boolean, nullable=False),
    Column("created", WholeNumber, nullable=False),
    Column("changed", WholeNumber, nullable=False),
    Column("conditions", JSON, nullable=False),  # texts of label conditions
    Index("cohorts_of_owner", "owner", "number"),
)
judgements = Table(
    "cohort_judgements",
    tables,
    Column("cohort", WholeNumber, ForeignKey("cohorts.number", ondelete="CASCADE"), primary_key=True),
    Column("image_id", Text, primary_key=True),
    Column("step", WholeNumber, primary_key=True),  # of a request; the latest judgement of an image counts
    Column("place", WholeNumber, nullable=False),  # in the request
    Column("relevant", Boolean, nullable=False),
    Column("probability", Float),  # that was estimated before; null for images that were not proposed
    Column("drawn", Boolean, nullable=False),
    Index("cohort_judgements_of_image", "image_id"),
)
proposals = Table(
    "cohort_proposals",
    tables,
    Column("cohort", WholeNumber, ForeignKey("cohorts.number", ondelete="CASCADE"), primary_key=True),
    Column("image_id", Text, primary_key=True),
    Column("probability", Float, nullable=False),
    Column("drawn", Boolean, nullable=False),
    Index("cohort_proposals_of_image", "image_id"),
)
later = judgements.alias("later")
is_latest = ~exists(
    select(later.c.step)
    .where(later.c.cohort == judgements.c.cohort, later.c.image_id == judgements.c.image_id)
    .where(later.c.step > judgements.c.step)
    .correlate(judgements)
)


def add_cohort(
    database: StateDatabase,
    owner: str,
    collection: str,
    cohort: NewCohort,
    judged: Mapping[str, bool],
    existing: Existing = set,
) -> str:
    """Save a cohort and return its id.

    Parameters
    ----------
    database : StateDatabase
    owner : str
        Name of the caller, see `actor_name`.
    collection : str
    cohort : NewCohort
    judged : mapping of str to bool
        Relevance by image id.
    existing : callable
        Called in the transaction: erasing a patient waits for it, and then finds what it has stored.

    Raises
    ------
    InvalidInput
        If the owner has as many cohorts as allowed.
    NotFound
        If an image is gone.
    """
    cohort_id, now = secrets.token_hex(ID_BYTES), unix_time()
    values = cohort.model_dump(include={"title", "note", "shared"}) | {
        "cohort_id": cohort_id, "owner": owner, "collection": collection, "created": now, "changed": now,
        "conditions": cohort.where,
    }  # fmt: skip
    with database.writing() as connection:
        _require(judged, existing)
        count = connection.scalar(select(func.count()).select_from(cohorts).where(cohorts.c.owner == owner))
        if (count or 0) >= MAX_COHORTS:
            raise InvalidInput(f"this caller has {count} cohorts already, as many as allowed; delete some")
        inserted = connection.execute(insert(cohorts).values(**values))
        assert inserted.inserted_primary_key is not None
        _insert(connection, inserted.inserted_primary_key[0], judged, {}, step=0)
    return cohort_id


def _require(image_ids: Iterable[str], existing: Existing) -> None:
    found = existing(image_ids)
    if missing := [image_id for image_id in image_ids if image_id not in found]:
        raise NotFound(f"there is no image {missing[0]}")


def _insert(
    connection: Connection,
    number: int,
    judged: Mapping[str, bool],
    proposed: Mapping[str, Row[Any]],
    step: int,
) -> None:
    rows = []
    for place, (image_id, relevant) in enumerate(judged.items()):
        proposal = proposed.get(image_id)
        rows.append(
            {
                "cohort": number,
                "image_id": image_id,
                "step": step,
                "place": place,
                "relevant": relevant,
                "probability": proposal.probability if proposal else None,
                "drawn": proposal.drawn if proposal else False,
            }
        )
    connection.execute(insert(judgements), rows)


def _with_counts() -> Select[Any]:
    of_cohort = judgements.c.cohort == cohorts.c.number
    count = select(func.count()).select_from(judgements).where(of_cohort, is_latest).correlate(cohorts)
    return select(
        cohorts,
        count.scalar_subquery().label("judged"),
        count.where(judgements.c.relevant).scalar_subquery().label("found"),
    )


def list_cohorts(
    database: StateDatabase, viewer: Viewer, before: int | None = None, limit: int = 100
) -> list[Row[Any]]:
    """Return rows of the visible cohorts, newest first, with their numbers of judged and relevant images.

    Parameters
    ----------
    database : StateDatabase
    viewer : Viewer
    before : int, optional
        Only cohorts with smaller numbers.
    limit : int
        Largest number of rows.
    """
    query = _with_counts().where(viewer.visible(cohorts))
    if before is not None:
        query = query.where(cohorts.c.number < before)
    with database.reading() as connection:
        return list(connection.execute(query.order_by(cohorts.c.number.desc()).limit(limit)))


def find_cohort(database: StateDatabase, viewer: Viewer, cohort_id: str) -> Row[Any]:
    """Return the row of a cohort; raises NotFound if the viewer may see none with this id."""
    with database.reading() as connection:
        row = connection.execute(
            _with_counts().where(cohorts.c.cohort_id == cohort_id, viewer.visible(cohorts))
        ).one_or_none()
    if row is None:
        raise NotFound(f"there is no cohort {cohort_id}")
    return row


def read_judgements(database: StateDatabase, number: int) -> list[JudgedImage]:
    """Return the latest judgements of the images of the cohort with this number, in their order."""
    query = select(judgements).where(judgements.c.cohort == number, is_latest)
    with database.reading() as connection:
        rows = connection.execute(query.order_by(judgements.c.step, judgements.c.place)).all()
    return [JudgedImage(row.image_id, row.relevant, row.probability, row.drawn) for row in rows]


def propose(
    database: StateDatabase, number: int, images: Sequence[ProposedImage], existing: Existing = set
) -> None:
    """Store which images a cohort's owner judges next, in place of earlier ones; not those that are gone.

    Parameters
    ----------
    database : StateDatabase
    number : int
        Number of the cohort.
    images : sequence of ProposedImage
    existing : callable
        See `add_cohort`.

    Raises
    ------
    NotFound
        If the cohort was deleted meanwhile.
    """
    with database.writing() as connection:
        found = existing([image.image_id for image in images])
        rows = [image._asdict() | {"cohort": number} for image in images if image.image_id in found]
        if connection.scalar(select(cohorts.c.number).where(cohorts.c.number == number)) is None:
            raise NotFound(DELETED)
        connection.execute(delete(proposals).where(proposals.c.cohort == number))
        if rows:
            connection.execute(insert(proposals), rows)


def judge(database: StateDatabase, number: int, judged: Mapping[str, bool], existing: Existing = set) -> None:
    """Add judgements of a request; earlier ones of the same images come back when it is undone.

    Parameters
    ----------
    database : StateDatabase
    number : int
        Number of the cohort.
    judged : mapping of str to bool
        Relevance by image id.
    existing : callable
        See `add_cohort`.

    Raises
    ------
    NotFound
        If the cohort was deleted meanwhile, or an image is gone.
    InvalidInput
        If the cohort would have more judgements than allowed.
    """
    with database.writing() as connection:
        _require(judged, existing)
        _touch(connection, number)
        count, last = connection.execute(
            select(func.count(), func.coalesce(func.max(judgements.c.step), 0)).where(
                judgements.c.cohort == number
            )
        ).one()
        if count + len(judged) > MAX_JUDGEMENTS:
            raise InvalidInput(f"judgements: a cohort has at most {MAX_JUDGEMENTS}")
        _insert(connection, number, judged, _proposed(connection, number), last + 1)


def _proposed(connection: Connection, number: int) -> dict[str, Row[Any]]:
    """Return probability and draw of the images that were proposed: judged since, or not yet."""
    judged = select(judgements).where(judgements.c.cohort == number, is_latest)
    proposed = select(proposals).where(proposals.c.cohort == number)
    rows = [*connection.execute(judged), *connection.execute(proposed)]
    return {row.image_id: row for row in rows}


def undo_step(database: StateDatabase, number: int) -> list[str]:
    """Remove the judgements of the last request and return their image ids; those of the beginning stay."""
    of_cohort = judgements.c.cohort == number
    with database.writing() as connection:
        last = connection.scalar(select(func.max(judgements.c.step)).where(of_cohort)) or 0
        if not last:
            return []
        of_step = and_(of_cohort, judgements.c.step == last)
        removed = connection.scalars(
            select(judgements.c.image_id).where(of_step).order_by(judgements.c.place)
        ).all()
        connection.execute(delete(judgements).where(of_step))
        _touch(connection, number)
    return list(removed)


def _touch(connection: Connection, number: int) -> None:
    changed = update(cohorts).where(cohorts.c.number == number).values(changed=unix_time())
    if not connection.execute(changed).rowcount:
        raise NotFound(DELETED)


def change_cohort(database: StateDatabase, number: int, changes: Mapping[str, Any]) -> None:
    """Change title, note and sharing of a cohort.

    Parameters
    ----------
    database : StateDatabase
    number : int
    changes : mapping of str to object
        New values by column; others stay.
    """
    with database.writing() as connection:
        connection.execute(
            update(cohorts).where(cohorts.c.number == number).values(**changes, changed=unix_time())
        )


def delete_cohort(database: StateDatabase, number: int) -> None:
    """Delete a cohort with its judgements."""
    with database.writing() as connection:
        connection.execute(delete(cohorts).where(cohorts.c.number == number))


def erase_from_cohorts(database: StateDatabase, image_ids: Ids[str]) -> None:
    """Remove images from all cohorts; cohorts without any judged image are deleted."""
    erased = list(image_ids)
    with database.writing() as connection:
        for start in range(0, len(erased), ERASED_TOGETHER):
            part = erased[start : start + ERASED_TOGETHER]
            for table in (judgements, proposals):
                connection.execute(delete(table).where(table.c.image_id.in_(part)))
        remaining = select(judgements.c.cohort)
        connection.execute(delete(cohorts).where(cohorts.c.number.not_in(remaining)))


def images_in_cohorts(database: StateDatabase) -> set[str]:
    """Return the ids of all judged or proposed images."""
    with database.reading() as connection:
        return {
            image
            for table in (judgements, proposals)
            for image in connection.scalars(select(table.c.image_id).distinct())
        }
