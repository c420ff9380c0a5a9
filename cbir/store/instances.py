"""What a collection knows of DICOM instances by their UIDs, and the one thing it may keep of their dates."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from sqlalchemy import ColumnElement, Connection, and_, false, func, or_, select

from cbir.store.rows import matching, parts
from cbir.store.schema import images, labels

YEARS = 5  # a date is moved back by at most these


@dataclass(frozen=True)
class DicomScope:
    """A study, a series or an instance by its UIDs; series, instance: "" for all. Without a study: nothing."""

    study: str = ""
    series: str = ""
    instance: str = ""

    def holds(self) -> ColumnElement[bool]:
        """The SQL condition of the images that are of it."""
        said = (
            (images.c.study, self.study),
            (images.c.series, self.series),
            (images.c.instance, self.instance),
        )
        return and_(*(column == uid for column, uid in said if uid)) if self.study else false()

    def leaves_out(self) -> ColumnElement[bool]:
        """The SQL condition of the images that are of it, or of no DICOM instance."""
        return or_(images.c.instance == "", self.holds())


def numbers_in(connection: Connection, scope: DicomScope) -> list[int]:
    """Numbers of the images of a study, series or instance: by series and instance, then by frame."""
    order = (images.c.series, images.c.instance, images.c.frame, images.c.number)
    return list(connection.scalars(select(images.c.number).where(scope.holds()).order_by(*order)))


def known(connection: Connection, instances: Iterable[str]) -> set[str]:
    """Those of the SOP Instance UIDs that images of the collection have."""
    column = images.c.instance
    return {row[0] for row in matching(connection, [column], column, {one for one in instances if one})}


def shifted(secret: bytes, patient: str, day: str) -> str:
    """A study date (YYYYMMDD) moved back by 1 to 1826 days, the same for all of a patient's; "" for no date.

    So the time between two studies of a patient stays, and nobody without the collection's key can tell when they
    were (PS3.15, E.3.6, Retain Longitudinal Temporal Information with Modified Dates).
    """
    try:
        told = date(int(day[:4]), int(day[4:6]), int(day[6:8])) if len(day) == 8 else None
    except ValueError:
        told = None
    if told is None or not patient.strip():  # without a patient there is nothing to be the same for
        return ""
    digest = hashlib.blake2b(b"date " + patient.strip().encode(), key=secret, digest_size=8).digest()
    try:
        moved = told - timedelta(days=1 + int.from_bytes(digest, "big") % (YEARS * 365 + 1))
    except OverflowError:
        return ""
    return moved.strftime("%Y%m%d") if moved.year >= 1000 else ""


@dataclass(frozen=True)
class Related:
    """How much there is of a study in the collection. modalities: of the study, ascending."""

    series: int
    study_instances: int
    series_instances: int
    modalities: list[str]


def related(connection: Connection, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Related]:
    """What the collection holds of these studies and series, by the two UIDs."""
    places = set(places)
    counts: dict[str, dict[str, int]] = {}
    modalities: dict[str, set[str]] = {}
    for part in parts(sorted({study for study, _ in places})):
        of_study = images.c.study.in_(part)
        counted = select(images.c.study, images.c.series, func.count(images.c.instance.distinct()))
        for study, series, count in connection.execute(
            counted.where(of_study).group_by(images.c.study, images.c.series)
        ):
            counts.setdefault(study, {})[series] = count
        said = select(images.c.study, labels.c.value).join(labels).where(of_study, labels.c.key == "modality")
        for study, modality in connection.execute(said.distinct()):
            modalities.setdefault(study, set()).add(modality)
    found = {}
    for study, series in places:
        of = counts.get(study, {})
        known = sorted(modalities.get(study, ()))
        found[study, series] = Related(len(of), sum(of.values()), of.get(series, 0), known)
    return found


def by_ids(connection: Connection, image_ids: Iterable[str]) -> list[int]:
    """Numbers of the images with these ids that are there, ascending."""
    return sorted(
        number
        for part in parts(sorted(set(image_ids)))
        for number in connection.scalars(select(images.c.number).where(images.c.image_id.in_(part)))
    )
