"""Options of `cbir annotate serve` that choose images and texts of a study."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cbir.errors import InvalidInput
from cbir.learn.severity.stored_images import matching_records
from cbir.store import Collection
from cbir.store.records.filter_conditions import Condition
from service.features.annotate.study import reference_images, study_plan
from service.features.annotate.study.study_grades import parse_grades

NONE = "none"  # takes away what an earlier start stored
MAX_BYTES = 4 * study_plan.MAX_INSTRUCTIONS  # a character has at most 4


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
) -> list[reference_images.ReferenceImage] | None:
    if not texts and label is None:
        return None
    if list(texts or ()) == [NONE] and label is None:
        return []
    references = [each for text in texts or () for each in reference_images.parse_reference(text)]
    if label is not None:
        references += reference_images.references_of_label(collection, label, where, seed)
    reference_images.check_references(collection, references)
    return references
