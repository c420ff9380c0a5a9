"""Measure how many 512 x 512 slices of 16 bits `cbir receive` takes per second, and when they are searchable.

    python bench/receive.py --count 300 --associations 1 2 4
    python bench/receive.py --against FOLDER        # a checkout of another version, alternating with this one

Each row has a new receiver with an empty collection. dcmtk's `storescu` sends, as an archive would; every slice must
be answered with success. CPU times are per slice, of all threads: of the process that receives and commits, and of
those that decode and describe.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from pydicom import Dataset, dcmwrite
from pydicom.dataset import FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

from cbir.store import Collection

SIDE = 512
FIRST = 8  # slices sent before the clock starts: until its processes have started
HERE = Path(__file__).parents[1]


def slices(count: int) -> Iterator[Dataset]:
    """Yield a series of smooth noise, every slice different."""
    noise = cv2.GaussianBlur(np.random.default_rng(0).normal(size=(SIDE, SIDE + count)), (0, 0), 6)
    grey = cv2.normalize(noise, noise, 0, 4095, cv2.NORM_MINMAX).astype("<u2")
    study, series = generate_uid(), generate_uid()
    for number in range(count):
        ds = Dataset()
        ds.SOPClassUID, ds.SOPInstanceUID = CTImageStorage, generate_uid()
        ds.StudyInstanceUID, ds.SeriesInstanceUID = study, series
        ds.PatientID, ds.Modality, ds.Rows, ds.Columns = "bench", "CT", SIDE, SIDE
        ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
        ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 12, 11, 0
        ds.PixelData = grey[:, number : number + SIDE].tobytes()
        ds.file_meta = FileMetaDataset()
        ds.file_meta.MediaStorageSOPClassUID = CTImageStorage
        ds.file_meta.MediaStorageSOPInstanceUID = ds.SOPInstanceUID
        ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        yield ds


def write(folder: Path, count: int, parts: int) -> list[list[str]]:
    """Write the slices; return the names of the first files, and of `count` more in one list a sender."""
    names = []
    for number, ds in enumerate(slices(FIRST + count)):
        names.append(str(folder / f"{number}.dcm"))
        dcmwrite(names[-1], ds, enforce_file_format=True)
    return [names[:FIRST], *(names[FIRST + part :: parts] for part in range(parts))]


def send(port: str, files: list[str]) -> "subprocess.Popen[bytes]":
    """Start a sender; its exit code is 0 only if every file is answered with success."""
    return subprocess.Popen(["storescu", "-aec", "CBIR", "127.0.0.1", port, *files])


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process and its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def receiver_seconds(process: int) -> tuple[float, float]:
    """Return the CPU time of the receiver, and of its processes together."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return cpu_seconds(process), sum(cpu_seconds(int(child)) for child in children)


def measure(code: Path, count: int, associations: int) -> dict[str, Any]:
    """Measure slices per second, seconds until all are searchable, and CPU milliseconds per slice."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        first, *rest = write(folder, count, associations)
        target = folder / "collection"
        command = [
            sys.executable,
            "-u",
            "-m",
            "cbir.api.main",
            "receive",
            "--collection",
            str(target),
            "--port",
        ]
        receiver = subprocess.Popen(
            [*command, "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=code
        )
        try:
            assert receiver.stdout
            match = re.search(r"port (\d+)", receiver.stdout.readline())
            assert match
            port = match.group(1)
            assert send(port, first).wait() == 0
            before = receiver_seconds(receiver.pid)
            started = time.monotonic()
            assert [sender.wait() for sender in [send(port, files) for files in rest]] == [0] * associations
            seconds = time.monotonic() - started
            with Collection(target) as collection:
                assert len(collection.view()) == FIRST + count
            searchable = time.monotonic() - started - seconds
            after = receiver_seconds(receiver.pid)
        finally:
            receiver.send_signal(signal.SIGTERM)
            receiver.wait(60)
    receiving, describing = (1000 * (late - early) / count for early, late in zip(before, after, strict=True))
    return {
        "version": "this" if code == HERE else code.name,
        "associations": associations,
        "slices_per_second": round(count / seconds, 1),
        "searchable_seconds": round(searchable, 2),
        "receiving_ms": round(receiving, 1),
        "describing_ms": round(describing, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def main() -> None:
    """Print a table and a JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--associations", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--against", type=Path, help="folder of another version's code")
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    codes = [HERE, *([options.against.resolve()] if options.against else [])]
    rows = [
        measure(code, options.count, number)
        for number in options.associations
        for _ in range(options.repeats)
        for code in codes
    ]
    print(" | ".join(rows[0]))
    for row in rows:
        print(" | ".join(str(value) for value in row.values()))
    print(json.dumps({"count": options.count, "rows": rows}))


if __name__ == "__main__":
    main()
