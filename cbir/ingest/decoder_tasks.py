"""Tasks of decoder processes: they read untrusted files, and return results that are small."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from cbir.descriptors.descriptor import QueryImage, describe_query, select_frame
from cbir.errors import InvalidInput, NotEnoughMemory, UnreadableImage
from cbir.images import Image, Limits, Region, crop, decode, read_images
from cbir.images.bit_depth import apply_window
from cbir.images.image import Window, Windowing
from cbir.images.reading import is_out_of_memory, recognise_format, suppress_decoder_logs
from cbir.images.scaling import FramePixels, encode_view, make_thumbnail, pad_resize
from cbir.images.volume import Volume, VolumeGrid
from cbir.ingest.description import DescribedFile, DescribeTask, Refusal, describe_images, with_deadline
from cbir.ingest.process_memory import SharedBytes, load_shared_bytes, memory_limit, private_memory
from cbir.ingest.query_file import QueryOptions, decode_query_volume, is_zip, middle_slice
from cbir.store.records.records import hash_patient

Result = TypeVar("Result")


@dataclass(frozen=True)
class ImageChoice:
    """One image of a file, or a region of it.

    file: shared bytes, or the path of a file of the collection. name: for messages. frame: from 1, None for the
    first. window: of a grey DICOM frame. content_hash: of the frame that is expected, if it is known.
    """

    file: SharedBytes | Path
    name: str
    limits: Limits
    frame: int | None = None
    region: Region | None = None
    window: Window | None = None
    content_hash: str | None = None


@dataclass(frozen=True)
class RenderedImage:
    """An encoded picture, and what is known of the image that it shows.

    width, height: of the image, in its pixels. frames, spacing: as of `cbir.images.Image`. modality: of a DICOM file.
    """

    data: bytes
    width: int
    height: int
    windowing: Windowing | None
    frames: int = 1
    spacing: tuple[float, float] | None = None
    modality: str = ""

    @classmethod
    def of_image(cls, image: Image, side: int) -> "RenderedImage":
        """Encode an image, with a longest side of at most `side` pixels."""
        modality = image.dicom.modality if image.dicom else ""
        data = encode_view(image, side)
        return cls(data, image.width, image.height, image.windowing, image.frames, image.spacing, modality)


@dataclass(frozen=True)
class StoredQuery:
    """Picture of a query that is kept, without anything else of its file.

    data: PNG. width, height: of the image in its file, in pixels. content_hash: of the frame in its file.
    patient_key: of the patient in the DICOM header, None if none is known.
    """

    data: bytes
    width: int
    height: int
    content_hash: str
    patient_key: str | None


class OtherPicture(UnreadableImage):
    """The file shows another picture than the one that is expected."""


def run_limited(task: Callable[[], Result], memory_bytes: int) -> Result:
    """Run `task` with a limit of the memory that it allocates; raises NotEnoughMemory where that ends it."""
    try:
        with memory_limit(memory_bytes, above=_memory_at_start()):
            result = task()
        if not (isinstance(result, DescribedFile) and result.refusal is Refusal.out_of_memory):
            return result
    except Exception as error:
        if not is_out_of_memory(error) and not is_out_of_memory(error.__cause__):
            raise
    raise NotEnoughMemory("the image needs more memory than decoding may take (decoder_bytes)")


@cache
def _memory_at_start() -> int:
    """Return the memory before the first task: what tasks leave behind does not add up."""
    return private_memory()


def describe_choice(choice: ImageChoice, task: DescribeTask) -> QueryImage:
    """Describe an image to search with, or for a collection of series a volume."""
    grid = task.profile.volume_grid
    image = _decode_choice(choice) if grid is None else _decode_volume(choice, grid)
    return describe_query(image, task.load_descriptor())


def reduce_choice(choice: ImageChoice, side: int) -> QueryImage:
    """Reduce an image to the input of a network, (side, side) uint8."""
    image = _decode_choice(choice)
    picture = pad_resize(image, side)
    return QueryImage(picture, image.content_hash, image.width, image.height, image.format, image.frame)


def render_choice(choice: ImageChoice, side: int) -> RenderedImage:
    """Render an image as a PNG with a longest side of at most `side` pixels; of a zipped series the middle slice."""
    return RenderedImage.of_image(_decode_choice(_slice_of_zip(choice)), side)


def read_pixels(choice: ImageChoice, side: int) -> FramePixels:
    """Return the pixel values of an image, reduced to a longest side of `side`.

    Of a zipped series it is the middle slice.
    """
    image = _decode_choice(replace(_slice_of_zip(choice), region=None), keep_values=True)
    return FramePixels.of_image(image, side, choice.region)


class ViewSides(NamedTuple):
    """Longest sides of what else is made of a query: a picture, and pixel values; None for none."""

    rendering: int | None = None
    pixels: int | None = None


@dataclass(frozen=True)
class QueryViews:
    """A query, and what else was made of it from one decoding; None for what was not to be made."""

    query: QueryImage
    rendering: RenderedImage | None = None
    pixels: FramePixels | None = None


def view_query(choice: ImageChoice, task: DescribeTask, sides: ViewSides) -> QueryViews:
    """Describe an image to search with as `describe_choice` does, and show it.

    Parameters
    ----------
    choice : ImageChoice
        The image, or a region of it, which is what is shown.
    task : DescribeTask
        What describes it.
    sides : ViewSides
        What else to make of it.
    """
    whole = _decode_choice(replace(_slice_of_zip(choice), region=None), keep_values=sides.pixels is not None)
    part = crop(whole, choice.region) if choice.region else whole
    if task.profile.volume_grid is None:
        query = describe_query(part, task.load_descriptor())
    else:
        query = describe_choice(choice, task)
    rendering = None if sides.rendering is None else RenderedImage.of_image(part, sides.rendering)
    pixels = None if sides.pixels is None else FramePixels.of_image(whole, sides.pixels, choice.region)
    return QueryViews(query, rendering, pixels)


def render_query(choice: ImageChoice, side: int, secret: bytes) -> StoredQuery:
    """Render the picture of a query that is to be kept.

    Parameters
    ----------
    choice : ImageChoice
        The image, without a region.
    side : int
        Longest side of the picture in pixels.
    secret : bytes
        Key of the patient hashes.
    """
    image = _decode_choice(choice)
    as_filed = _decode_choice(replace(choice, window=None)) if choice.window else image
    patient = hash_patient(secret, image.dicom.patient_id) if image.dicom else None
    return StoredQuery(encode_view(image, side), image.width, image.height, as_filed.content_hash, patient)


def render_in_window(choice: ImageChoice, side: int, window: Window | None) -> RenderedImage:
    """Render an image as a PNG, in a window that an image of any kind may have.

    Parameters
    ----------
    choice : ImageChoice
        The image, without a window of its own.
    side : int
        Longest side of the picture in pixels.
    window : (float, float) or None
        Center and width: of the stored values for grey DICOM, of the grey values from 0 to 255 for other images.
    """
    image = _decode_choice(choice)
    if window and image.windowing:  # from the stored values, so that no bit depth is lost
        return render_choice(replace(choice, window=window, content_hash=None), side)
    if window:
        center, width = window
        pixels = apply_window(image.pixels.astype(np.float64), center - width / 2, center + width / 2)
        image = Image(pixels, format=image.format)
    return RenderedImage.of_image(image, side)


def render_thumbnail(choice: ImageChoice) -> bytes:
    """Render the thumbnail of an image."""
    return make_thumbnail(_decode_choice(choice))


def describe_bytes(
    shared: SharedBytes, name: str, source: str, task: DescribeTask, thumbnails: bool
) -> DescribedFile:
    """Describe all frames of a file that was sent.

    Parameters
    ----------
    shared : bytes or str
        The file.
    name : str
        Its name in messages.
    source : str
        Its name in the records.
    task : DescribeTask
        Settings of the collection.
    thumbnails : bool
        Also make a thumbnail of every frame.
    """
    frames = decode(load_shared_bytes(shared), name, limits=task.limits, find_damage=task.check_intake)
    return describe_images(
        with_deadline(frames, task.seconds),
        task.load_compute(),
        task.secret,
        source,
        "sent",
        thumbnails,
        task.refuse_burned_in,
        task.check_intake,
        task.study_days,
    )


def read_uids(shared: SharedBytes, limits: Limits) -> tuple[str, str, str]:
    """Return SOP Class, SOP Instance and Study Instance UID of a DICOM file, "" where absent.

    Raises UnreadableImage.
    """
    data, keywords = load_shared_bytes(shared), ("SOPClassUID", "SOPInstanceUID", "StudyInstanceUID")
    if recognise_format(data) != "dicom":
        raise UnreadableImage("is not a DICOM file")
    from cbir.images.dicom_dataset import read_header

    try:
        with suppress_decoder_logs():
            header = read_header(data, limits, keywords)
            sop_class, uid, study = (str(header.get(keyword, ""))[:64] for keyword in keywords)
    except Exception as error:  # pydicom raises anything on damaged data sets
        if is_out_of_memory(error):
            raise
        raise UnreadableImage("is a damaged DICOM file; copy or export it again") from None
    return sop_class, uid, study


def _decode_choice(choice: ImageChoice, keep_values: bool = False) -> Image:
    image = select_frame(_frames(choice, keep_values), choice.frame, choice.name)
    if choice.window and not image.windowing:
        raise InvalidInput("window: only grey DICOM images have one; omit it")
    if choice.content_hash not in (None, image.content_hash):
        raise OtherPicture(f"{choice.name} shows another picture than when it was indexed")
    return crop(image, choice.region) if choice.region else image


def _slice_of_zip(choice: ImageChoice) -> ImageChoice:
    """Choose the middle slice where the file is a ZIP archive."""
    if isinstance(choice.file, Path) or not is_zip(data := load_shared_bytes(choice.file)):
        return choice
    return replace(choice, file=middle_slice(data, choice.name, choice.limits))


def _decode_volume(choice: ImageChoice, grid: VolumeGrid) -> Volume:
    QueryOptions(choice.frame, choice.region, choice.window).check_volume(grid)
    assert not isinstance(choice.file, Path), "volumes of a collection are searched with by id"
    return decode_query_volume(load_shared_bytes(choice.file), choice.name, choice.limits, grid)


def _frames(choice: ImageChoice, keep_values: bool = False) -> Iterator[Image]:
    if isinstance(choice.file, Path):
        return read_images(choice.file, limits=choice.limits, window=choice.window, keep_values=keep_values)
    data = load_shared_bytes(choice.file)
    return decode(data, choice.name, limits=choice.limits, window=choice.window, keep_values=keep_values)
