"""What becomes of files that lack their end, or whose bytes were changed, before they are added.

    python -m bench.intake_damage FOLDER [--count 100] [--clean 1500] [--seed 0]

Grey images of the folder are written in several formats and damaged; a file is refused by its decoder, found by the
intake check (`blank` or `damaged`), or missed. Files as they are show how often the check is wrong.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow
from pydicom import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, JPEG2000Lossless, RLELossless, SecondaryCaptureImageStorage
from statsmodels.stats.proportion import proportion_confint

from cbir.errors import UnreadableImage
from cbir.images import read_images
from cbir.ingest.pixel_checks import is_blank, is_damaged

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".tif"}
LOST = 64  # bytes
OUTCOMES = ("refused", "found", "missed")

Grey = NDArray[np.uint8]


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder of images, with folders in it")
    parser.add_argument("--count", type=int, default=100, help="images that are damaged in each way")
    parser.add_argument("--clean", type=int, default=1500, help="images that are read as they are")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def with_pillow(**saving: object) -> Callable[[Grey], bytes]:
    """Return an encoder of a format of Pillow."""

    def encode(grey: Grey) -> bytes:
        data = BytesIO()
        Pillow.fromarray(grey).save(data, **saving)  # type: ignore[arg-type]
        return data.getvalue()

    return encode


def as_dicom(syntax: str) -> Callable[[Grey], bytes]:
    """Return an encoder of DICOM files with a transfer syntax."""

    def encode(grey: Grey) -> bytes:
        dataset = Dataset()
        dataset.SOPClassUID, dataset.SOPInstanceUID = SecondaryCaptureImageStorage, "1.2.3"
        dataset.StudyInstanceUID, dataset.SeriesInstanceUID = "1.2.1", "1.2.2"
        dataset.Modality = "OT"
        dataset.Rows, dataset.Columns = grey.shape
        dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
        dataset.BitsAllocated, dataset.BitsStored, dataset.HighBit = 8, 8, 7
        dataset.PixelRepresentation, dataset.PixelData = 0, grey.tobytes() + b"\0" * (grey.size % 2)
        dataset.file_meta = FileMetaDataset()
        dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        dataset["PixelData"].VR = "OW"
        if syntax != ExplicitVRLittleEndian:
            dataset.compress(syntax, grey, generate_instance_uid=False)
        data = BytesIO()
        dataset.save_as(data, enforce_file_format=True)
        return data.getvalue()

    return encode


FORMATS: dict[str, Callable[[Grey], bytes]] = {
    "JPEG": with_pillow(format="JPEG", quality=90),
    "progressive JPEG": with_pillow(format="JPEG", quality=90, progressive=True),
    "PNG": with_pillow(format="PNG"),
    "TIFF": with_pillow(format="TIFF"),
    "DICOM": as_dicom(ExplicitVRLittleEndian),
    "DICOM, RLE": as_dicom(RLELossless),
    "DICOM, JPEG 2000": as_dicom(JPEG2000Lossless),
}


def truncate(data: bytes, random: np.random.Generator) -> bytes:
    """the end is missing"""
    return data[: int(len(data) * random.uniform(0.2, 0.95))]


def lose_bytes(data: bytes, random: np.random.Generator) -> bytes:
    """64 bytes are others"""
    start = int(len(data) * random.uniform(0.3, 0.9))
    lost = data[start : start + LOST]
    return data[:start] + random.bytes(len(lost)) + data[start + LOST :]


def empty_quarter(data: bytes, random: np.random.Generator) -> bytes:
    """a quarter is zeros"""
    start, length = int(len(data) * random.uniform(0.2, 0.7)), len(data) // 4
    return data[:start] + bytes(length) + data[start + length :]


def outcome(path: Path) -> str:
    """Return what happens to a file."""
    try:
        image = next(iter(read_images(path, find_damage=True)))
    except UnreadableImage:
        return "refused"
    return "found" if is_blank(image.grey) or is_damaged(image) else "missed"


def main() -> None:
    args = options()
    random = np.random.default_rng(args.seed)
    files = sorted(path for path in args.folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    drawn = [files[index] for index in random.permutation(len(files))]
    wrong = [path for path in drawn[: args.clean] if outcome(path) != "missed"]
    count = len(drawn[: args.clean])
    low, high = proportion_confint(len(wrong), count, method="beta")
    print(f"files as they are that are found: {len(wrong)} of {count} ({low:.4f} to {high:.4f})")
    print(*wrong, sep="\n")
    images = [np.array(Pillow.open(path).convert("L")) for path in drawn[: args.count]]
    print(f"| format | damage | {' | '.join(OUTCOMES)} |\n|---|---|{'---|' * len(OUTCOMES)}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged"
        for name, encode in FORMATS.items():
            for damage in (truncate, lose_bytes, empty_quarter):
                outcomes = Counter[str]()
                for grey in images:
                    path.write_bytes(damage(encode(grey), random))
                    outcomes[outcome(path)] += 1
                counts = " | ".join(str(outcomes[each]) for each in OUTCOMES)
                print(f"| {name} | {damage.__doc__} | {counts} |", flush=True)


if __name__ == "__main__":
    main()
