"""From files to records and vectors, in processes of their own."""

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing import connection, parent_process
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from cbir import descriptors
from cbir.collection.records import Record, describe_record
from cbir.descriptors import embedding
from cbir.descriptors.embedding import Embedding
from cbir.errors import UnreadableImage
from cbir.images import Image, Limits
from indexer.folder import stamp
from indexer.guarded import read_inside


@dataclass(frozen=True)
class Extracted:
    """One file's images, or the reason there are none.

    records: one a frame, without manifest labels. vectors: (frames, d) float32, raw.
    """

    path: Path
    records: tuple[Record, ...] = ()
    vectors: NDArray[Any] | None = None
    refused: str | None = None


@dataclass(frozen=True)
class Task:
    """What a process needs to know besides the files.

    within: folders it may read from; any where there are none. model: folder of the descriptor's network.
    """

    descriptor: str
    secret: bytes
    limits: Limits
    within: tuple[Path, ...] = ()
    model: Path | None = None


def prepare() -> None:
    """Set up a worker: one thread, since the processes share the cores; never outlives its parent."""
    import cv2

    cv2.setNumThreads(1)
    threadpool_limits(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # of torch, which is imported with the first network
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us in order
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


def extract(paths: list[Path], task: Task) -> list[Extracted]:
    """Decode and describe files; one that cannot be used comes back with its reason."""
    if task.model is not None:
        embedding.register(task.model)
    describe = descriptors.get(task.descriptor)
    if isinstance(describe, Embedding):
        return _extract_together(paths, task, describe)
    return [_extract_one(path, task, describe) for path in paths]


def _extract_together(paths: list[Path], task: Task, network: Embedding) -> list[Extracted]:
    """The images of all files go through the network together, which is faster than one by one."""
    found = [_extract_one(path, task, network.prepared) for path in paths]
    vectors = network.all_of([picture for one in found if one.vectors is not None for picture in one.vectors])
    taken, described = 0, []
    for one in found:
        count = len(one.records)
        described.append(replace(one, vectors=vectors[taken : taken + count]) if count else one)
        taken += count
    return described


def _extract_one(path: Path, task: Task, describe: Callable[[Image], NDArray[Any]]) -> Extracted:
    records: list[Record] = []
    vectors: list[NDArray[Any]] = []
    if not path.is_file():
        return Extracted(path, refused="cannot be looked into, or is no file")
    try:
        stamped = stamp(path)
        for image in read_inside(path, task.within, task.limits):
            records.append(describe_record(image, source=str(path), source_stamp=stamped, secret=task.secret))
            vectors.append(describe(image))
    except UnreadableImage as error:
        return Extracted(path, refused=str(error))
    except OSError as error:
        return Extracted(path, refused=f"cannot be read: {error.strerror}")
    except MemoryError:
        return Extracted(path, refused="needs more memory than there is")
    except Exception as error:  # a fault of ours in one image shall not cost the others
        return Extracted(path, refused=f"could not be described ({type(error).__name__}); please report it")
    return Extracted(path, tuple(records), np.array(vectors))
