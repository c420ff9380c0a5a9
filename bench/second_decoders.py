"""Compare the pixels of files with those of decoders of other authors.

    python bench/second_decoders.py FOLDER ...

DICOM files are rendered by DCMTK (Debian's dcmtk) in the same window, those that it does not decode by GDCM (the
package python-gdcm) or pydicom. TIFF pages that we read with Pillow are read with tifffile, and the other way round.
The default folder is that of pydicom's test files. Prints each file that differs, or that only one side reads, and a
JSON line. Exit code 1 if pixels differ by more than a level, or two where the coding is lossy.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
import pydicom
import pydicom.data
import tifffile
from numpy.typing import NDArray
from pydicom import uid
from pydicom.pixels import get_decoder, pixel_array

from cbir.errors import UnreadableImage
from cbir.images import Image, Limits, decode
from cbir.images.bit_depth import to_pixels
from cbir.images.dicom_dataset import parse_dataset
from cbir.images.dicom_frames import stored_frames
from cbir.images.rasters import apply_orientation
from cbir.images.reading import recognise_format

DECOMPRESSORS = {
    **dict.fromkeys(map(str, uid.JPEGTransferSyntaxes), "dcmdjpeg"),
    **dict.fromkeys(map(str, uid.JPEGLSTransferSyntaxes), "dcmdjpls"),
    str(uid.RLELossless): "dcmdrle",
}
LOSSY = {
    uid.JPEGBaseline8Bit, uid.JPEGExtended12Bit, uid.JPEGLSNearLossless, uid.JPEG2000, uid.HTJ2K,
}  # fmt: skip
JPEG_2000 = {uid.JPEG2000Lossless, uid.JPEG2000, uid.HTJ2K, uid.HTJ2KLossless, uid.HTJ2KLosslessRPCL}


class Comparison(NamedTuple):
    """What came of a file. other: the second decoder. difference: the largest, None if there is none to compare."""

    other: str
    difference: int | None = None
    allowed: int = 1
    reason: str = ""

    @property
    def differs(self) -> bool:
        """Whether pixels differ by more than is allowed."""
        return self.difference is not None and self.difference > self.allowed


def compare_file(path: Path) -> Comparison | None:
    """Compare the first image of a file; None for files of other kinds."""
    data = path.read_bytes()
    try:
        kind = recognise_format(data)
    except UnreadableImage:
        return None
    if kind not in ("dicom", "tiff"):
        return None
    try:
        image = next(decode(data, path.name))
    except UnreadableImage as error:
        return Comparison("", reason=str(error))
    return compare_dicom(data, image) if kind == "dicom" else compare_tiff(data, image)


def compare_dicom(data: bytes, image: Image) -> Comparison:
    """Compare the first frame of a DICOM file with DCMTK's, or another decoder's."""
    header = pydicom.dcmread(BytesIO(data), stop_before_pixels=True, force=True)
    syntax = header.file_meta.get("TransferSyntaxUID")
    allowed = 2 if syntax in LOSSY else 1
    if syntax in JPEG_2000:
        return _with_values(data, allowed)
    window = None
    if image.windowing is not None:
        scaling = float(header.get("DoseGridScaling") or 1)  # which DCMTK leaves out
        least, greatest = image.windowing.least / scaling, image.windowing.greatest / scaling
        window = round((least + greatest + 1) / 2, 3), round(max(greatest - least + 1, 2), 3)
        image = next(decode(data, window=(window[0] * scaling, window[1] * scaling)))
    others = rendered_by_dcmtk(data, syntax, window)
    if isinstance(others, str):
        return Comparison("DCMTK", reason=others)
    return Comparison("DCMTK", _difference(image.pixels, others), allowed)


def rendered_by_dcmtk(
    data: bytes, syntax: str | None, window: tuple[float, float] | None
) -> NDArray[np.uint8] | str:
    """Return the first frame as DCMTK renders it in a window, or why it does not."""
    decoder = DECOMPRESSORS.get(str(syntax))
    if missing := next((name for name in ("dcmj2pnm", decoder) if name and shutil.which(name) is None), None):
        return f"{missing} is not installed"
    with tempfile.TemporaryDirectory() as folder:
        coded, plain, picture = (Path(folder, name) for name in ("coded.dcm", "plain.dcm", "picture.pnm"))
        (coded if decoder else plain).write_bytes(data)
        # DCMTK goes by the header, unless it is told to go by these markers, as we do; it then takes all grey for
        # MONOCHROME2.
        marked = decoder == "dcmdjpeg" and window is None and (b"JFIF\0" in data or b"Adobe" in data)
        decompress = [decoder, *(["--conv-guess"] if marked else []), coded, plain]
        window_options = ["+Ww", *map(str, window)] if window else []
        render = [
            "dcmj2pnm",
            "--write-raw-pnm",
            "--no-overlays",
            "--frame",
            "1",
            *window_options,
            plain,
            picture,
        ]
        for command in [decompress, render] if decoder else [render]:
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode:
                return (run.stderr.strip().splitlines() or ["no picture"])[-1].replace(folder, "")
        return to_pixels(np.asarray(PIL.Image.open(picture)))


def _with_values(data: bytes, allowed: int) -> Comparison:
    """Compare stored values of JPEG 2000, which DCMTK does not decode."""
    dataset = parse_dataset(data, Limits())
    ours = next(stored_frames(dataset))[0]
    available = get_decoder(dataset.file_meta.TransferSyntaxUID).available_plugins
    plugin = next((name for name in ("gdcm", "pylibjpeg") if name in available), None)
    if plugin is None:
        return Comparison("", reason="neither GDCM nor pylibjpeg is installed")
    try:
        values = pixel_array(dataset, index=0, decoding_plugin=plugin)
    except Exception as error:
        return Comparison(plugin, reason=str(error).splitlines()[-1])
    return Comparison(plugin, _difference(ours, values), allowed)


def compare_tiff(data: bytes, image: Image) -> Comparison:
    """Compare the first page of a TIFF file, as the other library reads it."""
    try:
        with tifffile.TiffFile(BytesIO(data)) as file:
            page: Any = file.pages.first
            byte_page = page.bitspersample in (1, 2, 4, 8) and not page.extrasamples
        other = "tifffile" if byte_page else "Pillow"
        samples = read_by_tifffile(data) if byte_page else read_by_pillow(data)
    except Exception as error:
        return Comparison("", reason=str(error).splitlines()[0])
    return Comparison(other, _difference(image.pixels, samples))


def read_by_tifffile(data: bytes) -> NDArray[np.uint8]:
    """Read the first page of grey, RGB or palette with tifffile; raises ValueError for other pages."""
    with tifffile.TiffFile(BytesIO(data)) as file:
        page: Any = file.pages.first
        samples = np.asarray(page.asarray())
        samples = np.moveaxis(samples, 0, -1) if page.axes.startswith("S") else samples
        if page.photometric == tifffile.PHOTOMETRIC.PALETTE and not page.extrasamples:
            samples = np.moveaxis((page.colormap >> 8).astype(np.uint8)[:, samples], 0, -1)
        elif page.photometric not in (0, 1, 2) or page.extrasamples:
            raise ValueError(
                f"tifffile does not convert {page.photometric!r} with {page.samplesperpixel} samples"
            )
        elif samples.dtype != bool and page.bitspersample < 8:
            samples = samples * np.uint8(255 // (2**page.bitspersample - 1))
        pixels = to_pixels(samples)
        pixels = 255 - pixels if page.photometric == tifffile.PHOTOMETRIC.MINISWHITE else pixels
        orientation = page.tags.get(274)
        return np.ascontiguousarray(apply_orientation(pixels, orientation and int(orientation.value)))


def read_by_pillow(data: bytes) -> NDArray[np.uint8]:
    """Read the first page with Pillow."""
    picture = PIL.Image.open(BytesIO(data))
    picture.load()
    return to_pixels(np.asarray(picture.convert("RGB") if picture.mode == "CMYK" else picture))


def _difference(ours: NDArray[Any], others: NDArray[Any]) -> int:
    """Return the largest difference; 255 of pixels of another shape."""
    if ours.shape != others.shape:
        return 255
    return int(np.abs(ours.astype(np.int64) - others.astype(np.int64)).max())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
    folders = parser.parse_args().folders or [Path(pydicom.data.__file__).parent / "test_files"]
    counts: Counter[str] = Counter()
    for path in sorted(path for folder in folders for path in folder.rglob("*") if path.is_file()):
        comparison = compare_file(path)
        if comparison is None:
            continue
        outcome = (
            "differ" if comparison.differs else "equal" if comparison.difference is not None else "one side"
        )
        counts[f"{comparison.other or 'refused'}: {outcome}"] += 1
        if outcome != "equal":
            print(
                f"{path.name}: {comparison.other} {comparison.difference or ''} {comparison.reason}".strip()
            )
    print(json.dumps(counts))
    return int(any(key.endswith("differ") for key in counts))


if __name__ == "__main__":
    sys.exit(main())
