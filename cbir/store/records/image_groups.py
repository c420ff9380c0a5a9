"""Groups of images: of a patient, a DICOM study or series, or with the same value of a label."""

from collections.abc import Sequence

from sqlalchemy import Connection

from cbir.store.base.statements import Statement
from cbir.store.records.label_facets import check_label_keys

COLUMNS = {"patient": "patient_key", "study": "study", "series": "series"}
_LABEL_PREFIX = "label:"
_BY_COLUMN = {
    name: Statement(f"SELECT number, {column} FROM images WHERE number IN ? AND {column} <> ''")
    for name, column in COLUMNS.items()
}
_BY_LABEL = Statement("SELECT number, value FROM labels WHERE number IN ? AND key = ?")


def read_group_keys(connection: Connection, numbers: Sequence[int], by: str) -> dict[int, str]:
    """Return the key of the group of each image that has one.

    Parameters
    ----------
    connection : Connection
    numbers : sequence of int
        Numbers of images.
    by : str
        "patient" for patient keys, "study" or "series" for UIDs, or the key of a label, with "label:" before it where
        it is one of these words.

    Raises
    ------
    InvalidInput
        If no image has the label.
    """
    given = list(numbers)
    if by in COLUMNS:
        return dict(map(tuple, _BY_COLUMN[by].run(connection, given)))
    key = by.removeprefix(_LABEL_PREFIX)
    check_label_keys(connection, [key])
    return dict(map(tuple, _BY_LABEL.run(connection, given, key)))
