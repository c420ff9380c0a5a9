"""Rounds of a study and their pairs, stored so that they survive a restart of the server."""

from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cbir.errors import InvalidInput
from service.features.annotate.active.judgement_journal import HEADER
from service.features.annotate.study.study_files import write_study_file

FOLDER = "rounds"
JOURNAL = "judgements.jsonl"


class AskedPair(NamedTuple):
    """A pair to judge; `first` is shown on the left, `everybody` is True if each annotator judges it."""

    first: str
    second: str
    everybody: bool = False

    @property
    def pair(self) -> tuple[str, str]:
        """Both image ids in ascending order."""
        return (self.first, self.second) if self.first < self.second else (self.second, self.first)


class StudyRound(BaseModel):
    """A round, numbered from 1; `provisional` if selected before the training on the previous rounds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    number: int = Field(ge=1)
    provisional: bool
    pairs: tuple[AskedPair, ...]


def read_rounds(folder: Path) -> list[StudyRound]:
    """Return the rounds of the study in `folder`, in order; raise InvalidInput if one is missing or damaged."""
    rounds = []
    for path in sorted((folder / FOLDER).glob("[0-9]*.json")):
        try:
            rounds.append(StudyRound.model_validate_json(path.read_bytes()))
        except ValidationError as error:
            raise InvalidInput(f"{path} is not a round of a study; restore it from a backup") from error
    if [round_.number for round_ in rounds] != list(range(1, len(rounds) + 1)):
        raise InvalidInput(f"rounds are missing in {folder / FOLDER}; restore them from a backup")
    return rounds


def store_round(folder: Path, round_: StudyRound) -> None:
    """Write `round_` of the study in `folder`, replacing an earlier version; raise StorageFull on a full disk."""
    write_study_file(folder / FOLDER / f"{round_.number:04d}.json", round_.model_dump_json().encode() + b"\n")


def journal_path(folder: Path) -> Path:
    """Return the path of the journal of the study in `folder`; raise InvalidInput if it is gone.

    A journal is on disk before the first round.
    """
    path = folder / JOURNAL
    has_rounds = any((folder / FOLDER).glob("[0-9]*.json"))
    if has_rounds and not (path.is_file() and path.stat().st_size >= len(HEADER)):
        raise InvalidInput(
            f"the judgements {path} are missing or empty, though people were asked; restore the file from a backup, "
            "or name another folder for a new study"
        )
    return path


def require_no_judgements(folder: Path) -> None:
    """Raise InvalidInput if the study in `folder`, which has no rounds, has judgements: its rounds are gone."""
    if has_judgements(folder):
        raise InvalidInput(
            f"the rounds in {folder / FOLDER} are missing, though there are judgements; restore them from a backup"
        )


def has_judgements(folder: Path) -> bool:
    """Return whether the journal of the study in `folder` has any entry."""
    path = folder / JOURNAL
    return path.is_file() and path.stat().st_size > len(HEADER)
