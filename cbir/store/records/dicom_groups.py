"""Studies and series of a collection, with their numbers of images."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from cbir.store.base.schema import images
from cbir.store.records.dicom_instances import DicomScope
from cbir.store.records.filter_conditions import Condition
from cbir.store.records.image_rows import ids_of
from cbir.store.records.slice_rows import middle_number


class DicomGroup(NamedTuple):
    """A study or a series. series: "" for a study. first: number of its first image. middle: id of its middle one."""

    study: str
    series: str
    images: int
    first: int
    middle: str


def read_groups(
    connection: Connection, level: str, before: int | None, limit: int, where: Sequence[Condition] = ()
) -> list[DicomGroup]:
    """Return the next studies or series, the one that was begun last first.

    Parameters
    ----------
    connection : Connection
    level : str
        "study" or "series".
    before : int or None
        `first` of the last group of the previous page.
    limit : int
        Largest number of groups.
    where : sequence of Condition
        Label conditions on the images that count; all must hold.
    """
    conditions = [images.c.study != "", *(condition.matches() for condition in where)]
    columns = [images.c.study] if level == "study" else [images.c.study, images.c.series]
    first = func.min(images.c.number)
    query = select(*columns, func.count(), first).where(*conditions).group_by(*columns)
    if before is not None:
        query = query.having(first < before)
    groups = []
    for study, *series, number, start in connection.execute(query.order_by(first.desc()).limit(limit)):
        scope = DicomScope(study, *series)
        middle = ids_of(connection, [middle_number(connection, scope, conditions)])
        groups.append(DicomGroup(study, scope.series, number, start, next(iter(middle), "")))
    return groups
