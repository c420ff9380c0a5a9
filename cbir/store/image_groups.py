"""Groups of images: of a patient, a DICOM study or series, or with the same value of a label."""

import json
from collections.abc import Sequence

from sqlalchemy import Connection

from cbir.store.label_facets import check_label_keys

COLUMNS = {"patient": "patient_key", "study": "study", "series": "series"}
LABEL = "label:"
_GIVEN = "number IN (SELECT value FROM json_each(?))"


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
    given = json.dumps(list(numbers))
    if by in COLUMNS:
        column = COLUMNS[by]  # one of three constants: no text of a request becomes part of the statement
        query = f"SELECT number, {column} FROM images WHERE {_GIVEN} AND {column} <> ''"
        return dict(connection.exec_driver_sql(query, (given,)).all())
    key = by.removeprefix(LABEL)
    check_label_keys(connection, [key])
    query = f"SELECT number, value FROM labels WHERE {_GIVEN} AND key = ?"
    return dict(connection.exec_driver_sql(query, (given, key)).all())
