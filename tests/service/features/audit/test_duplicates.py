"""Duplicates of phantoms: eight changes, and pictures without anything to compare."""

import logging

import cv2
import numpy as np
import pytest

from cbir import settings
from cbir.evaluation.datasets.phantoms import draw_phantom
from cbir.images.reading import read_images
from cbir.store import Collection
from cbir.store.base import profile as profiles
from cbir.store.records.records import describe_record
from cbir.system import threads
from cbir.system.threads import time_limit
from service.features.audit import duplicates
from service.features.audit.collection_audit import AuditOptions, run_audit
from service.features.audit.duplicate_pictures import (
    PictureReader,
    Pictures,
    picture_workers,
    to_square,
)
from service.features.audit.duplicates import find_duplicates, group_by_reference
from service.features.audit.picture_signatures import read_signed_pictures


@pytest.fixture
def collection(tmp_path):
    with Collection.create(tmp_path / "collection", profiles.get("tamura")) as created:
        yield created


@pytest.fixture(scope="module")
def phantoms():
    """Phantoms of twelve classes, 128 x 128."""
    return [draw_phantom(index, size=128).pixels for index in range(12)]


def rotate(pixels, degrees):
    turn = cv2.getRotationMatrix2D((63.5, 63.5), degrees, 1)
    return cv2.warpAffine(pixels, turn, pixels.shape[::-1])


def write(pixels):
    written = pixels.copy()
    cv2.putText(written, "AP 12:30", (4, 14), cv2.FONT_HERSHEY_SIMPLEX, 0.4, 255, 1)
    return written


def recompress(pixels):
    return cv2.imdecode(cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, 60])[1], cv2.IMREAD_UNCHANGED)


CHANGES = {
    "resized": lambda pixels: cv2.resize(pixels, None, fx=0.6, fy=0.6, interpolation=cv2.INTER_AREA),
    "recompressed": recompress,
    "gamma": lambda pixels: np.rint(255 * (pixels / 255) ** 0.6).astype(np.uint8),
    "rotated": lambda pixels: rotate(pixels, 7),
    "inverted": lambda pixels: 255 - pixels,
    "flipped": lambda pixels: pixels[:, ::-1],
    "cropped": lambda pixels: pixels[6:-6, 6:-6],
    "text": write,
}


def add(collection, folder, pictures, thumbnails=False):
    """Write pictures as files and add them, each described by its darkness in a grid of two by three."""
    folder.mkdir(exist_ok=True)
    entries = []
    for number, pixels in enumerate(pictures):
        path = folder / f"{number:03d}.png"
        cv2.imwrite(str(path), np.ascontiguousarray(pixels))
        image = next(iter(read_images(path)))
        record = describe_record(image, source=str(path), source_stamp="1", secret=collection.secret)
        entries.append(
            (record, cv2.resize(image.grey, (3, 2), interpolation=cv2.INTER_AREA).astype(np.float32).ravel())
        )
    files = {number: path.read_bytes() for number, path in enumerate(sorted(folder.iterdir()), 1)}
    with collection.writer() as writer:
        writer.add(
            entries,
            duplicates=True,
            in_transaction=lambda transaction, _: transaction.store_thumbnails(files if thumbnails else {}),
        )
    return [record.image_id for _, record in collection.iterate()]


def grouped(duplicates):
    """File names of the groups with the changes."""
    return [
        [(member.source.rsplit("/", 1)[-1][:3], member.change) for member in group.members]
        for group in duplicates.groups
    ]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_copy_is_found_and_its_change_named(collection, tmp_path, phantoms, change):
    copy = CHANGES[change](phantoms[3])
    add(collection, tmp_path / "files", [*phantoms, copy])
    (group,) = grouped(find_duplicates(collection))
    assert [name for name, _ in group] == ["003", "012"]
    assert group[0][1] == "reference"
    assert change in group[1][1].split("+")


def test_different_phantoms_are_no_duplicates(collection, tmp_path, phantoms):
    add(collection, tmp_path / "files", phantoms)
    assert find_duplicates(collection).groups == ()


def test_all_copies_are_one_group_with_the_largest_as_reference(collection, tmp_path, phantoms):
    large = cv2.resize(phantoms[0], None, fx=2, fy=2, interpolation=cv2.INTER_CUBIC)
    add(collection, tmp_path / "files", [phantoms[0], 255 - phantoms[0], large, phantoms[0], phantoms[1]])
    (group,) = grouped(find_duplicates(collection))
    assert group[0] == ("002", "reference")
    assert sorted(name for name, _ in group) == ["000", "001", "002", "003"]


def test_identical_images_are_found_without_their_files(collection, tmp_path, phantoms):
    ids = add(collection, tmp_path / "files", [phantoms[0], phantoms[0], phantoms[1]])
    for path in (tmp_path / "files").iterdir():
        path.unlink()
    found = find_duplicates(collection)
    assert grouped(found) == [[("000", "reference"), ("001", "identical")]]
    assert found.unread == tuple(ids)
    assert found.pairs == 0


def test_blank_images_are_duplicates_only_if_identical(collection, tmp_path):
    blank = np.full((40, 40), 90, np.uint8)
    add(collection, tmp_path / "files", [blank, blank, blank[:30], np.full((40, 40), 200, np.uint8)])
    assert grouped(find_duplicates(collection)) == [[("000", "reference"), ("001", "identical")]]


@pytest.mark.parametrize(
    "pictures",
    [
        [],
        [np.zeros((1, 1), np.uint8)],
        [np.zeros((1, 1), np.uint8), np.full((1, 1), 255, np.uint8)],
        [np.arange(2000, dtype=np.uint8)[None], np.arange(2000, dtype=np.uint8)[:, None]],
    ],
    ids=["none", "one", "of one pixel", "lines"],
)
def test_odd_pictures_are_no_duplicates(collection, tmp_path, pictures):
    add(collection, tmp_path / "files", pictures)
    assert find_duplicates(collection).groups == ()


def test_colour_and_depth_do_not_matter(collection, tmp_path, phantoms):
    colour = cv2.cvtColor(phantoms[2], cv2.COLOR_GRAY2BGR)
    colour[..., 0] = colour[..., 0] // 2
    deep = phantoms[2].astype(np.uint16) * 257
    add(collection, tmp_path / "files", [phantoms[2], colour, deep[:, ::-1], phantoms[4]])
    (group,) = grouped(find_duplicates(collection))
    assert [name for name, _ in group] == ["000", "001", "002"]


def test_conditions_limit_the_search(collection, tmp_path, phantoms):
    ids = add(collection, tmp_path / "files", [phantoms[0], phantoms[0]])
    with collection.writer() as writer:
        writer.set_labels(ids[0], {"part": "a"})
    assert find_duplicates(collection, collection.conditions(["part=a"])).groups == ()
    assert len(find_duplicates(collection).groups) == 1


def test_thumbnails_are_read_where_files_are_gone(collection, tmp_path, phantoms):
    pictures = [phantoms[0], phantoms[1], phantoms[0][:, ::-1]]
    ids = add(collection, tmp_path / "files", pictures, thumbnails=True)
    for path in (tmp_path / "files").iterdir():
        path.unlink()
    assert collection.ids_with_thumbnail() == set(ids)
    found = find_duplicates(collection)
    assert found.unread == ()
    assert grouped(found) == [[("000", "reference"), ("002", "flipped")]]


def test_opencv_has_its_threads_again_afterwards(collection, tmp_path, phantoms):
    add(collection, tmp_path / "files", [phantoms[0], phantoms[1]])
    before, during = cv2.getNumThreads(), []
    cv2.setNumThreads(2)
    try:
        find_duplicates(collection, (), lambda stage, done, total: during.append(cv2.getNumThreads()))
        assert cv2.getNumThreads() == 2
    finally:
        cv2.setNumThreads(before)
    assert set(during) == {1}


def test_decoders_log_nothing_meanwhile(collection, tmp_path, phantoms):
    add(collection, tmp_path / "files", [phantoms[0], phantoms[1]])
    before, during = logging.getLogger("PIL").level, []
    find_duplicates(collection, (), lambda stage, done, total: during.append(logging.getLogger("PIL").level))
    assert min(during) > logging.CRITICAL
    assert logging.getLogger("PIL").level == before


def test_what_progress_raises_ends_the_search(collection, tmp_path, phantoms):
    add(collection, tmp_path / "files", [*phantoms, phantoms[0]])
    stages = []

    def stop(stage, done, total):
        stages.append((stage, done, total))
        if stage == "comparing pictures":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        find_duplicates(collection, (), stop)
    assert stages[0] == ("reading pictures", 13, 13)
    assert stages[-1][1] <= stages[-1][2]


def test_progress_reaches_the_end_of_each_stage(collection, tmp_path, phantoms):
    add(collection, tmp_path / "files", [*phantoms, phantoms[0][::-1]])
    stages = {}
    find_duplicates(collection, (), lambda stage, done, total: stages.update({stage: (done, total)}))
    assert list(stages) == [
        "reading pictures",
        "finding similar images",
        "comparing pictures",
        "naming changes",
    ]
    assert stages["naming changes"] == (1, 1)
    assert len({*stages["comparing pictures"]}) == 1


def test_naming_changes_can_be_cancelled(collection, tmp_path, phantoms, monkeypatch):
    add(collection, tmp_path / "files", [*phantoms, *(CHANGES["flipped"](picture) for picture in phantoms)])
    monkeypatch.setattr(duplicates, "GROUPS_AT_ONCE", 1)
    named = []

    def cancel():
        if named:
            raise KeyboardInterrupt

    def name(*arguments):
        named.append(arguments)
        return "flipped"

    monkeypatch.setattr(duplicates, "name_changes", name)
    monkeypatch.setattr(threads, "CHECK_SECONDS", 0)
    with pytest.raises(KeyboardInterrupt), time_limit(60, cancel):
        find_duplicates(collection)
    assert len(named) == 1


def test_grouping_takes_time_in_proportion_to_the_pairs():
    asked = []

    def preference(row):
        asked.append(row)
        return (row,)

    pairs = {(2 * number, 2 * number + 1) for number in range(500)}
    groups = group_by_reference(pairs, preference, lambda reference, row: False)
    assert groups == sorted(map(list, pairs))
    assert len(asked) == 1000


def test_a_chain_is_cut_at_its_reference():
    groups = group_by_reference(
        {(0, 1), (1, 2), (2, 3), (5, 6)},
        lambda row: (row,),
        lambda reference, row: row == 2 and reference == 0,
    )
    assert groups == [[0, 1, 2], [5, 6]]


def test_what_a_chain_leaves_is_grouped_by_itself():
    groups = group_by_reference({(0, 1), (1, 2), (2, 3)}, lambda row: (row,), lambda reference, row: False)
    assert groups == [[0, 1], [2, 3]]


def test_a_picture_that_shows_hardly_anything_has_no_signature(collection, tmp_path, phantoms):
    add(collection, tmp_path / "files", [phantoms[0] // 100, phantoms[0]])
    with picture_workers(PictureReader(collection, 10**6), 1) as workers:
        signed = read_signed_pictures(workers, list(collection.iterate()), lambda done, total: None)
    assert signed.squares.pixels[0].any()
    assert signed.signatures.frequencies.any(axis=(1, 2)).tolist() == [False, True]


def read(collection):
    """All pictures of a collection."""
    reader = PictureReader(collection, 10**6)
    with picture_workers(reader, 1) as workers:
        signed = read_signed_pictures(workers, list(collection.iterate()), lambda done, total: None)
    return Pictures(reader, signed.squares, collection.records(signed.squares.numbers.tolist()))


def test_a_picture_whose_file_vanishes_is_compared_as_it_was_read(collection, tmp_path, phantoms):
    add(collection, tmp_path / "files", [phantoms[0]])
    pictures = read(collection)
    (tmp_path / "files" / "000.png").unlink()
    assert pictures.fine(0, 128).shape == (128, 128)


def test_a_picture_that_is_deleted_meanwhile_is_compared_as_it_was_read(collection, tmp_path, phantoms):
    add(collection, tmp_path / "files", [phantoms[0]])
    pictures = read(collection)
    deleted = Pictures(PictureReader(collection, 10**6), pictures.squares, {}).fine(0, 128)
    assert np.array_equal(deleted, to_square(pictures.squares.pixels[0], 128))
    assert not np.array_equal(deleted, pictures.fine(0, 128))


def test_files_with_more_pixels_than_allowed_are_not_read(collection, tmp_path, phantoms):
    ids = add(collection, tmp_path / "files", [phantoms[0], phantoms[0][::-1]])
    assert find_duplicates(collection, max_pixels=phantoms[0].size - 1).unread == tuple(ids)
    assert find_duplicates(collection, max_pixels=phantoms[0].size).unread == ()


def test_an_audit_reads_files_by_the_settings_that_it_is_given(collection, tmp_path, phantoms):
    ids = add(collection, tmp_path / "files", phantoms[:6])
    audit = run_audit(collection, AuditOptions(), settings.load(max_pixels=1000))
    assert audit.duplicates.unread == tuple(ids)
