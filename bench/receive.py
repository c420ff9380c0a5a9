"""How many 512 x 512 slices of 16 bits a second `cbir receive` takes in, and when they can be searched.

    python bench/receive.py --count 300 --associations 1 2 4

Each row is a receiver of its own with an empty collection; a slice counts once the sender has its success.
"""

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
from pydicom import Dataset
from pydicom.dataset import FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid
from pynetdicom import AE

from cbir.collection import Collection

SIDE = 512
SEARCHABLE_SECONDS = 30


def slices(count: int) -> list[Dataset]:
    """A series of smooth noise, every slice another."""
    noise = cv2.GaussianBlur(np.random.default_rng(0).normal(size=(SIDE, SIDE + count)), (0, 0), 6)
    grey = cv2.normalize(noise, None, 0, 4095, cv2.NORM_MINMAX).astype("<u2")
    study, series = generate_uid(), generate_uid()
    made = []
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
        made.append(ds)
    return made


def send(port: int, datasets: list[Dataset]) -> None:
    """Send them one after another; every one must be answered with success."""
    entity = AE("BENCH")
    entity.add_requested_context(CTImageStorage, ExplicitVRLittleEndian)
    association = entity.associate("127.0.0.1", port, ae_title="CBIR")
    for ds in datasets:
        assert association.send_c_store(ds).Status == 0
    association.release()


def measure(datasets: list[Dataset], associations: int) -> dict[str, float]:
    """Slices a second, and seconds from the last success until all can be searched."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "collection"
        command = [
            sys.executable,
            "-u",
            "-m",
            "cbir.main",
            "receive",
            "--collection",
            str(place),
            "--port",
            "0",
        ]
        receiver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert receiver.stdout
            found = re.search(r"port (\d+)", receiver.stdout.readline())
            assert found
            port = int(found.group(1))
            send(port, datasets[:4])  # its processes have started
            started = time.monotonic()
            with ThreadPoolExecutor(associations) as senders:
                list(senders.map(lambda n: send(port, datasets[4 + n :: associations]), range(associations)))
            seconds = time.monotonic() - started
            with Collection(place) as collection:
                assert len(collection.view()) == len(datasets)
            searchable = time.monotonic() - started - seconds
        finally:
            receiver.send_signal(signal.SIGTERM)
            receiver.wait(60)
    return {
        "associations": associations,
        "slices_per_second": round((len(datasets) - 4) / seconds, 1),
        "searchable_seconds": round(searchable, 2),
    }


def main() -> None:
    """Print a table and a JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--associations", type=int, nargs="+", default=[1, 4])
    options = parser.parse_args()
    datasets = slices(options.count + 4)
    rows = [measure(datasets, number) for number in options.associations]
    print("| associations | slices/s | searchable after s |\n| ---: | ---: | ---: |")
    for row in rows:
        print(f"| {row['associations']} | {row['slices_per_second']} | {row['searchable_seconds']} |")
    print(json.dumps({"count": options.count, "rows": rows}))


if __name__ == "__main__":
    main()
