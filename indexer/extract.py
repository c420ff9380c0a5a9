"""From files to records and vectors, in processes of their own."""

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import connection, parent_process
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from cbir import descriptors
from cbir.descriptors import embedding_descriptor
from cbir.descriptors.descriptor import Batched
from cbir.errors import UnreadableImage
from cbir.images import Image, Limits
from cbir.store.records import Record, describe_record
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
        embedding_descriptor.register(task.model)
    describe = descriptors.get(task.descriptor)
    if not isinstance(describe, Batched):
        return [_with_vectors(*_extract_one(path, task, describe)) for path in paths]
    found = [_extract_one(path, task, describe.prepared) for path in paths]
    vectors = iter(describe.all_of([of for _, prepared in found for of in prepared]))
    return [_with_vectors(one, list(islice(vectors, len(prepared)))) for one, prepared in found]


def _with_vectors(found: Extracted, vectors: list[NDArray[Any]]) -> Extracted:
    return found if found.refused is not None else replace(found, vectors=np.array(vectors))


def _extract_one(path: Path, task: Task, describe: Callable[[Image], Any]) -> tuple[Extracted, list[Any]]:
    """The records of a file's images, or why there are none; and what `describe` gives of each image."""
    records: list[Record] = []
    described: list[Any] = []
    if not path.is_file():
        return Extracted(path, refused="cannot be looked into, or is no file"), []
    try:
        stamped = stamp(path)
        for image in read_inside(path, task.within, task.limits):
            records.append(describe_record(image, source=str(path), source_stamp=stamped, secret=task.secret))
            described.append(describe(image))
    except UnreadableImage as error:
        return Extracted(path, refused=str(error)), []
    except OSError as error:
        return Extracted(path, refused=f"cannot be read: {error.strerror}"), []
    except MemoryError:
        return Extracted(path, refused="needs more memory than there is"), []
    except Exception as error:  # a fault of ours in one image shall not cost the others
        told = f"could not be described ({type(error).__name__}); please report it"
        return Extracted(path, refused=told), []
    return Extracted(path, tuple(records)), described
