"""Options of `cbir annotate serve` that choose images, grades and texts of a study."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cbir.errors import InvalidInput
from cbir.learn.severity.stored_images import matching_records
from cbir.store import Collection
from cbir.store.records.filter_conditions import Condition
from service.features.annotate import study_plan

MAX_NAME = 40  # characters
NONE = "none"  # takes away what an earlier start stored
MAX_BYTES = 4 * study_plan.MAX_INSTRUCTIONS  # a character has at most 4


def parse_grades(text: str) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Return grades and their names of `0,1,2`, `none,mild,severe` or `0=none,1=mild`; no names in the first case.

    Names without numbers stand for 0, 1, 2, ...; the single word `none` for no grades at all. Raises InvalidInput.
    """
    if text.strip() == "none":
        return (), ()
    parts = [part.strip() for part in text.split(",")]
    if all(_is_number(part) for part in parts):
        return tuple(float(part) for part in parts), ()
    pairs = [part.partition("=") for part in parts]
    if all(separator and _is_number(number.strip()) for number, separator, _ in pairs):
        grades, names = [float(number) for number, _, _ in pairs], [name.strip() for _, _, name in pairs]
    elif not any(separator or _is_number(part) for part, (_, separator, _) in zip(parts, pairs, strict=True)):
        grades, names = [float(number) for number in range(len(parts))], parts
    else:
        raise InvalidInput(
            f"--grades: numbers, names, or NUMBER=NAME, with commas between them, not {text!r}"
        )
    if len(set(names)) < len(names) or not all(
        0 < len(name) <= MAX_NAME and name.isprintable() for name in names
    ):
        raise InvalidInput(f"--grades: names of grades are different texts of 1 to {MAX_NAME} characters")
    return tuple(grades), tuple(names)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def grade_options(grades: str | None) -> dict[str, Any]:
    """Return the fields of the plan that the option --grades sets; {} if it was not given. Raises InvalidInput."""
    if grades is None:
        return {}
    values, names = parse_grades(grades)
    return {"grades": values, "grade_names": names}


def images_and_texts(
    collection: Collection, folder: Path, where: Sequence[str] | None, instructions: Path | None,
    reference: Sequence[str] | None, reference_label: str | None, seed: int,
) -> dict[str, Any]:  # fmt: skip
    """Return the fields of the plan for images and texts; those of options that were not given are None.

    Parameters
    ----------
    collection : Collection
    folder : Path
        Folder of the study.
    where : sequence of str, optional
        Conditions on the images that are judged.
    instructions : Path, optional
        Markdown file.
    reference : sequence of str, optional
        IMAGE_ID=CAPTION, or csv files.
    reference_label : str, optional
        Label whose values have reference images.
    seed : int
        Of the choice of reference images.

    Raises
    ------
    InvalidInput
        If a value is not valid, or fewer than two images remain.
    """
    conditions = _conditions(where)
    stored = study_plan.read_plan(folder).where if (folder / study_plan.FILE).exists() else ()
    parsed = collection.conditions(stored if conditions is None else conditions)
    if parsed and len(matching_records(collection, parsed)) < 2:
        raise InvalidInput("--where: fewer than two images remain, and comparing needs two")
    return {
        "where": conditions,
        "instructions": _read_instructions(instructions),
        "references": _references(collection, reference, reference_label, parsed, seed),
    }


def _conditions(where: Sequence[str] | None) -> tuple[str, ...] | None:
    if not where:
        return None
    return () if list(where) == [NONE] else tuple(where)


def _read_instructions(path: Path | None) -> str | None:
    if path is None:
        return None
    if str(path) == NONE:
        return ""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InvalidInput(
                f"--instructions: {path} has more than {study_plan.MAX_INSTRUCTIONS:,} characters"
            )
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"--instructions: {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"--instructions: {path} is not a text in UTF-8") from error


def _references(
    collection: Collection,
    texts: Sequence[str] | None,
    label: str | None,
    where: Sequence[Condition],
    seed: int,
) -> list[study_plan.ReferenceImage] | None:
    if not texts and label is None:
        return None
    if list(texts or ()) == [NONE] and label is None:
        return []
    references = [each for text in texts or () for each in study_plan.parse_reference(text)]
    if label is not None:
        references += study_plan.references_of_label(collection, label, where, seed)
    study_plan.check_references(collection, references)
    return references
