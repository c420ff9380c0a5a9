"""CT series: grouping of slices, and volumes against an independent resampling."""

from functools import partial

import numpy as np
import pydicom
import pytest
from scipy.ndimage import map_coordinates
from scipy.spatial.transform import Rotation

from cbir.errors import UnreadableImage
from cbir.images import Limits
from cbir.images.ct_series import find_series, read_volume
from cbir.images.reading import read_file
from cbir.images.volume import VolumeGrid
from tests.cbir.images.synthetic_series import axis, body, stack, write_nifti, write_series

GRID = VolumeGrid((28, 26, 24), (10.0, 10.0, 12.0))
READ = partial(read_file, limits=Limits())


def found(folder):
    return find_series(sorted(folder.rglob("*.*")), Limits(), READ)


def volume(folder, grid=GRID):
    (series,) = found(folder).series
    return read_volume(series, Limits(), grid, READ)


def reasons(folder):
    return {reason for _, reason in found(folder).refused}


def difference(first, second):
    return np.abs(first.voxels.astype(int) - second.voxels).max()


def test_voxels_are_those_of_an_independent_resampling(tmp_path):
    values = stack()
    write_series(tmp_path, values)
    places = [
        [position / spacing + (count - 1) / 2 for position in axis(length, step)]
        for count, spacing, length, step in zip(
            values.shape[::-1], (5.0, 5.0, 6.0), GRID.shape, GRID.spacing, strict=True
        )
    ]
    x, y, z = np.meshgrid(*places, indexing="ij")
    lps = map_coordinates(values.astype(float), [z, y, x], order=1, mode="nearest")
    outside = [
        (place < -0.5) | (place > count - 0.5)
        for place, count in zip((x, y), values.shape[:0:-1], strict=True)
    ]
    lps[outside[0] | outside[1] | (z < -0.5) | (z > values.shape[0] - 0.5)] = -1000
    expected = np.clip(lps, -1000, 1000)[::-1, ::-1]  # the right and anterior of the patient at the end
    np.testing.assert_allclose(volume(tmp_path).voxels, expected, atol=0.51)


def test_places_are_the_patients(tmp_path):
    """An organ lies where it was drawn, to the voxel."""
    write_series(tmp_path, stack((60, 80, 88), (3.0, 2.5, 2.5)), (3.0, 2.5, 2.5))
    x, y, z = np.meshgrid(
        *(axis(*pair) for pair in zip(GRID.shape, GRID.spacing, strict=True)), indexing="ij"
    )
    drawn = np.clip(body(-x, -y, z), -1000, 1000)
    voxels, covered = volume(tmp_path).voxels, np.abs(z) < 85
    assert np.median(np.abs(voxels - drawn)[covered]) < 1
    agreement, mirrored = (
        np.corrcoef(candidate[covered], drawn[covered])[0, 1] for candidate in (voxels, voxels[::-1])
    )
    assert agreement > 0.98 > mirrored


@pytest.mark.parametrize("change", [
    {"order_seed": 5}, {"slope": 0.5, "intercept": -1000}, {"slope": 2, "intercept": -1000}
])  # fmt: skip
def test_order_and_rescaling_of_files_do_not_matter(tmp_path, change):
    values = stack() // 2 * 2
    write_series(tmp_path / "a", values)
    write_series(tmp_path / "b", values, **change)
    first, second = volume(tmp_path / "a"), volume(tmp_path / "b")
    np.testing.assert_array_equal(first.voxels, second.voxels)
    assert first.content_hash == second.content_hash


def test_other_spacings_give_nearly_the_same(tmp_path):
    write_series(tmp_path / "a", stack((60, 80, 88), (3.0, 2.5, 2.5)), (3.0, 2.5, 2.5))
    write_series(tmp_path / "b", stack((90, 100, 110), (2.0, 2.0, 2.0)), (2.0, 2.0, 2.0))
    a, b = (volume(tmp_path / name).voxels.astype(float) for name in "ab")
    assert np.median(np.abs(a - b)) < 5
    assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.98


def test_nifti_of_the_same_volume(tmp_path):
    write_series(tmp_path / "a", stack())
    write_nifti(tmp_path / "b" / "v.nii.gz", stack())
    dicom, nifti = volume(tmp_path / "a"), volume(tmp_path / "b")
    assert difference(dicom, nifti) <= 1
    assert (nifti.format, nifti.frame) == ("nifti", 16)


@pytest.mark.parametrize(("orientation", "turn"), [
    ((1, 0, 0, 0, 0, -1), lambda v: v[::-1].transpose(1, 0, 2)),  # coronal slices, the head at the top
    ((0, 1, 0, 0, 0, -1), lambda v: v[::-1].transpose(2, 0, 1)[::-1]),  # sagittal
    ((-1, 0, 0, 0, 1, 0), lambda v: v[::-1, :, ::-1]),  # mirrored, the slices downwards
])  # fmt: skip
def test_orientations(tmp_path, orientation, turn):
    values = stack((40, 42, 44), (5.0,) * 3)
    write_series(tmp_path / "a", values, (5.0,) * 3)
    write_series(tmp_path / "b", turn(values), (5.0,) * 3, orientation=orientation)
    assert difference(volume(tmp_path / "a"), volume(tmp_path / "b")) <= 1


def test_what_is_no_slice_of_a_volume_is_named(tmp_path):
    values = stack()
    write_series(tmp_path / "ct", values)
    write_series(tmp_path / "ct" / "scout", values[:1], ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"])
    write_series(tmp_path / "mr", values[:1], uid="1.3", Modality="MR")
    write_series(tmp_path / "few", values[:15], uid="1.4")
    write_series(tmp_path / "none", values[:1], uid="1.5", PixelSpacing=None)
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "b.dcm").write_bytes(bytes(128) + b"DICM" + b"\1" * 50)
    everything = found(tmp_path)
    assert len(everything.series) == 1
    assert len(everything.series[0].paths) == len(values)
    assert len(everything.refused) == 1 + 1 + 15 + 1 + 2
    words = (
        "localizer",
        "modality MR",
        "series of 15 slices",
        "pixel spacing",
        "no CT slice",
        "modality unknown",
    )
    assert all(any(word in reason for reason in reasons(tmp_path)) for word in words)


def test_repeated_and_stray_slices_are_left_out(tmp_path):
    values = stack()
    write_series(tmp_path / "a", values)
    write_series(tmp_path / "b", values)
    write_series(tmp_path / "c", values[:3, :20], SOPInstanceUID=None)
    everything = found(tmp_path)
    (series,) = everything.series
    assert len(series.paths) == len(values)
    assert len(everything.refused) == len(values) + 3
    assert {path for path, _ in everything.refused} | set(series.paths) == set(tmp_path.rglob("*.dcm"))
    assert all(
        any(word in reason for reason in reasons(tmp_path)) for word in ("of another file", "is one of 3")
    )


def test_a_gap_is_refused(tmp_path):
    paths = write_series(tmp_path, stack())
    for path in paths[10:16]:
        path.unlink()
    assert any("gap of 42 mm" in reason for reason in reasons(tmp_path))


def test_damage_names_the_slice(tmp_path):
    paths = write_series(tmp_path, stack())
    data = paths[15].read_bytes()
    paths[15].write_bytes(data[:-500])
    with pytest.raises(UnreadableImage, match=rf"{paths[15].name} has pixel data that are truncated"):
        volume(tmp_path)


def test_oblique_slices_are_refused(tmp_path):
    """Two axes of such slices are nearest to the same axis of the patient."""
    turns = Rotation.random(100, random_state=0).as_matrix()
    turn = next(turn for turn in turns if len(set(np.abs(turn).argmax(axis=1))) < 3)
    orientation = tuple(turn[:2].ravel().round(6).tolist())
    write_series(tmp_path, stack((40, 40, 40), (5.0,) * 3), (5.0,) * 3, orientation=orientation)
    with pytest.raises(UnreadableImage, match="obliquely"):
        volume(tmp_path)


def test_nifti_that_is_not_ct(tmp_path):
    write_nifti(tmp_path / "mr.nii", np.abs(stack()))
    with pytest.raises(UnreadableImage, match="not CT in Hounsfield units"):
        volume(tmp_path)


def test_long_series_are_cut_to_the_grid(tmp_path):
    """Slices far outside of the grid are not even read."""
    paths = write_series(tmp_path, stack((80, 20, 20), (10.0,) * 3), (10.0,) * 3)
    paths[2].write_bytes(paths[2].read_bytes()[:-300])
    assert volume(tmp_path).voxels.shape == GRID.shape


def two_passes(folder, first=None, second=None, shift=0):
    """Write two passes at the same places as one series; return the values of both."""
    values, other = stack(seed=1), stack(seed=2)
    write_series(folder / "a", values, **(first or {}))
    for number, path in enumerate(write_series(folder / "b", other, order_seed=3, **(second or {}))):
        change(path, SOPInstanceUID=f"1.2.3.9.{number}", shift=shift)
    return values, other


def change(path, shift=0, **attributes):
    dataset = pydicom.dcmread(path)
    for keyword, value in attributes.items():
        setattr(dataset, keyword, value)
    dataset.ImagePositionPatient[2] += shift
    dataset.save_as(path)


@pytest.mark.parametrize(("first", "second"), [
    ({"AcquisitionNumber": 1}, {"AcquisitionNumber": 2}),
    ({"AcquisitionTime": "100000"}, {"AcquisitionTime": "100030"}),
    ({"AcquisitionTime": "100000", "AcquisitionDate": "20200101"},
     {"AcquisitionTime": "100000", "AcquisitionDate": "20200102"}),
    ({"AcquisitionNumber": 1, "TemporalPositionIdentifier": 1},
     {"AcquisitionNumber": 1, "TemporalPositionIdentifier": 2}),
    ({"TriggerTime": 0}, {"TriggerTime": 300}),
])  # fmt: skip
@pytest.mark.parametrize("shift", [0, 0.01])
def test_two_passes_are_two_volumes(tmp_path, first, second, shift):
    two_passes(tmp_path, first, second, shift)
    everything = found(tmp_path)
    assert [{path.parent.name for path in series.paths} for series in everything.series] == [{"a"}, {"b"}]
    assert everything.refused == []
    write_series(tmp_path / "alone" / "a", stack(seed=1))
    volumes = [read_volume(series, Limits(), GRID, READ) for series in everything.series]
    np.testing.assert_array_equal(volumes[0].voxels, volume(tmp_path / "alone").voxels)
    assert difference(*volumes) > 500


def test_passes_that_nothing_tells_apart_are_refused_with_the_reason(tmp_path):
    two_passes(tmp_path)
    everything = found(tmp_path)
    assert everything.series == []
    assert len(everything.refused) == 60
    assert any("neither acquisition numbers nor times tell apart" in reason for reason in reasons(tmp_path))


def test_a_short_second_pass_is_left_out_by_name(tmp_path):
    two_passes(tmp_path, {"AcquisitionNumber": 1}, {"AcquisitionNumber": 2})
    for path in sorted((tmp_path / "b").iterdir())[5:]:
        path.unlink()
    everything = found(tmp_path)
    assert [len(series.paths) for series in everything.series] == [30]
    assert {path.parent.name for path, _ in everything.refused} == {"b"}
    assert len(everything.refused) == 5


@pytest.mark.parametrize("noise", [
    {"PixelSpacing": [5.000001, 5]}, {"PixelSpacing": [5, 4.9995]},
    {"ImageOrientationPatient": [1, 0.0001, 0, -0.0001, 1, 0]},
    {"ImageOrientationPatient": [1, 0, 0.001, 0, 1, -0.001]},
])  # fmt: skip
def test_noise_in_the_geometry_leaves_nothing_out(tmp_path, noise):
    for path in write_series(tmp_path, stack())[::2]:
        change(path, **noise)
    everything = found(tmp_path)
    assert [len(series.paths) for series in everything.series] == [30]
    assert everything.refused == []


def test_two_orientations_in_one_series_are_two_volumes(tmp_path):
    write_series(tmp_path / "a", stack((40, 42, 44), (5.0,) * 3), (5.0,) * 3)
    for number, path in enumerate(
        write_series(
            tmp_path / "b", stack((40, 42, 44), (5.0,) * 3), (5.0,) * 3, orientation=(1, 0, 0, 0, 0, -1)
        )
    ):
        change(path, SOPInstanceUID=f"1.2.3.9.{number}")
    assert [{path.parent.name for path in series.paths} for series in found(tmp_path).series] == [
        {"a"},
        {"b"},
    ]


@pytest.mark.parametrize("other", [{"spacing": (6.0, 5.5, 5.0)}, {"shape": (30, 40, 50)}])
def test_slices_of_two_sizes_at_the_same_places_are_two_volumes(tmp_path, other):
    write_series(tmp_path / "a", stack())
    values = stack(other.get("shape", (30, 40, 44)), other.get("spacing", (6.0, 5.0, 5.0)))
    for number, path in enumerate(
        write_series(tmp_path / "b", values, other.get("spacing", (6.0, 5.0, 5.0)))
    ):
        change(path, SOPInstanceUID=f"1.2.3.9.{number}")
    everything = found(tmp_path)
    assert [{path.parent.name for path in series.paths} for series in everything.series] == [{"a"}, {"b"}]
    assert everything.refused == []
