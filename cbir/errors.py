"""Exceptions that cbir raises on purpose, and what a log says of others."""

import traceback


class CbirError(Exception):
    """Base of all expected errors; its message names the input and the remedy."""


class UnreadableImage(CbirError):
    """Data that are not a supported image, are damaged, or exceed the limits."""


class InvalidInput(CbirError):
    """An option, label filter, vector or profile that does not fit."""


class NotEnoughMemory(UnreadableImage):
    """An image that needs more memory than decoding may take."""


class UndescribableImage(UnreadableImage):
    """An image that a network gives values for that cannot be stored."""


class NoPixels(UnreadableImage):
    """A DICOM object without an image: a report, a presentation state, a plan."""


class NotFound(CbirError):
    """A missing image, collection or file."""


class QueryCancelled(CbirError):
    """A search took longer than the setting `query_seconds` allows."""


class CollectionBusy(CbirError):
    """Another process is writing to the collection."""


class CollectionDamaged(CbirError):
    """Files of a collection contradict each other or cannot be read."""


class DatabaseUnavailable(CbirError):
    """The database server of a collection does not answer, or refuses."""


class IndexUnavailable(CbirError):
    """The server of a vector index does not answer, or refuses."""


class DeviceFailed(CbirError):
    """A GPU failed, or a library that computes on it."""


class ClusterFailed(CbirError):
    """A Ray cluster does not answer, or its nodes cannot describe images."""


class StorageFull(CbirError):
    """No space is left on the disk of a collection."""


class ArchiveFailed(CbirError):
    """A DICOMweb archive does not answer, or answers with an error.

    answered: True if the archive answered, though not with the requested data.
    """

    def __init__(self, text: str, answered: bool = False) -> None:
        super().__init__(text)
        self.answered = answered


class XnatFailed(Exception):
    """An XNAT server refuses, or does not deliver what it should. The message repeats nothing that it answered."""


class XnatSilent(XnatFailed):
    """An XNAT server does not answer, however often it is asked. is_overloaded: it says so itself."""

    def __init__(self, text: str, is_overloaded: bool = False) -> None:
        super().__init__(text)
        self.is_overloaded = is_overloaded


def describe_unexpected(error: BaseException) -> str:
    """Return kind and line of an error that was raised, without its text, which may quote names or values."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {frame.filename}:{frame.lineno}"
