"""The rounds of a study: which pairs each asks, kept so that a server started anew goes on with the same."""

from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cbir.active.study.study_files import write_study_file
from cbir.errors import InvalidInput

FOLDER = "rounds"


class AskedPair(NamedTuple):
    """A pair. first: shown on the left. everybody: whether each annotator is asked, or any one of them."""

    first: str
    second: str
    everybody: bool = False

    @property
    def pair(self) -> tuple[str, str]:
        """Both images, in the order of their ids."""
        return (self.first, self.second) if self.first < self.second else (self.second, self.first)


class StudyRound(BaseModel):
    """number: from 1. provisional: chosen before the ranker has learnt from the rounds before it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int = Field(ge=1)
    provisional: bool
    pairs: tuple[AskedPair, ...]


def read(folder: Path) -> list[StudyRound]:
    """The rounds of the study in `folder`, in order; raises InvalidInput."""
    found = []
    for path in sorted((folder / FOLDER).glob("[0-9]*.json")):
        try:
            found.append(StudyRound.model_validate_json(path.read_bytes()))
        except ValidationError as error:
            raise InvalidInput(f"{path} is no round of a study; take it from a backup") from error
    if [one.number for one in found] != list(range(1, len(found) + 1)):
        raise InvalidInput(f"rounds are missing in {folder / FOLDER}; take them from a backup")
    return found


def keep(folder: Path, one: StudyRound) -> None:
    """Write a round, or put it in the place of what it was before; raises StorageFull."""
    write_study_file(folder / FOLDER / f"{one.number:04d}.json", one.model_dump_json().encode() + b"\n")
