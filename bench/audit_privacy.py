"""Privacy check: planted identifiers that are found, by kind, and false alarms in clean images.

    python -m bench.audit_privacy [--each 20] [--clean 600] [--images FOLDER --manifest FILE --count 1000]
    python -m bench.audit_privacy --each 0 --clean 0 --list FOLDER

Clean files are phantoms as DICOM files that say that the patient's identity was removed, with a pseudonym and
modified dates. Each planted file has one identifier. A planted one counts as found if a finding names the place
that it is in. Images of a folder have the labels of a manifest, and any finding in them counts as an alarm. The
files of a list are shown as they are.
"""

import argparse
import csv
import random
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pydicom
from pydicom.dataset import Dataset
from statsmodels.stats.proportion import proportion_confint

from bench.intake_text import draw_text
from cbir.evaluation.datasets.phantoms import draw_phantom, drawing
from cbir.evaluation.datasets.phantoms.dicom_encoding import encode_dicom
from cbir.images import Limits
from cbir.store import Collection
from indexer.index_job import index_images
from service.features.audit.privacy import find_privacy, summarise_privacy

NAMES = ("Mueller", "Schmidt", "Garcia", "Chen", "Dupont", "Ivanov", "Okafor", "Tanaka", "Lindqvist", "Abebe")
GIVEN = ("Anna", "Jane", "Luis", "Wei", "Marie", "Olga", "Ngozi", "Kenji", "Sven", "Sara")


@dataclass
class Case:
    """A file to write: its tags, its labels, and where it is, below the folder of all files."""

    tags: Dataset
    name: str
    given: str
    number: str
    folder: str
    labels: dict[str, str] = field(default_factory=dict)
    suffix: str = ""


def in_description(case: Case) -> None:
    case.tags.StudyDescription = f"Knee of {case.name.upper()}"


def in_private(case: Case) -> None:
    case.tags.PatientName = f"{case.name}^{case.given}"
    case.tags.private_block(0x0029, "MAKER", create=True).add_new(0x10, "LO", f"for {case.name}")


def in_sequence(case: Case) -> None:
    item = Dataset()
    item.RequestingPhysician = f"{case.name}^{case.given}"
    case.tags.RequestAttributesSequence = [item]


def own_name(case: Case) -> None:
    case.tags.PatientName = f"{case.name}^{case.given}"
    case.folder = f"{case.name}_{case.given}"


def own_number(case: Case) -> None:
    del case.tags.PatientIdentityRemoved
    case.tags.PatientID, case.folder = case.number, f"scan-{case.number}"


def number_in_label(case: Case) -> None:
    del case.tags.PatientIdentityRemoved
    case.tags.PatientID, case.labels["case"] = case.number, case.number


def set_tag(keyword: str, text: str) -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        setattr(case.tags, keyword, text.format(case=case))

    return plant


def set_label(key: str, text: str) -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        case.labels[key] = text.format(case=case)

    return plant


def set_folder(text: str) -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        case.folder = text.format(case=case)

    return plant


def unmodified_dates(case: Case) -> None:
    del case.tags.LongitudinalTemporalInformationModified


PLANTS: dict[tuple[str, str], Callable[[Case], None]] = {
    ("tags", "name of the patient"): set_tag("PatientName", "{case.name}^{case.given}"),
    ("tags", "date of birth"): set_tag("PatientBirthDate", "19610302"),
    ("tags", "other number of the patient"): set_tag("OtherPatientIDs", "{case.number}"),
    ("tags", "referring physician"): set_tag("ReferringPhysicianName", "{case.name}^{case.given}"),
    ("tags", "physician in a sequence"): in_sequence,
    ("tags", "institution"): set_tag("InstitutionName", "St. Mary's Hospital"),
    ("tags", "age of 93"): set_tag("PatientAge", "093Y"),
    ("tags", "dates that were not modified"): unmodified_dates,
    ("tags", "telephone number in a comment"): set_tag("ImageComments", "call +49 221 478 {case.number}"),
    ("tags", "the patient's name in a private attribute"): in_private,
    ("tags", "name in a description, no longer in Patient's Name"): in_description,
    ("labels", "Family^Given"): set_label("reader", "{case.name}^{case.given}"),
    ("labels", "e-mail address"): set_label("contact", "{case.given}.{case.name}@example.org"),
    ("labels", "date in a text"): set_label("note", "seen on 02.03.2020"),
    ("labels", "key referring_physician"): set_label("referring_physician", "{case.name}"),
    ("labels", "the patient's number"): number_in_label,
    ("labels", "plain name"): set_label("note", "{case.given} {case.name}"),
    ("path", "the name in the file's tags"): own_name,
    ("path", "the number in the file's tags"): own_number,
    ("path", "Family^Given"): set_folder("{case.name}^{case.given}"),
    ("path", "date"): set_folder("study-20200302"),
    ("path", "MRN and number"): set_folder("MRN{case.number}"),
    ("path", "plain name, not in the tags"): set_folder("{case.name}_{case.given}"),
    ("pixels", "line of text"): lambda case: None,
}


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--each", type=int, default=20, help="planted files of a kind")
    parser.add_argument("--clean", type=int, default=600, help="clean files")
    parser.add_argument("--size", type=int, default=384, help="longer side of phantoms in pixels")
    parser.add_argument("--images", type=Path, help="folder that paths of the manifest are relative to")
    parser.add_argument("--manifest", type=Path, help="csv with the columns path, patient and labels")
    parser.add_argument("--left-out", default="", help="folders of it whose images have text")
    parser.add_argument("--count", type=int, default=1000, help="images of the folder")
    parser.add_argument("--list", type=Path, help="folder of images; prints what is found in them")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def write_case(
    folder: Path, index: int, kind: tuple[str, str] | None, size: int
) -> tuple[Path, dict[str, str]]:
    """Write a phantom with an identifier of a kind, or a clean one; return its path and labels."""
    rng = np.random.default_rng(index)
    phantom = draw_phantom(index, seed=0, size=size)
    if kind and kind[0] == "pixels":
        phantom = replace(phantom, pixels=draw_text(phantom.pixels, rng))
    tags = pydicom.dcmread(BytesIO(encode_dicom(phantom, index, 0)))
    tags.PatientName = tags.PatientID = f"CASE-{index:04d}"
    del tags.PatientBirthDate
    tags.PatientIdentityRemoved, tags.BurnedInAnnotation = "YES", "NO"
    tags.LongitudinalTemporalInformationModified = "MODIFIED"
    name, given, number = rng.choice(NAMES), rng.choice(GIVEN), rng.integers(10**6, 10**7)
    case = Case(tags, str(name), str(given), str(number), f"case-{index:04d}", {"anatomy": phantom.anatomy})
    if kind:
        PLANTS[kind](case)
    path = folder / case.folder / f"image-{index:04d}.dcm"
    path.parent.mkdir(parents=True, exist_ok=True)
    tags.save_as(path)
    return path, case.labels


def check(folder: Path, files: Path, labels: dict[Path, dict[str, str]]) -> dict[str, list[str]]:
    """Index files with labels; return `where: why` of the findings of each, by the name of the file."""
    keys = sorted({key for each in labels.values() for key in each})
    with (folder / "labels.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["path", *keys])
        rows.writerows([path, *(each.get(key, "") for key in keys)] for path, each in labels.items())
    index_images(files, folder / "collection", labels=folder / "labels.csv", profile="tamura")
    with Collection(folder / "collection") as collection:
        findings = find_privacy(collection, Limits()).findings
        names = {record.image_id: Path(record.source).name for _, record in collection.iterate()}
    by_name: dict[str, list[str]] = {name: [] for name in names.values()}
    for finding in findings:
        by_name[names[finding.image_id]].append(f"{finding.where}: {finding.sign.part} {finding.sign.why}")
    return by_name


def share(hits: int, count: int) -> str:
    low, high = proportion_confint(hits, count, method="beta")
    return f"{hits} of {count} = {hits / count:.3f} ({low:.3f} to {high:.3f})"


def print_alarms(what: str, found: dict[str, list[str]]) -> None:
    alarms = Counter(sign for signs in found.values() for sign in signs)
    images = sum(map(bool, found.values()))
    print(
        f"false alarms, {what}: {share(images, len(found))}; {1000 * images / len(found):.1f} in 1,000 images"
    )
    for sign, count in alarms.most_common(20):
        print(f"  {sign}: {count}")


def measure_phantoms(args: argparse.Namespace) -> None:
    kinds = [kind for kind in PLANTS for _ in range(args.each)] + [None] * args.clean
    with (
        tempfile.TemporaryDirectory() as temporary,
        patch.object(drawing, "text_strip", lambda *_, **__: None),
    ):
        folder = Path(temporary)
        labels, planted = dict[Path, dict[str, str]](), dict[str, tuple[str, str] | None]()
        for index, kind in enumerate(kinds):
            path, of_path = write_case(folder / "files", index, kind, args.size)
            labels[path], planted[path.name] = of_path, kind
        found = check(folder, folder / "files", labels)
    hits, tried = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for name, signs in found.items():
        if kind := planted[name]:
            tried[kind] += 1
            hits[kind] += any(sign.startswith(f"{kind[0]}:") for sign in signs)
    for kind in tried:
        print(f"found, {kind[0]}, {kind[1]}: {share(hits[kind], tried[kind])}")
    if tried:
        print(f"found, all: {share(hits.total(), tried.total())}")
    if args.clean:
        print_alarms("clean phantoms", {name: signs for name, signs in found.items() if not planted[name]})


def measure_folder(args: argparse.Namespace) -> None:
    with args.manifest.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    left_out = set(args.left_out.split(","))
    rows = [row for row in rows if Path(row["path"]).parent.name not in left_out]
    chosen = random.Random(args.seed).sample(rows, min(args.count, len(rows)))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        labels = dict[Path, dict[str, str]]()
        for row in chosen:
            path = folder / "files" / row["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to((args.images / row["path"]).absolute())
            labels[path] = {key: value for key, value in row.items() if key != "path" and value}
        found = check(folder, folder / "files", labels)
    print_alarms(f"images of a folder, without {args.left_out or 'exceptions'}", found)
    for name, signs in found.items():
        if signs:
            print(f"  {name}: {signs}")


def print_list(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        index_images(folder, Path(temporary) / "collection", profile="tamura", duplicates=True)
        with Collection(Path(temporary) / "collection") as collection:
            message = summarise_privacy(find_privacy(collection, Limits()))
    print(message.model_dump_json(exclude={"groups", "items"}))
    for group in message.groups:
        print(f"  {group.where} {group.part} {group.why}: {group.images}")


def main() -> None:
    args = options()
    if args.each or args.clean:
        measure_phantoms(args)
    if args.images:
        measure_folder(args)
    if args.list:
        print_list(args.list)


if __name__ == "__main__":
    main()
