"""Vectors on a GPU: processes decode and prepare images, and this one describes large batches of them."""

from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import chain, islice

from cbir.descriptors.descriptor import Batched
from cbir.descriptors.encoders.device_encoder import FEWEST_VOLUMES
from cbir.ingest.description import DescribedFile, describe_prepared
from cbir.system.device_failure import IMAGES_TOGETHER, MOST_BYTES
from indexer.describe_files import FileTask, SomeSource


def share_gpu(
    task: FileTask, sources: Iterator[SomeSource]
) -> tuple[FileTask, Batched | None, Iterator[SomeSource]]:
    """Choose the device of a run: with "auto" a GPU, which takes seconds to start, if the sources fill a batch.

    Parameters
    ----------
    task : FileTask
        Settings of the run.
    sources : iterator
        Files or series.

    Returns
    -------
    task : FileTask
        Settings of the processes.
    descriptor : Batched or None
        Describes on the GPU what they prepare, by `describe_batches`; None: they describe.
    sources : iterator
        The same sources.

    Raises
    ------
    InvalidInput
        If the device is "cuda", and no GPU can be used.
    """
    fewest = FEWEST_VOLUMES if task.grid else IMAGES_TOGETHER
    first = list(islice(sources, fewest))
    if task.describe.device == "auto" and len(first) < fewest:
        describe, descriptor = replace(task.describe, device="cpu"), None
    else:
        describe, descriptor = task.describe.share_gpu()
    return replace(task, describe=describe), descriptor, chain(first, sources)


def describe_batches(
    files: Generator[tuple[SomeSource, DescribedFile], None, None], descriptor: Batched | None
) -> Generator[tuple[SomeSource, DescribedFile], None, None]:
    """Replace what processes prepared by vectors of `descriptor`; without one, `files` have their vectors.

    A batch is described while the one before it is stored, and files of the next are decoded.
    """
    if descriptor is None:
        yield from files
        return

    with closing(files), ThreadPoolExecutor(1) as thread:
        before: tuple[list[SomeSource], Future[list[DescribedFile]]] | None = None
        for sources, prepared in _batches(files):
            current = sources, thread.submit(describe_prepared, prepared, descriptor)
            if before is not None:
                yield from zip(before[0], before[1].result(), strict=True)
            before = current
        if before is not None:
            yield from zip(before[0], before[1].result(), strict=True)


def _batches(
    files: Iterable[tuple[SomeSource, DescribedFile]],
) -> Iterator[tuple[list[SomeSource], list[DescribedFile]]]:
    sources: list[SomeSource] = []
    prepared: list[DescribedFile] = []
    images = size = 0
    file: DescribedFile
    for source, file in files:
        sources.append(source)
        prepared.append(file)
        inputs = (*file.vectors, *file.inverted)
        images += len(inputs)
        size += sum(getattr(values, "nbytes", 0) for values in inputs)
        if images >= IMAGES_TOGETHER or size >= MOST_BYTES:
            yield sources, prepared
            sources, prepared = [], []
            images = size = 0
    if sources:
        yield sources, prepared
