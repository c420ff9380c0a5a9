"""Images of a patient, without those of one study."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, false, or_

from cbir.store.base.schema import images


@dataclass(frozen=True)
class PatientScope:
    """Images of a patient. key: None for an unknown one. besides: UID of a study that is left out, "" for none."""

    key: str | None
    besides: str = ""

    def contains(self) -> ColumnElement[bool]:
        """Return the SQL condition of the images in this scope."""
        if self.key is None:
            return false()
        return and_(
            images.c.patient_key == self.key, or_(images.c.study == "", images.c.study != self.besides)
        )
