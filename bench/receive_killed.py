"""Receive many small instances while the receiver is killed (`kill -9`) three times and the senders repeat.

    python bench/receive_killed.py --count 10000

dcmtk's `storescu` sends over four connections; a sender that loses its receiver sends everything again, like an
archive after a failed job, until all is answered with success. In the end every instance must be stored once.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from pydicom import Dataset, dcmwrite
from pydicom.dataset import FileMetaDataset
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

from cbir.store import Collection
from cbir.store.upkeep.verify import verify_collection

SIDE = 32
SENDERS = 4
KILLS = 3


def write(folder: Path, count: int) -> list[str]:
    """Files of small slices, every one with other pixels; their names."""
    draw = np.random.default_rng(0)
    study, series, names = generate_uid(), generate_uid()[:50], []
    for number in range(count):
        ds = Dataset()
        ds.SOPClassUID, ds.SOPInstanceUID = CTImageStorage, f"{series}.{number + 1}"
        ds.StudyInstanceUID, ds.SeriesInstanceUID = study, series
        ds.PatientID, ds.Modality, ds.Rows, ds.Columns = "bench", "CT", SIDE, SIDE
        ds.SamplesPerPixel, ds.PhotometricInterpretation = 1, "MONOCHROME2"
        ds.BitsAllocated, ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 16, 12, 11, 0
        ds.PixelData = draw.integers(0, 4096, (SIDE, SIDE), np.uint16).astype("<u2").tobytes()
        ds.file_meta = FileMetaDataset()
        ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        names.append(str(folder / f"{number}.dcm"))
        dcmwrite(names[-1], ds, enforce_file_format=True)
    return names


class Receiver:
    """`cbir receive` on a port that stays the same after each start."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = "0"
        self.start()

    def start(self) -> None:
        """Start listening."""
        command = [sys.executable, "-u", "-m", "cbir.api.main", "receive", "--collection", str(self.folder)]
        self.process = subprocess.Popen(
            [*command, "--port", self.port], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout
        match = re.search(r"port (\d+)", self.process.stdout.readline())
        assert match, "the receiver does not start"
        self.port = match.group(1)

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> dict[str, int]:
        """End it in order; return its counts since the last start."""
        self.process.terminate()
        printed, _ = self.process.communicate(timeout=120)
        return dict(json.loads(printed.splitlines()[-1]))


def send_until_done(receiver: Receiver, files: list[str]) -> int:
    """Send until everything is answered with success; return the number of attempts."""
    for attempt in range(1, 1000):
        command = ["storescu", "-aec", "CBIR", "127.0.0.1", receiver.port, *files]
        if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return attempt
        time.sleep(0.5)
    raise AssertionError("the receiver does not come back")


def stored_images(folder: Path) -> int:
    """Return the number of images in the collection."""
    with Collection(folder) as collection:
        return len(collection)


def main() -> None:
    """Print what happened as a JSON line; fails where an instance is missing or there twice."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(SENDERS) as senders:
        folder = Path(name)
        files = write(folder, count)
        receiver = Receiver(folder / "collection")
        started = time.monotonic()
        sending = [senders.submit(send_until_done, receiver, files[part::SENDERS]) for part in range(SENDERS)]
        killed_at = []
        for kill in range(1, KILLS + 1):
            while stored_images(receiver.folder) < kill * count // (KILLS + 1):
                assert not any(future.done() for future in sending), "all is sent, but images are missing"
                time.sleep(0.1)
            receiver.kill()
            killed_at.append(stored_images(receiver.folder))
            receiver.start()
        attempts = [future.result() for future in sending]
        seconds = time.monotonic() - started
        last = receiver.stop()
        with Collection(receiver.folder) as collection:
            instances = Counter(record.instance for _, record in collection.iterate())
            problems = verify_collection(collection)
            pictures = sum(
                collection.thumbnail(record.image_id) is not None for _, record in collection.iterate()
            )
    assert len(instances) == count, f"{count - len(instances)} are missing"
    assert max(instances.values()) == 1, "some are stored twice"
    assert pictures == count
    assert not problems, problems
    result = {
        "instances": count,
        "killed_at": killed_at,
        "tries_of_each_sender": attempts,
        "seconds": round(seconds),
    }
    print(json.dumps(result | {"after_the_last_kill": last}))


if __name__ == "__main__":
    main()
