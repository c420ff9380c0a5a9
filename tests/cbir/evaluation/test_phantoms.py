"""Synthetic radiographs: the same for the same numbers, alike within a class, different between classes."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pydicom
import pytest
from typer.testing import CliRunner

from cbir.api.main import app
from cbir.errors import CbirError, InvalidInput
from cbir.evaluation.datasets.phantoms import (
    PhantomRadiograph,
    draw_phantom,
    phantom_classes,
    phantom_facts,
    write_phantoms,
)
from cbir.evaluation.datasets.phantoms.canvas import Canvas, PatientBody
from cbir.evaluation.datasets.phantoms.shapes import ellipse, tube
from cbir.images import read_images

NAMES = [row.name for row in phantom_classes()]


def thumbnail(phantom: PhantomRadiograph) -> np.ndarray:
    """32 x 32, blurred, zero mean, unit length."""
    small = cv2.resize(cv2.GaussianBlur(phantom.pixels, (0, 0), 2), (32, 32), interpolation=cv2.INTER_AREA)
    centred = small.astype(float) - small.mean()
    return (centred / np.linalg.norm(centred)).ravel()


def test_the_same_numbers_give_the_same_picture():
    for name in NAMES:
        first, again = draw_phantom(5, 3, 64, name), draw_phantom(5, 3, 64, name)
        np.testing.assert_array_equal(first.pixels, again.pixels)
        assert (first.code, first.patient, first.laterality) == (again.code, again.patient, again.laterality)


@pytest.mark.slow
def test_another_process_draws_the_same():
    ask = (
        "from cbir.evaluation.datasets.phantoms import draw_phantom; import zlib; "
        "print(zlib.crc32(draw_phantom(20, 1, 96).pixels.tobytes()))"
    )
    asked = [
        subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True) for _ in "ab"
    ]
    assert asked[0].stdout == asked[1].stdout


def test_index_and_seed_change_the_picture():
    base = draw_phantom(0, 0, 64)
    for other in (draw_phantom(len(NAMES), 0, 64), draw_phantom(0, 1, 64)):
        assert other.label == base.label
        assert np.abs(other.pixels.astype(int) - base.pixels).mean() > 3


def test_the_index_runs_through_the_classes():
    assert [phantom_facts(i).label for i in range(2 * len(NAMES))] == NAMES * 2
    assert phantom_facts(7) == phantom_facts(7, region=NAMES[7])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [32, 64, 256])
def test_every_class_is_drawn_at_every_size(name, size):
    phantom = draw_phantom(1, 0, size, name)
    assert phantom.pixels.dtype == np.uint8
    assert phantom.pixels.flags.c_contiguous
    assert max(phantom.pixels.shape) == size
    assert phantom.pixels.std() > 15
    assert np.ptp(phantom.pixels) > 120
    assert phantom.label == name


def test_the_anatomy_does_not_depend_on_the_size():
    for name in NAMES:
        large, small = thumbnail(draw_phantom(2, 0, 512, name)), thumbnail(draw_phantom(2, 0, 128, name))
        assert large @ small > 0.9, name


def test_a_large_phantom_is_a_small_one_with_more_pixels():
    large = draw_phantom(15, 0, 2048)
    assert max(large.pixels.shape) == 2048
    assert thumbnail(large) @ thumbnail(draw_phantom(15, 0, 512)) > 0.9


def test_codes_are_well_formed_and_classes_distinct():
    assert len(NAMES) >= 20
    codes, descriptions = (
        {getattr(row, name) for row in phantom_classes()} for name in ("code", "description")
    )
    assert len(set(NAMES)) == len(codes) == len(descriptions)
    for index in range(4 * len(NAMES)):
        assert re.fullmatch(r"[0-9a-z]{4}(-[0-9a-z]{3}){3}", phantom_facts(index).code)


def test_sides_are_in_code_and_picture():
    hands = [draw_phantom(i, 0, 128, "hand-pa") for i in range(20)]
    assert {(hand.laterality, hand.code[9:12]) for hand in hands} == {("L", "414"), ("R", "415")}
    left, right = (np.mean([thumbnail(h) for h in hands if h.laterality == side], 0) for side in "LR")
    flipped = left.reshape(32, 32)[:, ::-1].ravel()
    assert flipped @ right > left @ right


def tree_nodes(path: Path) -> dict[str, set[str]]:
    """The codes of each section of an IRMA code tree file."""
    nodes: dict[str, set[str]] = {}
    for line in path.read_text(encoding="latin-1").splitlines():
        if title := re.match(r"\*+ (\w+) \*+", line):
            section = nodes.setdefault(title[1], set())
        elif node := re.match(r"\t*\[(\w+)\]", line):
            section.add(node[1])
    return nodes


def test_codes_stand_in_the_irma_tree():
    given = os.environ.get("CBIR_DATA")
    path = Path(given).parent / "irma" / "code_tree_2008.txt" if given else None
    if path is None or not path.is_file():
        pytest.skip("needs the IRMA code tree next to the folder CBIR_DATA names: irma/code_tree_2008.txt")
    nodes = tree_nodes(path)
    codes = {row.code for row in phantom_classes()} | {phantom_facts(i).code for i in range(8 * len(NAMES))}
    assert len(codes) > len(NAMES)
    for code in codes:
        for axis, part in zip(
            ("technique", "direction", "anatomy", "biosystem"), code.split("-"), strict=True
        ):
            # a path that ends early is filled up with 0, which the tree lists only as far as it branches
            shown = {part[:n] for n in range(1, len(part) + 1) if set(part[n:]) <= {"0"}}
            assert shown & nodes[axis], f"{part} of {code} is not in {axis}"


@pytest.mark.slow
def test_the_nearest_thumbnail_is_of_the_same_class():
    made = [draw_phantom(50 * k + i, 0, 64, name) for i in range(10) for k, name in enumerate(NAMES)]
    vectors = np.stack([thumbnail(phantom) for phantom in made])
    labels = np.array([phantom.label for phantom in made])
    patients = np.array([phantom.patient for phantom in made])
    likeness = vectors @ vectors.T
    likeness[patients[:, None] == patients[None]] = -2  # itself, and the other picture of the same person
    right = labels[likeness.argmax(1)] == labels
    assert right.mean() > 0.85
    assert min(right[labels == name].mean() for name in NAMES) >= 0.25  # chance: 0.04
    same = likeness[(labels[:, None] == labels[None]) & (likeness > -2)]
    assert same.mean() < 0.97  # alike, not copies


def test_about_four_images_share_a_patient_and_a_body():
    known = [phantom_facts(i) for i in range(4 * len(NAMES))]
    groups: dict[str, list] = {}
    for one in known:
        groups.setdefault(one.patient, []).append(one)
    sizes = [len(group) for group in groups.values()]
    assert 3 <= np.mean(sizes) <= 4
    assert max(sizes) == 4
    for group in groups.values():
        assert len({(one.age, one.sex) for one in group}) == 1
        assert {one.visit for one in group} == {0, 1}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"index": -1}, "negative"),
        ({"index": 0, "seed": -1}, "negative"),
        ({"index": 0, "size": 31}, "32 to 4096"),
        ({"index": 0, "size": 4097}, "32 to 4096"),
        ({"index": 0, "region": "tail"}, "no phantom of 'tail'"),
    ],
)
def test_bad_arguments_are_refused(arguments, says):
    with pytest.raises(InvalidInput, match=says):
        draw_phantom(**arguments)


def plain_canvas() -> Canvas:
    body = PatientBody(build=1, density=1, age=40, female=0, warp=np.zeros((2, 2, 3)))
    return Canvas(100, 100, 400, body, np.random.default_rng(0), np.random.default_rng(0))


def test_a_bone_is_brightest_in_its_cortex():
    canvas = plain_canvas()
    canvas.bone(tube([(0, -80), (0, 80)], 5.0), amount=1.0, radius=5.0, cortex=1.0, inner=0.3, grain=0.0)
    row = canvas.mu[200]
    centre, rim = row[200], row[150:200].max()
    assert rim > 1.2 * centre > 0
    assert row[:170].max() == 0
    # through the middle: a shell of 1 above and 1 below 4 of cancellous bone, halved
    assert centre == pytest.approx((1 + 4 * 0.3) / 5, abs=0.03)
    # at depth 1, all of the way is cortex
    assert rim == pytest.approx(np.sqrt(1 - 0.8**2), abs=0.06)


def test_soft_tissue_adds_up_and_air_takes_away():
    canvas = plain_canvas()
    canvas.soft(ellipse(0, 0, 30, 30), amount=1.0, edge=10)
    canvas.soft(ellipse(0, 0, 10, 10), amount=-0.4, edge=2)
    assert canvas.mu[200, 200] == pytest.approx(0.6, abs=0.01)
    assert canvas.mu[200, 270] == pytest.approx(1.0, abs=0.01)
    assert canvas.mu[5, 5] == 0


def test_shapes_outside_the_field_leave_it_alone():
    canvas = plain_canvas()
    canvas.soft(ellipse(300, 0, 10, 10), amount=1.0, edge=2)
    canvas.bone(ellipse(-300, 0, 10, 10), amount=1.0, radius=2)
    canvas.strokes([([(0, 300), (10, 400)], 1.0)], 1.0)
    assert not canvas.mu.any()


def rows(manifest: Path) -> list[dict[str, str]]:
    with manifest.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_folder_of_png_and_its_manifest(tmp_path):
    told: list[int] = []
    manifest = write_phantoms(tmp_path / "new" / "folder", 30, size=64, on_progress=told.append)
    assert told == list(range(1, 31))
    found = rows(manifest)
    assert list(found[0]) == ["path", "label", "irma_code", "patient", "modality", "anatomy", "view"]
    assert {row["path"] for row in found} == {p.name for p in manifest.parent.glob("*.png")}
    for index, row in enumerate(found):
        phantom = draw_phantom(index, 0, 64)
        (image,) = read_images(manifest.parent / row["path"])
        np.testing.assert_array_equal(image.pixels, phantom.pixels)
        assert (row["label"], row["irma_code"], row["patient"]) == (
            phantom.label,
            phantom.code,
            phantom.patient,
        )
    assert not list(manifest.parent.glob("*.partial"))


def test_writing_goes_on_where_it_stopped(tmp_path):
    class Stop(Exception):
        pass

    def stop(done: int) -> None:
        if done == 4:
            raise Stop

    with pytest.raises(Stop):
        write_phantoms(tmp_path, 8, size=32, on_progress=stop)
    assert len(list(tmp_path.glob("*.png"))) == 4
    assert not (tmp_path / "manifest.csv").exists()
    kept = (tmp_path / "phantom-000002.png").stat().st_mtime_ns
    write_phantoms(tmp_path, 8, size=32)
    assert (tmp_path / "phantom-000002.png").stat().st_mtime_ns == kept
    assert len(rows(tmp_path / "manifest.csv")) == len(list(tmp_path.glob("*.png"))) == 8


def test_a_folder_holds_phantoms_of_one_kind(tmp_path):
    write_phantoms(tmp_path, 2, size=32)
    for other in ({"seed": 1, "size": 32}, {"size": 64}, {"size": 32, "format": "dicom"}):
        with pytest.raises(InvalidInput, match="another folder"):
            write_phantoms(tmp_path, 2, **other)


@pytest.mark.slow
def test_dicom_files_are_valid_and_give_the_pixels_back(tmp_path):
    count = 2 * len(NAMES)
    found = rows(write_phantoms(tmp_path, count, format="dicom", size=48, seed=2))
    seen, studies = set(), {}
    for index, row in enumerate(found):
        phantom, ds = draw_phantom(index, 2, 48), pydicom.dcmread(tmp_path / row["path"])
        stored = ds.pixel_array
        assert stored.max() <= 4095
        grey = (4095 - stored if ds.PhotometricInterpretation == "MONOCHROME1" else stored) // 16
        np.testing.assert_array_equal(grey, phantom.pixels)
        (image,) = read_images(tmp_path / row["path"])
        assert np.abs(image.grey.astype(int) - phantom.pixels).max() <= 1
        assert image.dicom is not None
        assert (image.dicom.modality, image.dicom.body_part, image.dicom.burned_in) == (
            phantom.modality,
            phantom.body_part,
            True,
        )
        assert ds.PatientID == row["patient"]
        assert ds.SOPInstanceUID.is_valid
        studies.setdefault(ds.StudyInstanceUID, set()).add(ds.PatientID)
        seen.add(ds.SOPInstanceUID)
    assert len(seen) == count
    assert all(len(patients) == 1 for patients in studies.values())
    assert len(studies) < count / 1.5
    kinds = [pydicom.dcmread(tmp_path / row["path"], stop_before_pixels=True) for row in found]
    assert {ds.Modality for ds in kinds} == {"CR", "DX", "MG"}
    assert {ds.PhotometricInterpretation for ds in kinds} == {"MONOCHROME1", "MONOCHROME2"}
    assert {ds.file_meta.TransferSyntaxUID.name for ds in kinds} == {
        "Explicit VR Little Endian",
        "RLE Lossless",
    }


def test_dicom_bytes_are_the_same_every_time(tmp_path):
    for folder in "ab":
        write_phantoms(tmp_path / folder, 5, format="dicom", size=32)
    for path in (tmp_path / "a").glob("*.dcm"):
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"count": 0}, "at least 1"),
        ({"count": 1, "size": 5000}, "32 to 4096"),
        ({"count": 1, "format": "gif"}, "png or dicom"),
        ({"count": 1, "seed": -1}, "negative"),
    ],
)
def test_bad_options_are_refused_before_anything_is_written(tmp_path, options, says):
    with pytest.raises(InvalidInput, match=says):
        write_phantoms(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_the_command_writes_and_says_what_next(tmp_path):
    options = ["--count", "3", "--format", "dicom", "--size", "64"]
    done = CliRunner().invoke(app, ["dataset", "phantoms", str(tmp_path / "out"), *options])
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "out").glob("*.dcm"))) == 3
    assert (
        f"cbir index {tmp_path / 'out'} --collection DIR --labels {tmp_path / 'out' / 'manifest.csv'}"
        in done.stdout
    )


def test_the_command_refuses(tmp_path):
    (tmp_path / "file").touch()
    refused = {"is a file": (tmp_path / "file",), "at least 1": (tmp_path / "a", "--count", 0)}
    refused["32 to 4096"] = (tmp_path / "b", "--size", 8)
    for says, arguments in refused.items():
        done = CliRunner().invoke(app, ["dataset", "phantoms", *map(str, arguments)])
        assert isinstance(done.exception, CbirError) or done.exit_code == 2
        assert says in (str(done.exception) + done.output)
