"""Time the encoder for CT series, measure its memory, and look for drawn bodies in other recordings of them.

A body is an ellipsoid with organs of the density of air, fat, vessels and bone. Its second recording has other noise
and lies 12 mm away; with `--second other` it has other spacings and sizes too. Slices are written as DICOM, so that
reading is timed too. Needs the extra `volume`. Times are of the processor, memory is the largest of the process.

    OMP_NUM_THREADS=1 python bench/volumes.py [--bodies 4] [--second other]
"""

import argparse
import resource
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pydicom
from numpy.typing import NDArray
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian

from cbir.descriptors import encoders
from cbir.descriptors.encoders.encoder_files import VolumeInput
from cbir.images import Limits
from cbir.images.ct_series import find_series, read_volume
from cbir.images.reading import read_file
from cbir.images.volume import Volume

DENSITIES = (-850.0, -100.0, 150.0, 300.0, 800.0)  # HU
NOISE = 15.0  # HU
# Slices and pixels per side, their distances in mm, and how far the body lies from the middle, in mm
FIRST = (200, 400, 1.5, 0.8, 0.0)
SECOND = {"same": (200, 400, 1.5, 0.8, 12.0), "other": (120, 320, 2.5, 1.0, 12.0)}


def draw_slices(seed: int, recording: tuple[int, int, float, float, float]) -> NDArray[np.int16]:
    """Return HU (slices, rows, columns) of a recording of a body."""
    count, side, distance, spacing, shift = recording
    random = np.random.default_rng(seed)
    z = ((np.arange(count) - (count - 1) / 2) * distance)[:, None, None].astype(np.float32)
    across = ((np.arange(side) - (side - 1) / 2) * spacing - shift).astype(np.float32)
    x, y = across[None, None, :], across[None, :, None]
    width, depth = random.uniform(120, 150), random.uniform(80, 110)
    values = np.where((x / width) ** 2 + (y / depth) ** 2 < 1, 40.0, -1000.0).repeat(count, 0)
    for _ in range(12):
        place, radii = random.uniform((-90, -60, -140), (90, 60, 140)), random.uniform(12, 50, 3)
        distances = sum(((axis - at) / r) ** 2 for axis, at, r in zip((x, y, z), place, radii, strict=True))
        values[distances < 1] = random.choice(DENSITIES)
    values += np.random.default_rng((seed, count, int(shift))).normal(0, NOISE, values.shape)
    return np.clip(values, -1024, 3000).astype(np.int16)


def write_series(folder: Path, values: NDArray[np.int16], distance: float, spacing: float) -> None:
    """Write slices as DICOM files."""
    folder.mkdir()
    for number, plane in enumerate(values):
        item = Dataset()
        item.file_meta = FileMetaDataset()
        item.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        item.file_meta.MediaStorageSOPClassUID = item.SOPClassUID = CTImageStorage
        item.file_meta.MediaStorageSOPInstanceUID = item.SOPInstanceUID = f"1.2.{number + 1}"
        item.SeriesInstanceUID, item.Modality = "1.2.3", "CT"
        item.Rows, item.Columns = plane.shape
        item.BitsAllocated = item.BitsStored = 16
        item.HighBit, item.PixelRepresentation, item.SamplesPerPixel = 15, 1, 1
        item.PhotometricInterpretation = "MONOCHROME2"
        item.ImageOrientationPatient, item.PixelSpacing = [1, 0, 0, 0, 1, 0], [spacing, spacing]
        item.ImagePositionPatient = [0, 0, number * distance]
        item.PixelData = plane.tobytes()
        pydicom.dcmwrite(folder / f"{number:04d}.dcm", item, enforce_file_format=True)


def read_recording(
    folder: Path, seed: int, recording: tuple[int, int, float, float, float]
) -> tuple[Volume, float]:
    """Write a recording and read it; return it, and the seconds that reading took."""
    below = folder / f"{seed}-{recording[-1]}"
    write_series(below, draw_slices(seed, recording), recording[2], recording[3])
    read_bytes: Any = partial(read_file, limits=Limits())
    shape = encoders.get("ct-volume").card.input
    assert isinstance(shape, VolumeInput)
    started = time.process_time()
    (series,) = find_series(sorted(below.iterdir()), Limits(), read_bytes).series
    volume = read_volume(series, Limits(), shape.grid, read_bytes)
    return volume, time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bodies", type=int, default=4, help="bodies, each recorded twice")
    parser.add_argument("--second", choices=SECOND, default="same", help="spacings of the second recording")
    options = parser.parse_args()
    encoder = encoders.get("ct-volume")
    encoder.store()
    vectors, reading, describing = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for recording in (FIRST, SECOND[options.second]):
            for seed in range(options.bodies):
                volume, seconds = read_recording(Path(folder), seed, recording)
                started = time.process_time()
                vectors.append(encoder.describe_batch([encoder.prepare(volume)])[0])
                describing.append(time.process_time() - started)
                reading.append(seconds)
                print(f"body {seed}: read {seconds:.1f} s, described {describing[-1]:.1f} s", flush=True)
    centred = np.array(vectors) - np.mean(vectors, axis=0)
    centred /= np.linalg.norm(centred, axis=1, keepdims=True)
    cosines = centred @ centred.T
    np.fill_diagonal(cosines, -2)
    count = options.bodies
    found = sum(int(row.argmax()) == (number + count) % (2 * count) for number, row in enumerate(cosines))
    same = np.diag(cosines[:count, count:])
    other = cosines[:count, count:][~np.eye(count, dtype=bool)]
    print(f"\nread: {reading[0]:.1f} s for {FIRST[0]} slices of {FIRST[1]} x {FIRST[1]}")
    print(f"described, without loading the network: {np.median(describing[1:]):.1f} s")
    print(f"memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")
    print(f"the other recording of the body comes first for {found} of {2 * count}")
    print(f"cosine of the same body at least {same.min():.2f}, of others at most {other.max():.2f}")


if __name__ == "__main__":
    main()
