"""NIfTI volumes: slices against nibabel's own orientation, windows, bounds and damage."""

import gzip
import sys
import tracemalloc

import nibabel
import numpy as np
import pytest

from cbir.errors import UnreadableImage
from cbir.images import Limits, decode
from cbir.images.reading import recognise_format

ROOM = np.random.default_rng(0).integers(-1000, 2000, (12, 10, 7)).astype(np.int16)
CODES = ["RAS", "LPS", "LAS", "PIR", "ASL", "SRP"]


def volume(values=ROOM, affine=None, kind=nibabel.Nifti1Image, **fields):
    """Return the bytes of a volume; `fields` are set in its header afterwards."""
    data = kind(values, np.eye(4) if affine is None else affine).to_bytes()
    header = kind.header_class(data[: kind.header_class.sizeof_hdr], check=False)
    for name, value in fields.items():
        header[name] = value
    return header.binaryblock + data[len(header.binaryblock) :]


def turned(codes, spacing=(1.0, 1.0, 1.0)):
    """Return the affine of a volume whose axes point to `codes`."""
    orientation = nibabel.orientations.axcodes2ornt(codes)
    affine = np.zeros((4, 4))
    for axis, (direction, sign) in enumerate(orientation):
        affine[int(direction), axis] = sign * spacing[axis]
    affine[3, 3] = 1
    return affine


def slices(data, **options):
    return list(decode(data, "v.nii", **options))


def grey(plane):
    """Return values of a slice of ROOM in the window of the whole volume."""
    low, high = np.percentile(ROOM.astype(float), (1, 99))
    return np.rint((np.clip(plane, low, high) - low) / (high - low) * 255)


@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("kind", [nibabel.Nifti1Image, nibabel.Nifti2Image])
def test_axial_slices_of_every_orientation(codes, kind):
    """The right of the patient is on the left, anterior at the top, the lowest slice first."""
    affine = turned(codes)
    ras = nibabel.as_closest_canonical(nibabel.Nifti1Image(ROOM, affine)).get_fdata()
    images = slices(volume(affine=affine, kind=kind))
    assert [image.frame for image in images] == list(range(1, ras.shape[2] + 1))
    for index, image in enumerate(images):
        np.testing.assert_array_equal(image.pixels, grey(ras[::-1, ::-1, index].T))


@pytest.mark.parametrize(("codes", "thick"), [("RAS", 0), ("RAS", 1), ("PIR", 2), ("PIR", 0)])
def test_thick_slices_are_those_that_were_acquired(codes, thick):
    spacing = [1.0, 1.0, 1.0]
    spacing[thick] = 4.0
    images = slices(volume(affine=turned(codes, spacing)))
    assert len(images) == ROOM.shape[thick]
    ras = nibabel.as_closest_canonical(nibabel.Nifti1Image(ROOM, turned(codes, spacing)))
    axis = int(np.argmax(ras.header.get_zooms()))
    upper = np.take(ras.get_fdata(), ras.shape[axis] - 1, axis)  # rightmost, most anterior
    # sagittal: anterior on the left; coronal: the patient's right on the left; the head at the top
    np.testing.assert_array_equal(images[0].pixels, grey(upper[::-1, ::-1].T))


def test_a_compressed_volume_is_the_same():
    plain, packed = slices(volume()), slices(gzip.compress(volume()))
    assert recognise_format(gzip.compress(volume())) == "nifti"
    assert [image.content_hash for image in packed] == [image.content_hash for image in plain]
    assert packed[0].dicom == plain[0].dicom
    uids = (plain[0].dicom.study, plain[0].dicom.series, plain[0].dicom.instance)
    assert len(set(uids)) == 3
    assert all(uid.startswith("2.25.") and len(uid) <= 64 for uid in uids)
    assert slices(volume(ROOM + 1))[0].dicom.series != uids[1]
    members = b"".join(gzip.compress(volume()[start : start + 300]) for start in range(0, len(volume()), 300))
    assert [image.content_hash for image in slices(members)] == [image.content_hash for image in plain]


def test_rescaled_values_and_windows():
    data = volume(scl_slope=2.0, scl_inter=-100.0)
    image = slices(data)[0]
    values = ROOM * 2.0 - 100
    low, high = np.percentile(values, (1, 99))
    center, width, least, greatest = image.windowing
    assert (center, width) == pytest.approx(((low + high) / 2, high - low))
    assert (least, greatest) == (values.min(), values.max())
    narrow = slices(data, window=(40.0, 400.0))[0]
    plane = values[::-1, ::-1, 0].T
    expected = np.rint((np.clip(plane, -160, 240) + 160) / 400 * 255)
    np.testing.assert_array_equal(narrow.pixels, expected)
    again = slices(data, window=(center, width))[0]
    np.testing.assert_array_equal(again.pixels, image.pixels)


def test_voxels_that_are_no_numbers_are_black():
    values = ROOM.astype(np.float32)
    values[:6] = np.nan
    image = slices(volume(values))[0]
    assert (image.pixels[:, -6:] == 0).all()
    with pytest.raises(UnreadableImage, match="has no voxel that is a finite number"):
        slices(volume(np.full((4, 4, 4), np.nan, np.float32)))


def test_a_slice_is_cut_without_a_copy_of_the_volume():
    values = np.zeros((128, 128, 64), np.int16)
    images = decode(volume(values), "v.nii")
    next(images)
    tracemalloc.start()
    next(images)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < values.nbytes / 2


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 1), (5, 4, 1, 1)])
def test_a_single_slice_has_no_number(shape):
    (image,) = slices(volume(np.arange(20, dtype=np.uint8).reshape(shape)))
    assert (image.frame, image.width, image.height, image.format) == (None, 5, 4, "nifti")


def test_equal_values_are_black():
    assert not slices(volume(np.full((4, 5, 6), 7, np.int16)))[0].pixels.any()


def test_damaged_orientation_is_ignored():
    affine = np.eye(4)
    data = volume(affine=affine, qform_code=0, srow_x=[np.nan] * 4, sform_code=1)
    assert len(slices(data)) == 7
    assert (
        len(slices(volume(qform_code=0, sform_code=1, srow_x=[0] * 4, srow_y=[0] * 4, srow_z=[0] * 4))) == 7
    )


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (volume(np.zeros((3, 3, 3, 2), np.int16)), "has 3 x 3 x 3 x 2 values, several times or channels"),
        (volume(np.zeros((3, 3, 3), np.complex64)), "has voxels that are not single numbers"),
        (volume()[:-1], "is truncated"),
        (gzip.compress(volume()[:-1], mtime=0), "is truncated"),
        (gzip.compress(volume(), mtime=0)[:-20], "is truncated"),
        (gzip.compress(volume(), mtime=0)[:-8] + bytes(8), "is damaged or unsupported"),  # another checksum
        (volume(magic=b"ni1"), r"is the header of a NIfTI pair \(.hdr, .img\)"),
        (volume(dim=[3, 30000, 30000, 30000, 1, 1, 1, 1]), "declares 30000 x 30000 x 30000 voxels"),
        (volume(dim=[3, 0, 5, 5, 1, 1, 1, 1]), "declares 0 x 5 x 5 voxels, an empty volume"),
        (volume(dim=[3, -4, 5, 5, 1, 1, 1, 1]), "an empty volume"),
        (volume(dim=[1, 5, 5, 5, 1, 1, 1, 1]), "an empty volume"),
        (volume(vox_offset=-8), "declares"),
        (volume(datatype=77), "v.nii is damaged or unsupported"),
        (volume()[:350], "is truncated"),
        (gzip.compress(b"text", mtime=0), "is a gzip file without a NIfTI volume; unpack it"),
        (b"\x1f\x8b" + bytes(50), "is a gzip file without a NIfTI volume"),
    ],
)
def test_other_volumes_are_refused(data, reason):
    with pytest.raises(UnreadableImage, match=reason):
        slices(data)


def test_limits():
    with pytest.raises(UnreadableImage, match="declares 12 x 10 pixels; at most 100"):
        slices(volume(), limits=Limits(pixels=100))
    with pytest.raises(UnreadableImage, match="has 7 frames; at most 6"):
        slices(volume(), limits=Limits(frames=6))
    packed = gzip.compress(volume(np.zeros((64, 64, 64), np.int16)))
    with pytest.raises(
        UnreadableImage, match=r"declares 64 x 64 x 64 voxels; volumes of at most 100000 bytes"
    ):
        slices(packed, limits=Limits(bytes=100_000))


def test_without_nibabel_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(
        UnreadableImage,
        match=r"^v.nii is a NIfTI volume, which needs nibabel: pip install '\.\[volume\]' in the",
    ):
        slices(volume())
