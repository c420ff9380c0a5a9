"""Tables of reader studies: their questions, who reads, and the answers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Float,
    ForeignKey,
    LargeBinary,
    Row,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from cbir.errors import InvalidInput, NotFound
from cbir.settings import Settings
from service.state.database import StateDatabase, open_state
from service.state.schema import WholeNumber, tables, unix_time

ERASED_IMAGE = "-"  # in place of the id of an image of an erased patient
studies = Table(
    "reader_studies",
    tables,
    Column("name", Text, primary_key=True),
    Column("created", WholeNumber, nullable=False),
    Column("collection", Text, nullable=False),
    Column("method_a", Text, nullable=False),
    Column("method_b", Text, nullable=False),
    Column("k", WholeNumber, nullable=False),
    Column("size", WholeNumber, nullable=False),  # items when it was made
    Column("readers", WholeNumber, nullable=False),
    Column("judge_images", WholeNumber, nullable=False),
    Column("seed", WholeNumber, nullable=False),
    Column("secret", LargeBinary, nullable=False),  # key of the hashes of readers
)
items = Table(
    "reader_study_items",
    tables,
    Column("study", Text, ForeignKey("reader_studies.name", ondelete="CASCADE"), primary_key=True),
    Column("item", WholeNumber, primary_key=True),
    Column("query", Text, nullable=False),
    Column("a", JSON, nullable=False),
    Column("b", JSON, nullable=False),
)
readers = Table(
    "reader_study_readers",
    tables,
    Column("study", Text, ForeignKey("reader_studies.name", ondelete="CASCADE"), primary_key=True),
    Column("reader", WholeNumber, primary_key=True),
    Column("who", Text, nullable=False),  # keyed hash
)
answers = Table(
    "reader_study_answers",
    tables,
    Column("study", Text, ForeignKey("reader_studies.name", ondelete="CASCADE"), primary_key=True),
    Column("reader", WholeNumber, primary_key=True),
    Column("item", WholeNumber, primary_key=True),
    Column("useful_a", WholeNumber, nullable=False),
    Column("useful_b", WholeNumber, nullable=False),
    Column("preference", WholeNumber, nullable=False),
    Column("a_left", WholeNumber, nullable=False),
    Column("relevant", JSON, nullable=False),
    Column("note", Text, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("time", WholeNumber, nullable=False),
)


@dataclass(frozen=True)
class ReaderStudy:
    """Settings of a study; method_a and method_b are compared. size: number of items when it was made."""

    name: str
    collection: str
    method_a: str
    method_b: str
    k: int
    size: int
    readers: int
    judge_images: bool
    seed: int
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class StudyItem:
    """A query with the answers of both methods, as image ids."""

    item: int
    query: str
    a: tuple[str, ...]
    b: tuple[str, ...]


@dataclass(frozen=True)
class ReaderAnswer:
    """Answer of a reader to one item.

    useful_a, useful_b: 1 to 5. preference: -1 for a, 0, 1 for b. a_left: the answers of a were at the left. relevant:
    by image id. seconds: time that it took.
    """

    reader: int
    item: int
    useful_a: int
    useful_b: int
    preference: int
    a_left: bool
    relevant: dict[str, bool]
    note: str
    seconds: float


def add_study(database: StateDatabase, study: ReaderStudy, questions: Sequence[StudyItem]) -> None:
    """Store a new study.

    Parameters
    ----------
    database : StateDatabase
    study : ReaderStudy
    questions : sequence of StudyItem

    Raises
    ------
    InvalidInput
        If there is a study of this name.
    """
    row = vars(study) | {"created": unix_time(), "judge_images": int(study.judge_images)}
    rows = [
        {"study": study.name, "item": each.item, "query": each.query, "a": list(each.a), "b": list(each.b)}
        for each in questions
    ]
    try:
        with database.writing() as connection:
            connection.execute(insert(studies).values(**row))
            connection.execute(insert(items), rows)
    except IntegrityError as error:
        raise InvalidInput(f"there is a study {study.name} already; choose another name") from error


def no_study(name: str) -> NotFound:
    """Return the error for a study that there is not, which is also that for one that a caller may not see."""
    return NotFound(f"there is no reader study {name}; `cbir evaluate study list` names them")


def find_study(database: StateDatabase, name: str) -> ReaderStudy:
    """Return a study; raises NotFound."""
    with database.reading() as connection:
        row = connection.execute(select(studies).where(studies.c.name == name)).one_or_none()
    if row is None:
        raise no_study(name)
    return _study(row)


def _study(row: Row[Any]) -> ReaderStudy:
    values = {name: row._mapping[name] for name in ReaderStudy.__dataclass_fields__}
    return ReaderStudy(**values | {"judge_images": bool(row.judge_images)})


def list_studies(database: StateDatabase) -> list[tuple[ReaderStudy, int, int]]:
    """Return each study with its numbers of items and of answers, the newest first."""
    with database.reading() as connection:
        counts = [
            {
                row[0]: row[1]
                for row in connection.execute(select(table.c.study, func.count()).group_by(table.c.study))
            }
            for table in (items, answers)
        ]
        rows = connection.execute(select(studies).order_by(studies.c.created.desc(), studies.c.name)).all()
    return [(_study(row), counts[0].get(row.name, 0), counts[1].get(row.name, 0)) for row in rows]


def delete_study(database: StateDatabase, name: str) -> None:
    """Delete a study with its answers; raises NotFound."""
    with database.writing() as connection:
        if not connection.execute(delete(studies).where(studies.c.name == name)).rowcount:
            raise no_study(name)
    database.drop_old_rows()


def read_items(database: StateDatabase, name: str) -> list[StudyItem]:
    """Return the items of a study by number."""
    with database.reading() as connection:
        rows = connection.execute(select(items).where(items.c.study == name).order_by(items.c.item)).all()
    return [StudyItem(row.item, row.query, tuple(row.a), tuple(row.b)) for row in rows]


def claim_reader(database: StateDatabase, study: ReaderStudy, who: str) -> int:
    """Return the number of a reader, from 1; a new one gets the next free number.

    Parameters
    ----------
    database : StateDatabase
    study : ReaderStudy
    who : str
        Keyed hash of the reader.

    Raises
    ------
    NotFound
        If the study has all its readers.
    """
    with database.writing() as connection:
        rows = connection.execute(
            select(readers.c.reader, readers.c.who).where(readers.c.study == study.name)
        ).all()
        for row in rows:
            if row.who == who:
                return int(row.reader)
        if len(rows) >= study.readers:
            raise NotFound(
                f"the study {study.name} has all its {study.readers} readers; ask its owner for another"
            )
        number = max((row.reader for row in rows), default=0) + 1
        connection.execute(insert(readers).values(study=study.name, reader=number, who=who))
        return int(number)


def set_answer(database: StateDatabase, name: str, answer: ReaderAnswer) -> None:
    """Store the answer of a reader to an item, in place of an earlier one; raises NotFound for an unknown item.

    Parameters
    ----------
    database : StateDatabase
    name : str
        Name of the study.
    answer : ReaderAnswer
    """
    same = (answers.c.study == name, answers.c.reader == answer.reader, answers.c.item == answer.item)
    with database.writing() as connection:
        matching = select(items.c.a, items.c.b).where(items.c.study == name, items.c.item == answer.item)
        item = connection.execute(matching).one_or_none()
        if item is None:
            raise NotFound(f"the study {name} has no item {answer.item}")
        connection.execute(delete(answers).where(*same))
        # An image may have been erased since the reader saw it.
        relevant = {image: value for image, value in answer.relevant.items() if image in (*item.a, *item.b)}
        row = vars(answer) | {"a_left": int(answer.a_left), "study": name, "time": unix_time()}
        row |= {"relevant": relevant}
        connection.execute(insert(answers).values(**row))


def read_answers(database: StateDatabase, name: str, reader: int | None = None) -> list[ReaderAnswer]:
    """Return the answers of one reader, or of all, by reader and item.

    Parameters
    ----------
    database : StateDatabase
    name : str
        Name of the study.
    reader : int or None
        None: of all readers.
    """
    where = [answers.c.study == name] + ([] if reader is None else [answers.c.reader == reader])
    with database.reading() as connection:
        rows = connection.execute(
            select(answers).where(*where).order_by(answers.c.reader, answers.c.item)
        ).all()
    return [
        ReaderAnswer(
            **{name: row._mapping[name] for name in ReaderAnswer.__dataclass_fields__}
            | {"a_left": bool(row.a_left)}
        )
        for row in rows
    ]


def erase_from_studies(settings: Settings, keys: Sequence[str], image_ids: Iterable[str]) -> None:
    """Remove images of a patient from all studies, with the items that they are the query of and their answers.

    Parameters
    ----------
    settings : Settings
    keys : sequence of str
        Keys that the patient may have; studies have none.
    image_ids : iterable of str
        Ids of the images.
    """
    database, erased = open_state(settings), set(image_ids)
    if not database.exists():
        return
    with database.writing() as connection:
        for row in connection.execute(select(items)).all():
            if row.query in erased:
                for table in (answers, items):
                    connection.execute(
                        delete(table).where(table.c.study == row.study, table.c.item == row.item)
                    )
            elif erased.intersection(row.a) or erased.intersection(row.b):
                _erase_from_item(connection, row, erased)
    database.drop_old_rows()


def _erase_from_item(connection: Connection, row: Row[Any], erased: set[str]) -> None:
    lists = {
        name: [ERASED_IMAGE if image in erased else image for image in row._mapping[name]]
        for name in ("a", "b")
    }
    connection.execute(
        update(items).where(items.c.study == row.study, items.c.item == row.item).values(**lists)
    )
    of_item = (answers.c.study == row.study, answers.c.item == row.item)
    for answer in connection.execute(select(answers).where(*of_item)).all():
        relevant = {image: value for image, value in answer.relevant.items() if image not in erased}
        connection.execute(
            update(answers).where(*of_item, answers.c.reader == answer.reader).values(relevant=relevant)
        )


def images_in_studies(database: StateDatabase) -> set[str]:
    """Return the ids of all images in items and answers."""
    with database.reading() as connection:
        images = {image for row in connection.execute(select(items)) for image in (row.query, *row.a, *row.b)}
        return images.union(*connection.scalars(select(answers.c.relevant)))
