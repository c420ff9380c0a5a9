"""Files of labels and of submitted codes: `<id> <label>` lines, and the csv of 2009 with four labellings at once."""

import csv
import re
from dataclasses import dataclass, field
from pathlib import Path

from cbir.errors import InvalidInput
from cbir.evaluation.datasets.irma.codes import CLUTTER, parse_code, read_lines, strip_zeros

LABELLINGS = ("2005", "2006", "2007", "2008")  # the first two are classes, the others codes

POSITIONS = {  # columns of the 2009 csv, counted from 0: image, then the four labellings
    "train": {"image": 0, "2005": 3, "2006": 5, "2007": 6, "2008": 7},
    "test": {"image": 0, "2005": 7, "2006": 9, "2007": 10, "2008": 11},
}

MISSING = "\\N"

CLASS = re.compile(r"\d{1,3}")

LINE = re.compile(r"\s*(\d+)\s+(\S+)\s*")


@dataclass(kw_only=True)
class DropLog:
    """Images, rows or files that were left out, by reason, and other remarks."""

    dropped: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def drop(self, reason: str, item: str) -> None:
        """Count `item` as dropped."""
        self.dropped.setdefault(reason, []).append(item)


@dataclass
class LabelFile(DropLog):
    """Labels by image id without leading zeros; None if the row was dropped, for the reason in `dropped`."""

    labels: dict[str, str | None] = field(default_factory=dict)

    def add(self, image_id: str, label: str, labelling: str) -> None:
        """Add a row.

        Parameters
        ----------
        image_id, label : str
            As in the file. A missing, wrong or contradictory label is dropped.
        labelling : {"2005", "2006", "2007", "2008"}
        """
        name, value, reason = strip_zeros(image_id), None, None
        if label.strip() in (MISSING, ""):
            reason = f"no value in the labelling {labelling}"
        else:
            value = normalise_label(label, labelling)
            reason = None if value else f"no {label_kind(labelling)} of the labelling {labelling}"
        if name in self.labels:
            if self.labels[name] == value:
                self.notes.append(f"{name} is repeated with the same label")
                return
            value, reason = None, "two different labels for one image"
        if reason:
            self.drop(reason, name)
        self.labels[name] = value


def label_kind(labelling: str) -> str:
    """Return "class" or "code"."""
    return "class" if labelling in ("2005", "2006") else "code"


def normalise_label(label: str, labelling: str) -> str | None:
    """Return a class without leading zeros, a code in its usual form, or clutter; None for other text."""
    if label_kind(labelling) == "class" and not label.strip().upper().startswith(CLUTTER):
        return strip_zeros(label) if CLASS.fullmatch(label.strip()) else None
    try:
        return parse_code(label)
    except InvalidInput:
        return None


def is_label_list(path: Path) -> bool:
    """Return True if most lines of a text file are `<id> <label>`, or it is a csv like that of 2009."""
    try:
        lines = [line for line in read_lines(path)[0] if line.strip()]
    except InvalidInput:  # binary
        return False
    if path.suffix.lower() == ".csv":
        return bool(lines) and ";" in lines[0]
    return 2 * sum(LINE.fullmatch(line) is not None for line in lines) > len(lines)


def read_label_list(path: Path, labelling: str) -> LabelFile:
    """Read lines `<id> <label>`, split on white space, as in `ImageCLEF2007med_codes.txt`."""
    lines, remark = read_lines(path)
    table = LabelFile(notes=[remark] if remark else [])
    for number, line in enumerate(lines, start=1):
        if matched := LINE.fullmatch(line):
            table.add(matched[1], matched[2], labelling)
        elif line.strip():
            table.drop("line that is not `<id> <label>`", f"{path.name}, line {number}")
    return table


def read_labels_2009(path: Path, split: str, labelling: str) -> LabelFile:
    """Read a csv of 2009: `;`, a header line, `\\N` for no value.

    Parameters
    ----------
    path : Path
    split : {"train", "test"}
        Layout if the header does not name the columns; the notes say which way was used.
    labelling : {"2005", "2006", "2007", "2008"}

    Raises
    ------
    InvalidInput
        If it is not a csv.
    """
    lines, remark = read_lines(path)
    table = LabelFile(notes=[remark] if remark else [])
    try:
        rows = list(csv.reader(lines, delimiter=";"))
    except csv.Error as error:
        raise InvalidInput(f"{path} cannot be read as csv: {error}") from error
    header = [name.strip().lower() for name in rows[0]] if rows else []
    columns, method = _find_columns(header, split, labelling)
    table.notes.append(f"{path.name}: columns found by {method}")
    has_header = bool(rows) and not rows[0][columns[0]].strip().isdecimal()
    for number, row in enumerate(rows[has_header:], start=1 + has_header):
        if not any(cell.strip() for cell in row):
            continue
        if max(columns) >= len(row) or not row[columns[0]].strip().isdecimal():
            table.drop("row without id or with too few columns", f"{path.name}, row {number}")
            continue
        table.add(row[columns[0]], row[columns[1]], labelling)
    return table


def _find_columns(header: list[str], split: str, labelling: str) -> tuple[tuple[int, int], str]:
    """Return the columns of the image id and of the labelling, and the way they were found."""
    year = re.compile(rf"(?<!\d)(20)?{labelling[2:]}(?!\d)")
    images = [i for i, name in enumerate(header) if re.fullmatch(r"(image|irma)?[ _]?id", name)]
    labels = [i for i, name in enumerate(header) if label_kind(labelling) in name and year.search(name)]
    if len(images) == len(labels) == 1:
        return (images[0], labels[0]), "the header's names"
    positions = POSITIONS[split]
    return (positions["image"], positions[labelling]), "position: the header does not name them"


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
