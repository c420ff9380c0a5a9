"""Third-party DICOM files: those of pydicom, and those in the folder CBIR_DATA."""

import os
from pathlib import Path

import numpy as np
import pydicom.data
import pytest

from cbir.errors import UnreadableImage
from cbir.images import read_images

SHIPPED = Path(pydicom.data.__file__).parent / "test_files"
NO_PIXELS = "has no pixels: it is of class "
HEADER_ALONE = "has no pixels, though it is of class "
DIRECTORY = NO_PIXELS + "Media Storage Directory Storage"
OTHER_KIND = "is not a PNG, JPEG, TIFF, BMP, DICOM or NIfTI file"
LABELS = "is a segmentation"

REFUSED = {  # pydicom's files that are refused, with the reason
    "ExplVR_BigEndNoMeta.dcm": NO_PIXELS + "RT Ion Plan Storage",
    "ExplVR_LitEndNoMeta.dcm": NO_PIXELS + "RT Ion Plan Storage",
    "JPEG2000-embedded-sequence-delimiter.dcm": "has a compressed frame of 3722445056 x 1024 pixels",
    "MR_truncated.dcm": "has pixel data that are truncated",
    "UN_sequence.dcm": HEADER_ALONE + "CT Image Storage",
    "badVR.dcm": "has a NumberOfFrames that is not a number",
    "empty_charset_LEI.dcm": "has no pixels: it is of an unknown class",
    "liver_1frame.dcm": LABELS,
    "liver_expb_1frame.dcm": LABELS,
    "meta_missing_tsyntax.dcm": "has no Rows",
    "nested_priv_SQ.dcm": "has no Rows",
    "no_meta.dcm": OTHER_KIND,  # a stray byte stands before its first element; pydicom cannot read it either
    "no_meta_group_length.dcm": HEADER_ALONE + "RT Image Storage",
    "priv_SQ.dcm": HEADER_ALONE + "MR Image Storage",
    "reportsi.dcm": NO_PIXELS + "Basic Text SR Storage",
    "reportsi_with_empty_number_tags.dcm": NO_PIXELS + "Basic Text SR Storage",
    "rtplan.dcm": NO_PIXELS + "RT Plan Storage",
    "rtplan_truncated.dcm": NO_PIXELS + "RT Plan Storage",
    "rtstruct.dcm": NO_PIXELS + "RT Structure Set Storage",
    "test-SR.dcm": NO_PIXELS + "Comprehensive SR Storage",
    "waveform_ecg.dcm": NO_PIXELS + "12-lead ECG Waveform Storage",
    "zipMR.gz": "is a gzip file without a NIfTI volume",
    "README.txt": OTHER_KIND,
    "crayons.icc": OTHER_KIND,
    "rtplan.dump": OTHER_KIND,
    "rtstruct.dump": OTHER_KIND,
    "test1.json": OTHER_KIND,
    "test_PN.json": OTHER_KIND,
    "dicomdirtests/README.txt": OTHER_KIND,
    "dicomdirtests/DICOMDIR": DIRECTORY,
    "dicomdirtests/DICOMDIR-bigEnd": DIRECTORY,
    "dicomdirtests/DICOMDIR-empty.dcm": DIRECTORY,
    "dicomdirtests/DICOMDIR-implicit": DIRECTORY,
    "dicomdirtests/DICOMDIR-nooffset": DIRECTORY,
    "dicomdirtests/DICOMDIR-nopatient": DIRECTORY,
    "dicomdirtests/DICOMDIR-reordered": DIRECTORY,
    "dicomdirtests/TINY_ALPHA/DICOMDIR": DIRECTORY,
    "dicomdirtests/TINY_ALPHA/README": OTHER_KIND,
}
WHITE = {f"dicomdirtests/77654033/CT2/{name}" for name in (17166, 17196)}  # all bone, above their window
TINY = "dicomdirtests/TINY_ALPHA/PT000000/ST000000/SE000000/"  # fifty headers of CT images
LOSSLESS = {"J2KR", "JLSL", "JPLL"}


def shipped():
    paths = (
        path for path in sorted(SHIPPED.rglob("*")) if path.is_file() and path.suffix not in (".py", ".pyc")
    )
    return {path.relative_to(SHIPPED).as_posix(): path for path in paths}


def first(name):
    return next(read_images(SHIPPED / name)).pixels


def test_pydicom_files_are_decoded_or_refused_with_the_expected_reason():
    decoded, refused = {}, {}
    for name, path in shipped().items():
        try:
            decoded[name] = list(read_images(path))
        except UnreadableImage as error:
            refused[name] = str(error).removeprefix(f"{path.name} ")
    tiny = {name: refused.pop(name) for name in list(refused) if name.startswith(TINY)}
    assert len(tiny) == 50
    assert all(reason.startswith(HEADER_ALONE + "CT Image Storage") for reason in tiny.values())
    assert sorted(refused) == sorted(REFUSED)
    for name, reason in refused.items():
        assert reason.startswith(REFUSED[name]), name
    assert len(decoded) == 88
    for name, images in decoded.items():
        for image in images:
            assert image.pixels.dtype == np.uint8
            assert (image.pixels.min() < image.pixels.max()) != (name in WHITE), name


@pytest.mark.parametrize(
    "names",
    [
        ["MR_small.dcm", "MR_small_RLE.dcm", "MR_small_bigendian.dcm", "MR_small_expb.dcm", "MR_small_implicit.dcm",
         "MR_small_jp2klossless.dcm", "MR_small_jpeg_ls_lossless.dcm", "MR_small_padded.dcm"],
        ["SC_rgb_rle.dcm", "SC_rgb_rle_2frame.dcm", "SC_rgb_rle_16bit.dcm", "SC_rgb_rle_32bit.dcm"],
        ["rtdose.dcm", "rtdose_expb.dcm", "rtdose_rle.dcm", "rtdose_1frame.dcm", "rtdose_rle_1frame.dcm"],
        ["SC_rgb_small_odd.dcm", "SC_rgb_small_odd_big_endian.dcm"],
        ["JPEG-lossy.dcm", "JPGExtended.dcm"],
    ],
)  # fmt: skip
def test_one_image_in_many_encodings(names):
    for name in names[1:]:
        np.testing.assert_array_equal(first(name), first(names[0]), err_msg=name)


@pytest.mark.parametrize(
    "name",
    ["SC_rgb_jpeg_dcmtk.dcm", "SC_rgb_dcmtk_+eb+cr.dcm", "SC_rgb_dcmtk_+eb+cy+n1.dcm", "SC_rgb_dcmtk_+eb+cy+np.dcm",
     "SC_rgb_dcmtk_+eb+cy+s4.dcm", "SC_rgb_gdcm_KY.dcm", "SC_rgb_jpeg_gdcm.dcm", "SC_rgb_jpeg_lossy_gdcm.dcm",
     "SC_rgb_jls_lossy_line.dcm", "SC_rgb_jls_lossy_sample.dcm", "SC_ybr_full_422_uncompressed.dcm"],
)  # fmt: skip
def test_colour_bars_keep_their_colours(name):
    """The middles of the bars; lossy coding smears their borders."""
    bars, expected = first(name)[5::10, 50].astype(int), first("SC_rgb_rle.dcm")[5::10, 50]
    assert np.abs(bars - expected).max() <= 8


@pytest.mark.parametrize("name", ["ExplVR_BigEnd.dcm", "examples_rgb_color.dcm", "examples_ybr_color.dcm"])
def test_eight_bit_colours_are_pydicoms_own(name):
    stored = pydicom.dcmread(SHIPPED / name).pixel_array
    for image, frame in zip(
        read_images(SHIPPED / name), stored if stored.ndim == 4 else [stored], strict=True
    ):
        np.testing.assert_array_equal(image.pixels, frame)


@pytest.fixture(scope="module")
def corpus():
    folder = Path(os.environ.get("CBIR_DATA", "")) / "dicom"
    if "CBIR_DATA" not in os.environ or not folder.is_dir():
        pytest.skip("CBIR_DATA does not name a folder with a folder dicom")
    return {path.name: list(read_images(path)) for path in sorted(folder.iterdir())}


def test_the_corpus_is_decoded(corpus):
    assert len(corpus) == 36
    for name, (image,) in corpus.items():
        assert image.dicom is not None
        assert image.pixels.std() > 10, name
        assert (image.pixels.ndim == 3) == name.startswith(("US", "VL"))


def test_lossless_variants_are_identical_and_lossy_ones_alike(corpus):
    compared = 0
    for name, (image,) in corpus.items():
        subject, variant = name.split("_")
        for other, (twin,) in corpus.items():
            if other <= name or not other.startswith(f"{subject}_"):
                continue
            if {variant, other.split("_")[1]} <= LOSSLESS:
                np.testing.assert_array_equal(image.pixels, twin.pixels, err_msg=f"{name} {other}")
                compared += 1
            item, two = image.pixels.astype(float).ravel(), twin.pixels.astype(float).ravel()
            assert np.corrcoef(item, two)[0, 1] > 0.85, f"{name} {other}"
    assert compared == 6  # CT2, MR3, MR4: one pair each; NM1: three
