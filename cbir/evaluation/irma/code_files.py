"""Files of true and of answered IRMA codes."""

import csv
from dataclasses import dataclass, field
from pathlib import Path

from cbir.datasets.irma import parse_code, strip_zeros
from cbir.datasets.irma.label_files import LABELLINGS, read_labels_2009
from cbir.datasets.irma.text_lines import read_lines
from cbir.errors import InvalidInput

IDS = ("image_id", "irma_id", "id")
CODES = ("irma_code", "code", "label")
NAMED = 5  # damaged lines named in a message


@dataclass
class ImageCodes:
    """Parsed codes by bare image id.

    written: the ids that stand otherwise in the file, with zeros before them. left_out: rows without a value, for
    which there is nothing to compare.
    """

    by_image: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    left_out: int = 0


def read_true_codes(path: Path, labelling: str = "2008", split: str = "test") -> ImageCodes:
    """True codes: a csv of the release of 2009 (`;`), a csv with columns such as image_id and code, or `<id>
    <code>` lines. `split` tells which columns the csv of 2009 has where its header does not name them.

    Raises InvalidInput, naming the lines, where some are damaged or an image comes twice.
    """
    lines, _ = read_lines(path)
    head = next((line for line in lines if line.strip()), "")
    if ";" in head:
        return _read_2009(path, labelling, "train" if "train" in path.name.lower() else split)
    if "," in head:
        return _read_csv(path, lines)
    return _read_lines(path, lines, wildcards=False)


def read_answered_codes(path: Path) -> ImageCodes:
    """Answered codes, `<id> <code>` a line, `*` for don't know; raises InvalidInput naming damaged lines."""
    return _read_lines(path, read_lines(path)[0], wildcards=True)


def _read_lines(path: Path, lines: list[str], wildcards: bool) -> ImageCodes:
    rows = []
    for number, line in enumerate(lines, start=1):
        cells = line.split()
        if cells:
            rows.append((number, cells[0], cells[1] if len(cells) == 2 else line))
    return _collect(path, rows, wildcards)


def _read_csv(path: Path, lines: list[str]) -> ImageCodes:
    reader = csv.DictReader(lines)
    try:
        table = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise InvalidInput(f"{path} cannot be read as csv: {error}") from error
    names = {name.strip().lower(): name for name in reader.fieldnames or ()}
    image = next((names[name] for name in IDS if name in names), None)
    code = next((names[name] for name in CODES if name in names), None)
    if image is None or code is None:
        raise InvalidInput(f"{path} needs a column {' or '.join(IDS)}, and one {' or '.join(CODES)}")
    rows = [(number, row[image] or "", row[code] or "") for number, row in table]
    given = [row for row in rows if row[2].strip()]
    found = _collect(path, given, wildcards=False)
    found.left_out = len(rows) - len(given)
    return found


def _read_2009(path: Path, labelling: str, split: str) -> ImageCodes:
    if labelling not in LABELLINGS[2:]:
        raise InvalidInput(f"there is no labelling {labelling} with codes; there are 2007 and 2008")
    listing = read_labels_2009(path, split, labelling)
    nothing = len(listing.dropped.pop(f"no value in the labelling {labelling}", []))
    if listing.dropped:
        named = "; ".join(f"{reason}: {', '.join(what[:NAMED])}" for reason, what in listing.dropped.items())
        raise InvalidInput(f"{path}: {named}")
    return ImageCodes({name: code for name, code in listing.labels.items() if code}, left_out=nothing)


def _collect(path: Path, rows: list[tuple[int, str, str]], wildcards: bool) -> ImageCodes:
    """Parse (line, id, code); all damaged lines are told together."""
    found, damaged = ImageCodes(), []
    for number, image_id, text in rows:
        name = strip_zeros(image_id)
        try:
            code = parse_code(text, wildcards)
            if wildcards and len(code) == 1:
                raise InvalidInput(f"'{text}' is no answer; codes look like 1121-120-942-7**")
        except InvalidInput as error:
            damaged.append(f"line {number}: {error}")
            continue
        if not name:
            damaged.append(f"line {number}: no image id")
        elif name in found.by_image:
            damaged.append(f"line {number}: image {name} comes a second time")
        else:
            found.by_image[name] = code
            if image_id.strip() != name:
                found.written[name] = image_id.strip()
    if damaged:
        more = f"; and {len(damaged) - NAMED} more lines" if len(damaged) > NAMED else ""
        raise InvalidInput(f"{path}: {'; '.join(damaged[:NAMED])}{more}")
    if not found.by_image:
        raise InvalidInput(f"{path} names no image; its lines must be `<id> <code>`")
    return found
