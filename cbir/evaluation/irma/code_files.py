"""Files of true and of submitted IRMA codes."""

import csv
from dataclasses import dataclass, field
from pathlib import Path

from cbir.errors import InvalidInput
from cbir.evaluation.datasets.irma.codes import parse_code, strip_zeros
from cbir.evaluation.datasets.irma.label_files import LABELLINGS, read_labels_2009
from cbir.evaluation.datasets.irma.text_lines import read_lines

IDS = ("image_id", "irma_id", "id")
CODES = ("irma_code", "code", "label")
LISTED = 5  # damaged lines in a message


@dataclass
class ImageCodes:
    """Parsed codes by image id without leading zeros.

    written: ids that have leading zeros in the file. left_out: number of rows without a code.
    """

    by_image: dict[str, str] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)
    left_out: int = 0


def read_true_codes(path: Path, labelling: str = "2008", split: str = "test") -> ImageCodes:
    """Read true codes.

    Parameters
    ----------
    path : Path
        A csv of the release of 2009 (`;`), a csv with columns such as image_id and code, or `<id> <code>` lines.
    labelling : {"2007", "2008"}
        Column of the csv of 2009.
    split : {"train", "test"}
        Layout of the csv of 2009 if its header does not name the columns.

    Raises
    ------
    InvalidInput
        If lines are damaged or an image is repeated; names the lines.
    """
    lines, _ = read_lines(path)
    head = next((line for line in lines if line.strip()), "")
    if ";" in head:
        return _read_2009(path, labelling, "train" if "train" in path.name.lower() else split)
    if "," in head:
        return _read_csv(path, lines)
    return _read_lines(path, lines, wildcards=False)


def read_answered_codes(path: Path) -> ImageCodes:
    """Read submitted codes, `<id> <code>` a line, `*` for don't know; raise InvalidInput naming damaged lines."""
    return _read_lines(path, read_lines(path)[0], wildcards=True)


def _read_lines(path: Path, lines: list[str], wildcards: bool) -> ImageCodes:
    rows = []
    for number, line in enumerate(lines, start=1):
        cells = line.split()
        if cells:
            rows.append((number, cells[0], cells[1] if len(cells) == 2 else line))
    return _parse_rows(path, rows, wildcards)


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
    with_code = [row for row in rows if row[2].strip()]
    codes = _parse_rows(path, with_code, wildcards=False)
    codes.left_out = len(rows) - len(with_code)
    return codes


def _read_2009(path: Path, labelling: str, split: str) -> ImageCodes:
    if labelling not in LABELLINGS[2:]:
        raise InvalidInput(f"no labelling {labelling} has codes; use 2007 or 2008")
    listing = read_labels_2009(path, split, labelling)
    left_out = len(listing.dropped.pop(f"no value in the labelling {labelling}", []))
    if listing.dropped:
        reasons = [f"{reason}: {', '.join(ids[:LISTED])}" for reason, ids in listing.dropped.items()]
        raise InvalidInput(f"{path}: {'; '.join(reasons)}")
    return ImageCodes({name: code for name, code in listing.labels.items() if code}, left_out=left_out)


def _parse_rows(path: Path, rows: list[tuple[int, str, str]], wildcards: bool) -> ImageCodes:
    """Parse rows of line number, id and code; report all damaged lines together."""
    codes, damaged = ImageCodes(), []
    for number, image_id, text in rows:
        name = strip_zeros(image_id)
        try:
            code = parse_code(text, wildcards)
            if wildcards and len(code) == 1:
                raise InvalidInput(f"'{text}' is not an answer; codes look like 1121-120-942-7**")
        except InvalidInput as error:
            damaged.append(f"line {number}: {error}")
            continue
        if not name:
            damaged.append(f"line {number}: no image id")
        elif name in codes.by_image:
            damaged.append(f"line {number}: image {name} is repeated")
        else:
            codes.by_image[name] = code
            if image_id.strip() != name:
                codes.written[name] = image_id.strip()
    if damaged:
        more = f"; and {len(damaged) - LISTED} more lines" if len(damaged) > LISTED else ""
        raise InvalidInput(f"{path}: {'; '.join(damaged[:LISTED])}{more}")
    if not codes.by_image:
        raise InvalidInput(f"{path} contains no image; its lines must be `<id> <code>`")
    return codes
