"""Models fitted to the grades of a collection's images, stored in its table `meta`, one per label of grades."""

from sqlalchemy import Connection, delete, select

from cbir.store.base import metadata
from cbir.store.base.schema import meta

PREFIX = "grading:"


def set_grade_model(connection: Connection, label: str, text: str) -> None:
    """Store the model of a label and replace an earlier one.

    Parameters
    ----------
    connection : Connection
    label : str
        Label that holds the grades.
    text : str
        Serialised model.
    """
    metadata.set_value(connection, PREFIX + label, text)


def read_grade_model(connection: Connection, label: str) -> str | None:
    """Return the model of a label; None if there is none."""
    return metadata.find_value(connection, PREFIX + label)


def graded_labels(connection: Connection) -> list[str]:
    """Return the labels that have a model, in alphabetical order."""
    keys = connection.scalars(select(meta.c.key).where(meta.c.key.startswith(PREFIX, autoescape=True)))
    return sorted(key.removeprefix(PREFIX) for key in keys)


def delete_grade_models(connection: Connection) -> None:
    """Delete all models: they were fitted to images that may be erased."""
    connection.execute(delete(meta).where(meta.c.key.startswith(PREFIX, autoescape=True)))
