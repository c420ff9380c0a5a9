"""Files that are not decoded: the reason names their kind."""

import numpy as np
import PIL.Image
import pytest
from PIL.TiffImagePlugin import ImageFileDirectory_v2
from pydicom import uid
from pydicom.encaps import encapsulate

from cbir.errors import NoPixels, UnreadableImage
from cbir.images import Limits, decode, read_images
from cbir.images.reading import SLIDES
from tests.cbir.images.synthetic_dicom import dicom_set, written

GREY = PIL.Image.fromarray(np.arange(64 * 64, dtype=np.uint16).reshape(64, 64).astype(np.uint8))
ADVICE = "whole-slide images are not read; export regions of it as PNG or TIFF$"


def reason(data, **options):
    with pytest.raises(UnreadableImage) as error:
        list(decode(data, "file", **options))
    return str(error.value)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\0\0\0\x20ftypisom" + bytes(200), "is a video; export its frames"),
        (b"\0\0\0\x14ftypqt  " + bytes(200), "is a video"),
        (b"RIFF\x10\0\0\0AVI LIST" + bytes(200), "is a video"),
        (b"\x1a\x45\xdf\xa3" + bytes(200), "is a video"),
        (b"\0\0\0\x18ftypheic" + bytes(200), "is a HEIF or AVIF image; convert it to PNG"),
        (b"RIFF\x10\0\0\0WEBPVP8 " + bytes(200), "is a WebP image"),
        (b"%PDF-1.7\n", "is a PDF document"),
        (b"GIF89a" + bytes(20), "is a GIF"),
        (b"PK\x03\x04" + bytes(200), "is a ZIP archive; unpack it"),
        (b"NRRD0004\n", "is an NRRD volume; convert it to NIfTI"),
        (b"ObjectType = Image\n", "is a MetaImage volume; convert it to NIfTI"),
        (b"RIFF", "is not a PNG, JPEG, TIFF, BMP, DICOM or NIfTI file"),
        (b"x" * 600, "is not a PNG, JPEG, TIFF, BMP, DICOM or NIfTI file"),
    ],
)
def test_the_kind_is_named(data, kind):
    assert reason(data).startswith(f"file {kind}")


PIXELS_AT = 1000  # offset of the pixels in the file


def tagged_tiff(tiled=False, **tags):
    """Return the bytes of a TIFF file of 64 x 64 pixels, in one tile or one strip, with more tags by `tNUMBER`."""
    directory = ImageFileDirectory_v2()
    fields = {256: 64, 257: 64, 258: 8, 259: 1, 262: 1, 277: 1}
    fields |= {322: 64, 323: 64, 324: PIXELS_AT, 325: 4096} if tiled else {273: PIXELS_AT, 278: 64, 279: 4096}
    for number, value in (fields | {int(name[1:]): value for name, value in tags.items()}).items():
        directory[number] = value
    head = b"II*\0\x08\0\0\0" + directory.tobytes(8)
    return head.ljust(PIXELS_AT, b"\0") + GREY.tobytes() + bytes(200)  # Pillow moves the offset


@pytest.mark.parametrize(
    ("tags", "kind"),
    [
        ({"t270": "Aperio Image Library v11", "tiled": True}, "Aperio SVS"),
        ({"t305": "Philips DP v1.0", "tiled": True}, "Philips TIFF"),
        ({"t65420": 1}, "Hamamatsu NDPI"),
    ],
)
def test_slides_are_known_by_their_tags(tags, kind):
    assert f"file is a whole-slide image ({kind}); whole-slide" in reason(tagged_tiff(**tags))


def test_an_ordinary_description_is_no_slide():
    (image,) = decode(tagged_tiff(t270="Aperio, but not tiled"), "file")
    assert image.width == 64


def test_large_tiled_pages_are_called_slides():
    tiled = tagged_tiff(tiled=True)
    assert "pixels; at most 100 are decoded (max_pixels); whole-slide" in reason(
        tiled, limits=Limits(pixels=100)
    )
    assert "whole-slide" not in reason(tagged_tiff(), limits=Limits(pixels=100))


@pytest.mark.parametrize("suffix", SLIDES)
def test_slides_are_known_by_their_suffix(suffix, tmp_path):
    """The file of a MIRAX slide is a JPEG preview; others are too large to be read for their kind."""
    path = tmp_path / f"slide{suffix.upper()}"
    GREY.save(path, "JPEG")
    for read in (read_images(path, limits=Limits(bytes=10)), decode(path.read_bytes(), path.name)):
        with pytest.raises(UnreadableImage, match=rf"is a whole-slide image \({SLIDES[suffix]}\); {ADVICE}"):
            list(read)


def test_dicom_objects_that_are_no_images_to_search():
    slide = written(dicom_set(SOPClassUID=uid.VLWholeSlideMicroscopyImageStorage))
    assert "is a whole-slide image (DICOM); whole-slide" in reason(slide)
    with pytest.raises(UnreadableImage, match="is a segmentation, a map of labels") as error:
        list(decode(written(dicom_set(SOPClassUID=uid.SegmentationStorage)), "file"))
    assert isinstance(error.value.__cause__, NoPixels)
    for kind in (uid.EncapsulatedPDFStorage, uid.RTStructureSetStorage, uid.EnhancedSRStorage):
        dataset = dicom_set(SOPClassUID=kind)
        del dataset.PixelData
        assert reason(written(dataset)) == (
            f"file has no pixels: it is of class {uid.UID(kind).name}; choose an object with an image"
        )
    video = dicom_set()
    video.file_meta.TransferSyntaxUID = uid.MPEG4HP41
    video.PixelData = encapsulate([bytes(100)])
    assert "is a video (MPEG-4 AVC/H.264 High Profile / Level 4.1); export its frames" in reason(
        written(video)
    )
