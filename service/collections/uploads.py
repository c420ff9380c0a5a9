"""Describe, render and check uploaded files, in decoder processes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

from cbir.descriptors.encoders.device_encoder import FEWEST
from cbir.errors import UnreadableImage
from cbir.images.scaling import FramePixels
from cbir.ingest.decoder_tasks import (
    ImageChoice,
    QueryViews,
    RenderedImage,
    StoredQuery,
    ViewSides,
    describe_bytes,
    describe_choice,
    read_pixels,
    reduce_choice,
    render_choice,
    render_query,
    view_query,
)
from cbir.ingest.description import DescribedFile, DescribeTask, describe_prepared, refuse
from cbir.ingest.intake_check import IntakeCheck, ReceivedFile
from cbir.ingest.process_memory import share_bytes
from cbir.search import QueryImage
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records import originals
from cbir.store.records.records import add_labels
from service.collections.image_sources import Decoders, Result
from service.collections.mounted_collection import CollectionHandle
from service.http.request_params import UPLOAD_NAME, Rendering
from service.http.timeouts import Deadline


def describe_task(decoders: Decoders, collection: Collection) -> DescribeTask:
    """Return what the `decoders` need to describe images for `collection`."""
    seconds = decoders.settings.decode_seconds
    return DescribeTask.of_collection(collection, decoders.settings, decoders.limits, seconds)


def describe_upload(
    decoders: Decoders,
    collection: Collection,
    data: bytes,
    params: Rendering,
    side: int | None = None,
    encoder: str | None = None,
    name: str = UPLOAD_NAME,
) -> QueryImage:
    """Decode and describe the image of an upload to search with.

    Parameters
    ----------
    decoders : Decoders
        Processes to decode in.
    collection : Collection
        Its descriptor is used.
    data : bytes
        The file.
    params : Rendering
        Frame, region and window; the only frame, all of it and the file's own window where None.
    side : int, optional
        Reduce the image to a picture of this side instead.
    encoder : str, optional
        Describe the image by this encoder instead.
    name : str
        Name of the file in messages.

    Raises
    ------
    UnreadableImage
        If the file cannot be decoded, or takes too much time or memory.
    InvalidInput
        If frame or region lie outside, or a window is set for an image without one.
    """
    started = time.perf_counter()
    if side is not None:
        query = _decode(decoders, data, params, partial(reduce_choice, side=side), name=name)
    else:
        describe = describe_task(decoders, collection)
        if encoder is not None:
            describe = replace(describe, profile=profiles.get(encoder))
        query = _decode(decoders, data, params, partial(describe_choice, task=describe), name=name)
    milliseconds = (time.perf_counter() - started) * 1000
    return replace(query, decode_ms=milliseconds - query.describe_ms)


def view_upload(
    decoders: Decoders, collection: Collection, data: bytes, params: Rendering, sides: ViewSides, name: str
) -> QueryViews:
    """Describe the image of an upload as `describe_upload` does, and show it, from one decoding.

    Parameters
    ----------
    decoders, collection, data, params, name
        As of `describe_upload`.
    sides : ViewSides
        What else is to be made of it.
    """
    started = time.perf_counter()
    task = partial(view_query, task=describe_task(decoders, collection), sides=sides)
    viewed = _decode(decoders, data, params, task, name=name)
    milliseconds = (time.perf_counter() - started) * 1000
    query = replace(viewed.query, decode_ms=milliseconds - viewed.query.describe_ms)
    return replace(viewed, query=query)


def pixels_of_upload(decoders: Decoders, data: bytes, params: Rendering, side: int) -> FramePixels:
    """Return the pixel values of an upload, with a longest side of `side`; parameters as of `render_upload`."""
    return _decode(decoders, data, params, partial(read_pixels, side=side))


def render_upload(decoders: Decoders, data: bytes, params: Rendering, side: int) -> RenderedImage:
    """Render the image of an upload as PNG.

    Parameters
    ----------
    decoders : Decoders
        Processes to decode in.
    data : bytes
        The file.
    params : Rendering
        Frame, region and window.
    side : int
        Longest side of the picture in pixels.

    Raises
    ------
    UnreadableImage, InvalidInput
        As `describe_upload` does.
    """
    return _decode(decoders, data, params, partial(render_choice, side=side))


def render_stored_query(
    decoders: Decoders, secret: bytes, data: bytes, params: Rendering, side: int
) -> StoredQuery:
    """Render the picture of an uploaded query that is to be kept.

    Parameters
    ----------
    decoders : Decoders
        Processes to decode in.
    secret : bytes
        Key of the collection, for the patient hash.
    data : bytes
        The file.
    params : Rendering
        Frame and window; a region is not cut.
    side : int
        Longest side of the picture in pixels.

    Raises
    ------
    UnreadableImage, InvalidInput
        As `describe_upload` does.
    """
    return _decode(decoders, data, params, partial(render_query, side=side, secret=secret), region=None)


def describe_uploads(
    decoders: Decoders, collection: Collection, files: Sequence[bytes], labels: Sequence[dict[str, str]]
) -> list[ReceivedFile]:
    """Decode and describe files; those that cannot be used are refused.

    Stops if the client has left: nothing has been written yet.

    Parameters
    ----------
    decoders : Decoders
        Processes to decode in.
    collection : Collection
        Its descriptor is used.
    files : sequence of bytes
        Contents of the files.
    labels : sequence of dict
        Labels of each file.
    """
    deadline, secret = Deadline(), collection.secret
    task, thumbnails = describe_task(decoders, collection), decoders.settings.store_thumbnails
    task, descriptor = task.share_gpu() if len(files) >= FEWEST else (task, None)

    def describe(data: bytes) -> DescribedFile:
        with share_bytes(data) as shared:
            work = partial(describe_bytes, shared, UPLOAD_NAME, originals.source_of(data), task, thumbnails)
            try:
                return decoders.run(work, deadline.check)
            except UnreadableImage as error:
                return refuse(error)

    described = list(map(describe, files))
    if descriptor is not None:
        described = describe_prepared(described, descriptor)
    return [
        ReceivedFile(
            data, replace(file, records=tuple(add_labels(record, own, secret) for record in file.records))
        )
        for data, file, own in zip(files, described, labels, strict=True)
    ]


def _decode(
    decoders: Decoders, data: bytes, params: Rendering, task: Callable[[ImageChoice], Result], **changes: Any
) -> Result:
    """Run a task with the image of an upload that `params` choose, with `changes` of the choice."""
    with share_bytes(data) as shared:
        choice = ImageChoice(shared, UPLOAD_NAME, decoders.limits, params.frame, params.region, params.window)
        return decoders.run(partial(task, replace(choice, **changes)), Deadline().check)


_checks: WeakKeyDictionary[object, IntakeCheck] = WeakKeyDictionary()
_lock = Lock()


def intake_check(handle: CollectionHandle) -> IntakeCheck:
    """Return the check of the collection that a handle has open; what it compares with is read once."""
    collection = handle.whole_searcher().collection
    with _lock:
        check = _checks.get(collection)
        if check is None:
            check = _checks[collection] = IntakeCheck(collection, handle.settings.intake)
        return check
