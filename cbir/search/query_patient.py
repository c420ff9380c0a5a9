"""The patient of a query, for searches among the patient's other studies."""

from collections.abc import Sequence

from cbir.descriptors.descriptor import QueryImage
from cbir.errors import InvalidInput
from cbir.images import Image
from cbir.store import Collection, Record
from cbir.store.records.filter_conditions import PatientScope
from cbir.store.records.records import hash_patient


def query_patient(
    collection: Collection, images: Sequence[Image | QueryImage], records: Sequence[Record]
) -> PatientScope:
    """Return the images of the first query image's patient, without those of its own study.

    Parameters
    ----------
    collection : Collection
        Collection that is searched; its secret makes the key of a patient.
    images : sequence of Image or QueryImage
        Query images from outside.
    records : sequence of Record
        Query images of the collection.

    Raises
    ------
    InvalidInput
        Without a query image.
    """
    if images:
        first = images[0]
        patient, study = (
            (first.patient_id, first.study)
            if isinstance(first, QueryImage)
            else (first.dicom.patient_id, first.dicom.study)
            if first.dicom
            else ("", "")
        )
        return PatientScope(hash_patient(collection.secret, patient), study)
    if records:
        return PatientScope(records[0].patient_key, records[0].study)
    raise InvalidInput("same_patient: needs an image to search with, whose patient is known")
