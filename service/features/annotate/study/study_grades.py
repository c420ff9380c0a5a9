"""Grades of a study as an option: numbers, names, or both."""

from cbir.errors import InvalidInput

MAX_NAME = 40  # characters


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
