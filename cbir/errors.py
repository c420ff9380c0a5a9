"""What can go wrong, in words for the person who has to mend it."""


class CbirError(Exception):
    """Base of every error this project raises on purpose; its text names the input and what to do."""


class UnreadableImage(CbirError):
    """The bytes are not an image that can be decoded, or are larger than allowed."""


class InvalidInput(CbirError):
    """An option, a label filter, a vector or a profile does not fit."""


class NotFound(CbirError):
    """There is no such image or collection."""


class CollectionBusy(CbirError):
    """Another process is writing to the collection."""


class CollectionDamaged(CbirError):
    """The files of a collection contradict each other or cannot be read."""


class StorageFull(CbirError):
    """There is no room left where a collection is stored."""


class ArchiveFailed(CbirError):
    """An archive that images are fetched from does not answer, or is none.

    answered: whether it did, though not with what was asked for.
    """

    def __init__(self, text: str, answered: bool = False) -> None:
        super().__init__(text)
        self.answered = answered
