"""Orientation of PNG files, wherever writers put it."""

from io import BytesIO

import numpy as np
import PIL.Image
import pytest
from PIL.PngImagePlugin import PngInfo

from cbir.images import decode
from cbir.images.rasters import TAG, apply_orientation

PIXELS = np.arange(7 * 5, dtype=np.uint8).reshape(5, 7)
ATTRIBUTE = '<rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" tiff:Orientation="{}"/>'
ELEMENT = "<rdf:Description><tiff:Orientation>{}</tiff:Orientation></rdf:Description>"
XMP = "XML:com.adobe.xmp"


def png(orientation_texts=(), exif=None):
    """A PNG with texts: (kind, keyword, text)."""
    info, file = PngInfo(), BytesIO()
    for kind, keyword, text in orientation_texts:
        if kind == "iTXt":
            info.add_itxt(keyword, text)
        elif kind == "iTXt, compressed":
            info.add_itxt(keyword, text, zip=True)
        else:
            info.add_text(keyword, text, zip=kind == "zTXt")
    PIL.Image.fromarray(PIXELS).save(file, "PNG", pnginfo=info, **({"exif": exif} if exif else {}))
    return file.getvalue()


def exif_bytes(orientation):
    exif = PIL.Image.Exif()
    exif[TAG] = orientation
    return exif.tobytes()


def raw_profile(name, content):
    return f"\n{name}\n{len(content):8}\n" + "\n".join(
        content.hex()[at : at + 72] for at in range(0, 2 * len(content), 72)
    )


def shown(data):
    (image,) = decode(data)
    return image.pixels


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["iTXt", "iTXt, compressed"])
@pytest.mark.parametrize("form", [ATTRIBUTE, ELEMENT])
def test_xmp(form, kind, orientation):
    data = png([(kind, XMP, form.format(orientation))])
    np.testing.assert_array_equal(shown(data), apply_orientation(PIXELS, orientation))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["tEXt", "zTXt"])
@pytest.mark.parametrize("name", ["exif", "APP1", "xmp"])
def test_raw_profiles(name, kind, orientation):
    content = ATTRIBUTE.format(orientation).encode() if name == "xmp" else exif_bytes(orientation)
    data = png([(kind, f"Raw profile type {name}", raw_profile(name, content))])
    np.testing.assert_array_equal(shown(data), apply_orientation(PIXELS, orientation))


def test_exif_precedes_xmp():
    data = png([("iTXt", XMP, ATTRIBUTE.format(3))], exif=exif_bytes(6))
    np.testing.assert_array_equal(shown(data), apply_orientation(PIXELS, 6))


@pytest.mark.parametrize(
    "text",
    [("tEXt", "Raw profile type exif", "nothing"), ("tEXt", "Raw profile type exif", "\nexif\n  3\nzzz"),
     ("iTXt", XMP, "<x/>"), ("zTXt", "Raw profile type APP1", raw_profile("APP1", b"Exif\0\0junk")),
     ("zTXt", "Raw profile type exif", "0" * 10**8)],
)  # fmt: skip
def test_damaged_descriptions_leave_the_pixels_as_they_are(text):
    np.testing.assert_array_equal(shown(png([text])), PIXELS)
